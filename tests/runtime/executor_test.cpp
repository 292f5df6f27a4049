// Loading and running: the same bits whatever the threads, the chunks and the phase; limits before work; faults named.
#include "runtime/executor.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "tests/runtime/support.h"

namespace llmc {
namespace {

TEST(Session, PrefillDecodeAndScoreAgreeForAnyThreadsAndChunks) {
  const HashModel model;
  const Executable executable = LoadPlan(model.path());
  const std::vector<int32_t> tokens = Tokens(37);
  const std::vector<float> want = HashLogits(tokens);
  for (uint32_t threads : {1u, 2u, 3u, 4u, 7u}) {
    for (uint32_t chunk : {1u, 3u, 8u}) {
      Session session = MakeSession(executable, threads, chunk);
      EXPECT_TRUE(SameBits(session.Prefill(tokens), want)) << threads << " threads, chunk " << chunk;
      EXPECT_EQ(session.position(), 37u);
      session.Reset();
      size_t row = 0;
      session.Score(tokens, [&](std::span<const float> logits) {
        EXPECT_TRUE(SameBits(logits, HashLogits(std::span(tokens).first(++row))));
      });
      EXPECT_EQ(row, tokens.size());
    }
    // Decode after prefill at every split point.
    for (size_t split = 0; split < tokens.size(); ++split) {
      Session session = MakeSession(executable, threads);
      if (split > 0) session.Prefill(std::span(tokens).first(split));
      for (size_t i = split; i < tokens.size(); ++i)
        ASSERT_TRUE(SameBits(session.Decode(tokens[i]), HashLogits(std::span(tokens).first(i + 1)))) << split;
    }
  }
}

TEST(Session, RepeatsToTheBit) {
  const HashModel model;
  const Executable executable = LoadPlan(model.path());
  const std::vector<int32_t> tokens = Tokens(20);
  Session session = MakeSession(executable, 4);
  for (int run = 0; run < 50; ++run) {
    session.Reset();
    for (size_t i = 0; i < tokens.size(); ++i)
      ASSERT_TRUE(SameBits(session.Decode(tokens[i]), HashLogits(std::span(tokens).first(i + 1))));
  }
}

TEST(Session, ChecksBeforeItWorks) {
  const HashModel model;
  const Executable executable = LoadPlan(model.path());
  SessionOptions options;
  options.context = 32;
  Session session(executable, options);
  EXPECT_NE(ErrorOf([&] { session.Prefill(Tokens(33)); }).find("33 > 32"), std::string::npos);
  EXPECT_EQ(session.position(), 0u);
  session.Prefill(Tokens(32));
  EXPECT_NE(ErrorOf([&] { session.Decode(1); }).find("33 > 32"), std::string::npos);
  session.Reset();
  EXPECT_NE(ErrorOf([&] { session.Decode(64); }).find("token 0 is 64, not in 0..63"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { session.Decode(-1); }).find("token 0 is -1"), std::string::npos);
  EXPECT_EQ(ErrorOf([&] { session.Prefill({}); }), "no tokens");
  EXPECT_TRUE(SameBits(session.Decode(3), HashLogits(std::vector<int32_t>{3})));
  options.context = 49;
  EXPECT_NE(ErrorOf([&] { Session s(executable, options); }).find("49 positions is over the plan's 48"),
            std::string::npos);
  options = {};
  options.chunk = 9;
  EXPECT_NE(ErrorOf([&] { Session s(executable, options); }).find("9 rows are over the plan's 8"), std::string::npos);
  options = {};
  options.threads = 0;
  EXPECT_NE(ErrorOf([&] { Session s(executable, options); }).find("0 threads"), std::string::npos);
}

TEST(Session, TakesTheMemoryThatItSays) {
  const HashModel model;
  const Executable executable = LoadPlan(model.path());
  struct Taken {
    uint64_t bytes = 0;
  } taken;
  SessionOptions options;
  options.memory.user = &taken;
  options.memory.allocate = [](void* user, size_t bytes, size_t alignment) {
    static_cast<Taken*>(user)->bytes += bytes;
    void* memory = std::aligned_alloc(alignment, bytes);
    std::memset(memory, 0, bytes);
    return memory;
  };
  options.memory.release = [](void*, void* memory, size_t) { std::free(memory); };
  uint64_t last = 0;
  for (const uint32_t threads : {1u, 2u, 5u}) {
    taken.bytes = 0;
    options.threads = threads;
    Session session(executable, options);
    const SessionBytes bytes = SessionBytesOf(*executable.manifest, threads);
    uint64_t mapped = 0;
    for (const uint64_t part : {bytes.shared, bytes.scratch, bytes.states, bytes.logits, bytes.copy})
      mapped += Reservation::MappedBytes(part);
    EXPECT_EQ(taken.bytes, mapped) << threads;
    EXPECT_GE(taken.bytes, last);
    last = taken.bytes;
    // What a saved session holds is what its positions have written.
    session.Prefill(Tokens(20));
    const uint64_t written = WrittenStateBytes(*executable.manifest, 20);
    EXPECT_EQ(session.SaveState().size() - Session(executable, options).SaveState().size(),
              written - WrittenStateBytes(*executable.manifest, 0));
    EXPECT_LE(written, bytes.states);
  }
}

TEST(Session, StopsOnRequestAndGoesOn) {
  const HashModel model;
  const Executable executable = LoadPlan(model.path());
  for (uint32_t threads : {1u, 3u}) {
    Session session = MakeSession(executable, threads);
    session.Decode(3);
    session.RequestAbort();
    EXPECT_NE(ErrorOf([&] { session.Decode(4); }).find("stopped on request at position 1"), std::string::npos);
    EXPECT_TRUE(SameBits(session.Decode(5), HashLogits(std::vector<int32_t>{3, 5})));
  }
}

// Threads must agree on the barrier at which they leave, however far one is ahead: a disagreement hangs.
TEST(Session, StopsOnRequestAtAnyMoment) {
  const HashModel model;
  const Executable executable = LoadPlan(model.path());
  Session session = MakeSession(executable, 3);
  StopAtAnyMoment(session, 2000);
  EXPECT_TRUE(SameBits(session.Decode(5), HashLogits(std::vector<int32_t>{5})));
}

TEST(Session, RunsAnInterpreter) {
  Executable executable;
  const HashModel model;
  executable.manifest = std::make_shared<Manifest>(PlanFile(model.path()).manifest());
  std::vector<int32_t> seen;
  executable.interpret = [&](const ForwardCall& call) {
    seen.resize(call.pos);
    for (size_t r = 0; r < call.tokens.size(); ++r) {
      seen.push_back(call.tokens[r]);
      const bool wanted = call.phase->kind == PhaseKind::Score || r + 1 == call.tokens.size();
      if (wanted)
        std::ranges::copy(HashLogits(seen), call.logits + (call.phase->kind == PhaseKind::Score ? r * kHashVocab : 0));
    }
  };
  Session session = MakeSession(executable, 1);
  const std::vector<int32_t> tokens = Tokens(19);
  EXPECT_TRUE(SameBits(session.Prefill(tokens), HashLogits(tokens)));
  session.Reset();
  size_t row = 0;
  session.Score(tokens, [&](std::span<const float> logits) {
    EXPECT_TRUE(SameBits(logits, HashLogits(std::span(tokens).first(++row))));
  });
}

TEST(Session, StreamsWeights) {
  const HashModel model;
  const Executable executable = LoadPlan(model.path());
  Session session = MakeSession(executable, 2);
  EXPECT_GT(session.StreamWeights(), 0);
}

TEST(Loader, NamesWhatItCantRun) {
  const HashModel newer("target \"x86-64\"\n",
                        "target \"x86-64-v9\"\n  feature \"sse4_1\"\n  feature \"hyperdrive\"\n");
  const std::string missing = ErrorOf([&] { LoadPlan(newer.path()); });
  EXPECT_NE(missing.find("x86-64-v9 needs hyperdrive"), std::string::npos) << missing;
  const HashModel step("  step code \"decode\"\n", "  step code \"decode\"\n  step 9 \"later\"\n");
  const std::string unknown = ErrorOf([&] { LoadPlan(step.path()); });
  EXPECT_NE(unknown.find("phase decode, step 1 is of kind 9"), std::string::npos) << unknown;
  std::string text = HashModelText();
  text = text.substr(0, text.find("section code"));
  text.erase(text.find("target"), text.find("stop_ids") - text.find("target"));
  text.replace(text.find("\"llvm\""), 6, "\"reference\"");
  const TempFolder folder;
  Assemble(text, folder / "a.plan");
  EXPECT_NE(ErrorOf([&] { LoadPlan(folder / "a.plan"); }).find("backend reference has no code"), std::string::npos);
}

TEST(Loader, TakesTheTargetWithTheMostFeaturesThatTheCpuHas) {
  // The second target's decode is another function: the run shows which was taken.
  std::string text = HashModelText();
  const std::string target =
      "target \"better\"\n  feature \"sse4_1\"\n  entry \"decode\" 0\n  entry \"prefill\" 0\n  entry \"score\" 0\n";
  text.insert(text.find("stop_ids"), target);
  text += "section code hex\n  b8 07 00 00 00 c3  # mov eax, 7; ret: as an abort\nend\n";
  const TempFolder folder;
  Assemble(text, folder / "a.plan");
  const Executable executable = LoadPlan(folder / "a.plan");
  Session session = MakeSession(executable, 2);
  EXPECT_NE(ErrorOf([&] { session.Decode(1); }).find("stopped"), std::string::npos);
}

TEST(Loader, SealsCode) {
  const HashModel model;
  const Executable executable = LoadPlan(model.path());
  const auto code = reinterpret_cast<uintptr_t>(executable.steps[0][0].code);
  std::ifstream maps("/proc/self/maps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char mode[8];
    if (std::sscanf(line.c_str(), "%lx-%lx %7s", &begin, &end, mode) != 3) continue;
    EXPECT_FALSE(std::strchr(mode, 'w') != nullptr && std::strchr(mode, 'x') != nullptr) << line;
    if (code < begin || code >= end) continue;
    found = true;
    EXPECT_STREQ(mode, "r-xp");
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(executable.weights) % kHugePage, 0u);
}

TEST(Loader, NoticesAChangedFile) {
  const HashModel model;
  const Executable executable = LoadPlan(model.path());
  executable.check_unchanged();
  std::filesystem::last_write_time(model.path(), std::filesystem::file_time_type::clock::now());
  executable.check_unchanged();  // I09: a new time alone is no change
  const auto put = [&](char byte) {
    std::fstream file(model.path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096 - 1);  // of the header's page
    file << byte;
    file.close();
    std::filesystem::last_write_time(model.path(),
                                     std::filesystem::file_time_type::clock::now() + std::chrono::seconds(byte + 1));
  };
  put('x');
  EXPECT_NE(ErrorOf([&] { executable.check_unchanged(); }).find("changed while it was in use"), std::string::npos);
  put('\0');
  executable.check_unchanged();
  std::ofstream(model.path(), std::ios::binary | std::ios::app) << "x";
  EXPECT_NE(ErrorOf([&] { executable.check_unchanged(); }).find("changed while it was in use"), std::string::npos);
}

TEST(LoaderDeathTest, ACutFileEndsWithAMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const HashModel model;
        const Executable executable = LoadPlan(model.path(), {.populate = false});
        if (truncate(model.path().c_str(), 0) != 0) _exit(9);
        Session session(executable, {});
        session.Decode(1);
      },
      testing::ExitedWithCode(1), "the model file changed while it was in use");
}

