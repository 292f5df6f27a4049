// The C interface: what it gives is what the layers below give, errors are statuses with a message, saved sessions are
// bound to their plan, and threads may share a model and cancel each other.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "runtime/llmc.h"
#include "runtime/llmc.hpp"
#include "runtime/sampler.h"
#include "tests/runtime/support.h"

namespace llmc {
namespace {

// The model of tests/runtime/model.c, its state listed: positions, 4 bytes each.
class StatedModel : public HashModel {
 public:
  StatedModel() : HashModel("plan 1.0", "plan 1.2\nstate kv 0 1 192 48 1 4 0") {}
};

std::span<const float> Row(const float* logits) { return {logits, static_cast<size_t>(kHashVocab)}; }

TEST(Api, GivesTheLogitsOfSessions) {
  const StatedModel model;
  const llmc_api::Model opened(model.path());
  const llmc_model_info info = opened.info();
  EXPECT_EQ(info.vocab, 64u);
  EXPECT_EQ(info.context, kHashContext);
  EXPECT_EQ(info.has_tokenizer, 0);
  EXPECT_STREQ(info.chat_template, "");
  const std::vector<int32_t> tokens = Tokens(20);
  for (uint32_t threads : {1u, 3u}) {
    llmc_api::Session session(opened, threads);
    EXPECT_EQ(llmc_logits(session.get()), nullptr);
    EXPECT_TRUE(SameBits(Row(session.Prefill(tokens)), HashLogits(tokens)));
    std::vector<int32_t> more = tokens;
    more.push_back(5);
    EXPECT_TRUE(SameBits(Row(session.Decode(5)), HashLogits(more)));
    EXPECT_EQ(session.position(), 21u);
    session.Reset();
    size_t rows = 0;
    struct Seen {
      const std::vector<int32_t>& tokens;
      size_t& rows;
    } seen{tokens, rows};
    EXPECT_EQ(llmc_score(
                  session.get(), tokens.data(), tokens.size(),
                  [](void* user, size_t index, const float* logits) {
                    auto& s = *static_cast<Seen*>(user);
                    EXPECT_EQ(index, s.rows++);
                    EXPECT_TRUE(SameBits(Row(logits), HashLogits(std::span(s.tokens).first(s.rows))));
                    return 0;
                  },
                  &seen),
              LLMC_OK);
    EXPECT_EQ(rows, tokens.size());
  }
}

// The score phase's code as one that gives hidden rows: a row for each token, in calls of up to 4.
TEST(Api, GivesHiddenRows) {
  const HashModel model("plan 1.0",
                        "plan 1.5\nphase hidden 1 4\n  contract chunkable hidden tokens pos total\n  width 64 0 0\n"
                        "  step code \"score\"\nstate kv 0 1 192 48 1 4 0");
  const llmc_api::Model opened(model.path());
  llmc_api::Session session(opened, 2);
  const std::vector<int32_t> tokens = Tokens(11), types(11, 0), wrong(11, 1);
  struct Seen {
    const std::vector<int32_t>& tokens;
    size_t rows = 0;
  } seen{tokens};
  const auto row = [](void* user, size_t index, const float* hidden, size_t width) {
    auto& s = *static_cast<Seen*>(user);
    EXPECT_EQ(index, s.rows++);
    EXPECT_EQ(width, 64u);
    EXPECT_TRUE(SameBits({hidden, width}, HashLogits(std::span(s.tokens).first(s.rows))));
    return s.rows == 20 ? 1 : 0;
  };
  EXPECT_EQ(llmc_hidden(session.get(), tokens.data(), types.data(), tokens.size(), row, &seen), LLMC_OK);
  EXPECT_EQ(seen.rows, 11u);
  EXPECT_EQ(session.position(), 11u);
  EXPECT_EQ(llmc_logits(session.get()), nullptr);
  EXPECT_EQ(llmc_hidden(session.get(), tokens.data(), wrong.data(), tokens.size(), row, &seen), LLMC_ERROR_INPUT);
  EXPECT_STREQ(llmc_last_error(), "the model has no token types");
  EXPECT_EQ(llmc_hidden(session.get(), tokens.data(), nullptr, tokens.size(), nullptr, &seen), LLMC_ERROR_USAGE);
  size_t count = 0;
  EXPECT_EQ(llmc_embed(session.get(), "x", 1, "max", nullptr, nullptr, 0, &count), LLMC_ERROR_USAGE);
  EXPECT_EQ(llmc_embed(session.get(), "x", 1, "mean", nullptr, nullptr, 0, &count), LLMC_ERROR_INPUT);
  EXPECT_STREQ(llmc_last_error(), "the plan has no tokenizer");

  const StatedModel without;
  const llmc_api::Model other(without.path());
  llmc_api::Session logits_alone(other);
  EXPECT_EQ(llmc_hidden(logits_alone.get(), tokens.data(), nullptr, tokens.size(), row, &seen), LLMC_ERROR_INPUT);
}

TEST(Api, OpensDescriptorsAndMemory) {
  const StatedModel model;
  const std::string bytes = ReadFile(model.path());
  const int fd = open(model.path().c_str(), O_RDONLY);
  llmc_model* by_fd = nullptr;
  ASSERT_EQ(llmc_model_open_fd(fd, &by_fd), LLMC_OK) << llmc_last_error();
  close(fd);
  std::vector<uint8_t> room(bytes.size() + 128);
  for (size_t shift : {size_t{0}, size_t{4}}) {  // at a multiple of 64, and not
    uint8_t* at = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) + shift;
    std::copy(bytes.begin(), bytes.end(), at);
    const llmc_api::Model in_memory(at, bytes.size());
    llmc_api::Session session(in_memory);
    EXPECT_TRUE(SameBits(Row(session.Prefill(Tokens(9))), HashLogits(Tokens(9))));
  }
  llmc_session* session = nullptr;
  ASSERT_EQ(llmc_session_create(by_fd, nullptr, &session), LLMC_OK);
  llmc_model_close(by_fd);  // the session keeps what it needs
  EXPECT_EQ(llmc_decode(session, 3), LLMC_OK);
  EXPECT_TRUE(SameBits(Row(llmc_logits(session)), HashLogits(std::vector<int32_t>{3})));
  llmc_session_destroy(session);
  llmc_model* none = nullptr;
  EXPECT_EQ(llmc_model_open_memory(bytes.data(), bytes.size() - 1, &none), LLMC_ERROR_INPUT);
  EXPECT_NE(std::string(llmc_last_error()).find("plan in memory: the plan is cut or longer"), std::string::npos);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(llmc_model_open_fd(-1, &none), LLMC_ERROR_INPUT);
  EXPECT_EQ(llmc_model_open("/none.plan", &none), LLMC_ERROR_INPUT);
  EXPECT_EQ(llmc_model_open(nullptr, &none), LLMC_ERROR_USAGE);
  EXPECT_EQ(llmc_model_open("/none.plan", nullptr), LLMC_ERROR_USAGE);
}

TEST(Api, TokenizesAndSays) {
  const HashModel model("section weights",
                        "section tokenizer hex\n" + HexLines(HashTokenizer(true)) + "\nend\nsection weights");
  const llmc_api::Model opened(model.path());
  EXPECT_EQ(opened.Tokenize("ABz"), (std::vector<int32_t>{60, 1, 2, 58}));
  EXPECT_EQ(opened.Tokenize("ABz", LLMC_NO_SPECIAL), (std::vector<int32_t>{1, 2, 58}));
  EXPECT_EQ(opened.Tokenize("", LLMC_NO_SPECIAL), std::vector<int32_t>{});
  EXPECT_EQ(opened.Detokenize({1, 2, 58}), "ABz");
  int32_t few[2] = {-1, -1};
  size_t count = 0;
  EXPECT_EQ(llmc_tokenize(opened.get(), "ABz", 3, LLMC_NO_SPECIAL, few, 2, &count), LLMC_ERROR_USAGE);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(few[1], 2);
  EXPECT_EQ(llmc_tokenize(opened.get(), "A", 1, 64, few, 2, &count), LLMC_ERROR_USAGE);
  const StatedModel without;
  const llmc_api::Model bare(without.path());
  EXPECT_EQ(llmc_tokenize(bare.get(), "A", 1, 0, few, 2, &count), LLMC_ERROR_INPUT);
  EXPECT_STREQ(llmc_last_error(), "the plan has no tokenizer");
}

TEST(Api, SamplesWithTheSamplersIds) {
  const StatedModel model;
  const llmc_api::Model opened(model.path());
  llmc_api::Session session(opened);
  llmc_sampling sampling{};
  sampling.size = sizeof sampling;
  int32_t id = -1;
  EXPECT_EQ(llmc_sample(session.get(), &sampling, &id), LLMC_ERROR_INPUT);
  EXPECT_STREQ(llmc_last_error(), "there are no logits to sample from");
  ASSERT_EQ(llmc_sampling_defaults(opened.get(), &sampling), LLMC_OK);
  EXPECT_EQ(sampling.temperature, 0);
  session.Decode(3);
  EXPECT_EQ(session.Sample(sampling), Argmax(HashLogits(std::vector<int32_t>{3}), 0));
  sampling.temperature = 300;
  sampling.seed = 11;
  Sampler expected({300, 0, 1, 0, 1, 11});
  std::vector<int32_t> tokens = {3};
  for (int i = 0; i < 20; ++i) {
    const int32_t next = session.Sample(sampling);
    EXPECT_EQ(next, expected.Next(HashLogits(tokens), 0));
    tokens.push_back(next % 61);
    session.Decode(tokens.back());
  }
  sampling.top_p = 2;
  EXPECT_EQ(llmc_sample(session.get(), &sampling, &id), LLMC_ERROR_INPUT);
  // A structure of a newer header: what is unknown must be 0.
  struct {
    llmc_sampling known;
    uint64_t newer;
  } longer{sampling, 0};
  longer.known.size = sizeof longer;
  longer.known.top_p = 1;
  EXPECT_EQ(llmc_sample(session.get(), &longer.known, &id), LLMC_OK);
  longer.newer = 1;
  EXPECT_EQ(llmc_sample(session.get(), &longer.known, &id), LLMC_ERROR_USAGE);
}

// Penalties look at what was appended; what a reset forgets counts no more.
TEST(Api, PenaltiesCountWhatWasAppended) {
  const StatedModel model;
  const llmc_api::Model opened(model.path());
  llmc_api::Session session(opened);
  llmc_sampling sampling{};
  sampling.size = sizeof sampling;
  sampling.top_p = 1;
  const auto with = [&](float presence) {
    SamplerOptions options;
    options.penalties.presence = presence;
    return options;
  };
  std::vector<int32_t> tokens = Tokens(13);
  session.Prefill(tokens);
  sampling.presence_penalty = 1e5;
  for (int i = 0; i < 10; ++i) {
    const int32_t next = session.Sample(sampling);
    EXPECT_EQ(next, Sampler(with(1e5f), tokens).Next(HashLogits(tokens), 0));
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), next), 0);
    tokens.push_back(next);
    session.Decode(next);
  }
  session.Reset();
  session.Decode(tokens[3]);
  const std::vector<int32_t> one = {tokens[3]};
  EXPECT_EQ(session.Sample(sampling), Sampler(with(1e5f), one).Next(HashLogits(one), 0));
  // A caller of version 1 has a shorter structure.
  sampling.size = offsetof(llmc_sampling, repetition_penalty);
  EXPECT_EQ(session.Sample(sampling), Argmax(HashLogits(one), 0));
  sampling.size = sizeof sampling;
  sampling.dry_multiplier = 1;
  sampling.dry_base = 0.5;
  int32_t id = -1;
  EXPECT_EQ(llmc_sample(session.get(), &sampling, &id), LLMC_ERROR_INPUT);
  EXPECT_NE(std::string(llmc_last_error()).find("dry_base"), std::string::npos);
}

