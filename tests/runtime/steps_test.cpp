// Step lists: library steps and barriers give the same bits whatever the threads and the chunks; aborts, failures and
// libraries that can't be used are named.
#include <chrono>
#include <thread>

#include <stdlib.h>

#include "runtime/plan_steps.h"
#include "runtime/step_library.h"
#include "tests/runtime/fake_library.h"
#include "tests/runtime/support.h"

namespace llmc {
namespace {

constexpr uint32_t kContext = 48, kChunk = 8;

PlanStep Kernel(const std::string& name, std::vector<uint64_t> words, bool one_row = false) {
  return {static_cast<uint32_t>(PlanStepKind::Kernel), EncodeStep(KernelStep{name, one_row, {}, std::move(words)})};
}
PlanStep Barrier() { return {static_cast<uint32_t>(PlanStepKind::Barrier), ""}; }

std::vector<PlanStep> Steps(bool one_row) {
  return {Kernel("sums", {}), Barrier(), Kernel("spread", {16}), Barrier(), Kernel("logits", {16}, one_row)};
}

Manifest FakeManifest() {
  Manifest m = CodeManifest(kFakeVocab, kContext, kChunk);
  m.backend = "onednn";
  m.build_id = "test";
  m.kernels = "fake kernels";
  m.shared_bytes = (16 + kChunk * kFakeVocab) * sizeof(uint32_t);
  m.state_bytes = kContext * sizeof(uint32_t);
  m.phases = {{PhaseKind::Prefill, 2, kChunk, Steps(true)},
              {PhaseKind::Decode, 1, 1, Steps(true)},
              {PhaseKind::Score, 1, 4, Steps(false)}};
  return m;
}

class FakeModel {
 public:
  explicit FakeModel(const Manifest& manifest = FakeManifest()) {
    PlanWriter::Options options;
    options.path = path();
    options.sha256 = MakeFakeSha256;
    PlanWriter(options).Finish(manifest);
  }
  std::string path() const { return folder_ / "fake.plan"; }

