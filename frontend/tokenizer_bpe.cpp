// From a vocabulary in the byte alphabet to the tables of the plan.
//
// The alphabet (that of GPT-2): bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for the code points of the same value,
// all others, ascending, for U+0100 and up. A token with any other character can't come out of BPE; it decodes to its
// own text.
#include "frontend/tokenizer_bpe.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "frontend/json.h"
#include "frontend/unicode.h"
#include "runtime/plan_error.h"

namespace llmc {
namespace {

// Ids may leave holes, but not so large that a small file makes a large table.
constexpr int64_t kMaxHoles = 65536;

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}
constexpr std::array<uint32_t, 256> MakeAlphabet() {
  std::array<uint32_t, 256> alphabet{};
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) alphabet[byte] = StandsForItself(byte) ? byte : next++;
  return alphabet;
}
constexpr std::array<uint32_t, 256> kAlphabet = MakeAlphabet();
constexpr uint32_t kAlphabetEnd = 0x100 + 68;
constexpr std::array<int16_t, kAlphabetEnd> MakeBytes() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (int16_t& b : bytes) b = -1;
  for (uint32_t byte = 0; byte < 256; ++byte) bytes[kAlphabet[byte]] = static_cast<int16_t>(byte);
  return bytes;
}
constexpr std::array<int16_t, kAlphabetEnd> kBytes = MakeBytes();

class Lowering {
 public:
  explicit Lowering(const BpeSource& source) : source_(source) {}

  TokenizerTables Run() {
    Size();
    AddVocabulary();
    AddBytes();
    AddMerges();
    AddAdded();
    tables_.steps = source_.steps;
    tables_.nfc = source_.nfc;
    tables_.ignore_merges = source_.ignore_merges;
    tables_.fuse_unk = source_.fuse_unk;
    tables_.add_bos = source_.add_bos;
    tables_.bos = Optional(source_.bos, "bos");
    tables_.eos = Optional(source_.eos, "eos");
    tables_.unk = Optional(source_.unk, "unk");
    tables_.unicode = BuiltinUnicode();
    return std::move(tables_);
  }

 private:
  [[noreturn]] void Bad(const std::string& message) const { Fail(DiagKind::BadValue, {source_.file, ""}, message); }

  void Size() {
    int64_t last = -1;
    std::string_view of;
    auto take = [&](std::string_view text, int64_t id) {
      if (id < 0) Bad(fmt::format("tokenizer: token {} has the id {}", JsonQuote(text), id));
      if (id > last) {
        last = id;
        of = text;
      }
    };
    for (const auto& [text, id] : source_.vocabulary) take(text, id);
    for (const BpeAddedToken& token : source_.added) take(token.content, token.id);
    if (source_.vocab_rows > 0 && last >= source_.vocab_rows) {
      Bad(fmt::format("tokenizer: token {} has the id {}, the model's embedding has {} rows", JsonQuote(of), last,
                      source_.vocab_rows));
    }
    const auto entries = static_cast<int64_t>(source_.vocabulary.size() + source_.added.size());
    if (last >= std::min<int64_t>(kMaxTokens, entries + kMaxHoles)) {
      Bad(fmt::format("tokenizer: token {} has the id {}; with {} tokens ids must be below {}", JsonQuote(of), last,
                      entries, std::min<int64_t>(kMaxTokens, entries + kMaxHoles)));
    }
    tables_.tokens.resize(static_cast<size_t>(last + 1));
    tables_.token_flags.resize(tables_.tokens.size());
  }

  void AddVocabulary() {
    ids_.reserve(source_.vocabulary.size());
    std::vector<bool> taken(tables_.tokens.size());
    for (const auto& [text, id] : source_.vocabulary) {
      const auto index = static_cast<size_t>(id);
      if (taken[index])
        Bad(fmt::format("tokenizer: token {} has the id {}, which another token has too", JsonQuote(text), id));
      taken[index] = true;
      if (!ids_.emplace(text, static_cast<int32_t>(id)).second) {
        Bad(fmt::format("tokenizer: token {} is there twice, with ids {} and {}", JsonQuote(text), ids_[text], id));
      }
      if (BytesOfAlphabet(text, tables_.tokens[index])) {
        tables_.token_flags[index] = kTokenInModel;
      } else {
        tables_.tokens[index] = text;
      }
    }
  }

