// The model of tests/runtime/model.c: its plan, and its logits computed here.
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/executor.h"
#include "runtime/loader.h"
#include "runtime/plan_tokenizer.h"
#include "tests/plan/support.h"

namespace llmc {

inline constexpr int32_t kHashVocab = 64;
inline constexpr uint32_t kHashContext = 48;

inline std::string HashModelText() { return ReadFile(LLMC_SOURCE_DIR "/tests/runtime/model.plan.txt"); }

// The logits behind `tokens`, by model.c's definition; with `flat` for all weights if it isn't 0.
inline std::vector<float> HashLogits(std::span<const int32_t> tokens, float flat = 0) {
  uint32_t hash = 0;
  for (size_t p = 0; p < tokens.size(); ++p)
    hash += (static_cast<uint32_t>(tokens[p]) + 1) * static_cast<uint32_t>(2 * p + 1);
  hash *= 2654435761u;
  std::vector<float> logits(kHashVocab);
  for (uint32_t v = 0; v < kHashVocab; ++v) {
    const float weight = 1.0f + static_cast<float>(37 * v % kHashVocab) / static_cast<float>(kHashVocab);
    logits[v] = static_cast<float>((hash ^ (v * 40503u << 8)) >> 16 & 1023) * (flat != 0 ? flat : weight);
  }
  return logits;
}

// A manifest of machine code that a test makes itself: without phases and states.
inline Manifest CodeManifest(uint32_t vocab, uint32_t context, uint32_t chunk) {
  Manifest m;
  m.model = "fake";
  m.backend = "llvm";
  m.numerics = "exact";
  m.abi = LLMC_ABI_VERSION;
  m.vocab = vocab;
  m.context = context;
  m.chunk = chunk;
  return m;
}

inline bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// A byte-level tokenizer of the model's vocabulary: 'A' is 1, 'B' is 2, ... 'z' is 58, no merges, BOS 60 if wanted.
// Bytes outside have no token.
inline std::string HashTokenizer(bool add_bos) {
  TokenizerTables tables;
  tables.byte_ids.fill(-1);
  tables.tokens.resize(kHashVocab);
  tables.token_flags.resize(kHashVocab, 0);
  for (int32_t id = 1; id < 59; ++id) {
    const auto byte = static_cast<uint8_t>('@' + id);
    tables.tokens[static_cast<size_t>(id)] = std::string(1, static_cast<char>(byte));
    tables.token_flags[static_cast<size_t>(id)] = kTokenInModel;
    tables.byte_ids[byte] = id;
  }
  tables.tokens[60] = "<s>";
  tables.token_flags[60] = kTokenSpecial;
  tables.bos = 60;
  if (add_bos) tables.single = {{60, 0}, {kTemplateFirst, 0}};
  return BuildTokenizerSection(tables);
}

inline std::string HexLines(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(bytes[i]));
    out += std::string(i % 32 == 0 ? "\n" : "") + digits;
  }
  return out;
}

// A folder with the model's plan; `to` stands for the first `from` of its text.
class HashModel {
 public:
  explicit HashModel(const std::string& from = "", const std::string& to = "") {
    std::string text = HashModelText();
    const size_t at = text.find(from);
    if (at == std::string::npos) throw std::logic_error("no " + from);
    text.replace(at, from.size(), to);
    Assemble(text, path());
  }
  std::string path() const { return folder_ / "hash.plan"; }
  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
};

// Ids for models of at least 61.
inline std::vector<int32_t> Tokens(size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * i * 7 % 61));
  return tokens;
}

inline Session MakeSession(const Executable& executable, uint32_t threads, uint32_t chunk = 0) {
  SessionOptions options;
  options.threads = threads;
  options.chunk = chunk;
  return Session(executable, options);
}

// Asks `session` to stop, again and again from another thread, while it makes calls of one row: at least `calls`, and
// until one was stopped (on a busy machine the other thread may come late). Leaves it as before its first token.
inline void StopAtAnyMoment(Session& session, int calls) {
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) session.RequestAbort();
  });
  int stopped = 0;
  for (int i = 0; i < calls || stopped == 0; ++i) {
    session.Reset();
    stopped += !ErrorOf([&] { session.Decode(3); }).empty();
  }
  done = true;
  other.join();
  ErrorOf([&] { session.Decode(3); });  // takes a request that is left
  session.Reset();
}

}  // namespace llmc