// Each id is the likeliest of those that keep the text to the grammar.
TEST(Api, AConstraintKeepsTheTextToItsGrammar) {
  const HashModel model("section weights",
                        "section tokenizer hex\n" + HexLines(HashTokenizer(true)) + "\nend\nsection weights");
  const llmc_api::Model opened(model.path());
  llmc_api::Session session(opened);
  llmc_sampling sampling{};
  sampling.size = sizeof sampling;
  sampling.top_p = 1;
  std::vector<int32_t> tokens;
  const auto append = [&](int32_t id) {
    session.Decode(id);
    tokens.push_back(id);
  };
  const auto best = [&](std::string_view letters) {
    std::vector<float> logits = HashLogits(tokens);
    for (size_t id = 0; id < logits.size(); ++id) {
      if (letters.find(static_cast<char>('A' + id - 1)) == std::string_view::npos || id == 0) logits[id] = -1e30f;
    }
    return Argmax(logits, 0);
  };
  append(3);
  session.Constrain(LLMC_GBNF, R"(root ::= [A-D] "z" [p-s]{2})");
  for (int round = 0; round < 2; ++round) {  // ids that were not sampled are no part of the text
    for (const char* letters : {"ABCD", "z", "pqrs", "pqrs"}) {
      EXPECT_FALSE(session.finished());
      const int32_t id = session.Sample(sampling);
      EXPECT_EQ(id, best(letters)) << letters;
      append(id);
    }
    EXPECT_TRUE(session.finished());
    session.Reset();
    tokens.clear();
    append(7);
  }
  session.Constrain(LLMC_JSON_SCHEMA, R"({"enum": [12, 19]})");
  int32_t id = -1;
  EXPECT_EQ(llmc_sample(session.get(), &sampling, &id), LLMC_ERROR_INPUT);  // there is no digit in this vocabulary
  EXPECT_NE(std::string(llmc_last_error()).find("by the grammar"), std::string::npos);
  session.Constrain(LLMC_UNCONSTRAINED);
  EXPECT_FALSE(session.finished());
  EXPECT_EQ(session.Sample(sampling), Argmax(HashLogits(tokens), 0));
  const std::string bad = "root ::= nothing";
  EXPECT_EQ(llmc_constrain(session.get(), LLMC_GBNF, bad.data(), bad.size()), LLMC_ERROR_INPUT);
  EXPECT_NE(std::string(llmc_last_error()).find("grammar:1:"), std::string::npos) << llmc_last_error();
  EXPECT_EQ(llmc_constrain(session.get(), static_cast<llmc_constraint_kind>(3), "", 0), LLMC_ERROR_USAGE);
  EXPECT_EQ(llmc_constrain(session.get(), LLMC_GBNF, nullptr, 0), LLMC_ERROR_USAGE);
  EXPECT_EQ(llmc_constrain(nullptr, LLMC_GBNF, "", 0), LLMC_ERROR_USAGE);
  const StatedModel without;
  const llmc_api::Model bare(without.path());
  llmc_api::Session plain(bare);
  EXPECT_EQ(llmc_constrain(plain.get(), LLMC_GBNF, "root ::= \"a\"", 12), LLMC_ERROR_INPUT);
  EXPECT_STREQ(llmc_last_error(), "the plan has no tokenizer");
}