// A replaced file (rename) keeps what was opened.
TEST(Loader, AReplacedFileGoesOn) {
  const HashModel model, other;
  const Executable executable = LoadPlan(model.path());
  std::filesystem::rename(other.path(), model.path());
  Session session(executable, {});
  EXPECT_TRUE(SameBits(session.Decode(9), HashLogits(std::vector<int32_t>{9})));
  executable.check_unchanged();
}

TEST(Governor, StepsDownWhenDisturbedAndBackUpWhenItPays) {
  ThreadGovernor governor(2, 2);
  const auto run = [&](int calls, bool busy) {
    int with_two = 0;
    for (int i = 0; i < calls; ++i) {
      const bool two = governor.threads() == 2;
      with_two += two;
      // Alone a token takes 5 with two threads and 9 with one; while a core is busy it takes 20 with two.
      governor.Report(two ? (busy ? 20 : 5) : 9, two && busy ? 2 : 0);
    }
    return with_two;
  };
  EXPECT_EQ(run(100, false), 100);
  const int busy = run(1000, true);
  EXPECT_LE(busy, 60);  // of 1000; each costs twice the time
  EXPECT_EQ(governor.threads(), 1u);
  EXPECT_GE(run(2000, false), 900);  // it finds back
  EXPECT_EQ(governor.threads(), 2u);
}

