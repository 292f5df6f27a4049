// The rules of step lists in a plan: what a step reads and writes lies inside; damage is named by phase, step and rule.
#include <random>

#include "runtime/context.h"
#include "runtime/plan_steps.h"
#include "tests/plan/support.h"

namespace llmc {
namespace {

constexpr uint64_t kWeights = 2 * 320 + 2 * 32 * 4;  // two tiles of q4_1 [32, 32], then a bias
constexpr uint32_t kQ4_1 = 5, kA8 = 9;

// silu(x Wg + bg) * (x Wu + bu) of 16 columns over up to 4 rows of 32, then a product of f32 into the logits.
DnnlStep Gated(uint32_t rows) {
  DnnlStep step;
  step.max_rows = rows;
  step.one_row = rows == 1;
  step.compute = DnnlCompute::Blocks;
  step.x_type = kA8;
  step.w_type = kQ4_1;
  step.k = 32;
  step.gate = DnnlGate::Silu;
  step.bias = 640;
  step.x = {PlanSpace::Private, 0};
  step.parts = {{16, {PlanSpace::Shared, 0}}};
  step.scratch = {PlanSpace::Private, 192};
  step.scratch_bytes = DnnlScratchBytes(step).total();
  return step;
}
DnnlStep Head() {
  DnnlStep step;
  step.one_row = true;
  step.k = 8;
  step.x = {PlanSpace::Shared, 0};
  step.parts = {{8, {PlanSpace::Logits, 0}}};
  step.residual = PlanPlace{PlanSpace::Shared, 64};
  return step;
}

PlanStep Dnnl(const DnnlStep& step) { return {static_cast<uint32_t>(PlanStepKind::Dnnl), EncodeStep(step)}; }
PlanStep Kernel() {
  return {static_cast<uint32_t>(PlanStepKind::Kernel), EncodeStep(KernelStep{"k", false, {1}, {2}})};
}
PlanStep Barrier() { return {static_cast<uint32_t>(PlanStepKind::Barrier), ""}; }

Manifest StepManifest() {
  Manifest m;
  m.model = "tiny";
  m.backend = "onednn";
  m.numerics = "products by oneDNN";
  m.abi = LLMC_ABI_VERSION;
  m.vocab = 8;
  m.context = 32;
  m.chunk = 4;
  m.shared_bytes = 256;
  m.private_bytes = 192 + Gated(4).scratch_bytes;
  m.state_bytes = 64;
  m.phases = {{PhaseKind::Prefill, 2, 4, {Kernel(), Barrier(), Dnnl(Gated(4)), Barrier(), Dnnl(Head())}},
              {PhaseKind::Decode, 1, 1, {Dnnl(Gated(1)), Barrier(), Dnnl(Head())}},
              {PhaseKind::Score, 1, 4, {Dnnl(Gated(4))}}};
  m.self_test.ids = {1, 2};
  m.self_test.approximate = {{0, 7}, {1, 2}, {3, 4}, {5, 6}, 1e-6f};
  return m;
}

std::string Check(const Manifest& m, uint64_t weights = kWeights) {
  return ErrorOf([&] { CheckManifest(m, {}, weights, "a.plan"); });
}

TEST(StepRules, AStepListIsRight) {
  EXPECT_EQ(Check(StepManifest()), "");
  const ManifestBytes bytes = EncodeManifest(StepManifest());
  const Manifest back = DecodeManifest(bytes.manifest, bytes.steps, "x");
  EXPECT_EQ(EncodeManifest(back).manifest, bytes.manifest);
  EXPECT_EQ(back.self_test.approximate->score, (std::vector<float>{5, 6}));
  EXPECT_EQ(PlanMinorOf(back), 1);
}

struct StepRule {
  const char* message;
  void (*damage)(DnnlStep&);
};

TEST(StepRules, OperandsLieInside) {
  const StepRule rules[] = {
      {"a.plan: manifest: phase prefill of 2..4 rows, step 2 (dnnl): up to 3 rows, the phase has 4",
       [](DnnlStep& s) { s.max_rows = 3; }},
      {"x at 84 + 176 of 256 bytes of shared", [](DnnlStep& s) { s.x = {PlanSpace::Shared, 84}; }},
      {"x at 0 + 176 of 32 bytes of logits", [](DnnlStep& s) { s.x = {PlanSpace::Logits, 0}; }},
      {"x at 18446744073709551612 + 176", [](DnnlStep& s) { s.x.offset = ~uint64_t{3}; }},
      {"x at private + 64 of 176 bytes lies in the scratch at 192", [](DnnlStep& s) { s.x.offset = 64; }},
      {"out at 4 + 256 of 256 bytes of shared", [](DnnlStep& s) { s.parts[0].out.offset = 4; }},
      {"out at private + 192 of 256 bytes lies in the scratch",
       [](DnnlStep& s) { s.parts[0].out = {PlanSpace::Private, 192}; }},
      {"w at 288 + 640 of 896 bytes of weights", [](DnnlStep& s) { s.w = 288; }},
      {"bias at 772 + 128 of 896 bytes of weights", [](DnnlStep& s) { s.bias = 772; }},
      {"of private", [](DnnlStep& s) { s.scratch.offset = 256; }},
      {"scratch of 64 bytes, the step needs", [](DnnlStep& s) { s.scratch_bytes = 64; }},
      {"isn't in 1..4096", [](DnnlStep& s) { s.slice_tiles = 4097; }},
  };
  for (const StepRule& rule : rules) {
    Manifest m = StepManifest();
    DnnlStep step = Gated(4);
    rule.damage(step);
    if (step.scratch_bytes != 64) step.scratch_bytes = DnnlScratchBytes(step).total();
    m.phases[0].steps[2] = Dnnl(step);
    const std::string error = Check(m);
    EXPECT_NE(error.find(rule.message), std::string::npos) << rule.message << ": " << error;
    EXPECT_NE(error.find("phase prefill of 2..4 rows, step 2 (dnnl): "), std::string::npos) << error;
  }
  Manifest m = StepManifest();
  DnnlStep two = Gated(4);  // two parts in the place of the gated one
  two.gate = DnnlGate::None;
  two.bias.reset();
  two.parts = {{8, {PlanSpace::Shared, 0}}, {8, {PlanSpace::Shared, 128}}};
  two.scratch_bytes = DnnlScratchBytes(two).total();
  m.phases[0].steps[2] = Dnnl(two);
  EXPECT_EQ(Check(m), "");
  two.parts[1].out.offset = 124;
  m.phases[0].steps[2] = Dnnl(two);
  EXPECT_NE(Check(m).find("step 2 (dnnl): part 1 lies in part 0"), std::string::npos) << Check(m);
  two.parts[1].out.offset = 128;
  two.x = {PlanSpace::Shared, 80};
  m.phases[0].steps[2] = Dnnl(two);
  EXPECT_NE(Check(m).find("step 2 (dnnl): out lies in x"), std::string::npos) << Check(m);
  m = StepManifest();
  DnnlStep head = Head();
  head.residual->offset = 228;
  m.phases[1].steps[2] = Dnnl(head);
  EXPECT_NE(Check(m).find("step 2 (dnnl): residual at 228 + 32 of 256"), std::string::npos) << Check(m);
  head = Head();
  head.parts[0].n = 9;
  m.phases[1].steps[2] = Dnnl(head);
  EXPECT_NE(Check(m).find("out at 0 + 36 of 32 bytes of logits"), std::string::npos) << Check(m);
  // Score has a row of logits for each of its rows.
  head = Head();
  head.residual.reset();
  head.x.offset = 0;
  head.one_row = false;
  head.max_rows = 4;
  m = StepManifest();
  m.phases[2].steps = {Dnnl(head)};
  EXPECT_EQ(Check(m), "");
  m.phases[0].steps = {Dnnl(head)};
  EXPECT_NE(Check(m).find("out at 0 + 128 of 32 bytes of logits"), std::string::npos) << Check(m);
  EXPECT_NE(Check(StepManifest(), 0).find("w at 0 + 640 of 0 bytes of weights"), std::string::npos);
  EXPECT_NE(Check(StepManifest(), 767).find("bias at 640 + 128 of 767"), std::string::npos);
}

struct ListRule {
  const char* message;
  void (*damage)(Manifest&);
};

TEST(StepRules, ListsAndSelfTestsHaveRules) {
  const ListRule rules[] = {
      {"phase decode of 1..1 rows, step 1 (barrier): a payload of 1 bytes",
       [](Manifest& m) { m.phases[1].steps[1].payload = "x"; }},
      {"step 0 (kernel): flags 2", [](Manifest& m) { m.phases[0].steps[0].payload[0] = 2; }},
      {"step 0 (kernel): needs", [](Manifest& m) { m.phases[0].steps[0].payload.resize(7); }},
      {"step 2 (dnnl): needs", [](Manifest& m) { m.phases[0].steps[2].payload.pop_back(); }},
      {"step 2 (dnnl): 1 bytes too many", [](Manifest& m) { m.phases[0].steps[2].payload += '\0'; }},
      {"step 0 (code): the entry's name", [](Manifest& m) { m.phases[1].steps[0] = {1, "\x1b"}; }},
      {"backend onednn without code, which phase decode runs",
       [](Manifest& m) { m.phases[1].steps[0] = {1, "decode"}; }},
      {"phase score has no steps", [](Manifest& m) { m.phases[2].steps.clear(); }},
      {"steps 65545 isn't in 0..65536", [](Manifest& m) { m.phases[2].steps.resize(65537, Barrier()); }},
      {"bytes of steps ", [](Manifest& m) { m.phases[2].steps.resize(1001, {9, std::string(1 << 17, 'x')}); }},
      {"an exact plan with an approximate self-test", [](Manifest& m) { m.numerics = "exact"; }},
      {"an approximate self-test without ids", [](Manifest& m) { m.self_test.ids.clear(); }},
      {"an approximate self-test with hashes", [](Manifest& m) { m.self_test.score = 1; }},
      {"logits of the self-test 0 isn't in 1..32", [](Manifest& m) { m.self_test.approximate->at.clear(); }},
      {"self-test's ids of logits: 0 behind 0", [](Manifest& m) { m.self_test.approximate->at = {0, 0}; }},
      {"self-test's id of a logit 8 isn't in 0..7", [](Manifest& m) { m.self_test.approximate->at = {0, 8}; }},
      {"self-test: 1 logits at 2 ids", [](Manifest& m) { m.self_test.approximate->decode.pop_back(); }},
      {"self-test: a logit isn't finite", [](Manifest& m) { m.self_test.approximate->score[0] = 1.0f / 0.0f; }},
      {"self-test's bound nan", [](Manifest& m) { m.self_test.approximate->bound = __builtin_nanf(""); }},
  };
  for (const ListRule& rule : rules) {
    Manifest m = StepManifest();
    rule.damage(m);
    const std::string error = Check(m);
    EXPECT_NE(error.find(rule.message), std::string::npos) << rule.message << ": " << error;
  }
}

TEST(StepRules, DamagedListsAreRefusedOrHaveOneEncoding) {
  const ManifestBytes good = EncodeManifest(StepManifest());
  std::mt19937 random(3);
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    ManifestBytes bad = good;
    std::string& part = i % 8 == 0 ? bad.manifest : bad.steps;
    for (unsigned n = 0; n <= random() % 2; ++n) part[random() % part.size()] = static_cast<char>(random());
    ErrorOf([&] {
      const Manifest m = DecodeManifest(bad.manifest, bad.steps, "x");
      CheckManifest(m, {}, kWeights, "x");
      EXPECT_EQ(EncodeManifest(m).steps, bad.steps);
      for (const PlanPhase& phase : m.phases) {
        for (const PlanStep& step : phase.steps) EXPECT_NE(StepText(step), "");
      }
      ++taken;
    });
  }
  EXPECT_LT(taken, 10000);  // most of what is damaged is noticed without a hash
}

TEST(StepRules, TooManyStepsAreRefusedWhileTheyAreRead) {
  std::string steps;
  const char barrier[16] = {1, 0, 0, 0, 3};
  for (int i = 0; i <= 65536; ++i) steps.append(barrier, sizeof(barrier));
  const ManifestBytes bytes = EncodeManifest(StepManifest());
  EXPECT_NE(ErrorOf([&] { DecodeManifest(bytes.manifest, steps, "x"); }).find("more than 65536 steps"),
            std::string::npos);
}

}  // namespace
}  // namespace llmc