TEST(Api, SnapshotsAndFilesGiveTheBitsThatFollowed) {
  for (const bool stated : {true, false}) {  // a plan from before 1.2 saves its whole region
    const HashModel model = stated ? HashModel("plan 1.0", "plan 1.2\nstate kv 0 1 192 48 1 4 0") : HashModel();
    const llmc_api::Model opened(model.path());
    llmc_api::Session session(opened, 2), other(opened);
    std::vector<int32_t> tokens = Tokens(13);
    session.Prefill(tokens);
    const llmc_api::Snapshot snapshot = session.Take();
    const std::string file = model.folder() / "session";
    session.Save(file);
    EXPECT_EQ(ReadFile(file).size(), 40u + (stated ? 13u * 4 : 192u));
    session.Prefill(Tokens(7));
    session.Restore(snapshot);
    EXPECT_EQ(session.position(), 13u);
    EXPECT_EQ(llmc_logits(session.get()), nullptr);
    other.Decode(9);
    other.Load(file);
    tokens.push_back(17);
    EXPECT_TRUE(SameBits(Row(session.Decode(17)), HashLogits(tokens)));
    EXPECT_TRUE(SameBits(Row(other.Decode(17)), HashLogits(tokens)));
  }
}

TEST(Api, RefusesSessionFilesThatAreNotItsOwn) {
  const StatedModel model;
  const HashModel another("options \"\"", "options \"x = 1\"");
  const llmc_api::Model opened(model.path()), wrong(another.path());
  llmc_api::Session session(opened), stranger(wrong);
  session.Prefill(Tokens(5));
  const std::string file = model.folder() / "session";
  session.Save(file);
  const std::string bytes = ReadFile(file);
  EXPECT_EQ(llmc_session_load(stranger.get(), file.c_str()), LLMC_ERROR_INPUT);
  EXPECT_NE(std::string(llmc_last_error()).find("session: the saved session is of another plan"), std::string::npos);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 16);
    WriteFile(file, flipped);
    EXPECT_EQ(llmc_session_load(session.get(), file.c_str()), LLMC_ERROR_INPUT) << "byte " << at;
    WriteFile(file, bytes.substr(0, at));
    EXPECT_EQ(llmc_session_load(session.get(), file.c_str()), LLMC_ERROR_INPUT) << "cut at " << at;
  }
  EXPECT_EQ(session.position(), 5u);
  std::vector<int32_t> tokens = Tokens(5);
  tokens.push_back(2);
  EXPECT_TRUE(SameBits(Row(session.Decode(2)), HashLogits(tokens)));
  EXPECT_EQ(llmc_session_save(session.get(), (model.folder() / "none/session").c_str()), LLMC_ERROR_INPUT);
}