TEST(Governor, KeepsTheThreadsWhenFewerAreSlower) {
  ThreadGovernor governor(4, 4);
  int with_four = 0;
  for (int i = 0; i < 1000; ++i) {
    with_four += governor.threads() == 4;
    governor.Report(governor.threads() == 4 ? 10 : 12, 1);  // long waits, but still the fastest
  }
  EXPECT_GE(with_four, 900);
}

TEST(Governor, LeavesMoreThreadsThanCores) {
  ThreadGovernor governor(7, 2);
  for (int i = 0; i < 100; ++i) governor.Report(governor.threads() > 2 ? 50 : 10, governor.threads() > 2 ? 5 : 0);
  EXPECT_EQ(governor.threads(), 2u);
}

TEST(ThreadPool, RunsEachThreadOnceWithDefaultRounding) {
  ThreadPool pool(5);
  for (uint32_t threads = 1; threads <= 5; ++threads) {
    for (int run = 0; run < 200; ++run) {
      std::array<std::atomic<int>, 5> counts{};
      pool.Run(
          threads,
          [](void* data, uint32_t thread) { (*static_cast<std::array<std::atomic<int>, 5>*>(data))[thread]++; },
          &counts);
      for (uint32_t t = 0; t < 5; ++t) ASSERT_EQ(counts[t], t < threads ? 1 : 0);
    }
  }
  EXPECT_GE(UsableCores(), 1u);
}

}  // namespace
}  // namespace llmc
