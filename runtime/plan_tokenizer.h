// The tokenizer section of a plan: a tokenizer lowered to tables that the loader maps and uses in place (format:
// runtime/README.md, "Tokenizer section"). The front end writes it (BuildTokenizerSection), runtime/tokenizer.h reads
// it.
//
// The section is a header, then tables, each at a multiple of 8 bytes. All integers are little-endian. Offsets and
// sizes are checked once, by ReadTokenizerSection; what lies in the tables is checked where it is used.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan_unicode.h"

namespace llmc {

inline constexpr std::array<char, 8> kTokenizerMagic = {'l', 'l', 'm', 'c', 'T', 'o', 'k', '\0'};
inline constexpr uint32_t kTokenizerVersion = 2;

// Limits of the format. The writer refuses what is beyond them, so the encoder's work stays linear in the text.
inline constexpr uint32_t kMaxTokenizerSteps = 16;  // of normalisation, and of cutting
inline constexpr uint32_t kMaxAddedTokenBytes = 512;
inline constexpr uint32_t kMaxProbes = 64;  // slots that a hash lookup looks at
inline constexpr uint32_t kMaxTokens = 1U << 24;
inline constexpr uint32_t kMaxTemplatePieces = 64;

// How a piece becomes tokens.
enum class TokenizerModel : uint32_t {
  ByteBpe = 1,    // symbols are bytes, merged by rank
  CharBpe = 2,    // symbols are characters
  Unigram = 3,    // the tokens whose scores have the greatest sum
  WordPiece = 4,  // the longest token from the left, behind the first with a prefix
};

// A step changes the text or cuts it. Steps run in order; of the cutting stage each runs on the pieces of the one
// before.
enum class StepKind : uint32_t {
  Replace = 1,   // table: automaton; each match becomes `text`
  Map = 2,       // table: CodePointMap
  Form = 3,      // table: NormalFormTables
  Prepend = 4,   // `text` goes in front
  Strip = 5,     // White_Space at the ends goes; table: CodePointBytes, not 0: white space
  Charsmap = 6,  // table: a grapheme automaton; text: SentencePiece's precompiled charsmap
  Split = 7,     // table: automaton; only in the cutting stage
};
inline constexpr uint32_t kStepUnlessThere = 1;           // Prepend: not to a text that begins with it
inline constexpr uint32_t kStepFirstOnly = 2;             // Prepend: only where the whole text begins
inline constexpr uint32_t kStepLeft = 4, kStepRight = 8;  // Strip
inline constexpr uint32_t kStepInvert = 16;               // Split: what lies between matches counts as the match
inline constexpr uint32_t kStepBehaviorShift = 8;         // Split: SplitBehavior
enum class SplitBehavior : uint32_t { Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous };

struct TokenizerStep {
  StepKind kind = StepKind::Split;
  uint32_t flags = 0;
  std::string table = {}, text = {};
};
inline TokenizerStep SplitStep(std::string table, SplitBehavior behavior = SplitBehavior::Isolated,
                               bool invert = false) {
  return {StepKind::Split,
          static_cast<uint32_t>(behavior) << kStepBehaviorShift | (invert ? kStepInvert : 0),
          std::move(table),
          {}};
}

// Flags of a token.
inline constexpr uint8_t kTokenSpecial = 1;  // control token: recognised in text only when the caller says so
inline constexpr uint8_t kTokenAdded = 2;    // matched in text before the model
inline constexpr uint8_t kTokenInModel = 4;  // of the model's vocabulary: found by its bytes
inline constexpr uint8_t kTokenWhole = 8;    // the model makes this token alone of its own bytes (set by the writer)
inline constexpr uint8_t kTokenByte = 16;    // stands for one byte (byte fallback)

// Flags of an added token.
inline constexpr uint32_t kAddedSpecial = 1;
inline constexpr uint32_t kAddedStripLeft = 2;   // takes whitespace before it
inline constexpr uint32_t kAddedStripRight = 4;  // and after it
inline constexpr uint32_t kAddedSingleWord = 8;  // not where it touches a word character

struct AddedToken {
  std::string content;
  int32_t id = 0;
  uint32_t flags = 0;
};
struct Merge {
  int32_t left = 0, right = 0, result = 0;
};
// What a text, or a pair of texts, is given around it.
inline constexpr int32_t kTemplateFirst = -1, kTemplateSecond = -2;
struct TemplatePiece {
  int32_t id = kTemplateFirst;  // a token, or the first or second text
  uint32_t type = 0;            // token type (BERT's segment) of its tokens
};

// What BuildTokenizerSection lowers. Ids are indices into tokens.
struct TokenizerTables {
  TokenizerModel model = TokenizerModel::ByteBpe;
  std::vector<std::string> tokens;       // by id, the bytes that the token decodes to; empty where there is no token
  std::vector<std::string> pieces;       // by id, the bytes that the model knows it by; empty: the same as tokens
  std::vector<std::string> first_texts;  // by id, what it decodes to as the first token; empty: the same as tokens
  std::vector<uint8_t> token_flags;      // by id
  std::array<int32_t, 256> byte_ids;     // the token of each byte, or -1
  std::vector<Merge> merges;             // BPE: by rank; of two for the same pair the later counts
  std::vector<double> scores;            // Unigram: by id
  std::string continuing_prefix;         // WordPiece
  uint32_t max_word_chars = 0;           // WordPiece: longer words are unk
  std::vector<AddedToken> added_raw;     // matched in the text as it came
  std::vector<AddedToken> added_normalized;  // matched after normalisation
  std::vector<TokenizerStep> normalizers, cuts;
  std::vector<TemplatePiece> single, pair;  // empty: the text alone, the two texts one after another
  bool ignore_merges = false;               // BPE: a piece that is a token is that token, whatever the merges say
  bool fuse_unk = false;                    // characters without a token, one after another, are one unk
  bool byte_fallback = false;               // characters without a token become the tokens of their bytes
  uint32_t strip_first = 0;                 // decoding: that many spaces at the start of a text go
  int32_t bos = -1, eos = -1, unk = -1;     // -1: none
  std::string word_classes;                 // CodePointBytes of kClass* bits
};
// Throws PlanError when the tables break a limit or an id is out of range. The same tables give the same bytes.
std::string BuildTokenizerSection(const TokenizerTables& tables);

// Layout.
inline constexpr uint32_t kTokenizerIgnoreMerges = 1, kTokenizerFuseUnk = 2, kTokenizerByteFallback = 4;

enum class TokenizerTable : uint32_t {
  TokenEnds,  // u32[tokens + 1]: token i is bytes [i], [i + 1] of TokenBytes
  TokenBytes,
  TokenFlags,  // u8[tokens]
  PieceEnds,   // the same for what the model knows tokens by; where both are equal, the same bytes of the section
  PieceBytes,
  FirstTexts,      // FirstText, ascending by id: tokens that decode to something else at the start of a text
  FirstTextBytes,  // their texts
  ByteIds,         // i32[256]
  Vocabulary,      // hash table of VocabularySlot by HashBytes
  Merges,          // BPE: hash table of MergeSlot by HashPair
  Trie,            // Unigram, WordPiece: TrieUnit
  Scores,          // Unigram: f64[tokens]
  AddedRaw,        // AddedSlot, ascending by content
  AddedRawFirst,   // u32[257]: added tokens whose content starts with byte b are [b] to [b + 1]
  AddedNormalized,
  AddedNormalizedFirst,
  AddedBytes,   // contents of added tokens
  WordClasses,  // CodePointBytes
  Normalizers,  // StepRecord
  Cuts,         // StepRecord
  StepData,     // tables and texts of steps
  Single,       // TemplatePiece
  Pair,
  Count,
};
struct TableRange {
  uint64_t offset = 0, size = 0;  // from the start of the section, in bytes
};
struct TokenizerHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t flags;
  uint64_t section_bytes;
  uint32_t token_count;
  uint32_t longest_piece;  // bytes, of the tokens in the vocabulary's hash table
  int32_t bos, eos, unk;
  TokenizerModel model;
  uint32_t strip_first;
  uint32_t max_word_chars;
  uint32_t continuing_node;  // WordPiece: where the trie is behind the prefix; 0: no token begins with it
  uint32_t reserved;
  double unk_score;  // Unigram
  TableRange tables[static_cast<size_t>(TokenizerTable::Count)];
};
static_assert(sizeof(TokenizerHeader) == 72 + 16 * static_cast<size_t>(TokenizerTable::Count));