// Bytes that are out, by their begin.
struct Ledger {
  std::map<void*, size_t> out;
  size_t calls = 0, limit = SIZE_MAX;
};
llmc_allocator Counting(Ledger& ledger) {
  return {[](void* user, size_t bytes, size_t alignment) -> void* {
            auto& l = *static_cast<Ledger*>(user);
            if (l.calls++ >= l.limit) return nullptr;
            void* memory = std::aligned_alloc(alignment, bytes);
            std::memset(memory, 0, bytes);
            l.out[memory] = bytes;
            return memory;
          },
          [](void* user, void* memory, size_t bytes) {
            auto& l = *static_cast<Ledger*>(user);
            EXPECT_EQ(l.out[memory], bytes);
            l.out.erase(memory);
            std::free(memory);
          },
          &ledger};
}

TEST(Api, SessionsLiveInTheCallersMemory) {
  const StatedModel model;
  const llmc_api::Model opened(model.path());
  Ledger ledger;
  const llmc_allocator allocator = Counting(ledger);
  llmc_session_options options{};
  options.size = sizeof options;
  options.allocator = &allocator;
  llmc_session* session = nullptr;
  ASSERT_EQ(llmc_session_create(opened.get(), &options, &session), LLMC_OK);
  EXPECT_GE(ledger.out.size(), 2u);
  EXPECT_EQ(llmc_decode(session, 3), LLMC_OK);
  EXPECT_TRUE(SameBits(Row(llmc_logits(session)), HashLogits(std::vector<int32_t>{3})));
  // A thousand saves and loads take nothing more.
  const std::string file = model.folder() / "session";
  const size_t calls = ledger.calls;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(llmc_session_save(session, file.c_str()), LLMC_OK);
    ASSERT_EQ(llmc_session_load(session, file.c_str()), LLMC_OK);
  }
  EXPECT_EQ(ledger.calls, calls);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(std::filesystem::path(file).parent_path()), {}), 2);
  llmc_session_destroy(session);
  EXPECT_TRUE(ledger.out.empty());
  ledger.limit = ledger.calls + 1;
  EXPECT_EQ(llmc_session_create(opened.get(), &options, &session), LLMC_ERROR_INPUT);
  EXPECT_NE(std::string(llmc_last_error()).find("the allocator has no"), std::string::npos);
  EXPECT_TRUE(ledger.out.empty());
}

