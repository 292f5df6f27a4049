// Guards what Reset and a stop mean for each kind of state (ir/states.def), and that plans from before them run.
#include "runtime/barrier.h"
#include "runtime/run.h"
#include "tests/runtime/support.h"

namespace llmc {
namespace {

// A model that adds up its tokens in its state; the logit is the sum. With `stop` that session is asked for a stop when
// the state has been moved, and the call leaves if it can be stopped.
std::atomic<Session*> stop{nullptr};
uint32_t AddUp(const LlmcContext* c, uint32_t thread, uint32_t threads) {
  if (thread == 0) {
    auto* sum = reinterpret_cast<int32_t*>(c->states);
    for (uint32_t r = 0; r < c->rows; ++r) *sum += c->tokens[r];
    c->logits[0] = static_cast<float>(*sum);
    if (stop.load() != nullptr) stop.load()->RequestAbort();
  }
  return MeetAtBarrier(c, thread, threads);
}

Executable Adder(StateKind kind) {
  Manifest m = CodeManifest(16, 64, 32);
  m.state_bytes = 64;
  m.phases = {{PhaseKind::Prefill, 2, 32, {{1, "sum"}}}, {PhaseKind::Decode, 1, 1, {{1, "sum"}}}};
  PlanState state;
  state.kind = kind;
  state.block_bytes = 64;
  m.states = {state};
  Executable executable;
  executable.manifest = std::make_shared<Manifest>(m);
  MakeSteps(executable, [](const std::string&) { return &AddUp; }, "here");
  return executable;
}

TEST(States, ResetClearsWhatHoldsThePast) {
  Session session = MakeSession(Adder(StateKind::Recurrent), 2);
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5};
  EXPECT_EQ(session.Prefill(tokens)[0], 15);
  EXPECT_EQ(session.Decode(7)[0], 22);
  session.Reset();
  EXPECT_EQ(session.Prefill(tokens)[0], 15);
  // A cache keeps its bytes: nothing of them is read before it is written. This code does read them.
  Session cache = MakeSession(Adder(StateKind::Kv), 2);
  EXPECT_EQ(cache.Decode(7)[0], 7);
  cache.Reset();
  EXPECT_EQ(cache.Decode(1)[0], 8);
}

// Asks for a stop while the call runs.
void StopWithin(Session& session, const std::function<void()>& call) {
  stop = &session;
  call();
  stop = nullptr;
}

TEST(States, AStopLeavesThemAsBeforeTheCall) {
  for (const StateKind kind : {StateKind::Recurrent, StateKind::History}) {
    Session session = MakeSession(Adder(kind), 2);
    const std::vector<int32_t> many(20, 1);
    EXPECT_EQ(session.Prefill(many)[0], 20);
    // A copy brings back what a call of many rows has moved.
    StopWithin(session,
               [&] { EXPECT_EQ(ErrorOf([&] { session.Prefill(many); }), "stopped on request at position 20"); });
    EXPECT_EQ(session.position(), 20u);
    EXPECT_EQ(session.Decode(3)[0], 23);
    // One of few rows goes to its end, and the next one stops before it begins.
    StopWithin(session, [&] { EXPECT_EQ(session.Decode(4)[0], 27); });
    EXPECT_EQ(ErrorOf([&] { session.Decode(5); }), "stopped on request at position 22");
    EXPECT_EQ(session.Decode(5)[0], 32);
    EXPECT_EQ(session.position(), 23u);
    EXPECT_FALSE(session.Rewind(22));  // no prefix can be had
    EXPECT_EQ(session.Decode(1)[0], 33);
  }
  Session cache = MakeSession(Adder(StateKind::Kv), 2);
  cache.Decode(3);
  StopWithin(cache, [&] { EXPECT_EQ(ErrorOf([&] { cache.Decode(4); }), "stopped on request at position 1"); });
  EXPECT_EQ(cache.position(), 1u);
  cache.Decode(4);
}

TEST(States, APhaseThatTakesMoreThanThisProgramGivesIsRefused) {
  Executable executable = Adder(StateKind::Kv);
  Manifest m = *executable.manifest;
  m.phases[1].contract.output = EntryOutput::Hidden;
  executable.manifest = std::make_shared<Manifest>(m);
  EXPECT_NE(ErrorOf([&] {
              MakeSteps(executable, [](const std::string&) { return &AddUp; }, "here");
            }).find("here: phase decode takes tokens, pos, total and gives hidden"),
            std::string::npos);
}

// Plans of the first formats (tests/data/plans/README.md): code runs with the bits of its self-test, for ever.
const std::string kPlans = LLMC_SOURCE_DIR "/tests/data/plans/";

std::string Output(const std::vector<std::string>& arguments, int status) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunMain(arguments, [](const RunOptions& options) { return LoadPlan(options.plan); }), status);
  const std::string err = testing::internal::GetCapturedStderr();
  return testing::internal::GetCapturedStdout() + err;
}

TEST(OldPlans, OfCodeRun) {
  if (!MissingCpuFeatures(PlanFile(kPlans + "window.plan").manifest().targets[0].features).empty())
    GTEST_SKIP() << "code for x86-64-v3";
  for (const char* name : {"tiny-q4_0.plan", "window.plan"}) {
    EXPECT_EQ(PlanMinorOf(PlanFile(kPlans + name).manifest()), 0);
    for (const char* threads : {"1", "2", "3"}) Output({kPlans + name, "--selftest", "-t", threads}, 0);
  }
  // The model has learnt to add: 7+12= is 19.
  const std::string ids =
      Output({kPlans + "tiny-q4_0.plan", "--tokens", "23,11,17,18,29", "-n", "3", "--temp", "0", "--print-tokens"}, 0);
  EXPECT_EQ(ids.substr(0, 6), "17,25\n") << ids;
}

TEST(OldPlans, WithStepsOfOtherKernelsAreRefusedBeforeAnyRuns) {
  const std::string plan = kPlans + "onednn.plan";
  ASSERT_EQ(setenv("LLMC_ONEDNN_LIBRARY", LLMC_FAKE_STEPS, 1), 0);
  const std::string says = Output({plan, "--tokens", "1,2", "-n", "1"}, 1);
  unsetenv("LLMC_ONEDNN_LIBRARY");
  EXPECT_NE(says.find("is made for kernels of a plan format before 1.2"), std::string::npos) << says;
  EXPECT_NE(says.find("compile the model again"), std::string::npos) << says;
}

}  // namespace
}  // namespace llmc
