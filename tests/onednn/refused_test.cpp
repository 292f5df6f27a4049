// Steps that the library refuses, with the message that names the rule; and what it says about itself.
#include <functional>

#include "backends/kernels/thens.h"
#include "tests/onednn/steps.h"

namespace llmc::onednn_test {
namespace {

constexpr int64_t kF32 = kernels::kF32, kA8 = kernels::kA8, kQ4_1 = kernels::kQ4_1;

KernelStep Linear() {
  // k n0 n1 n2 weight_type k_split interleave has_bias pair act alpha limit then0 then1 then2 other_row out_type
  // x_space other_space out0_space out1_space out2_space over grain claimed
  return {"linear_a8",
          false,
          {64, 32, 0, 0, kQ4_1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kF32, 1, 1, 1, 1, 1, 2, 1, 0},
          {0, 0, 0, 0, 0, 0, 0}};
}
KernelStep Embed() {
  return {"embed", false, {64, kF32, 0, 0, 0, 5, 1, 5, 1, 0}, {0, 0, 0}};
}  // dim table_type table_layout is_position_embed offset tokens_space out_space over grain by_row
KernelStep Attention() {
  // q_heads kv_heads dim v_dim v_row slots window all cap has_sinks scale k_type k_layout v_layout out_type record q_space
  // out_space over grain by_row
  return {
      "attention", false, {4, 2, 32, 32, 32, 64, 0, 0, 0, 0, 0, kF32, 2, 3, kA8, 128, 1, 1, 3, 2, 0}, {0, 0, 0, 0, 0}};
}
DnnlStep Product() {
  DnnlStep step;
  step.max_rows = 4;
  step.w_type = static_cast<uint32_t>(kQ4_1);
  step.k = 64;
  step.parts = {{32, {PlanSpace::Shared, 4096}}};
  step.slice_tiles = 2;
  step.scratch = {PlanSpace::Private, 0};
  step.scratch_bytes = DnnlScratchBytes(step).total();
  return step;
}

std::string MessageOf(KernelStep step, const std::function<void(KernelStep&)>& change) {
  change(step);
  TestProgram program;
  program.Add(step);
  return program.Create();
}
std::string MessageOf(DnnlStep step, const std::function<void(DnnlStep&)>& change) {
  change(step);
  TestProgram program;
  program.Add(Product());
  program.Add(step);
  return program.Create();
}

TEST(Refused, NothingThatIsRight) {
  EXPECT_EQ(MessageOf(Linear(), [](KernelStep&) {}), "");
  EXPECT_EQ(MessageOf(Embed(), [](KernelStep&) {}), "");
  EXPECT_EQ(MessageOf(Attention(), [](KernelStep&) {}), "");
  EXPECT_EQ(MessageOf(Product(), [](DnnlStep&) {}), "");
}

TEST(Refused, KernelsAndTheirArity) {
  EXPECT_EQ(MessageOf(Linear(), [](KernelStep& s) { s.kernel = "linear"; }), "step 0: there is no kernel linear");
  EXPECT_EQ(MessageOf(Linear(), [](KernelStep& s) { s.constants.pop_back(); }),
            "step 0: kernel linear_a8 takes 25 constants, the step has 24");
  EXPECT_EQ(MessageOf(Linear(), [](KernelStep& s) { s.words.push_back(0); }),
            "step 0: kernel linear_a8 takes 7 words, the step has 8");
}

TEST(Refused, Constants) {
  const auto linear = [](size_t constant, int64_t value) {
    return MessageOf(Linear(), [&](KernelStep& s) { s.constants[constant] = value; });
  };
  EXPECT_EQ(linear(0, 0), "step 0: kernel linear_a8: k 0 isn't in 1..2147483648");
  EXPECT_EQ(linear(0, 40), "step 0: kernel linear_a8: k 40 isn't a multiple of 32");
  EXPECT_EQ(linear(4, kF32), "step 0: kernel linear_a8: weight_type 0 (f32) isn't one that the kernel knows");
  EXPECT_EQ(linear(4, kA8), "step 0: kernel linear_a8: weight_type 9 (a8) isn't one that the kernel knows");
  EXPECT_EQ(linear(4, 1000), "step 0: kernel linear_a8: weight_type 1000 isn't one that the kernel knows");
  EXPECT_EQ(linear(4, -1), "step 0: kernel linear_a8: weight_type -1 isn't one that the kernel knows");
  EXPECT_EQ(linear(5, 0), "step 0: kernel linear_a8: k_split 0 isn't in 1..2147483648");
  EXPECT_EQ(linear(5, 3), "step 0: kernel linear_a8: k 64 isn't k_split 3 whole parts");
  EXPECT_EQ(linear(6, 1), "step 0: kernel linear_a8: interleaved, of 32, 0 and 0 columns");
  EXPECT_EQ(linear(6, 2), "step 0: kernel linear_a8: interleave 2 isn't in 0..1");
  EXPECT_EQ(linear(17, 8), "step 0: kernel linear_a8: x_space 8 isn't in 0..7");
  EXPECT_EQ(linear(19, -1), "step 0: kernel linear_a8: out0_space -1 isn't in 0..7");
  EXPECT_EQ(linear(19, kernels::kWeights), "step 0: kernel linear_a8: out0_space 0 can't be written");
  EXPECT_EQ(linear(21, kernels::kTokens), "step 0: kernel linear_a8: out2_space 5 can't be written");
  EXPECT_EQ(linear(22, 7), "step 0: kernel linear_a8: over 7 isn't in 0..6");
  EXPECT_EQ(linear(22, kernels::kRows), "step 0: kernel linear_a8: over 5 isn't a division that the kernel knows");
  EXPECT_EQ(linear(8, 1), "step 0: kernel linear_a8: a pair that isn't interleaved");
  EXPECT_EQ(linear(9, math::kActivations + 1), "step 0: kernel linear_a8: act 10 isn't in 0..9");
  EXPECT_EQ(linear(12, kernels::kThens), "step 0: kernel linear_a8: then0 9 isn't a step that the kernel knows");
  EXPECT_EQ(linear(13, kernels::kThenAct | math::kActivations << 8),
            "step 0: kernel linear_a8: then1 2306 isn't a step that the kernel knows");
  EXPECT_EQ(linear(24, 1), "step 0: kernel linear_a8: claimed, in a list of steps");
  EXPECT_EQ(linear(23, 0), "step 0: kernel linear_a8: grain 0 isn't in 1..2147483648");
  const auto attention = [](size_t constant, int64_t value) {
    return MessageOf(Attention(), [&](KernelStep& s) { s.constants[constant] = value; });
  };
  EXPECT_EQ(attention(1, 3), "step 0: kernel attention: 4 q heads aren't a multiple of 3 kv heads");
  EXPECT_EQ(attention(3, 16), "step 0: kernel attention: v_dim 16 isn't a multiple of 32");
  EXPECT_EQ(attention(11, kernels::kQ8_0), "");
  EXPECT_EQ(MessageOf(Attention(),
                      [](KernelStep& s) {
                        s.constants[2] = 16;
                        s.constants[11] = kernels::kQ8_0;
                      }),
            "step 0: kernel attention: dim 16 isn't a multiple of 32, in a cache of q8_0");
  EXPECT_EQ(attention(11, kQ4_1), "step 0: kernel attention: k_type 5 (q4_1) isn't one that the kernel knows");
  EXPECT_EQ(attention(12, 1), "step 0: kernel attention: k_layout 1 isn't one that the kernel knows");
  EXPECT_EQ(attention(13, 2), "step 0: kernel attention: v_layout 2 isn't one that the kernel knows");
  EXPECT_EQ(attention(14, 2), "step 0: kernel attention: out_type 2 (bf16) isn't one that the kernel knows");
  // dim then0 then1 then2 other_row out_type record x_space other_space out_space over grain
  const KernelStep quantize{"map", false, {64, 0, 0, 0, 0, kA8, 64, 1, 1, 1, 2, 2}, {0, 0, 0}};
  EXPECT_EQ(MessageOf(quantize, [](KernelStep&) {}), "");
  EXPECT_EQ(MessageOf(quantize, [](KernelStep& s) { s.constants[11] = 1; }),
            "step 0: kernel map: grain 1 cuts blocks of two tiles");
  EXPECT_EQ(MessageOf(Embed(), [](KernelStep& s) { s.constants[2] = 2; }),
            "step 0: kernel embed: table_layout 2 isn't one that the kernel knows");
}

// The plan layer's rules hold here too: tests/plan has them all.
TEST(Refused, Products) {
  EXPECT_EQ(MessageOf(Product(), [](DnnlStep& s) { s.k = 40; }), "step 1: k 40 isn't a multiple of 32");
  EXPECT_NE(MessageOf(Product(), [](DnnlStep& s) { s.scratch_bytes += 64; }), "");
  EXPECT_NE(MessageOf(Product(), [](DnnlStep& s) { s.compute = DnnlCompute::Bf16; }), "");
  EXPECT_NE(MessageOf(Product(), [](DnnlStep& s) { s.w_type = 10; }), "");
}

TEST(Refused, OtherKindsAndDamage) {
  TestProgram barrier;
  barrier.Add(PlanStepKind::Barrier, "");
  EXPECT_EQ(barrier.Create(), "step 0: kind 3 is neither kernel nor dnnl");
  TestProgram unknown;
  unknown.AddKind(77, "abc");
  EXPECT_EQ(unknown.Create(), "step 0: kind 77 is neither kernel nor dnnl");
  for (const std::string& payload : {EncodeStep(Product()), EncodeStep(Linear())}) {
    const PlanStepKind kind = payload == EncodeStep(Linear()) ? PlanStepKind::Kernel : PlanStepKind::Dnnl;
    for (size_t size = 0; size < payload.size(); ++size) {
      TestProgram cut;
      cut.Add(kind, payload.substr(0, size));
      EXPECT_NE(cut.Create(), "") << size;
    }
  }
}

TEST(Refused, LongMessagesAreCut) {
  const std::string payload = EncodeStep(KernelStep{std::string(200, 'x'), false, {}, {}});
  const LlmcOnednnStep step{static_cast<uint32_t>(PlanStepKind::Kernel), payload.data(), payload.size(), nullptr};
  char message[16];
  std::memset(message, 'z', sizeof message);
  EXPECT_EQ(llmc_onednn_library()->create(&step, 1, message, 8), nullptr);
  EXPECT_STREQ(message, "step 0:");
  EXPECT_EQ(message[8], 'z');
  EXPECT_EQ(llmc_onednn_library()->create(&step, 1, nullptr, 0), nullptr);
}

TEST(Library, SaysWhatItIs) {
  const LlmcOnednnLibrary* library = llmc_onednn_library();
  EXPECT_EQ(library->abi, LLMC_ONEDNN_ABI);
  EXPECT_EQ(library->context_abi, LLMC_ABI_VERSION);
  EXPECT_EQ(std::string_view(library->version).substr(0, 7), "oneDNN ");
  std::printf("%s, for %s\n", library->version, library->features);
}

}  // namespace
}  // namespace llmc::onednn_test
