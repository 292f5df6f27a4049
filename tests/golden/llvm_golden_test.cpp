// The golden models compiled by the llvm backend: transformers' logits at every position, with one thread and with two,
// and decode after prefill at every split point of the prompt gives the very bits of the uncut run.
#include <memory>

#include "backends/backend.h"
#include "backends/compile_plan.h"
#include "passes/pass.h"
#include "runtime/executor.h"
#include "tests/golden/golden_files.h"

namespace llmc {
namespace {

// A golden model, compiled in memory.
class Compiled {
 public:
  explicit Compiled(const std::string& folder) : model_(LoadModel(OptionsFor(ModelIn(folder), "f32"))) {
    PassContext context;
    context.kernels.fused = FusedKernels();
    RunPipeline(model_.module, context);
    PlanRequest request;
    request.module = &model_.module;
    request.weights = model_.weights.get();
    plan_ = std::make_unique<MemoryPlan>(request);
    executable_.manifest = std::make_shared<Manifest>(plan_->manifest());
    executable_.weights = plan_->weights();
    executable_.weights_size = plan_->weights_size();
    MakeSteps(executable_, [&](const std::string& name) { return plan_->Entry(name); }, folder);
  }

  std::unique_ptr<Session> Open(uint32_t threads) const {
    SessionOptions options;
    options.threads = threads;
    return std::make_unique<Session>(executable_, options);
  }

 private:
  Model model_;
  std::unique_ptr<MemoryPlan> plan_;
  Executable executable_;
};

std::vector<float> Score(Session& session, const std::vector<int32_t>& tokens) {
  std::vector<float> out;
  session.Score(tokens, [&](std::span<const float> row) { out.insert(out.end(), row.begin(), row.end()); });
  return out;
}

class LlvmGoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(LlvmGoldenTest, MatchesTransformersAndItself) {
  const Golden golden = ReadGoldenAt(GetParam());
  const Compiled compiled(GetParam());
  std::vector<float> first;
  for (uint32_t threads : {1U, 2U}) {
    const std::unique_ptr<Session> session = compiled.Open(threads);
    const std::vector<float> logits = Score(*session, golden.prompt);
    ASSERT_EQ(logits.size(), golden.prompt.size() * golden.vocab);
    EXPECT_LE(WorstNmse(golden, logits), kNmseF32) << threads << " threads";
    if (first.empty()) first = logits;
    EXPECT_TRUE(SameBits(first, logits)) << threads << " threads";

    std::vector<float> last(logits.end() - static_cast<std::ptrdiff_t>(golden.vocab), logits.end());
    for (size_t i = 0; i < golden.greedy.size() && golden.margins[i] > static_cast<double>(kSureMargin); ++i) {
      const auto id = static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
      ASSERT_EQ(id, golden.greedy[i]) << "step " << i << ", " << threads << " threads";
      const std::span<const float> next = session->Decode(id);
      last.assign(next.begin(), next.end());
    }
  }

  constexpr size_t kMostTokens = 37;  // the long prompt is cut short: each split costs a run
  const std::span<const int32_t> tokens(golden.prompt.data(), std::min(golden.prompt.size(), kMostTokens));
  const std::unique_ptr<Session> session = compiled.Open(2);
  for (size_t split = 1; split <= tokens.size(); ++split) {
    session->Reset();
    std::span<const float> logits = session->Prefill(tokens.first(split));
    for (size_t row = split - 1;; ++row) {
      ASSERT_EQ(std::memcmp(logits.data(), first.data() + row * golden.vocab, golden.vocab * sizeof(float)), 0)
          << "split at " << split << ", position " << row;
      if (row + 1 == tokens.size()) break;
      logits = session->Decode(tokens[row + 1]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LlvmGoldenTest, testing::ValuesIn(AllFolders()), TestName);

}  // namespace
}  // namespace llmc
