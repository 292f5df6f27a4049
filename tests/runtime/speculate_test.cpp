// Speculation: whatever is guessed, text, logits and positions are those of one call a token; rings and states of the
// past lose nothing; what can't be is refused by name; and the policy stops guessing where it loses.
#include "runtime/speculate.h"

#include "runtime/run.h"
#include "tests/runtime/cli.h"
#include "tests/runtime/support.h"
#include "tests/support/speculated_text.h"

namespace llmc {
namespace {

using test::Cli;
using test::MakeText;
using test::Outcome;
using test::SamplingOf;
using test::ScriptedProposer;
using test::SpeculatedText;

constexpr uint32_t kVocab = 16, kWindow = 6, kContext = 400;

void FillLogits(uint32_t hash, float* logits) {
  for (uint32_t v = 0; v < kVocab; ++v)
    logits[v] = static_cast<float>(((hash ^ v * 40503u) * 2654435761u) >> 20) / 512.0f;
}

// A model whose logits tell the last kWindow tokens, which it keeps in a ring of kSlots. Rows of a call are all appended
// before any reads, as attention's are.
template <uint32_t kSlots, bool kEveryRow>
uint32_t RingPhase(const LlmcContext* c, uint32_t thread, uint32_t) {
  if (thread != 0) return 0;
  auto* slots = reinterpret_cast<uint32_t*>(c->states);
  for (uint32_t r = 0; r < c->rows; ++r) slots[(c->pos + r) % kSlots] = static_cast<uint32_t>(c->tokens[r]) + 1;
  for (uint32_t r = kEveryRow ? 0 : c->rows - 1; r < c->rows; ++r) {
    const uint32_t p = c->pos + r;
    uint32_t hash = 0;
    for (uint32_t q = p < kWindow ? 0 : p - kWindow + 1; q <= p; ++q) hash = hash * 31 + slots[q % kSlots];
    FillLogits(hash, c->logits + (kEveryRow ? r * kVocab : 0));
  }
  return 0;
}

// A model whose state is a sum of all of its past.
template <bool kEveryRow>
uint32_t PastPhase(const LlmcContext* c, uint32_t thread, uint32_t) {
  if (thread != 0) return 0;
  auto* sum = reinterpret_cast<uint32_t*>(c->states);
  for (uint32_t r = 0; r < c->rows; ++r) {
    *sum = *sum * 31 + static_cast<uint32_t>(c->tokens[r]) + 1;
    if (kEveryRow || r + 1 == c->rows) FillLogits(*sum, c->logits + (kEveryRow ? r * kVocab : 0));
  }
  return 0;
}

Executable ModelOf(const PlanState& state, LlmcPhaseFn last_row, LlmcPhaseFn every_row) {
  Manifest m = CodeManifest(kVocab, kContext, 3);
  m.state_bytes = 4 * kContext;
  m.phases = {{PhaseKind::Prefill, 2, 3, {{1, "last"}}},
              {PhaseKind::Decode, 1, 1, {{1, "last"}}},
              {PhaseKind::Score, 1, 8, {{1, "every"}}}};
  m.states = {state};
  Executable executable;
  executable.manifest = std::make_shared<Manifest>(m);
  MakeSteps(executable, [&](const std::string& name) { return name == "last" ? last_row : every_row; }, "here");
  return executable;
}

template <uint32_t kSlots>
Executable RingModel() {
  PlanState state;
  state.slots = kSlots;
  state.window = kWindow;
  state.unit = 1;
  state.unit_bytes = 4;
  state.block_bytes = 4 * kSlots;
  return ModelOf(state, &RingPhase<kSlots, false>, &RingPhase<kSlots, true>);
}

Executable PastModel() {
  PlanState state;
  state.kind = StateKind::Recurrent;
  state.block_bytes = 64;
  return ModelOf(state, &PastPhase<false>, &PastPhase<true>);
}

SpeculatedText Plain(const Executable& executable, const std::vector<int32_t>& prompt, uint32_t count,
                     const SamplerOptions& options) {
  Session session = MakeSession(executable, 1);
  Speculator one(session, nullptr);
  return MakeText(session, one, prompt, count, options);
}

// Guesses that are always, often, half the time and never right, up to seven of them a call, of which a ring may allow
// `most`, and as many as pay.
void ExpectSameText(const Executable& executable, uint32_t most) {
  const std::vector<int32_t> prompt = {3, 1, 4, 1, 5};
  constexpr uint32_t kCount = 150;
  for (uint32_t seed = 0; seed < 8; ++seed) {
    const SpeculatedText want = Plain(executable, prompt, kCount, SamplingOf(seed));
    std::vector<int32_t> whole = prompt;
    whole.insert(whole.end(), want.ids.begin(), want.ids.end());
    for (const double right : {0.0, 0.5, 0.8, 1.0}) {
      for (const uint32_t always : {0u, 1u, 2u, 5u, 7u}) {
        Session session = MakeSession(executable, 1);
        Speculator speculator(session, std::make_unique<ScriptedProposer>(whole, kVocab, right, seed + 1), always);
        EXPECT_EQ(MakeText(session, speculator, prompt, kCount, SamplingOf(seed)), want)
            << "seed " << seed << ", right " << right << ", always " << always;
        const SpeculationCounts& counts = speculator.counts();
        EXPECT_LE(counts.accepted, counts.proposed);
        if (always == 0) continue;  // as many as pay: by the clock
        EXPECT_GT(counts.calls, 0u);
        if (right == 0.0) {
          EXPECT_EQ(counts.accepted, 0u);
        }
        if (right < 1.0) continue;
        EXPECT_EQ(counts.accepted, counts.proposed);
        const uint32_t rows = std::min(always, most) + 1;
        const uint32_t left = (kCount - 1) % rows;  // nothing is guessed behind a last one
        EXPECT_EQ(counts.calls, (kCount - 1) / rows + (left > 1 ? 1 : 0)) << always;
      }
    }
  }
}

TEST(Speculate, LeavesTheTextOfARing) {
  ExpectSameText(RingModel<kWindow + 7>(), 7);
  ExpectSameText(RingModel<kWindow + 2>(), 2);  // no more rows than the ring has room for
  ExpectSameText(RingModel<kContext>(), 7);     // no ring
}

TEST(Speculate, LeavesTheTextOfAStateOfThePast) { ExpectSameText(PastModel(), 7); }

TEST(Speculate, ARingBoundsTheRowsOfACall) {
  Session session = MakeSession(RingModel<kWindow + 2>(), 1);
  EXPECT_EQ(session.MostVerified(), 3u);
  session.Prefill(Tokens(1));
  EXPECT_NE(ErrorOf([&] { session.Verify(std::vector<int32_t>{1, 2, 3, 4}); }).find("4 rows, only 3"),
            std::string::npos);
  EXPECT_EQ(MakeSession(RingModel<kWindow + 7>(), 1).MostVerified(), 8u);
  EXPECT_EQ(MakeSession(PastModel(), 1).MostVerified(), 8u);
  const std::string says = ErrorOf([] { MakeSession(RingModel<kWindow>(), 1).MostVerified(); });
  EXPECT_EQ(says, "a sliding window's cache has no room for rows that are taken back");
}

TEST(Speculate, ARingThatLostKeysDoesNotGoBack) {
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  for (size_t guesses : {size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{8}}) {
    Session session = MakeSession(RingModel<kWindow + 2>(), 1);
    session.Prefill(tokens);
    session.Score(std::vector<int32_t>(guesses, 7), [](std::span<const float>) {});
    EXPECT_EQ(session.Rewind(static_cast<uint32_t>(tokens.size())), guesses <= 3) << guesses;
  }
}

// What a ring has lost is lost, however often the sequence goes back.
TEST(Speculate, RewindingTwiceDoesNotBringKeysBack) {
  Session session = MakeSession(RingModel<kWindow + 7>(), 1);
  const std::vector<int32_t> tokens(40, 3);
  session.Prefill(tokens);
  EXPECT_TRUE(session.Rewind(34));  // needs 29 on; the ring has 27 on
  EXPECT_TRUE(session.Rewind(32));
  EXPECT_FALSE(session.Rewind(31));  // 26 is gone, though 31 lies 9 behind 40 and not behind 32
  EXPECT_FALSE(session.Rewind(25));
  EXPECT_EQ(session.position(), 32u);
  session.Decode(1);
  EXPECT_FALSE(session.Rewind(31));
  session.Reset();
  session.Prefill(std::span(tokens).first(10));
  EXPECT_TRUE(session.Rewind(5));
}

TEST(Speculate, CountsWhatIsKept) {
  Session session = MakeSession(PastModel(), 1);
  session.Prefill(std::vector<int32_t>{1, 2});
  session.Verify(std::vector<int32_t>{3, 4, 5});
  EXPECT_EQ(session.position(), 5u);
  EXPECT_NE(ErrorOf([&] { session.KeepVerified(0); }).find("keep 0 of 3"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { session.KeepVerified(4); }).find("keep 4 of 3"), std::string::npos);
  session.KeepVerified(2);
  EXPECT_EQ(session.position(), 4u);
  Session other = MakeSession(PastModel(), 1);
  other.Prefill(std::vector<int32_t>{1, 2, 3, 4});
  EXPECT_TRUE(SameBits(session.Decode(7), other.Decode(7)));
}

std::vector<Draft> Look(const std::vector<int32_t>& ids, uint32_t most) {
  std::vector<Draft> drafts;
  MakeNgramProposer()->Propose(ids, most, Sampler(SamplerOptions{}), drafts);
  return drafts;
}
std::vector<int32_t> IdsOf(const std::vector<Draft>& drafts) {
  std::vector<int32_t> ids;
  for (const Draft& draft : drafts) ids.push_back(draft.id);
  return ids;
}

TEST(Ngram, ProposesWhatFollowedTheLongestRun) {
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(IdsOf(Look({1, 2, 3, 9, 5, 3, 8, 1, 2, 3}, 2)), (Ids{9, 5}));  // of 1 2 3, though 3 8 is nearer
  EXPECT_EQ(IdsOf(Look({3, 9, 3, 8, 3}, 2)), (Ids{8, 3}));                 // of equal runs the last
  EXPECT_EQ(IdsOf(Look({7, 1, 2, 1, 2}, 7)), (Ids{1, 2, 1, 2, 1, 2, 1}));  // on and on
  EXPECT_EQ(IdsOf(Look({4, 4}, 3)), (Ids{4, 4, 4}));
  EXPECT_EQ(IdsOf(Look({1, 2, 3}, 4)), (Ids{}));
  EXPECT_EQ(IdsOf(Look({1}, 4)), (Ids{}));
  // A text that is copied with a changed id goes on behind it; a short one doesn't.
  EXPECT_EQ(IdsOf(Look({1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 9}, 2)), (Ids{6, 7}));
  EXPECT_EQ(IdsOf(Look({1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 9, 6}, 1)), (Ids{7}));
  EXPECT_EQ(IdsOf(Look({2, 3, 4, 5, 6, 7, 0, 2, 3, 4, 9}, 2)), (Ids{}));
  EXPECT_EQ(Look({1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 9}, 3)[1].draft_class, 7u);
  EXPECT_EQ(Look({1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 9}, 3)[2].draft_class, 4u);
  // A class is a length, and grows with each guess.
  const std::vector<Draft> drafts = Look({1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3}, 4);
  EXPECT_EQ(drafts[0].draft_class, 2u);
  EXPECT_EQ(drafts[1].draft_class, 3u);
  EXPECT_EQ(drafts[2].draft_class, 4u);
  EXPECT_EQ(drafts[3].draft_class, 4u);
}

// Twice: of several rows one time alone counts for nothing.
void Took(DraftPolicy& policy, uint32_t rows, double nanoseconds) {
  policy.Took(rows, nanoseconds);
  policy.Took(rows, nanoseconds);
}

DraftPolicy Policy(double share) {
  std::array<double, kDraftClasses> prior;
  prior.fill(share);
  return DraftPolicy(prior);
}

TEST(DraftPolicy, TakesAsManyRowsAsPay) {
  const std::vector<uint32_t> seven(7, 0);
  EXPECT_EQ(Policy(0.9).Choose(seven, 0), 0u) << "nothing is known of a plain call";
  DraftPolicy memory = Policy(0.9);  // rows cost next to nothing
  Took(memory, 1, 100);
  Took(memory, 8, 110);
  EXPECT_EQ(memory.Choose(seven, 0), 7u);
  EXPECT_EQ(memory.Choose(std::span(seven).first(3), 0), 3u);
  EXPECT_EQ(memory.Choose({}, 0), 0u);
  DraftPolicy computing = Policy(0.9);  // a row costs as much as a call
  for (uint32_t rows = 1; rows <= 8; ++rows) Took(computing, rows, 100 * rows);
  EXPECT_EQ(computing.Choose(seven, 0), 0u);
  DraftPolicy step = Policy(0.9);  // 1, 1.1, 1.2 up to four rows, then 3
  for (uint32_t rows = 1; rows <= 4; ++rows) Took(step, rows, 90 + 10 * rows);
  Took(step, 5, 300);
  Took(step, 8, 300);
  EXPECT_EQ(step.Choose(seven, 0), 3u);
  // Guesses that take time themselves pay less.
  EXPECT_LT(memory.Choose(seven, 60), 7u);
  EXPECT_EQ(memory.Choose(seven, 300), 0u);
}

TEST(DraftPolicy, StopsWhereGuessesAreWrongAndComesBack) {
  const std::vector<uint32_t> classes = {2, 3, 4, 4, 4, 5, 5};
  DraftPolicy policy = Policy(0.7);
  Took(policy, 1, 100);
  Took(policy, 2, 130);
  EXPECT_GT(policy.Choose(classes, 0), 0u);
  for (int i = 0; i < 40; ++i) policy.Saw(2, false);
  EXPECT_EQ(policy.Choose(classes, 0), 0u);
  EXPECT_LT(policy.ShareOfRight(2), 0.1);
  for (int i = 0; i < 40; ++i) policy.Saw(2, true);
  EXPECT_GT(policy.Choose(classes, 0), 0u);
}

TEST(DraftPolicy, TimesAreTheLeastAndNotForEver) {
  DraftPolicy policy = Policy(0.5);
  policy.Took(1, 100);
  policy.Took(1, 1000);  // somebody else's work
  EXPECT_LT(policy.Cost(1), 200);
  policy.Took(1, 80);
  EXPECT_EQ(policy.Cost(1), 80);
  policy.Took(4, 900);
  EXPECT_DOUBLE_EQ(policy.Cost(4), 104) << "four rows were measured once";
  policy.Took(4, 140);
  EXPECT_DOUBLE_EQ(policy.Cost(2), 100);  // between them
  EXPECT_DOUBLE_EQ(policy.Cost(3), 120);
  EXPECT_DOUBLE_EQ(policy.Cost(6), 156);  // behind them
  for (int i = 0; i < 300; ++i) policy.Took(1, 80);
  EXPECT_DOUBLE_EQ(policy.Cost(4), 104) << "four rows weren't measured for long";
  for (int i = 0; i < 300; ++i) policy.Took(4, 140);
  EXPECT_EQ(policy.Cost(1), 0);
  EXPECT_EQ(policy.Choose(std::vector<uint32_t>{0, 0}, 0), 0u);
}

// Its last id, which makes NaN, never comes.
SamplerOptions HashSamplingOf(uint32_t seed) {
  SamplerOptions options = SamplingOf(seed);
  options.temperature *= 100;  // logits go up to 2,000
  options.rules.suppress = {kHashVocab - 1};
  return options;
}

// model.c's plan with a record of its state, so that rows can be taken back; `more` for what else it has.
class StatefulHashModel {
 public:
  explicit StatefulHashModel(const std::string& more = "", bool tokenizer = false) {
    std::string text = HashModelText();
    const auto put = [&](const std::string& from, const std::string& to) {
      text.replace(text.find(from), from.size(), to);
    };
    put("plan 1.0\n", "");
    put("target \"x86-64\"\n", "state kv 0 1 192 48 1 4 0\ntarget \"x86-64\"\n");
    put("stop_ids 5\n", "stop_ids 5\n" + more);
    if (tokenizer) text += "section tokenizer hex" + HexLines(HashTokenizer(false)) + "\nend\n";
    Assemble(text, path());
  }
  std::string path() const { return folder_ / "stateful.plan"; }