struct StepRecord {
  StepKind kind;
  uint32_t flags;
  TableRange table, text;  // in StepData
};
struct FirstText {
  int32_t id;
  uint32_t begin, end;  // in FirstTextBytes
};
// id or left = -1: free. Hash tables have 2^n slots; a key is in one of the kMaxProbes slots (cyclic) from its hash's
// top n bits on, with no free slot before it.
struct VocabularySlot {
  uint32_t tag;  // the hash's low half
  int32_t id;
};
struct MergeSlot {
  int32_t left, right;
  uint32_t rank;
  int32_t result;
};
// A double array: the child of node n by byte b is node base[n] + b, if that one's parent is n. Node 0 is the root.
inline constexpr uint32_t kNoParent = UINT32_MAX;
struct TrieUnit {
  uint32_t base, parent;
  int32_t id;  // of the token that ends here, or -1
};
struct AddedSlot {
  uint32_t begin, end;  // in AddedBytes
  int32_t id;
  uint32_t flags;
};

// StepKind::Map: u16 a block of 256 code points, number of its page; u32[256] a page: 0 keep, else 1 + the place in
// texts of a NUL-terminated text that the code point becomes; kMapSpaced: the code point with a space on each side.
inline constexpr uint32_t kMapSpaced = UINT32_MAX;
struct CodePointMapHeader {
  uint32_t pages, text_bytes;
};

