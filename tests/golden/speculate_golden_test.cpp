// Rows of a call over the golden models. Speculation: texts and all their logits are those of one call a token, greedy and with 20
// seeds, whoever guesses: lookup, the model itself, and the same model with random weights. Prefill calls of 8 rows, so
// that sliding windows have rings that are shorter than the texts. Sequences that decode together: each has the text and
// the logits that it has alone.
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

// Eight sequences of different prompts, lengths and seeds, each beginning a step after the one before it; the order of
// rows changes from call to call.
void ExpectSameTogether(const Executable& model, Session& session, std::span<const int32_t> prompt, uint32_t count) {
  constexpr uint32_t kSequences = 8;
  struct Sequence {
    std::unique_ptr<Session> session;
    std::vector<int32_t> prompt, ids;
    std::unique_ptr<Sampler> sampler;
    uint32_t count = 0;
    test::SpeculatedText want;
    Xxh3 hash;
    void Take(std::span<const float> logits) {
      hash.Update(logits.data(), logits.size_bytes());
      ids.push_back(sampler->Next(logits, session->position() - 1));
    }
  };
  SessionOptions options;
  options.workspace = session.workspace();
  std::vector<Sequence> all(kSequences);
  Speculator plain(session, nullptr);
  for (uint32_t i = 0; i < kSequences; ++i) {
    Sequence& s = all[i];
    const size_t length = 1 + (prompt.size() - 1) * i / (kSequences - 1);
    s.prompt.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(length));
    s.count = std::max(1u, count * (kSequences - i) / kSequences);
    s.want = test::MakeText(session, plain, s.prompt, s.count, test::SamplingOf(i));
    s.session = std::make_unique<Session>(model, options);
    s.sampler = std::make_unique<Sampler>(test::SamplingOf(i), s.prompt);
  }
  for (uint32_t step = 0;; ++step) {
    if (step < kSequences) all[step].Take(all[step].session->Prefill(all[step].prompt));
    std::vector<Sequence*> active;
    for (uint32_t i = 0; i < kSequences; ++i) {
      Sequence& s = all[(i * 3 + step) % kSequences];
      if (!s.ids.empty() && s.ids.size() < s.count) active.push_back(&s);
    }
    if (active.empty() && step >= kSequences) break;
    if (active.empty()) continue;
    std::vector<Session*> sessions;
    std::vector<int32_t> ids;
    for (const Sequence* s : active) {
      sessions.push_back(s->session.get());
      ids.push_back(s->ids.back());
    }
    const std::span<const float> logits = Session::DecodeTogether(sessions, ids);
    for (size_t i = 0; i < active.size(); ++i) active[i]->Take(logits.subspan(i * session.vocab(), session.vocab()));
  }
  for (Sequence& s : all) {
    EXPECT_EQ(s.ids, s.want.ids) << "sequence " << &s - all.data();
    EXPECT_EQ(s.hash.Digest(), s.want.logits) << "sequence " << &s - all.data();
  }
}

// No state is a sum of the past.
bool Addressed(const Manifest& manifest) {
  return std::all_of(manifest.states.begin(), manifest.states.end(),
                     [](const PlanState& state) { return state.slots > 0; });
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
  if (Addressed(*model.manifest)) {
    ExpectSameTogether(model, session, prompt, count);
  } else {
    EXPECT_THROW(session.MostTogether(), PlanError);
  }
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