TEST(Api, ProgressIsToldAndMayCancel) {
  const StatedModel model;
  const llmc_api::Model opened(model.path());
  struct Seen {
    std::vector<std::array<size_t, 2>> calls;
    size_t stop_at = SIZE_MAX;
  } seen;
  llmc_session_options options{};
  options.size = sizeof options;
  options.chunk = 4;
  options.progress = [](void* user, size_t done, size_t total) {
    auto& s = *static_cast<Seen*>(user);
    s.calls.push_back({done, total});
    return done >= s.stop_at ? 1 : 0;
  };
  options.progress_user = &seen;
  llmc_session* session = nullptr;
  ASSERT_EQ(llmc_session_create(opened.get(), &options, &session), LLMC_OK);
  const std::vector<int32_t> tokens = Tokens(10);
  EXPECT_EQ(llmc_prefill(session, tokens.data(), tokens.size()), LLMC_OK);
  EXPECT_EQ(seen.calls, (std::vector<std::array<size_t, 2>>{{4, 10}, {8, 10}}));
  seen.stop_at = 8;
  ASSERT_EQ(llmc_reset(session), LLMC_OK);
  EXPECT_EQ(llmc_prefill(session, tokens.data(), tokens.size()), LLMC_CANCELLED);
  EXPECT_EQ(llmc_position(session), 8u);
  EXPECT_EQ(llmc_logits(session), nullptr);
  EXPECT_EQ(llmc_prefill(session, tokens.data() + 8, 2), LLMC_OK);
  EXPECT_TRUE(SameBits(Row(llmc_logits(session)), HashLogits(tokens)));
  llmc_session_destroy(session);
}

