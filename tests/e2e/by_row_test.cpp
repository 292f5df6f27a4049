// Guards calls whose rows stand anywhere in any of several sequences: the compiled code gives each row the bits that the
// interpreter and the sequence alone give it. A decode of n sequences and a verification of several rows are such calls.
#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "backends/backend.h"
#include "backends/compile_plan.h"
#include "backends/kernel_table.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "runtime/context.h"
#include "runtime/memory.h"
#include "tests/e2e/tiny.h"

namespace llmc {
namespace {

// Its @score has %pos: i32[S]: up to 16 rows, logits of each.
Module Scheduled(const TinyModel& tiny) {
  Module module = ImportTiny(tiny);
  PassContext context;
  context.kernels.computes = LlvmComputes;
  PipelineOptions options;
  options.file = "tiny";
  RunPipeline(module, context, options);
  const Value* pos = FindInput(*module.FindFunc("score"), EntryInput::Pos);
  EXPECT_EQ(ToText(pos->type), "i32[S]");
  return module;
}

class ByRowTest : public ::testing::TestWithParam<TinyModel> {
 protected:
  ByRowTest() : module_(Scheduled(GetParam())), weights_(RandomWeights(7)) {}
  PlanRequest Request() const {
    PlanRequest request;
    request.module = &module_;
    request.weights = weights_.get();
    return request;
  }
  const Module module_;
  const std::unique_ptr<WeightSource> weights_;
};

TEST_P(ByRowTest, RowsOfThreeSequencesAreThoseOfEachAlone) {
  const MemoryPlan plan(Request());
  const Manifest& m = plan.manifest();
  EXPECT_EQ(m.abi, LLMC_ABI_1_2);
  EXPECT_TRUE(m.phases[2].contract.by_row);
  EXPECT_FALSE(m.phases[1].contract.by_row);
  Interpreter interpreter(module_, *weights_, 1, 3);
  Interpreter alone(module_, *weights_, 1, 3);

  constexpr uint32_t kThreads = 2;
  Reservation shared = Reservation::Zeros(m.shared_bytes, false, "shared"),
              scratch = Reservation::Zeros(m.private_bytes * kThreads, false, "scratch"),
              states = Reservation::Zeros(m.state_bytes * 3, false, "states");
  const size_t vocab = m.vocab;
  int32_t next[3] = {0, 0, 0};
  for (int32_t call = 0; call < 24; ++call) {
    std::vector<int32_t> tokens, positions, sequences;
    std::vector<uint64_t> bases;
    for (int32_t i = 0; i < 3; ++i) {
      const int32_t s = (i + call) % 3;
      for (int32_t n = 0; n < 1 + (call + s) % 3; ++n) {
        tokens.push_back((s * 31 + next[s] * 7 + 3) % static_cast<int32_t>(vocab));
        positions.push_back(next[s]++);
        sequences.push_back(s);
        bases.push_back(m.state_bytes * static_cast<uint64_t>(s));
      }
    }
    const auto rows = static_cast<uint32_t>(tokens.size());
    std::vector<float> logits(rows * vocab);
    alignas(64) LlmcBarrier barrier{};
    const uint32_t abort_request = 0;
    LlmcContext c{};
    c.weights = plan.weights();
    c.shared = shared.data();
    c.scratch = scratch.data();
    c.scratch_stride = m.private_bytes;
    c.states = states.data();
    c.tokens = tokens.data();
    c.logits = logits.data();
    c.rows = rows;
    c.total = m.context;
    c.abi = LLMC_ABI_VERSION;
    c.barrier = &barrier;
    c.abort_request = &abort_request;
    c.positions = positions.data();
    c.state_bases = bases.data();
    const LlmcPhaseFn score = plan.Entry("score");
    std::thread other([&] { score(&c, 1, kThreads); });
    EXPECT_EQ(score(&c, 0, kThreads), 0u);
    other.join();

    const auto total = static_cast<int64_t>(m.context);
    const std::vector<float> want =
        interpreter.Run("score", {.tokens = tokens, .positions = positions, .total = total, .sequences = sequences});
    ASSERT_EQ(std::memcmp(want.data(), logits.data(), want.size() * sizeof(float)), 0) << "call " << call;
    // Each row in a call of its own, and through @decode of the same states.
    for (size_t r = 0; r < tokens.size(); ++r) {
      const std::vector<float> row = alone.Run("decode", {.tokens = {&tokens[r], 1},
                                                          .positions = {&positions[r], 1},
                                                          .total = total,
                                                          .sequences = {&sequences[r], 1}});
      ASSERT_EQ(std::memcmp(row.data(), &logits[r * vocab], row.size() * sizeof(float)), 0)
          << "sequence " << sequences[r] << ", position " << positions[r];
    }
  }
}

// Without positions and bases the same code is that of consecutive rows.
TEST_P(ByRowTest, WithoutThemRowsFollowEachOther) {
  const MemoryPlan plan(Request());
  const std::vector<int32_t> ids = {3, 1, 4, 1, 5};
  const std::vector<float> got = RunCode(plan.Entry("score"), plan.manifest(), PhaseKind::Score, plan.weights(), ids);
  const std::vector<float> want =
      RunCode(plan.Entry("decode"), plan.manifest(), PhaseKind::Decode, plan.weights(), ids);
  ASSERT_EQ(got.size(), want.size());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
}

std::vector<TinyModel> Models() {
  std::vector<TinyModel> models(4);
  models[1].window = 7;
  models[1].context = 200;
  models[2].heads = models[2].kv_heads = 8;  // no division by keys
  models[2].weights = "q4_1";
  models[2].activations = "q8";
  models[3].kv_type = "f32";
  models[3].interleaved = true;
  return models;
}
INSTANTIATE_TEST_SUITE_P(, ByRowTest, ::testing::ValuesIn(Models()));

}  // namespace
}  // namespace llmc
