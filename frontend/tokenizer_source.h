// What every source of a tokenizer comes down to. Internal to the front end's tokenizer files.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/json.h"
#include "ir/diag.h"
#include "runtime/plan_tokenizer.h"

namespace llmc {

// Of a tokenizer.json: up to 260,000 tokens and 520,000 merges, which may be three values each, in up to 35 MB.
inline constexpr JsonLimits kTokenizerJsonLimits = {.max_bytes = uint64_t{64} << 20, .max_values = uint64_t{1} << 21};

struct SourceAddedToken {
  std::string content;
  int64_t id = 0;
  uint32_t flags = 0;  // kAdded*
  bool normalized = false;
};

// How tokens become text. Of a token's text, in order:
struct DecodeStep {
  enum class Kind : uint8_t {
    Replace,    // each match of a pattern (an automaton's table) becomes text
    Metaspace,  // from becomes a space; in the first token nothing, if drop_first
    WordPiece,  // the prefix goes, or a space comes in front; not in the first token; cleanup of English
    Strip,      // up to `start` times from at the start, `stop` times at the end
    Join,       // a space in front, but for the first token
  };
  Kind kind = Kind::Join;
  std::string table = {}, text = {}, from = {};
  bool drop_first = false, cleanup = false;
  uint32_t start = 0, stop = 0;
};
struct DecodePlan {
  bool bytes = false;             // byte-level: a token is bytes in the byte alphabet
  bool byte_fallback = false;     // <0xNN> is that byte
  std::vector<DecodeStep> steps;  // on each token
  uint32_t strip_first = 0;       // then, spaces at the start of all
};

struct TokenizerSource {
  std::string file;  // for messages
  TokenizerModel model = TokenizerModel::ByteBpe;
  // Byte-level BPE: texts in the byte alphabet, in which each byte stands as one printable character.
  std::vector<std::pair<std::string_view, int64_t>> vocabulary;
  std::vector<double> scores;                                         // Unigram: of each vocabulary entry
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // BPE: by rank
  std::vector<SourceAddedToken> added;                                // empty contents are passed over
  std::vector<TokenizerStep> normalizers, cuts;
  std::vector<TemplatePiece> single, pair;
  DecodePlan decode;
  bool ignore_merges = false, fuse_unk = false, byte_fallback = false;
  std::string continuing_prefix;  // WordPiece
  uint32_t max_word_chars = 0;
  int64_t bos = -1, eos = -1, unk = -1;
  int64_t vocab_rows = 0;
};
// The plan's section. Throws InputError when an id is out of bounds or taken, or a merge has a part that is no token.
std::string LowerTokenizer(const TokenizerSource& source);

// The merges of a BPE model whose file has none: every way to put a token together from two tokens, in one of the
// orders of Hugging Face's converters. Scores: by the place in the vocabulary, as the source has them.
enum class MergeOrder : uint8_t {
  Score,    // better scores first, then longer left parts
  Id,       // ascending ids, then shorter left parts
  ScoreId,  // better scores first, then ascending ids, then shorter left parts
};
// usable: which entries of the vocabulary merge and are merged; empty: all.
void AddAllMerges(TokenizerSource& source, MergeOrder order, const std::vector<bool>& usable = {});

// Adds BOS in front of single and pair, or EOS behind each text. For sources that say no more than that.
void AddBosToTemplates(TokenizerSource& source);
void AddEosToTemplates(TokenizerSource& source);

// The bytes that a text in the byte alphabet stands for; false when a character is not in the alphabet.
bool BytesOfAlphabet(std::string_view text, std::string& bytes);
// The value of "<0xNN>", or -1.
int ByteOfToken(std::string_view text);

[[noreturn]] void FailUnsupportedTokenizer(Place place, const std::string& what);

// A flag that is there and not null, else `otherwise`.
inline bool FlagOf(const Json& object, std::string_view key, bool otherwise) {
  const Json value = FindValue(object, key);
  return value ? value.AsBool() : otherwise;
}

}  // namespace llmc
