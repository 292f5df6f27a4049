// The tokenizer section of a plan: byte-level BPE lowered to tables that the loader maps and uses in place (format:
// runtime/README.md, "Tokenizer section"). The front end writes it (BuildTokenizerSection), runtime/tokenizer.h reads
// it.
//
// The section is a header, then tables, each at a multiple of 8 bytes. All integers are little-endian. Offsets and
// sizes are checked once, by ReadTokenizerSection; what lies in the tables is checked where it is used, so opening a
// section costs nothing for its size.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan_unicode.h"

namespace llmc {

inline constexpr std::array<char, 8> kTokenizerMagic = {'l', 'l', 'm', 'c', 'T', 'o', 'k', '\0'};
inline constexpr uint32_t kTokenizerVersion = 1;

// Limits of the format. The writer refuses what is beyond them, so the encoder's work stays linear in the text.
inline constexpr uint32_t kMaxTokenizerSteps = 4;
inline constexpr uint32_t kMaxAddedTokenBytes = 512;
inline constexpr uint32_t kMaxProbes = 64;  // slots that a hash lookup looks at
inline constexpr uint32_t kMaxTokens = 1U << 24;

// How text is cut before BPE: steps in order, each cuts the pieces of the step before it.
enum class StepKind : uint8_t {
  Digit = 1,   // each number (class N) is a piece of its own; between them as long as possible
  Digits = 2,  // each run of numbers
  Gpt2 = 3,    // the patterns of these families, runtime/tokenizer_scan.cpp
  Llama3 = 4,
  Qwen2 = 5,
  Whole = 6,  // not cut
};
struct TokenizerStep {
  StepKind kind = StepKind::Whole;
  bool prefix_space = false;  // a piece that doesn't start with ' ' gets one in front before it is cut
};

// Flags of a token.
inline constexpr uint8_t kTokenSpecial = 1;  // control token: recognised in text only when the caller says so
inline constexpr uint8_t kTokenAdded = 2;    // matched in text before BPE
inline constexpr uint8_t kTokenInModel = 4;  // a token of the BPE vocabulary: found by its bytes

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

// What BuildTokenizerSection lowers. Ids are indices into tokens.
struct TokenizerTables {
  std::vector<std::string> tokens;    // by id, the bytes that the token stands for; empty where there is no token
  std::vector<uint8_t> token_flags;   // by id
  std::array<int32_t, 256> byte_ids;  // the token of each byte, or -1
  std::vector<Merge> merges;          // by rank; of two for the same pair the later counts
  std::vector<AddedToken> added_raw;  // matched in the text as it came
  std::vector<AddedToken> added_normalized;  // matched after normalisation
  std::vector<TokenizerStep> steps;
  bool nfc = false;
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  bool fuse_unk = false;
  bool add_bos = false;
  int32_t bos = -1, eos = -1, unk = -1;  // -1: none
  UnicodeTables unicode;
};
// Throws PlanError when the tables break a limit or an id is out of range. The same tables give the same bytes.
std::string BuildTokenizerSection(const TokenizerTables& tables);

// Layout.
inline constexpr uint32_t kTokenizerNfc = 1, kTokenizerIgnoreMerges = 2, kTokenizerFuseUnk = 4, kTokenizerAddBos = 8;

enum class TokenizerTable : uint32_t {
  TokenEnds,  // u32[tokens + 1]: token i is bytes [i], [i + 1] of TokenBytes
  TokenBytes,
  TokenFlags,     // u8[tokens]
  ByteIds,        // i32[256]
  Merges,         // hash table of MergeSlot by HashPair
  Vocabulary,     // hash table of i32 (id or -1) by HashBytes; empty without kTokenizerIgnoreMerges
  AddedRaw,       // AddedSlot, ascending by content
  AddedRawFirst,  // u32[257]: added tokens whose content starts with byte b are [b] to [b + 1]
  AddedNormalized,
  AddedNormalizedFirst,
  AddedBytes,  // contents of added tokens
  ClassIndex,  // UnicodeTables; the last three are empty without kTokenizerNfc
  ClassPages,
  Decompositions,
  Compositions,
  Combining,
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
  uint32_t longest_token;  // bytes, of the tokens in the vocabulary's hash table
  int32_t bos, eos, unk;
  uint32_t step_count;
  struct {
    uint8_t kind, prefix_space;
  } steps[kMaxTokenizerSteps];
  TableRange tables[static_cast<size_t>(TokenizerTable::Count)];
};
static_assert(sizeof(TokenizerHeader) == 56 + 16 * static_cast<size_t>(TokenizerTable::Count));

// left = -1: free. Hash tables have 2^n slots; a key is in one of the kMaxProbes slots (cyclic) from its hash's top n
// bits on, with no free slot before it.
struct MergeSlot {
  int32_t left, right;
  uint32_t rank;
  int32_t result;
};
struct AddedSlot {
  uint32_t begin, end;  // in AddedBytes
  int32_t id;
  uint32_t flags;
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
  uint64_t h = 0xCBF29CE484222325U;
  for (const char c : bytes) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001B3U;
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
  UnicodeTables unicode;
  std::string_view table(TokenizerTable t) const { return tables[static_cast<size_t>(t)]; }
  std::array<std::string_view, static_cast<size_t>(TokenizerTable::Count)> tables;
};
// Borrows the bytes. Throws PlanError naming the rule that the header breaks.
TokenizerSection ReadTokenizerSection(std::string_view bytes);

}  // namespace llmc