 private:
  TempFolder folder_;
};

TEST(RunSpeculate, PrintsTheSameWithEveryProposer) {
  const StatefulHashModel model;
  const std::vector<std::vector<std::string>> samplings = {
      {"--temp", "0"},
      {"--temp", "150", "--seed", "7"},
      {"--temp", "90", "--seed", "11", "--top-k", "9", "--repeat-penalty", "1.2"},
      {"--temp", "200", "--seed", "3", "--top-p", "0.9", "--no-repeat-ngram", "2", "--min-new-tokens", "5"}};
  for (const std::vector<std::string>& sampling : samplings) {
    std::vector<std::string> arguments = {model.path(), "--tokens",       "1,2,3,1,2,3,1,2", "-n",
                                          "36",         "--print-tokens", "--suppress",      "63"};
    arguments.insert(arguments.end(), sampling.begin(), sampling.end());
    const Outcome plain = Cli(arguments);
    ASSERT_EQ(plain.status, 0) << plain.err;
    EXPECT_EQ(plain.err.find("guessed"), std::string::npos);
    for (const std::string& proposer : {std::string("off"), std::string("ngram"), model.path()}) {
      std::vector<std::string> more = arguments;
      more.insert(more.end(), {"--speculate", proposer});
      const Outcome guessed = Cli(more);
      EXPECT_EQ(guessed.status, 0) << guessed.err;
      EXPECT_EQ(guessed.out, plain.out) << proposer;
      EXPECT_EQ(guessed.err.find("guessed tokens accepted") != std::string::npos, proposer != "off") << guessed.err;
    }
  }
}

TEST(RunSpeculate, CountsAreInTheJson) {
  const StatefulHashModel model;
  const auto run = [&](const std::string& proposer) {
    return Cli({model.path(), "--tokens", "1,2,3", "-n", "40", "--print-tokens", "--json", "--ignore-eos", "--suppress",
                "63", "--logprobs", "2", "--speculate", proposer})
        .out;
  };
  const std::string off = run("off"), drafted = run(model.path());
  EXPECT_EQ(off.find("proposed_tokens"), std::string::npos);
  for (const char* key : {"\"proposed_tokens\": ", "\"accepted_tokens\": ", "\"verify_calls\": "})
    EXPECT_NE(drafted.find(key), std::string::npos) << drafted;
  EXPECT_EQ(off.substr(0, off.find("\"load_ms\"")), drafted.substr(0, drafted.find("\"load_ms\"")));
}

// Id 63 has logits that aren't finite: they end the text where they would without guesses, which may lie behind it.
TEST(RunSpeculate, StopsAtTheSamePlaceForTheSameReason) {
  const StatefulHashModel model;
  int failed = 0;
  for (int seed = 0; seed < 20; ++seed) {
    const std::vector<std::string> base = {model.path(),        "--tokens", "1,2,3", "-n",           "40",
                                           "--print-tokens",    "--temp",   "300",   "--ignore-eos", "--seed",
                                           std::to_string(seed)};
    const Outcome plain = Cli(base);
    failed += plain.status;
    for (const std::string& proposer : {std::string("ngram"), model.path()}) {
      std::vector<std::string> more = base;
      more.insert(more.end(), {"--speculate", proposer});
      const Outcome guessed = Cli(more);
      EXPECT_EQ(guessed.status, plain.status);
      EXPECT_EQ(guessed.out, plain.out);
      if (plain.status != 0) {
        EXPECT_EQ(guessed.err, plain.err);
      }
    }
  }
  EXPECT_GT(failed, 0);
  EXPECT_LT(failed, 20);
}

TEST(RunSpeculate, RefusesByName) {
  const StatefulHashModel model, larger("", true);
  const HashModel old;
  const auto fails = [](const std::vector<std::string>& arguments, int status, const std::string& says) {
    const Outcome run = Cli(arguments);
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_NE(run.err.find(says), std::string::npos) << run.err;
    EXPECT_EQ(run.out, "");
  };
  const std::vector<std::string> base = {model.path(), "--tokens", "1,2", "-n", "3", "--print-tokens", "--speculate"};
  const auto with = [&](const std::string& value) {
    std::vector<std::string> all = base;
    all.push_back(value);
    return all;
  };
  fails(with("mtp"), 1, "--speculate mtp: the plan has no draft module of its own");
  fails(with(""), 2, "--speculate");
  fails(with("nothing.plan"), 1, "nothing.plan");
  fails(with(larger.path()), 1, "one of draft and plan has a tokenizer, the other has none");
  fails({old.path(), "--tokens", "1,2", "--print-tokens", "--speculate", "ngram"}, 1,
        "--speculate ngram: a plan of a format before 1.2 doesn't say what its states are");
  for (const char* mode : {"--selftest", "--bench"})
    fails({model.path(), mode, "--speculate", "ngram"}, 2, "--speculate is for generating");

  TempFolder folder;
  std::string text = HashModelText();
  text.replace(text.find("phase score 1 4"), 15, "phase score 1 1");
  Assemble(text, folder / "one.plan");
  fails({folder / "one.plan", "--tokens", "1,2", "--print-tokens", "--speculate", "ngram"}, 1,
        "no phase that gives the logits of several rows");
}

TEST(RunSpeculate, AnotherTokenizerIsRefused) {
  const StatefulHashModel model("", true);
  TempFolder folder;
  const Executable target = LoadPlan(model.path());
  Session session = MakeSession(target, 1);
  Executable draft = target;
  std::string changed(target.tokenizer);
  changed.back() = static_cast<char>(changed.back() + 1);
  draft.tokenizer = changed;
  EXPECT_EQ(ErrorOf([&] { MakeDraftModel(draft, target, session, "d.plan"); }),
            "d.plan: its tokenizer isn't the plan's, byte for byte");
  EXPECT_EQ(ErrorOf([&] { MakeDraftModel(target, target, session, "d.plan"); }), "");
  Executable bare = target, small = RingModel<kContext>();
  bare.tokenizer = {};
  EXPECT_EQ(ErrorOf([&] { MakeDraftModel(small, bare, session, "d.plan"); }),
            "d.plan: its vocabulary has 16 ids, the plan's has 64");
}

// A draft whose context is shorter guesses nothing behind its end.
TEST(RunSpeculate, AShorterDraftEndsEarlier) {
  const StatefulHashModel model;
  const Executable target = LoadPlan(model.path());
  Executable draft = target;
  Manifest m = *target.manifest;
  m.context = 12;
  draft.manifest = std::make_shared<Manifest>(m);
  const std::vector<int32_t> prompt = Tokens(5);
  const SpeculatedText want = Plain(target, prompt, 40, HashSamplingOf(3));
  Session session = MakeSession(target, 2);
  Speculator speculator(session, MakeDraftModel(draft, target, session, "d.plan"), 3);
  EXPECT_EQ(MakeText(session, speculator, prompt, 40, HashSamplingOf(3)), want);
  EXPECT_GT(speculator.counts().accepted, 0u);
  EXPECT_LE(speculator.counts().proposed, 10u);
}

// The model itself as its draft guesses all tokens right, with the sampler's own draws.
TEST(RunSpeculate, TheModelItselfGuessesRight) {
  const StatefulHashModel model;
  const Executable target = LoadPlan(model.path());
  const std::vector<int32_t> prompt = Tokens(5);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const SamplerOptions options = HashSamplingOf(seed);
    const SpeculatedText want = Plain(target, prompt, 40, options);
    Session session = MakeSession(target, 2);
    Speculator speculator(session, MakeDraftModel(target, target, session, "d.plan"), 3);
    EXPECT_EQ(MakeText(session, speculator, prompt, 40, options), want) << seed;
    EXPECT_EQ(speculator.counts().accepted, speculator.counts().proposed) << seed;
    EXPECT_EQ(speculator.counts().calls, 10u);
  }
}

}  // namespace
}  // namespace llmc
