// Payloads of steps: one encoding per value, and a damaged one is refused with the rule and the values.
#include "runtime/plan_steps.h"

#include <random>

#include "tests/plan/support.h"

namespace llmc {
namespace {

constexpr uint32_t kF32 = 0, kF16 = 1, kBf16 = 2, kI32 = 3, kQ4_1 = 5, kA8 = 9;

KernelStep SmallKernel() { return {"rms_norm", true, {-1, 0, int64_t{1} << 40}, {0, 64, ~uint64_t{0}}}; }

DnnlStep Plain() {
  DnnlStep step;
  step.max_rows = 8;
  step.x = {PlanSpace::Shared, 1024};
  step.w = 4096;
  step.k = 48;
  step.parts = {{40, {PlanSpace::Shared, 64}}};
  step.slice_tiles = 2;
  step.scratch = {PlanSpace::Private, 128};
  step.scratch_bytes = DnnlScratchBytes(step).total();
  return step;
}

DnnlStep Gated() {
  DnnlStep step = Plain();
  step.compute = DnnlCompute::Blocks;
  step.x_type = kA8;
  step.w_type = kQ4_1;
  step.k = 64;
  step.bias = 12;
  step.interleave = true;
  step.gate = DnnlGate::Silu;
  step.scratch_bytes = DnnlScratchBytes(step).total();
  return step;
}

DnnlStep Bf16WithResidual() {
  DnnlStep step = Plain();
  step.compute = DnnlCompute::Bf16;
  step.w_type = kBf16;
  step.one_row = true;
  step.max_rows = 1;
  step.residual = PlanPlace{PlanSpace::Private, 4};
  step.parts[0].out = {PlanSpace::Logits, 0};
  step.scratch_bytes = DnnlScratchBytes(step).total();
  return step;
}

DnnlStep ThreeParts() {
  DnnlStep step = Plain();
  step.w_type = kF16;
  step.parts = {{40, {PlanSpace::Shared, 0}}, {8, {PlanSpace::Shared, 4}}, {1, {PlanSpace::Private, 8}}};
  step.scratch_bytes = DnnlScratchBytes(step).total();
  return step;
}

TEST(Steps, EncodingIsReadBack) {
  const KernelStep kernel = SmallKernel();
  EXPECT_EQ(DecodeKernelStep(EncodeStep(kernel), "x"), kernel);
  const KernelStep bare{"k", false, {}, {}};
  EXPECT_EQ(DecodeKernelStep(EncodeStep(bare), "x"), bare);
  for (const DnnlStep& step : {Plain(), Gated(), Bf16WithResidual(), ThreeParts()})
    EXPECT_EQ(DecodeDnnlStep(EncodeStep(step), "x"), step);
}

TEST(Steps, ScratchIsWhatTheStepNeeds) {
  DnnlStep step = Plain();  // f32 x; w [48, 32] f32
  EXPECT_EQ(DnnlScratchBytes(step).x, 0u);
  EXPECT_EQ(DnnlScratchBytes(step).w, 48u * 32 * 4);
  EXPECT_EQ(DnnlScratchBytes(step).sums, 0u);
  step.slice_tiles = 1;  // a tile of f32 is [k, 16] as it lies
  EXPECT_EQ(DnnlScratchBytes(step).total(), 0u);
  step.w_type = kF16;
  EXPECT_EQ(DnnlScratchBytes(step).total(), 48u * 16 * 4);
  step.gate = DnnlGate::Silu;
  EXPECT_EQ(DnnlScratchBytes(step).sums, 8u * 16 * 4);
  step = Gated();  // x [8, 64] f32; w [64, 32] f32; scales 2 x [2, 32]; dots of both blocks, and two sums, [8, 32]
  EXPECT_EQ(DnnlScratchBytes(step).x, 8u * 64 * 4);
  EXPECT_EQ(DnnlScratchBytes(step).w, 64u * 32 * 4);
  EXPECT_EQ(DnnlScratchBytes(step).scales, 2u * 2 * 32 * 4);
  EXPECT_EQ(DnnlScratchBytes(step).dots, 2u * 8 * 32 * 4);
  EXPECT_EQ(DnnlScratchBytes(step).sums, 2u * 8 * 32 * 4);
  step = Bf16WithResidual();  // x [1, 48] bf16, 96 bytes; w [48, 32] bf16
  EXPECT_EQ(DnnlScratchBytes(step).x, 128u);
  EXPECT_EQ(DnnlScratchBytes(step).w, 48u * 32 * 2);
}

TEST(Steps, DotsOfBlocksFitTheCache) {
  DnnlStep step = Gated();
  step.k = 18 * 32;
  EXPECT_EQ(DnnlDotBlocks(step), 18u);  // 1 KiB each
  step.max_rows = 200;                  // 25 KiB: 10 would fit, 9 divide 18
  EXPECT_EQ(DnnlDotBlocks(step), 9u);
  step.max_rows = 512;  // 64 KiB: 4 would fit, 3 divide 18
  EXPECT_EQ(DnnlDotBlocks(step), 3u);
  step.max_rows = 65536;
  EXPECT_EQ(DnnlDotBlocks(step), 1u);
}

TEST(Steps, TilesHaveTheirBytes) {
  EXPECT_EQ(PlanTileBytes(kF32, 3), 192u);
  EXPECT_EQ(PlanTileBytes(kF16, 3), 128u);
  EXPECT_EQ(PlanTileBytes(kQ4_1, 64), 640u);
  EXPECT_EQ(PlanTileBytes(kI32, 64), 0u);
  EXPECT_EQ(PlanTileBytes(kA8, 64), 0u);
  EXPECT_EQ(PlanTileBytes(99, 64), 0u);
  EXPECT_EQ(PlanTypeName(kQ4_1), "q4_1");
  EXPECT_EQ(PlanTypeName(99), "");
}

TEST(Steps, RulesAreNamed) {
  const struct {
    const char* message;
    void (*damage)(DnnlStep&);
  } rules[] = {
      {"here: compute 4 isn't in 1..3", [](DnnlStep& s) { s.compute = static_cast<DnnlCompute>(4); }},
      {"compute 1 of x of type a8: a8 goes with blocks alone", [](DnnlStep& s) { s.x_type = kA8; }},
      {"compute 3 of x of type f32", [](DnnlStep& s) { s.compute = DnnlCompute::Blocks; }},
      {"blocks of w of type f16",
       [](DnnlStep& s) {
         s.compute = DnnlCompute::Blocks;
         s.x_type = kA8;
         s.w_type = kF16;
       }},
      {"gate 10 isn't in 0..9", [](DnnlStep& s) { s.gate = static_cast<DnnlGate>(10); }},
      {"most rows 65537", [](DnnlStep& s) { s.max_rows = 65537; }},
      {"one row, and up to 8 rows", [](DnnlStep& s) { s.one_row = true; }},
      {"x of type 1, which isn't f32 or a8", [](DnnlStep& s) { s.x_type = kF16; }},
      {"w of type 3, which isn't one of weights", [](DnnlStep& s) { s.w_type = kI32; }},
      {"w of type 4294967295", [](DnnlStep& s) { s.w_type = ~0u; }},
      {"bf16 products of x of type f32 and w of type f32", [](DnnlStep& s) { s.compute = DnnlCompute::Bf16; }},
      {"k 48 isn't a multiple of 32", [](DnnlStep& s) { s.w_type = kQ4_1; }},
      {"k 16777217", [](DnnlStep& s) { s.k = (1u << 24) + 1; }},
      {"k 0 isn't in", [](DnnlStep& s) { s.k = 0; }},
      {"columns 67108865", [](DnnlStep& s) { s.parts[0].n = (1u << 26) + 1; }},
      {"columns 0", [](DnnlStep& s) { s.parts[0].n = 0; }},
      {"parts 0 isn't in 1..3", [](DnnlStep& s) { s.parts.clear(); }},
      {"parts 4 isn't in 1..3", [](DnnlStep& s) { s.parts.assign(4, s.parts[0]); }},
      {"gated, with 2 parts, not 1",
       [](DnnlStep& s) {
         s.parts.push_back(s.parts[0]);
         s.gate = DnnlGate::Silu;
       }},
      {"interleaved, neither gated nor of two parts: 1", [](DnnlStep& s) { s.interleave = true; }},
      {"interleaved parts of 40 and 41 columns",
       [](DnnlStep& s) {
         s.parts.push_back({41, {PlanSpace::Shared, 0}});
         s.interleave = true;
       }},
      {"a residual, with a gate",
       [](DnnlStep& s) {
         s.residual = PlanPlace{};
         s.gate = DnnlGate::Silu;
       }},
      {"a residual, with 2 parts",
       [](DnnlStep& s) {
         s.residual = PlanPlace{};
         s.parts.push_back(s.parts[0]);
       }},
      {"tiles of a slice 0 isn't in 1..4096", [](DnnlStep& s) { s.slice_tiles = 0; }},
      {"tiles of a slice 4097", [](DnnlStep& s) { s.slice_tiles = 4097; }},
      {"x is in space 8", [](DnnlStep& s) { s.x.space = static_cast<PlanSpace>(8); }},
      {"x can't be in tokens", [](DnnlStep& s) { s.x.space = PlanSpace::Tokens; }},
      {"x at 1022 isn't at a multiple of 4", [](DnnlStep& s) { s.x.offset = 1022; }},
      {"out can't be in weights", [](DnnlStep& s) { s.parts[0].out.space = PlanSpace::Weights; }},
      {"out at 3", [](DnnlStep& s) { s.parts[0].out.offset = 3; }},
      {"w at 16 isn't at a multiple of 32", [](DnnlStep& s) { s.w = 16; }},
      {"bias at 2", [](DnnlStep& s) { s.bias = 2; }},
      {"scratch can't be in shared", [](DnnlStep& s) { s.scratch.space = PlanSpace::Shared; }},
      {"scratch at 32 isn't at a multiple of 64", [](DnnlStep& s) { s.scratch.offset = 32; }},
      {"scratch of 6208 bytes, the step needs 6144", [](DnnlStep& s) { s.scratch_bytes += 64; }},
  };
  for (const auto& rule : rules) {
    DnnlStep step = Plain();
    rule.damage(step);
    const std::string error = ErrorOf([&] { DecodeDnnlStep(EncodeStep(step), "here"); });
    EXPECT_NE(error.find(rule.message), std::string::npos) << rule.message << ": " << error;
  }
}

TEST(Steps, KernelRulesAreNamed) {
  const auto error = [](const std::string& payload) { return ErrorOf([&] { DecodeKernelStep(payload, "here"); }); };
  KernelStep step = SmallKernel();
  step.kernel = "a b";
  EXPECT_NE(error(EncodeStep(step)).find("here: the kernel's name isn't 1..256 printable"), std::string::npos);
  step.kernel = "";
  EXPECT_NE(error(EncodeStep(step)).find("the kernel's name"), std::string::npos);
  step.kernel = std::string(257, 'k');
  EXPECT_NE(error(EncodeStep(step)).find("the kernel's name"), std::string::npos);
  step = SmallKernel();
  step.constants.resize(257);
  EXPECT_NE(error(EncodeStep(step)).find("constants 257 isn't in 0..256"), std::string::npos);
  step = SmallKernel();
  step.words.resize(4097);
  EXPECT_NE(error(EncodeStep(step)).find("words 4097 isn't in 0..4096"), std::string::npos);
  std::string bytes = EncodeStep(SmallKernel());
  bytes[0] = 2;
  EXPECT_NE(error(bytes).find("flags 2 isn't in 0..1"), std::string::npos);
  EXPECT_NE(error(EncodeStep(SmallKernel()).substr(0, 20)).find("needs 8 bytes at byte 20 of 20"), std::string::npos);
}

// Whatever decodes is what it encodes to: no byte is passed over.
TEST(Steps, DamagedPayloadsAreRefusedOrHaveOneEncoding) {
  std::mt19937 random(1);
  std::vector<std::string> payloads;
  for (const DnnlStep& step : {Plain(), Gated(), Bf16WithResidual(), ThreeParts()})
    payloads.push_back(EncodeStep(step));
  const auto check = [](const std::string& bytes) {
    ErrorOf([&] { EXPECT_EQ(EncodeStep(DecodeDnnlStep(bytes, "x")), bytes); });
    ErrorOf([&] { EXPECT_EQ(EncodeStep(DecodeKernelStep(bytes, "x")), bytes); });
  };
  payloads.push_back(EncodeStep(SmallKernel()));
  for (const std::string& good : payloads) {
    for (size_t size = 0; size < good.size(); ++size) {
      EXPECT_NE(ErrorOf([&] { DecodeDnnlStep(good.substr(0, size), "x"); }), "") << size;
      check(good.substr(0, size));
    }
    check(good + '\0');
    for (int i = 0; i < 4000; ++i) {
      std::string bad = good;
      for (unsigned n = 0; n <= random() % 3; ++n) bad[random() % bad.size()] = static_cast<char>(random());
      check(bad);
    }
  }
}

TEST(Steps, SpacesHaveNames) {
  EXPECT_EQ(PlanSpaceName(PlanSpace::Weights), "weights");
  EXPECT_EQ(PlanSpaceName(PlanSpace::Private), "private");
  EXPECT_EQ(PlanSpaceName(PlanSpace::Tokens), "tokens");
  EXPECT_EQ(PlanSpaceName(PlanSpace::Types), "types");
  EXPECT_EQ(PlanSpaceName(PlanSpace::Hidden), "hidden");
}

}  // namespace
}  // namespace llmc
