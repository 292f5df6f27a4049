// Sequences that decode together: rows reach the positions and states of their own sequence, what can't move together is
// refused by name, and a call that is stopped leaves all as they were. Answers to many prompts come in their order.
#include "runtime/executor.h"
#include "tests/runtime/cli.h"
#include "tests/runtime/support.h"

namespace llmc {
namespace {

constexpr uint32_t kVocab = 8, kContext = 32;
std::atomic<bool> stop{false};

// Logits tell the sequence's tokens so far, which its cache holds.
template <bool kEveryRow>
uint32_t Remember(const LlmcContext* c, uint32_t thread, uint32_t) {
  if (stop) return 1;
  if (thread != 0) return 0;
  for (uint32_t r = 0; r < c->rows; ++r) {
    const uint32_t at = c->positions != nullptr ? static_cast<uint32_t>(c->positions[r]) : c->pos + r;
    auto* slots = reinterpret_cast<int32_t*>(c->states + (c->state_bases != nullptr ? c->state_bases[r] : 0));
    slots[at] = c->tokens[r];
    if (!kEveryRow && r + 1 < c->rows) continue;
    float* logits = c->logits + (kEveryRow ? r * kVocab : 0);
    float sum = 0;
    for (uint32_t p = 0; p <= at; ++p) sum = sum * 3 + static_cast<float>(slots[p]);
    for (uint32_t v = 0; v < kVocab; ++v) logits[v] = sum + static_cast<float>(v);
  }
  return 0;
}

Executable Model(bool by_row) {
  Manifest m = CodeManifest(kVocab, kContext, 4);
  m.state_bytes = 4 * kContext;
  m.phases = {{PhaseKind::Prefill, 2, 4, {{1, "last"}}},
              {PhaseKind::Decode, 1, 1, {{1, "last"}}},
              {PhaseKind::Score, 1, 3, {{1, "every"}}}};
  m.phases[2].contract.by_row = by_row;
  PlanState state;
  state.slots = kContext;
  state.unit = 1;
  state.unit_bytes = 4;
  state.block_bytes = 4 * kContext;
  m.states = {state};
  Executable executable;
  executable.manifest = std::make_shared<Manifest>(m);
  MakeSteps(
      executable, [](const std::string& name) { return name == "last" ? &Remember<false> : &Remember<true>; }, "here");
  return executable;
}

std::string Refused(const std::vector<Session*>& sessions, const std::vector<int32_t>& tokens) {
  return ErrorOf([&] { Session::DecodeTogether(sessions, tokens); });
}

TEST(Together, EachRowIsOfItsSequence) {
  const Executable model = Model(true);
  SessionOptions options;
  Session a(model, options), alone(model, options);
  options.workspace = a.workspace();
  Session b(model, options), c(model, options);
  a.Prefill(std::vector<int32_t>{1, 2, 3});
  b.Decode(5);
  c.Prefill(std::vector<int32_t>{7, 0, 1, 2, 3, 4});
  const std::vector<int32_t> tokens = {4, 6, 2};
  const std::span<const float> logits = Session::DecodeTogether(std::vector<Session*>{&b, &c, &a}, tokens);
  ASSERT_EQ(logits.size(), 3 * kVocab);
  const std::vector<std::vector<int32_t>> texts = {{5, 4}, {7, 0, 1, 2, 3, 4, 6}, {1, 2, 3, 2}};
  for (size_t i = 0; i < texts.size(); ++i) {
    alone.Reset();
    const std::span<const float> want = alone.Prefill(texts[i]);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), logits.begin() + static_cast<std::ptrdiff_t>(i * kVocab))) << i;
  }
  EXPECT_EQ(a.position(), 4u);
  EXPECT_EQ(b.position(), 2u);
  EXPECT_EQ(c.position(), 7u);
  // Alone again, behind what they wrote together.
  alone.Reset();
  alone.Prefill(std::vector<int32_t>{5, 4});
  EXPECT_EQ(b.Decode(3)[0], alone.Decode(3)[0]);
}

TEST(Together, RefusesWhatCannotMoveTogether) {
  const Executable model = Model(true);
  SessionOptions options;
  Session a(model, options), apart(model, options);
  options.workspace = a.workspace();
  Session b(model, options), c(model, options), d(model, options);
  EXPECT_EQ(Refused({&a, &b}, {1}), "1 tokens of 2 sequences");
  EXPECT_EQ(Refused({}, {}), "0 tokens of 0 sequences");
  EXPECT_EQ(Refused({&a, &b, &c, &d}, {1, 1, 1, 1}), "4 sequences, a call of the plan takes 3");
  EXPECT_EQ(Refused({&a, &b, &a}, {1, 1, 1}), "a sequence is there twice");
  EXPECT_EQ(Refused({&a, &apart}, {1, 1}), "sequences that decode together share a plan and a workspace");
  EXPECT_EQ(Refused({&a, &b}, {1, 8}), "token 0 is 8, not in 0..7");
  b.Prefill(std::vector<int32_t>(kContext, 1));
  EXPECT_NE(Refused({&a, &b}, {1, 1}).find("don't fit into the context"), std::string::npos);
  EXPECT_EQ(a.position(), 0u);
  const Executable old = Model(false);
  Session e(old, {});
  options.workspace = e.workspace();
  Session f(old, options);
  EXPECT_NE(Refused({&e, &f}, {1, 1}).find("compile the model again"), std::string::npos);
}

TEST(Together, AStopLeavesAllAsTheyWere) {
  const Executable model = Model(true);
  SessionOptions options;
  Session a(model, options);
  options.workspace = a.workspace();
  Session b(model, options);
  a.Decode(1);
  stop = true;
  EXPECT_NE(Refused({&a, &b}, {1, 1}).find("stopped on request with 2 sequences together"), std::string::npos);
  stop = false;
  EXPECT_EQ(a.position(), 1u);
  EXPECT_EQ(b.position(), 0u);
  EXPECT_EQ(Session::DecodeTogether(std::vector<Session*>{&a, &b}, std::vector<int32_t>{2, 3})[0], 1 * 3 + 2);
}

TEST(Prompts, ExcludeWhatIsAboutOne) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{{"-p", "a"},
                                                                                    {"-f", "a"},
                                                                                    {"--tokens", "1"},
                                                                                    {"--messages", "a.json"},
                                                                                    {"--chat"},
                                                                                    {"--best-of", "2"},
                                                                                    {"--speculate", "ngram"},
                                                                                    {"--bench"},
                                                                                    {"--logits", "a.npy"}}) {
    std::vector<std::string> arguments = {"x.plan", "--prompts", "a"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const test::Outcome run = test::Cli(arguments);
    EXPECT_EQ(run.status, 2) << more[0];
    EXPECT_NE(run.err.find("--prompts"), std::string::npos) << run.err;
  }
  EXPECT_EQ(test::Cli({"x.plan", "--prompts", "a", "--parallel", "0"}).status, 2);
  EXPECT_EQ(test::Cli({"x.plan", "-p", "a", "--parallel", "2"}).status, 2);
  EXPECT_EQ(test::Cli({"x.plan", "--prompts", "a", "--logprobs", "2"}).status, 2);  // without --json
}

}  // namespace
}  // namespace llmc