inline uint64_t MixHash(uint64_t h) {
  h ^= h >> 32;
  h *= 0xD6E8FEB86659FD93U;
  h ^= h >> 32;
  h *= 0xD6E8FEB86659FD93U;
  return h ^ h >> 32;
}
inline uint64_t HashPair(int32_t left, int32_t right) {
  return MixHash(uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right));
}
inline uint64_t HashBytes(std::string_view bytes) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15U;
  uint64_t h = bytes.size() * kFactor;
  const char* at = bytes.data();
  size_t left = bytes.size();
  auto mix = [&](uint64_t word) { h = (h ^ word) * kFactor, h ^= h >> 29; };
  auto load32 = [](const char* from) -> uint64_t {
    uint32_t word;
    std::memcpy(&word, from, 4);
    return word;
  };
  for (; left >= 8; at += 8, left -= 8) mix(load32(at) | load32(at + 4) << 32);
  if (left >= 4) {
    mix(load32(at) | load32(at + left - 4) << 32);
  } else if (left > 0) {
    auto byte = [&](size_t i) { return uint64_t{static_cast<uint8_t>(at[i])}; };
    mix(byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16);
  }
  return MixHash(h);
}
// The first slot for a hash in a table of 2^bits slots.
inline size_t FirstSlot(uint64_t hash, uint32_t bits) {
  return bits == 0 ? 0 : static_cast<size_t>(hash >> (64 - bits));
}

// A section whose header has been checked: views of its tables.
struct TokenizerSection {
  TokenizerHeader header;
  uint32_t merge_bits = 0, vocabulary_bits = 0;  // log2 of the slots
  std::string_view table(TokenizerTable t) const { return tables[static_cast<size_t>(t)]; }
  std::array<std::string_view, static_cast<size_t>(TokenizerTable::Count)> tables;

  // Bytes of a token, and of what the model knows it by; "" for ids outside the vocabulary.
  std::string_view TokenBytes(int32_t id) const {
    return Slice(TokenizerTable::TokenEnds, TokenizerTable::TokenBytes, id);
  }
  std::string_view PieceBytes(int32_t id) const {
    return Slice(TokenizerTable::PieceEnds, TokenizerTable::PieceBytes, id);
  }
  uint8_t TokenFlags(int32_t id) const;
  std::string_view Slice(TokenizerTable ends, TokenizerTable bytes, int32_t id) const;
};
// Borrows the bytes. Throws PlanError naming the rule that the header breaks.
TokenizerSection ReadTokenizerSection(std::string_view bytes);

}  // namespace llmc
