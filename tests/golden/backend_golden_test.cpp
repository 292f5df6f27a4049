// The golden models compiled by each backend that is built in: transformers' logits at every position and its greedy
// ids, with one thread and with two, and decode after prefill at split points of the prompt. llvm gives the very
// bits of the uncut run; onednn the same bits whatever the number of threads, and another order of sums where another
// primitive computes the row.
//
// Compiling costs a second a target, so here it is for this CPU's best, for the others in every sixth folder; the suite
// Every has all targets, all splits and up to four threads for each folder, in a test of its own (tools/check).
#include <array>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>

#include "ir/interpreter.h"
#include "ir/op.h"
#include "passes/check.h"
#include "runtime/loader.h"
#include "tests/golden/compiled_golden.h"
#include "tools/pass_context.h"

namespace llmc {
namespace {

// Goldens that the onednn backend can't do, with the reason. The list only shrinks.
constexpr std::array<std::string_view, 0> kSkippedOnOnednn = {};

std::unique_ptr<Session> Open(const Executable& executable, uint32_t threads) {
  SessionOptions options;
  options.threads = threads;
  return std::make_unique<Session>(executable, options);
}

std::vector<float> Score(Session& session, const std::vector<int32_t>& tokens) {
  std::vector<float> out;
  session.Score(tokens, [&](std::span<const float> row) { out.insert(out.end(), row.begin(), row.end()); });
  return out;
}

// Families whose parts the others share.
bool IsAnchor(const std::string& folder) {
  static constexpr std::array<std::string_view, 4> kAnchors = {"llama", "mistral", "qwen2", "qwen3"};
  const std::string name = folder.substr(folder.find('/') + 1);
  return std::any_of(kAnchors.begin(), kAnchors.end(),
                     [&](std::string_view family) { return name.starts_with(family); });
}

// Where the prompt is cut into prefill and decode.
std::vector<size_t> Splits(size_t tokens, bool everywhere) {
  if (!everywhere) return {1, tokens / 4, tokens / 2, tokens - 1};
  std::vector<size_t> all(tokens);
  std::iota(all.begin(), all.end(), size_t{1});
  return all;
}

// How much of a folder is tried: targets beside the best one, every split, up to four threads.
struct Extent {
  bool targets, splits, threads;
};

void ExpectGolden(const std::string& backend, const std::string& folder, const Extent& extent) {
  const Golden golden = ReadGoldenAt(folder);
  const Executable executable = Compile(backend, folder);
  ExpectNoReference(executable);
  std::vector<float> first;
  for (uint32_t threads : extent.threads ? std::vector<uint32_t>{1, 2, 3, 4} : std::vector<uint32_t>{1, 2}) {
    const std::unique_ptr<Session> session = Open(executable, threads);
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

  if (backend == "llvm" && extent.targets) {
    std::vector<std::string> targets = TargetsHere();
    targets.pop_back();  // the best one's was run
    for (const std::string& target : targets) {
      const std::vector<float> logits = Score(*Open(Compile(backend, folder, "f32", target), 2), golden.prompt);
      EXPECT_TRUE(SameBits(first, logits)) << target;
    }
  }

  constexpr size_t kMostTokens = 37;  // the long prompt is cut short: each split costs a run
  const std::span<const int32_t> tokens(golden.prompt.data(), std::min(golden.prompt.size(), kMostTokens));
  const std::unique_ptr<Session> session = Open(executable, 2);
  for (size_t split : Splits(tokens.size(), extent.splits)) {
    session->Reset();
    std::span<const float> logits = session->Prefill(tokens.first(split));
    for (size_t row = split - 1;; ++row) {
      const float* whole = first.data() + row * golden.vocab;
      if (backend == "llvm") {
        ASSERT_EQ(std::memcmp(logits.data(), whole, golden.vocab * sizeof(float)), 0)
            << "split at " << split << ", position " << row;
      } else {
        ASSERT_LE(Nmse(logits.data(), whole, golden.vocab), kNmseF32) << "split at " << split << ", position " << row;
      }
      if (row + 1 == tokens.size()) break;
      logits = session->Decode(tokens[row + 1]);
    }
  }
}

using Param = std::tuple<std::string, std::string>;  // backend, folder
class BackendGoldenTest : public testing::TestWithParam<Param> {};

TEST_P(BackendGoldenTest, MatchesTransformersAndItself) {
  const auto& [backend, folder] = GetParam();
  if (backend == "onednn" &&
      std::find(kSkippedOnOnednn.begin(), kSkippedOnOnednn.end(), folder) != kSkippedOnOnednn.end())
    GTEST_SKIP() << "on the list of what onednn can't do";
  const std::vector<std::string> folders = AllFolders();
  const auto number = std::find(folders.begin(), folders.end(), folder) - folders.begin();
  ExpectGolden(backend, folder, {.targets = number % 12 == 0, .splits = IsAnchor(folder), .threads = false});
}

class EveryTargetTest : public testing::TestWithParam<std::string> {};

TEST_P(EveryTargetTest, MatchesTransformersAndItself) {
  for (const std::string& backend : CompiledBackends()) {
    SCOPED_TRACE(backend);
    ExpectGolden(backend, GetParam(), {.targets = true, .splits = true, .threads = true});
  }
}

INSTANTIATE_TEST_SUITE_P(Every, EveryTargetTest, testing::ValuesIn(AllFolders()), TestName);

// Passes leave the bits of every model, also with a seeded set of the optional ones off.
TEST(Passes, KeepTheBitsOfEveryModel) {
  std::mt19937 random(20);
  for (const std::string& folder : AllFolders()) {
    SCOPED_TRACE(folder);
    for (const bool whole : {true, false}) {
      Model model = LoadModel(OptionsFor(ModelIn(folder), "f32"));
      PassCheck check(model.module, *model.weights);
      PipelineOptions options;
      options.after = [&](const PassInfo& pass, const Module& module, bool changed, double) {
        if (changed) check.After(pass, module);
      };
      for (const PassInfo& pass : AllPasses())
        if (!whole && pass.optional && random() % 2 == 0) options.disabled.emplace(pass.name);
      RunPipeline(model.module, ContextFor("reference"), options);
    }
  }
}

// Windows, layers without positions, QK-norm, caps, sinks, a gate, convolutions, delta nets, experts and latents in some
// layers, put together in a description alone: the compiled code computes what the interpreter does of the graph as it was imported.
TEST(Hybrid, RunsFromADescription) {
  ModelOptions options = OptionsFor(kData + "hybrid.json", "f32");
  options.weights = "random:7";
  std::vector<int32_t> tokens(29);
  std::iota(tokens.begin(), tokens.end(), 5);
  const Model plain = LoadModel(options);
  Interpreter interpreter(plain.module, *plain.weights);
  const std::vector<float> expected = interpreter.Run("forward", tokens, 0, static_cast<int64_t>(tokens.size()));
  // Latents are absorbed in all that is compiled, which keeps the bits of no other form.
  Model absorbed = LoadModel(options);
  PipelineOptions first;
  first.passes = {"absorb-mla"};
  RunPipeline(absorbed.module, ContextFor("llvm"), first);
  Interpreter of_absorbed(absorbed.module, *absorbed.weights);
  const std::vector<float> bits = of_absorbed.Run("forward", tokens, 0, static_cast<int64_t>(tokens.size()));
  EXPECT_LE(Nmse(bits.data(), expected.data(), expected.size()), kNmseF32);
  for (const std::string& backend : CompiledBackends()) {
    SCOPED_TRACE(backend);
    Model model = LoadModel(options);
    RunPipeline(model.module, ContextFor(backend));
    PlanRequest request;
    request.module = &model.module;
    request.weights = model.weights.get();
    request.backend = backend;
    request.targets = "native";
    const std::vector<float> logits = Score(*Open(FromMemory(std::make_shared<MemoryPlan>(request)), 2), tokens);
    ASSERT_EQ(logits.size(), expected.size());
    if (backend == "llvm") {
      EXPECT_TRUE(SameBits(logits, bits));
    } else {
      EXPECT_LE(Nmse(logits.data(), expected.data(), expected.size()), kNmseF32);
    }
  }
}

// A session whose states hold the past: what an earlier sequence has left reaches no later one, with a reset or by
// snapshots; any cut into calls gives the same bits; a stopped call leaves no trace; a prefix is refused.
TEST(Hybrid, StatesOfThePastBelongToTheirSequence) {
  ModelOptions options = OptionsFor(kData + "hybrid.json", "f32");
  options.weights = "random:7";
  Model model = LoadModel(options);
  RunPipeline(model.module, ContextFor("llvm"));
  PlanRequest request;
  request.module = &model.module;
  request.weights = model.weights.get();
  request.targets = "native";
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "hybrid-states.plan";
  WritePlan(request, path);
  const Executable executable = LoadPlan(path);
  std::vector<int32_t> first(40), second(33);
  std::iota(first.begin(), first.end(), 5);
  std::iota(second.rbegin(), second.rend(), 11);
  const auto last = [](std::span<const float> logits) { return std::vector<float>(logits.begin(), logits.end()); };
  const auto fresh = [&](const std::vector<int32_t>& tokens) {
    const std::unique_ptr<Session> other = Open(executable, 1);
    return last(other->Prefill(tokens));
  };
  const std::unique_ptr<Session> session = Open(executable, 2);
  EXPECT_TRUE(SameBits(last(session->Prefill(first)), fresh(first)));
  session->Reset();
  for (const int32_t token : second) session->Decode(token);
  session->Reset();
  session->Prefill(std::span(second).first(18));
  const std::string saved = session->SaveState();
  EXPECT_FALSE(session->Rewind(17));
  session->Decode(90);
  session->RestoreState(saved);
  EXPECT_TRUE(SameBits(last(session->Prefill(std::span(second).subspan(18))), fresh(second)));
  // A prompt that is stopped between two barriers, and then taken up again.
  session->RestoreState(saved);
  session->RequestAbort();
  EXPECT_THROW(session->Prefill(std::span(second).subspan(18)), StoppedError);
  EXPECT_EQ(session->position(), 18u);
  session->RequestAbort();
  EXPECT_THROW(session->Decode(1), StoppedError);
  EXPECT_EQ(session->position(), 18u);
  EXPECT_TRUE(SameBits(last(session->Prefill(std::span(second).subspan(18))), fresh(second)));
}

// `--activations bf16` against numpy, which rounds the inputs of matrices by torch and computes in float64
// (tools/golden/reference.py). The rounding is worth 1e-4 here; a value on the border between two bf16 may go either
// way with another order of sums.
class BackendBf16Test : public testing::TestWithParam<std::string> {};

TEST_P(BackendBf16Test, ActivationsAreRoundedRight) {
  for (const char* folder : {"golden/qwen3-bf16", "golden-gguf/llama-bf16"}) {
    SCOPED_TRACE(folder);
    const Golden exact = ReadGoldenAt(folder);
    Golden rounded = exact;
    rounded.logits = ReadNpy(kData + folder + "/logits_bf16.npy");
    ASSERT_EQ(rounded.logits.size(), exact.logits.size());
    const Executable executable = Compile(GetParam(), folder, "bf16");
    const std::vector<float> logits = Score(*Open(executable, 2), exact.prompt);
    EXPECT_LE(WorstNmse(rounded, logits), kNmseBf16);
    EXPECT_LE(WorstNmse(exact, logits), 5e-4);
    EXPECT_GT(WorstNmse(exact, logits), 2e-5) << "is anything rounded?";
    if (GetParam() != "llvm" || std::string_view(folder) != "golden-gguf/llama-bf16") continue;
    EXPECT_LE(WorstNmse(rounded, logits), kNmseF32) << "no value is on a border";
  }
}

INSTANTIATE_TEST_SUITE_P(All, BackendBf16Test, testing::ValuesIn(CompiledBackends()),
                         [](const testing::TestParamInfo<std::string>& test) { return test.param; });

// A family's GGUF file becomes the graph that its HF folder becomes, as the interpreter's goldens show: of those that are
// no anchor's each third is compiled here, and all of them in tools/check.
std::vector<Param> QuickParams() {
  std::vector<Param> params;
  for (const std::string& backend : CompiledBackends()) {
    size_t number = 0;
    for (const std::string& folder : AllFolders()) {
      const bool other = folder.starts_with("golden-gguf/") && !IsAnchor(folder);
      if (backend != "llvm" || !other || number++ % 3 == 0) params.emplace_back(backend, folder);
    }
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(All, BackendGoldenTest, testing::ValuesIn(QuickParams()),
                         [](const testing::TestParamInfo<Param>& test) {
                           return std::get<0>(test.param) + "_" + NameOf(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace llmc
