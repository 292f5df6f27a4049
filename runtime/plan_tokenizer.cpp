// Writes tokenizer sections, and checks their headers.
#include "runtime/plan_tokenizer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "runtime/plan_error.h"
#include "runtime/plan_load.h"

namespace llmc {
namespace {

[[noreturn]] void FailSection(const std::string& rule) { throw PlanError("tokenizer section: " + rule); }

template <typename T>
void Append(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

size_t Index(TokenizerTable t) { return static_cast<size_t>(t); }

// Puts keys 0..hashes.size() into a table of 2^n slots at most 3/4 full: slot -> key, or -1. Equal hashes are different
// keys.
std::vector<int32_t> PlaceKeys(const std::vector<uint64_t>& hashes) {
  if (hashes.empty()) return {};
  const auto least_bits = static_cast<uint32_t>(std::bit_width(hashes.size() + hashes.size() / 3));
  for (uint32_t bits = least_bits; bits <= least_bits + 2; ++bits) {
    std::vector<int32_t> slots(size_t{1} << bits, -1);
    bool fits = true;
    for (size_t key = 0; fits && key < hashes.size(); ++key) {
      const size_t first = FirstSlot(hashes[key], bits);
      fits = false;
      for (uint32_t probe = 0; probe < kMaxProbes; ++probe) {
        int32_t& slot = slots[(first + probe) & (slots.size() - 1)];
        if (slot < 0) {
          slot = static_cast<int32_t>(key);
          fits = true;
          break;
        }
      }
    }
    if (fits) return slots;
  }
  FailSection("the vocabulary's hashes collide too often");
}

std::string MergeTable(const std::vector<Merge>& merges) {
  std::unordered_map<uint64_t, size_t> last;  // pair -> rank
  std::vector<uint64_t> hashes;
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& m = merges[rank];
    const uint64_t pair = uint64_t{static_cast<uint32_t>(m.left)} << 32 | static_cast<uint32_t>(m.right);
    const auto [it, fresh] = last.emplace(pair, ranks.size());
    if (!fresh) {
      ranks[it->second] = rank;
      continue;
    }
    ranks.push_back(rank);
    hashes.push_back(HashPair(m.left, m.right));
  }
  std::string out;
  for (const int32_t key : PlaceKeys(hashes)) {
    if (key < 0) {
      Append(out, MergeSlot{-1, -1, 0, -1});
    } else {
      const size_t rank = ranks[static_cast<size_t>(key)];
      const Merge& m = merges[rank];
      Append(out, MergeSlot{m.left, m.right, static_cast<uint32_t>(rank), m.result});
    }
  }
  return out;
}

std::string VocabularyTable(const TokenizerTables& t, uint32_t& longest) {
  std::vector<uint64_t> hashes;
  std::vector<int32_t> ids;
  std::unordered_map<std::string_view, int32_t> seen;  // of tokens with the same bytes the first counts
  for (size_t id = 0; id < t.tokens.size(); ++id) {
    if ((t.token_flags[id] & kTokenInModel) == 0 || t.tokens[id].empty()) continue;
    if (!seen.emplace(t.tokens[id], static_cast<int32_t>(id)).second) continue;
    longest = std::max(longest, static_cast<uint32_t>(t.tokens[id].size()));
    hashes.push_back(HashBytes(t.tokens[id]));
    ids.push_back(static_cast<int32_t>(id));
  }
  std::string out;
  for (const int32_t key : PlaceKeys(hashes)) Append(out, key < 0 ? int32_t{-1} : ids[static_cast<size_t>(key)]);
  return out;
}

void AddedTables(std::vector<AddedToken> added, size_t token_count, std::string& slots, std::string& first,
                 std::string& bytes) {
  std::sort(added.begin(), added.end(), [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  std::array<uint32_t, 257> starts{};
  for (size_t i = 0; i < added.size(); ++i) {
    const AddedToken& token = added[i];
    if (token.content.empty()) FailSection("an added token is empty (id " + std::to_string(token.id) + ")");
    if (token.content.size() > kMaxAddedTokenBytes) {
      FailSection("added token " + std::to_string(token.id) + " has " + std::to_string(token.content.size()) +
                  " bytes, the limit is " + std::to_string(kMaxAddedTokenBytes));
    }
    if (token.id < 0 || static_cast<size_t>(token.id) >= token_count) {
      FailSection("added token id " + std::to_string(token.id) + " is outside 0.." + std::to_string(token_count));
    }
    if (i > 0 && added[i - 1].content == token.content)
      FailSection("added token \"" + token.content + "\" is there twice");
    const auto begin = static_cast<uint32_t>(bytes.size());
    bytes += token.content;
    Append(slots, AddedSlot{begin, static_cast<uint32_t>(bytes.size()), token.id, token.flags});
    ++starts[size_t{static_cast<uint8_t>(token.content[0])} + 1];
  }
  for (size_t b = 0; b < 256; ++b) starts[b + 1] += starts[b];
  if (!added.empty()) Append(first, starts);
}

void CheckIds(const TokenizerTables& t) {
  const auto count = static_cast<int64_t>(t.tokens.size());
  auto check = [&](int64_t id, int64_t low, const char* what) {
    if (id < low || id >= count) {
      FailSection(std::string(what) + " id " + std::to_string(id) + " is outside 0.." + std::to_string(count));
    }
  };
  if (t.tokens.size() > kMaxTokens)
    FailSection(std::to_string(t.tokens.size()) + " tokens, the limit is " + std::to_string(kMaxTokens));
  if (t.token_flags.size() != t.tokens.size()) FailSection("token flags and tokens differ in number");
  if (t.steps.size() > kMaxTokenizerSteps) {
    FailSection(std::to_string(t.steps.size()) + " pre-tokenizer steps, the limit is " +
                std::to_string(kMaxTokenizerSteps));
  }
  check(t.bos, -1, "bos");
  check(t.eos, -1, "eos");
  check(t.unk, -1, "unk");
  if (t.add_bos && t.bos < 0) FailSection("add_bos without a bos id");
  for (const int32_t id : t.byte_ids) check(id, -1, "byte token");
  for (const Merge& m : t.merges) {
    check(m.left, 0, "merge");
    check(m.right, 0, "merge");
    check(m.result, 0, "merge");
  }
}

}  // namespace

std::string BuildTokenizerSection(const TokenizerTables& t) {
  CheckIds(t);
  std::array<std::string, static_cast<size_t>(TokenizerTable::Count)> tables;
  auto table = [&](TokenizerTable which) -> std::string& { return tables[Index(which)]; };

  uint64_t end = 0;
  for (const std::string& token : t.tokens) {
    Append(table(TokenizerTable::TokenEnds), static_cast<uint32_t>(end));
    table(TokenizerTable::TokenBytes) += token;
    end += token.size();
    if (end > UINT32_MAX) FailSection("the tokens have more than 4 GiB of text");
  }
  Append(table(TokenizerTable::TokenEnds), static_cast<uint32_t>(end));
  table(TokenizerTable::TokenFlags).assign(t.token_flags.begin(), t.token_flags.end());
  Append(table(TokenizerTable::ByteIds), t.byte_ids);
  table(TokenizerTable::Merges) = MergeTable(t.merges);
  uint32_t longest = 0;
  if (t.ignore_merges) table(TokenizerTable::Vocabulary) = VocabularyTable(t, longest);
  AddedTables(t.added_raw, t.tokens.size(), table(TokenizerTable::AddedRaw), table(TokenizerTable::AddedRawFirst),
              table(TokenizerTable::AddedBytes));
  AddedTables(t.added_normalized, t.tokens.size(), table(TokenizerTable::AddedNormalized),
              table(TokenizerTable::AddedNormalizedFirst), table(TokenizerTable::AddedBytes));
  table(TokenizerTable::ClassIndex) = t.unicode.class_index;
  table(TokenizerTable::ClassPages) = t.unicode.class_pages;
  if (t.nfc) {
    table(TokenizerTable::Decompositions) = t.unicode.decompositions;
    table(TokenizerTable::Compositions) = t.unicode.compositions;
    table(TokenizerTable::Combining) = t.unicode.combining;
  }

  TokenizerHeader header{};
  header.magic = kTokenizerMagic;
  header.version = kTokenizerVersion;
  header.flags = (t.nfc ? kTokenizerNfc : 0) | (t.ignore_merges ? kTokenizerIgnoreMerges : 0) |
                 (t.fuse_unk ? kTokenizerFuseUnk : 0) | (t.add_bos ? kTokenizerAddBos : 0);
  header.token_count = static_cast<uint32_t>(t.tokens.size());
  header.longest_token = longest;
  header.bos = t.bos;
  header.eos = t.eos;
  header.unk = t.unk;
  header.step_count = static_cast<uint32_t>(t.steps.size());
  for (size_t i = 0; i < t.steps.size(); ++i) {
    header.steps[i] = {static_cast<uint8_t>(t.steps[i].kind), static_cast<uint8_t>(t.steps[i].prefix_space)};
  }
  uint64_t offset = sizeof(TokenizerHeader);
  for (size_t i = 0; i < tables.size(); ++i) {
    header.tables[i] = {offset, tables[i].size()};
    offset += (tables[i].size() + 7) / 8 * 8;
  }
  header.section_bytes = offset;
  std::string out;
  out.reserve(offset);
  Append(out, header);
  for (const std::string& bytes : tables) {
    out += bytes;
    out.append((8 - out.size() % 8) % 8, '\0');
  }
  return out;
}

TokenizerSection ReadTokenizerSection(std::string_view bytes) {
  TokenizerSection s{};
  if (bytes.size() < sizeof(TokenizerHeader)) {
    FailSection("has " + std::to_string(bytes.size()) + " bytes, its header alone " +
                std::to_string(sizeof(TokenizerHeader)));
  }
  std::memcpy(&s.header, bytes.data(), sizeof(TokenizerHeader));
  const TokenizerHeader& h = s.header;
  if (h.magic != kTokenizerMagic) FailSection("wrong magic");
  if (h.version != kTokenizerVersion) {
    FailSection("version " + std::to_string(h.version) + ", this program reads " + std::to_string(kTokenizerVersion));
  }
  if (h.section_bytes > bytes.size()) {
    FailSection("says " + std::to_string(h.section_bytes) + " bytes, has " + std::to_string(bytes.size()));
  }
  if (h.token_count > kMaxTokens)
    FailSection(std::to_string(h.token_count) + " tokens, the limit is " + std::to_string(kMaxTokens));
  for (size_t i = 0; i < s.tables.size(); ++i) {
    const TableRange& range = h.tables[i];
    if (range.offset > bytes.size() || range.size > bytes.size() - range.offset) {
      FailSection("table " + std::to_string(i) + " is " + std::to_string(range.size) + " bytes at " +
                  std::to_string(range.offset) + ", beyond the section's " + std::to_string(bytes.size()));
    }
    s.tables[i] = bytes.substr(range.offset, range.size);
  }
  auto want = [&](TokenizerTable t, uint64_t size) {
    if (s.table(t).size() != size) {
      FailSection("table " + std::to_string(Index(t)) + " has " + std::to_string(s.table(t).size()) +
                  " bytes instead of " + std::to_string(size));
    }
  };
  auto slots = [&](TokenizerTable t, size_t slot_bytes) -> uint32_t {
    const size_t size = s.table(t).size();
    if (size == 0) return 0;
    if (size % slot_bytes != 0 || !std::has_single_bit(size / slot_bytes)) {
      FailSection("hash table " + std::to_string(Index(t)) + " of " + std::to_string(size) +
                  " bytes isn't 2^n slots of " + std::to_string(slot_bytes));
    }
    return static_cast<uint32_t>(std::countr_zero(size / slot_bytes));
  };
  auto added = [&](TokenizerTable t, TokenizerTable first) {
    if (s.table(t).size() % sizeof(AddedSlot) != 0) FailSection("added tokens: not a whole number of slots");
    want(first, s.table(t).empty() ? 0 : 257 * 4);
  };
  want(TokenizerTable::TokenEnds, (uint64_t{h.token_count} + 1) * 4);
  want(TokenizerTable::TokenFlags, h.token_count);
  want(TokenizerTable::ByteIds, 256 * 4);
  s.merge_bits = slots(TokenizerTable::Merges, sizeof(MergeSlot));
  s.vocabulary_bits = slots(TokenizerTable::Vocabulary, 4);
  added(TokenizerTable::AddedRaw, TokenizerTable::AddedRawFirst);
  added(TokenizerTable::AddedNormalized, TokenizerTable::AddedNormalizedFirst);
  if (h.step_count > kMaxTokenizerSteps) {
    FailSection(std::to_string(h.step_count) + " pre-tokenizer steps, the limit is " +
                std::to_string(kMaxTokenizerSteps));
  }
  for (uint32_t i = 0; i < h.step_count; ++i) {
    if (h.steps[i].kind < static_cast<uint8_t>(StepKind::Digit) ||
        h.steps[i].kind > static_cast<uint8_t>(StepKind::Whole) || h.steps[i].prefix_space > 1) {
      FailSection("pre-tokenizer step " + std::to_string(i) + " is of unknown kind " + std::to_string(h.steps[i].kind));
    }
  }
  auto id = [&](int32_t value, const char* what) {
    if (value < -1 || value >= static_cast<int64_t>(h.token_count)) {
      FailSection(std::string(what) + " id " + std::to_string(value) + " is outside 0.." +
                  std::to_string(h.token_count));
    }
  };
  id(h.bos, "bos");
  id(h.eos, "eos");
  id(h.unk, "unk");
  if ((h.flags & kTokenizerAddBos) != 0 && h.bos < 0) FailSection("add_bos without a bos id");
  s.unicode = {s.table(TokenizerTable::ClassIndex), s.table(TokenizerTable::ClassPages),
               s.table(TokenizerTable::Decompositions), s.table(TokenizerTable::Compositions),
               s.table(TokenizerTable::Combining)};
  return s;
}

}  // namespace llmc