 private:
  TempFolder folder_;
};

// Sets LLMC_ONEDNN_LIBRARY while it lives.
class LibraryAt {
 public:
  explicit LibraryAt(const std::string& path) { setenv("LLMC_ONEDNN_LIBRARY", path.c_str(), 1); }
  ~LibraryAt() { unsetenv("LLMC_ONEDNN_LIBRARY"); }
};

std::vector<float> FakeLogits(std::span<const int32_t> tokens) {
  uint32_t sum = 0;
  for (size_t p = 0; p < tokens.size(); ++p)
    sum += (static_cast<uint32_t>(tokens[p]) + 1) * static_cast<uint32_t>(2 * p + 1);
  std::vector<float> logits;
  for (uint32_t v = 0; v < kFakeVocab; ++v)
    logits.push_back(static_cast<float>((FakeMix(sum, v) ^ FakeMix(sum, (7 * v + 1) % kFakeVocab)) & 0xffff));
  return logits;
}

TEST(StepLists, PrefillDecodeAndScoreAgreeForAnyThreadsAndChunks) {
  const LibraryAt library(LLMC_FAKE_STEPS);
  const FakeModel model;
  const Executable executable = LoadPlan(model.path());
  ASSERT_NE(executable.program, nullptr);
  EXPECT_EQ(executable.program->version(), "fake 1.0");
  EXPECT_EQ(executable.program->primitives(), 9u);
  EXPECT_EQ(executable.program->path(), LLMC_FAKE_STEPS);
  EXPECT_EQ(executable.program->scratchpad_bytes(), 256u);
  const std::vector<int32_t> tokens = Tokens(37);
  const std::vector<float> want = FakeLogits(tokens);
  for (uint32_t threads : {1u, 2u, 3u, 4u}) {
    for (uint32_t chunk : {1u, 3u, 8u}) {
      Session session = MakeSession(executable, threads, chunk);
      EXPECT_TRUE(SameBits(session.Prefill(tokens), want)) << threads << " threads, chunk " << chunk;
      session.Reset();
      size_t row = 0;
      session.Score(tokens, [&](std::span<const float> logits) {
        EXPECT_TRUE(SameBits(logits, FakeLogits(std::span(tokens).first(++row))));
      });
      EXPECT_EQ(row, tokens.size());
      session.Reset();
      for (size_t i = 0; i < tokens.size(); ++i)
        ASSERT_TRUE(SameBits(session.Decode(tokens[i]), FakeLogits(std::span(tokens).first(i + 1)))) << i;
    }
  }
}

// Two sessions of one plan share its primitives and nothing else.
TEST(StepLists, SessionsRunSideBySide) {
  const LibraryAt library(LLMC_FAKE_STEPS);
  const FakeModel model;
  const Executable executable = LoadPlan(model.path());
  const auto work = [&](size_t seed) {
    Session session = MakeSession(executable, 2);
    const std::vector<int32_t> all = Tokens(20 + seed), tokens(all.begin() + static_cast<long>(seed), all.end());
    for (int run = 0; run < 50; ++run) {
      session.Reset();
      ASSERT_TRUE(SameBits(session.Prefill(tokens), FakeLogits(tokens)));
    }
  };
  std::thread other([&] { work(3); });
  work(5);
  other.join();
}

TEST(StepLists, CodeAndLibraryStepsMix) {
  const LibraryAt library(LLMC_FAKE_STEPS);
  const TempFolder folder;
  std::string text = HashModelText();
  text.replace(text.find("plan 1.0"), 8, "plan 1.1");
  const std::string decode = "  step code \"decode\"\n";
  text.insert(text.find(decode), decode + "  step barrier\n");
  Assemble(text, folder / "a.plan");
  const Executable executable = LoadPlan(folder / "a.plan");
  EXPECT_EQ(executable.program, nullptr);
  Session session = MakeSession(executable, 3);
  EXPECT_TRUE(SameBits(session.Decode(9), HashLogits(std::vector<int32_t>{9})));

  // The same list with the code's phase in front of the library's.
  Executable mixed;
  Manifest manifest = FakeManifest();
  manifest.phases[1].steps.insert(manifest.phases[1].steps.begin(), {{1, "nothing"}, Barrier()});
  mixed.manifest = std::make_shared<Manifest>(manifest);
  static std::atomic<int> calls;
  calls = 0;
  MakeSteps(
      mixed,
      [](const std::string& name) -> LlmcPhaseFn {
        EXPECT_EQ(name, "nothing");
        return [](const LlmcContext*, uint32_t, uint32_t) -> uint32_t { return calls++ < 0; };
      },
      "here");
  Session both = MakeSession(mixed, 2);
  EXPECT_TRUE(SameBits(both.Decode(9), FakeLogits(std::vector<int32_t>{9})));
  EXPECT_EQ(calls, 2);
}

TEST(StepLists, AbortsAtABarrierAndGoesOn) {
  const LibraryAt library(LLMC_FAKE_STEPS);
  const FakeModel model;
  Session session = MakeSession(LoadPlan(model.path()), 4);
  session.Prefill(Tokens(5));
  session.RequestAbort();
  EXPECT_NE(ErrorOf([&] { session.Decode(1); }).find("stopped on request at position 5"), std::string::npos);
  EXPECT_EQ(session.position(), 5u);
  std::vector<int32_t> tokens = Tokens(5);
  tokens.push_back(1);
  EXPECT_TRUE(SameBits(session.Decode(1), FakeLogits(tokens)));

  StopAtAnyMoment(session, 1000);
  EXPECT_TRUE(SameBits(session.Decode(5), FakeLogits(std::vector<int32_t>{5})));
}

// Four sessions of two threads over one plan, each in a thread of its own that cancels the others now and then. Its steps
// and barriers are built with the test, so a thread sanitizer sees all of it.
TEST(StepLists, SessionsInThreadsCancelEachOther) {
  const LibraryAt library(LLMC_FAKE_STEPS);
  const FakeModel model;
  const Executable executable = LoadPlan(model.path());
  constexpr size_t kSessions = 4;
  std::vector<std::unique_ptr<Session>> sessions;
  for (size_t i = 0; i < kSessions; ++i)
    sessions.push_back(std::make_unique<Session>(executable, SessionOptions{.threads = 2}));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kSessions; ++t) {
    threads.emplace_back([&, t] {
      Session& session = *sessions[t];
      for (size_t round = 0; round < 60; ++round) {
        sessions[(t + round) % kSessions]->RequestAbort();
        session.Reset();
        const std::vector<int32_t> tokens = Tokens(5);
        const std::string stopped =
            ErrorOf([&] { EXPECT_TRUE(SameBits(session.Prefill(tokens), FakeLogits(tokens))); });
        EXPECT_TRUE(stopped.empty() || stopped.starts_with("stopped on request")) << stopped;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(StepLists, AreForOneVersionOfTheKernels) {
  const LibraryAt library(LLMC_FAKE_STEPS);
  for (const char* kernels : {"other kernels", ""}) {
    Manifest manifest = FakeManifest();
    manifest.kernels = kernels;
    const FakeModel model(manifest);
    const std::string error = ErrorOf([&] { LoadPlan(model.path()); });
    EXPECT_NE(error.find("fake.plan: phase prefill, step 0 (kernel) is made for kernels of "), std::string::npos)
        << error;
    EXPECT_NE(error.find(*kernels == 0 ? "a plan format before 1.2" : "version other kernels"), std::string::npos)
        << error;
    EXPECT_NE(error.find("has version fake kernels: compile the model again"), std::string::npos) << error;
  }
}

TEST(StepLists, AFailureOfOneThreadStopsTheCallAndNobodyHangs) {
  const LibraryAt library(LLMC_FAKE_STEPS);
  for (uint64_t thread : {0u, 1u, 2u}) {
    Manifest manifest = FakeManifest();
    std::vector<PlanStep>& steps = manifest.phases[1].steps;
    steps.insert(steps.begin() + 1, Kernel("fail", {1, thread}));
    const FakeModel model(manifest);
    Session session = MakeSession(LoadPlan(model.path()), 3);
    session.Decode(4);
    const std::string error = ErrorOf([&] { session.Decode(5); });
    EXPECT_NE(error.find("phase decode, step 1: fake 1.0 failed at position 1"), std::string::npos) << error;
    EXPECT_EQ(session.position(), 1u);
    session.Reset();
    EXPECT_TRUE(SameBits(session.Decode(5), FakeLogits(std::vector<int32_t>{5})));
  }
}

TEST(StepLists, WhatTheLibraryRefusesIsNamed) {
  const LibraryAt library(LLMC_FAKE_STEPS);
  Manifest manifest = FakeManifest();
  manifest.phases[2].steps.push_back(Kernel("conv3d", {}));
  const FakeModel model(manifest);
  const std::string error = ErrorOf([&] { LoadPlan(model.path()); });
  EXPECT_NE(error.find(model.path() + ": " + LLMC_FAKE_STEPS + ": no kernel conv3d"), std::string::npos) << error;
}

TEST(StepLibrary, IsOpenedOnlyWhenAPlanNeedsIt) {
  const LibraryAt library("/nonexistent/lib.so");
  const HashModel code;
  EXPECT_EQ(LoadPlan(code.path()).program, nullptr);
  const FakeModel model;
  const std::string error = ErrorOf([&] { LoadPlan(model.path()); });
  EXPECT_NE(error.find("fake.plan: phase prefill, step 0 (kernel) needs libllmc_onednn.so, which isn't there (looked "
                       "for: /nonexistent/lib.so)"),
            std::string::npos)
      << error;
}

TEST(StepLibrary, IsLookedForBesideTheProgram) {
  const std::vector<std::string> places = StepLibrary::Places();
  ASSERT_EQ(places.size(), 3u);
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_EQ(places[0], folder + "/libllmc_onednn.so");
  EXPECT_EQ(places[1], folder + "/../lib/libllmc_onednn.so");
  EXPECT_EQ(places[2], "libllmc_onednn.so");
  const LibraryAt library("a.so");
  EXPECT_EQ(StepLibrary::Places(), std::vector<std::string>{"./a.so"});
}

TEST(StepLibrary, TheFirstPlaceThatExistsIsTaken) {
  const TempFolder folder;
  std::filesystem::create_symlink(LLMC_FAKE_STEPS, folder / "second.so");
  std::filesystem::create_symlink(LLMC_FAKE_NEWER, folder / "third.so");
  const auto library =
      StepLibrary::Open("a.plan", "a step", {folder / "first.so", folder / "second.so", folder / "third.so"});
  EXPECT_EQ(library->path(), folder / "second.so");
  EXPECT_STREQ(library->table().version, "fake 1.0");
}

TEST(StepLibrary, WhatCantBeUsedIsNamed) {
  const TempFolder folder;
  WriteFile(folder / "text.so", "not a library");
  const struct {
    std::vector<std::string> places;
    std::vector<std::string> messages;
  } cases[] = {
      {{"/none/a.so", "libllmc_none_such.so"},
       {"a.plan: a step needs libllmc_onednn.so, which isn't there",
        "(looked for: /none/a.so, the system's folders of libraries)", "oneDNN is installed",
        "belongs beside the program", "LLMC_ONEDNN_LIBRARY"}},
      {{folder / "text.so"}, {"which can't be opened: ", "text.so"}},
      {{LLMC_FAKE_NEWER}, {"of version 2, and ", "fake_newer.so has 77"}},
      {{LLMC_FAKE_CONTEXT}, {"of ABI 131073, and ", "fake_context.so has 78"}},
      {{LLMC_FAKE_CPU}, {"which this CPU (", "needs hyperdrive warp"}},
      {{LLMC_FAKE_NONE}, {"isn't one: it has no llmc_onednn_library"}},
      {{LLMC_FAKE_DNNL}, {"can't be opened without oneDNN (libdnnl.so.99: ", "Debian: libdnnl2"}},
  };
  for (const auto& c : cases) {
    const std::string error = ErrorOf([&] { StepLibrary::Open("a.plan", "a step", c.places); });
    for (const std::string& message : c.messages) EXPECT_NE(error.find(message), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace llmc
