// Speculation over the golden models: texts and all their logits are those of one call a token, greedy and with 20
// seeds, whoever guesses: lookup, the model itself, and the same model with random weights. Prefill calls of 8 rows, so
// that sliding windows have rings that are shorter than the texts.
//
// The suite Every has each folder and each target, in a test of its own (tools/check).
#include <algorithm>
#include <functional>
#include <tuple>

#include "runtime/speculate.h"
#include "tests/golden/compiled_golden.h"
#include "tests/support/speculated_text.h"

namespace llmc {
namespace {

constexpr size_t kMostPrompt = 37;
constexpr uint32_t kMostNew = 91;
constexpr uint32_t kSeeds = 20;

Executable Compiled(const std::string& folder, const std::string& weights, const std::string& target) {
  ModelOptions options = OptionsFor(ModelIn(folder), "f16");
  options.activations = "";  // a8 where matrices are of blocks
  options.chunk = 8;
  options.weights = weights;
  return CompileModel(options, "llvm", target);
}

void ExpectSameTexts(const std::string& folder, const std::string& target, uint32_t threads) {
  const Golden golden = ReadGoldenAt(folder);
  const std::vector<int32_t> prompt(
      golden.prompt.begin(),
      golden.prompt.begin() + static_cast<std::ptrdiff_t>(std::min(golden.prompt.size(), kMostPrompt)));
  const Executable model = Compiled(folder, "", target), random = Compiled(folder, "random:5", target);
  SessionOptions options;
  options.threads = threads;
  Session session(model, options);
  const uint32_t count = std::min(kMostNew, session.context() - static_cast<uint32_t>(prompt.size()));

  Speculator plain(session, nullptr);
  const auto draft = [&](const Executable& executable) { return MakeDraftModel(executable, model, session, "draft"); };
  Speculator speculators[] = {Speculator(session, MakeNgramProposer(), 11), Speculator(session, MakeNgramProposer()),
                              Speculator(session, draft(model), 3),         Speculator(session, draft(model), 7),
                              Speculator(session, draft(random), 1),        Speculator(session, draft(random))};
  for (uint32_t seed = 0; seed <= kSeeds; ++seed) {
    const SamplerOptions sampling = test::SamplingOf(seed);
    const test::SpeculatedText want = test::MakeText(session, plain, prompt, count, sampling);
    for (Speculator& speculator : speculators) {
      ASSERT_EQ(test::MakeText(session, speculator, prompt, count, sampling), want)
          << "seed " << seed << ", proposer " << &speculator - speculators;
    }
  }
  for (const Speculator& speculator : {std::cref(speculators[2]), std::cref(speculators[3])}) {
    EXPECT_GT(speculator.counts().calls, 0u);
    EXPECT_EQ(speculator.counts().accepted, speculator.counts().proposed) << "the model itself";
  }
  EXPECT_LT(speculators[4].counts().accepted, speculators[4].counts().proposed) << "random weights";
  EXPECT_GT(speculators[0].counts().calls, 0u);
}

class SpeculateGoldenTest : public testing::TestWithParam<std::string> {};
TEST_P(SpeculateGoldenTest, GivesTheTextsOfPlainDecoding) { ExpectSameTexts(GetParam(), "native", 2); }

using Param = std::tuple<std::string, std::string>;  // target, folder
class EveryTargetTest : public testing::TestWithParam<Param> {};
TEST_P(EveryTargetTest, GivesTheTextsOfPlainDecoding) {
  const auto& [target, folder] = GetParam();
  ExpectSameTexts(folder, target, 1);
}

INSTANTIATE_TEST_SUITE_P(Sample, SpeculateGoldenTest,
                         testing::Values("golden/mistral-window3", "golden/gemma3-six", "golden/llama-gqa3",
                                         "golden/qwen3moe-norm", "golden-gguf/llama-q4_0", "golden-gguf/llama-q6_k",
                                         "golden-gguf/gptoss-sinks", "golden-gguf/llama-iq4_xs"),
                         TestName);
INSTANTIATE_TEST_SUITE_P(Every, EveryTargetTest,
                         testing::Combine(testing::ValuesIn(TargetsHere()), testing::ValuesIn(AllFolders())),
                         [](const testing::TestParamInfo<Param>& test) {
                           return NameOf(std::get<0>(test.param) + "_" + std::get<1>(test.param));
                         });

}  // namespace
}  // namespace llmc