  void AddBytes() {
    for (size_t byte = 0; byte < 256; ++byte) {
      std::string text;
      AppendUtf8(text, kAlphabet[byte]);
      const auto found = ids_.find(text);
      tables_.byte_ids[byte] = found == ids_.end() ? -1 : found->second;
    }
  }

  void AddMerges() {
    tables_.merges.reserve(source_.merges.size());
    auto find = [&](std::string_view part, size_t rank) {
      const auto found = ids_.find(part);
      if (found == ids_.end())
        Bad(fmt::format("tokenizer: merge {} needs the token {}, which isn't in the vocabulary", rank,
                        JsonQuote(part)));
      return found->second;
    };
    for (size_t rank = 0; rank < source_.merges.size(); ++rank) {
      const auto& [left, right] = source_.merges[rank];
      tables_.merges.push_back({find(left, rank), find(right, rank), find(std::string(left).append(right), rank)});
    }
  }

  void AddAdded() {
    const UnicodeTables unicode = BuiltinUnicode();
    std::vector<std::string_view> at(tables_.tokens.size());
    for (const auto& [text, id] : source_.vocabulary) at[static_cast<size_t>(id)] = text;
    for (const BpeAddedToken& token : source_.added) {
      if (token.content.empty()) continue;
      const auto index = static_cast<size_t>(token.id);
      const auto known = ids_.find(token.content);
      if (known != ids_.end() && known->second != token.id) {
        Bad(fmt::format("tokenizer: added token {} has the id {}, the vocabulary gives it {}", JsonQuote(token.content),
                        token.id, known->second));
      }
      if (!at[index].empty() && at[index] != token.content) {
        Bad(fmt::format("tokenizer: added token {} has the id {}, which is {}", JsonQuote(token.content), token.id,
                        JsonQuote(at[index])));
      }
      at[index] = token.content;
      std::string content(token.content);
      if (token.normalized && source_.nfc) content = unicode.Nfc(content);
      uint8_t& flags = tables_.token_flags[index];
      if (tables_.tokens[index] != content) flags = 0;  // what BPE makes of its bytes is another token
      tables_.tokens[index] = content;
      flags |= kTokenAdded;
      if ((token.flags & kAddedSpecial) != 0) flags |= kTokenSpecial;
      (token.normalized ? tables_.added_normalized : tables_.added_raw)
          .push_back({std::move(content), static_cast<int32_t>(token.id), token.flags});
    }
  }

  int32_t Optional(int64_t id, const char* what) const {
    if (id < -1 || id >= static_cast<int64_t>(tables_.tokens.size())) {
      Bad(fmt::format("tokenizer: {} id {} is outside the vocabulary of {} tokens", what, id, tables_.tokens.size()));
    }
    return static_cast<int32_t>(id);
  }

  const BpeSource& source_;
  TokenizerTables tables_;
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace

bool BytesOfAlphabet(std::string_view text, std::string& bytes) {
  bytes.clear();
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    if (c.value >= kAlphabetEnd || kBytes[c.value] < 0) return false;
    bytes.push_back(static_cast<char>(kBytes[c.value]));
    at += c.bytes;
  }
  return true;
}

std::string LowerBpe(const BpeSource& source) {
  try {
    return BuildTokenizerSection(Lowering(source).Run());
  } catch (const PlanError& e) {
    Fail(DiagKind::BadValue, {source.file, ""}, e.what());
  }
}

void FailUnsupportedTokenizer(Place place, const std::string& what) {
  Fail(DiagKind::Unsupported, std::move(place),
       "tokenizer: " + what + " isn't supported; --no-tokenizer compiles the model without its tokenizer");
}

}  // namespace llmc