// Four threads, a session each, over one model; each cancels another's call now and then.
TEST(Api, SessionsInThreadsCancelEachOther) {
  const StatedModel model;
  const llmc_api::Model opened(model.path());
  constexpr int kThreads = 4, kRounds = 200;
  std::vector<llmc_api::Session> sessions;
  for (int i = 0; i < kThreads; ++i) sessions.emplace_back(opened, 1);
  std::atomic<int> cancelled{0}, done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      llmc_session* session = sessions[static_cast<size_t>(t)].get();
      for (int round = 0; round < kRounds; ++round) {
        if (round % 3 == 0) sessions[static_cast<size_t>((t + round) % kThreads)].Cancel();
        if (round % 40 == 39) llmc_reset(session);
        std::vector<int32_t> one = {round % 60};
        const llmc_status status = llmc_prefill(session, one.data(), 1);
        ASSERT_TRUE(status == LLMC_OK || status == LLMC_CANCELLED) << llmc_last_error();
        (status == LLMC_OK ? done : cancelled)++;
        if (status == LLMC_CANCELLED) {
          EXPECT_NE(std::string(llmc_last_error()).find("stopped on request"), std::string::npos);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(done, 0);
  EXPECT_GT(cancelled, 0);
  for (llmc_api::Session& session : sessions) {
    llmc_prefill(session.get(), Tokens(1).data(), 1);  // takes a request that is left
    session.Reset();
    EXPECT_TRUE(SameBits(Row(session.Prefill(Tokens(6))), HashLogits(Tokens(6))));
  }
}

}  // namespace
}  // namespace llmc
