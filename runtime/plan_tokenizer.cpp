// Writes tokenizer sections, and checks their headers.
#include "runtime/plan_tokenizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "runtime/plan_automaton.h"
#include "runtime/plan_error.h"
#include "runtime/plan_load.h"
#include "runtime/plan_tokenizer_model.h"

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

// The tokens of the model: of several with the same bytes Unigram knows the last, the others the first.
std::vector<std::pair<std::string_view, int32_t>> ModelTokens(const TokenizerTables& t) {
  const std::vector<std::string>& pieces = t.pieces.empty() ? t.tokens : t.pieces;
  std::map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if ((t.token_flags[id] & kTokenInModel) == 0 || pieces[id].empty()) continue;
    const auto [it, fresh] = ids.emplace(pieces[id], static_cast<int32_t>(id));
    if (!fresh && t.model == TokenizerModel::Unigram) it->second = static_cast<int32_t>(id);
  }
  return {ids.begin(), ids.end()};
}

std::string VocabularyTable(const std::vector<std::pair<std::string_view, int32_t>>& tokens, uint32_t& longest) {
  std::vector<uint64_t> hashes;
  hashes.reserve(tokens.size());
  for (const auto& [bytes, id] : tokens) {
    longest = std::max(longest, static_cast<uint32_t>(bytes.size()));
    hashes.push_back(HashBytes(bytes));
  }
  std::string out;
  for (const int32_t key : PlaceKeys(hashes)) {
    const auto index = static_cast<size_t>(key);
    Append(out, key < 0 ? VocabularySlot{0, -1}
                        : VocabularySlot{static_cast<uint32_t>(hashes[index]), tokens[index].second});
  }
  return out;
}

// A double array over tokens, which ascend by their bytes.
class TrieBuilder {
 public:
  explicit TrieBuilder(const std::vector<std::pair<std::string_view, int32_t>>& tokens) : tokens_(tokens) {
    units_.push_back({0, 0, -1});
    if (!tokens.empty()) Add(0, 0, tokens.size(), 0);
  }
  std::string Table() const {
    std::string out;
    for (const TrieUnit& unit : units_) Append(out, unit);
    return out;
  }

 private:
  struct Child {
    uint8_t byte;
    size_t begin, end;
  };

  // The tokens begin..end share `depth` bytes, which lead to node. Tokens are short, so the recursion is shallow.
  void Add(uint32_t node, size_t begin, size_t end, size_t depth) {
    if (tokens_[begin].first.size() == depth) units_[node].id = tokens_[begin++].second;
    if (begin == end) return;
    std::vector<Child> children;
    for (size_t i = begin; i < end; ++i) {
      const auto byte = static_cast<uint8_t>(tokens_[i].first[depth]);
      if (children.empty() || children.back().byte != byte) children.push_back({byte, i, i});
      children.back().end = i + 1;
    }
    const uint32_t base = FreeBase(children);
    units_[node].base = base;
    for (const Child& child : children) units_[base + child.byte] = {0, node, -1};
    for (const Child& child : children) Add(base + child.byte, child.begin, child.end, depth + 1);
  }

  uint32_t FreeBase(const std::vector<Child>& children) {
    auto free = [&](size_t unit) { return unit >= units_.size() || units_[unit].parent == kNoParent; };
    while (!free(first_free_)) ++first_free_;
    size_t tried = 0;
    for (size_t unit = std::max<size_t>(first_free_, size_t{children[0].byte} + 1);; ++unit) {
      if (!free(unit)) continue;
      // Places that were tried often are given up, or dense tables would take quadratic time.
      if (++tried == 64) first_free_ = std::max(first_free_, unit > 512 ? unit - 512 : 0);
      const size_t base = unit - children[0].byte;
      if (!std::all_of(children.begin(), children.end(), [&](const Child& c) { return free(base + c.byte); })) continue;
      units_.resize(std::max(units_.size(), base + 256), {0, kNoParent, -1});
      return static_cast<uint32_t>(base);
    }
  }

  const std::vector<std::pair<std::string_view, int32_t>>& tokens_;
  std::vector<TrieUnit> units_;
  size_t first_free_ = 1;
};

void TextTables(const std::vector<std::string>& texts, std::string& ends, std::string& bytes) {
  uint64_t end = 0;
  for (const std::string& text : texts) {
    Append(ends, static_cast<uint32_t>(end));
    bytes += text;
    end += text.size();
    if (end > UINT32_MAX) FailSection("the tokens have more than 4 GiB of text");
  }
  Append(ends, static_cast<uint32_t>(end));
}

void FirstTables(const TokenizerTables& t, std::string& slots, std::string& bytes) {
  for (size_t id = 0; id < t.first_texts.size(); ++id) {
    if (t.first_texts[id] == t.tokens[id]) continue;
    const auto begin = static_cast<uint32_t>(bytes.size());
    bytes += t.first_texts[id];
    Append(slots, FirstText{static_cast<int32_t>(id), begin, static_cast<uint32_t>(bytes.size())});
  }
}

void StepTables(const std::vector<TokenizerStep>& steps, std::string& records, std::string& data) {
  if (steps.size() > kMaxTokenizerSteps)
    FailSection(std::to_string(steps.size()) + " steps, the limit is " + std::to_string(kMaxTokenizerSteps));
  auto put = [&](const std::string& bytes) {
    const TableRange range = {data.size(), bytes.size()};
    data += bytes;
    data.append((8 - data.size() % 8) % 8, '\0');
    return range;
  };
  for (const TokenizerStep& step : steps) {
    const TableRange table = put(step.table);
    Append(records, StepRecord{step.kind, step.flags, table, put(step.text)});
  }
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
  for (const auto* texts : {&t.pieces, &t.first_texts}) {
    if (!texts->empty() && texts->size() != t.tokens.size()) FailSection("texts and tokens differ in number");
  }
  check(t.bos, -1, "bos");
  check(t.eos, -1, "eos");
  const bool needs_unk = t.model == TokenizerModel::Unigram || t.model == TokenizerModel::WordPiece;
  check(t.unk, needs_unk ? 0 : -1, "unk");
  for (const int32_t id : t.byte_ids) check(id, -1, "byte token");
  for (const Merge& m : t.merges) {
    check(m.left, 0, "merge");
    check(m.right, 0, "merge");
    check(m.result, 0, "merge");
  }
  if (t.model == TokenizerModel::Unigram) {
    if (t.scores.size() != t.tokens.size()) FailSection("scores and tokens differ in number");
    for (const double score : t.scores)
      if (!std::isfinite(score)) FailSection("a score is not a finite number");
  }
  for (const auto* pieces : {&t.single, &t.pair}) {
    if (pieces->size() > kMaxTemplatePieces) FailSection("a template has too many pieces");
    for (const TemplatePiece& piece : *pieces) check(piece.id, kTemplateSecond, "template");
  }
}

// Which tokens the model makes of their own bytes: asked of the model itself, over the finished section.
void MarkWholeTokens(std::string& section) {
  const TokenizerSection s = ReadTokenizerSection(section);
  const size_t flags = s.header.tables[Index(TokenizerTable::TokenFlags)].offset;
  uint64_t steps = 0;
  PieceEncoder encoder(s, steps);
  for (uint32_t id = 0; id < s.header.token_count; ++id) {
    const std::string_view piece = s.PieceBytes(static_cast<int32_t>(id));
    if (piece.empty() || (s.TokenFlags(static_cast<int32_t>(id)) & kTokenInModel) == 0) continue;
    const std::span<const PieceToken> tokens = encoder.Encode(piece);
    if (tokens.size() == 1 && static_cast<uint32_t>(tokens[0].id) == id && tokens[0].end == piece.size())
      section[flags + id] = static_cast<char>(static_cast<uint8_t>(section[flags + id]) | kTokenWhole);
  }
}

}  // namespace

std::string BuildTokenizerSection(const TokenizerTables& t) {
  CheckIds(t);
  std::array<std::string, static_cast<size_t>(TokenizerTable::Count)> tables;
  auto table = [&](TokenizerTable which) -> std::string& { return tables[Index(which)]; };
  using T = TokenizerTable;

  TokenizerHeader header{};
  header.magic = kTokenizerMagic;
  header.version = kTokenizerVersion;
  header.flags = (t.ignore_merges ? kTokenizerIgnoreMerges : 0) | (t.fuse_unk ? kTokenizerFuseUnk : 0) |
                 (t.byte_fallback ? kTokenizerByteFallback : 0);
  header.token_count = static_cast<uint32_t>(t.tokens.size());
  header.bos = t.bos;
  header.eos = t.eos;
  header.unk = t.unk;
  header.model = t.model;
  header.strip_first = t.strip_first;
  header.max_word_chars = t.max_word_chars;

  TextTables(t.tokens, table(T::TokenEnds), table(T::TokenBytes));
  const bool own_pieces = !t.pieces.empty() && t.pieces != t.tokens;
  if (own_pieces) TextTables(t.pieces, table(T::PieceEnds), table(T::PieceBytes));
  FirstTables(t, table(T::FirstTexts), table(T::FirstTextBytes));
  table(T::TokenFlags).assign(t.token_flags.begin(), t.token_flags.end());
  Append(table(T::ByteIds), t.byte_ids);
  table(T::Merges) = MergeTable(t.merges);
  const std::vector<std::pair<std::string_view, int32_t>> model = ModelTokens(t);
  table(T::Vocabulary) = VocabularyTable(model, header.longest_piece);
  if (t.model == TokenizerModel::Unigram || t.model == TokenizerModel::WordPiece)
    table(T::Trie) = TrieBuilder(model).Table();
  if (t.model == TokenizerModel::Unigram) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t id = 0; id < t.scores.size(); ++id) {
      Append(table(T::Scores), t.scores[id]);
      if ((t.token_flags[id] & kTokenInModel) != 0) least = std::min(least, t.scores[id]);
    }
    constexpr double kUnknownPenalty = 10;  // of SentencePiece, below the least score
    header.unk_score = least - kUnknownPenalty;
  }
  if (t.model == TokenizerModel::WordPiece) {
    const std::string& trie = table(T::Trie);
    uint32_t node = 0;
    for (const char c : t.continuing_prefix) {
      const uint64_t child = uint64_t{LoadAt<TrieUnit>(trie, node).base} + static_cast<uint8_t>(c);
      const bool there = child < trie.size() / sizeof(TrieUnit) && LoadAt<TrieUnit>(trie, child).parent == node;
      node = there ? static_cast<uint32_t>(child) : 0;
      if (!there) break;
    }
    header.continuing_node = node;
  }
  AddedTables(t.added_raw, t.tokens.size(), table(T::AddedRaw), table(T::AddedRawFirst), table(T::AddedBytes));
  AddedTables(t.added_normalized, t.tokens.size(), table(T::AddedNormalized), table(T::AddedNormalizedFirst),
              table(T::AddedBytes));
  table(T::WordClasses) = t.word_classes;
  StepTables(t.normalizers, table(T::Normalizers), table(T::StepData));
  StepTables(t.cuts, table(T::Cuts), table(T::StepData));
  for (const TemplatePiece& piece : t.single) Append(table(T::Single), piece);
  for (const TemplatePiece& piece : t.pair) Append(table(T::Pair), piece);

  uint64_t offset = sizeof(TokenizerHeader);
  for (size_t i = 0; i < tables.size(); ++i) {
    header.tables[i] = {offset, tables[i].size()};
    offset += (tables[i].size() + 7) / 8 * 8;
  }
  if (!own_pieces) {
    header.tables[Index(T::PieceEnds)] = header.tables[Index(T::TokenEnds)];
    header.tables[Index(T::PieceBytes)] = header.tables[Index(T::TokenBytes)];
  }
  header.section_bytes = offset;
  std::string out;
  out.reserve(offset);
  Append(out, header);
  for (const std::string& bytes : tables) {
    out += bytes;
    out.append((8 - out.size() % 8) % 8, '\0');
  }
  MarkWholeTokens(out);
  return out;
}

std::string_view TokenizerSection::Slice(TokenizerTable ends, TokenizerTable bytes, int32_t id) const {
  if (static_cast<uint32_t>(id) >= header.token_count) return {};
  const std::string_view all = table(bytes);
  const auto begin = LoadAt<uint32_t>(table(ends), static_cast<size_t>(id));
  const auto end = LoadAt<uint32_t>(table(ends), static_cast<size_t>(id) + 1);
  return begin <= end && end <= all.size() ? std::string_view(all.data() + begin, end - begin) : std::string_view();
}

uint8_t TokenizerSection::TokenFlags(int32_t id) const {
  return static_cast<uint32_t>(id) < header.token_count
             ? static_cast<uint8_t>(table(TokenizerTable::TokenFlags)[static_cast<size_t>(id)])
             : uint8_t{0};
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
  using T = TokenizerTable;
  auto want = [&](T t, uint64_t size) {
    if (s.table(t).size() != size) {
      FailSection("table " + std::to_string(Index(t)) + " has " + std::to_string(s.table(t).size()) +
                  " bytes instead of " + std::to_string(size));
    }
  };
  auto rows = [&](T t, size_t row_bytes, size_t least, size_t most) {
    const size_t size = s.table(t).size();
    if (size % row_bytes != 0 || size / row_bytes < least || size / row_bytes > most) {
      FailSection("table " + std::to_string(Index(t)) + " of " + std::to_string(size) + " bytes isn't " +
                  std::to_string(least) + " to " + std::to_string(most) + " rows of " + std::to_string(row_bytes));
    }
  };
  auto slots = [&](T t, size_t slot_bytes) -> uint32_t {
    const size_t size = s.table(t).size();
    if (size == 0) return 0;
    if (size % slot_bytes != 0 || !std::has_single_bit(size / slot_bytes)) {
      FailSection("hash table " + std::to_string(Index(t)) + " of " + std::to_string(size) +
                  " bytes isn't 2^n slots of " + std::to_string(slot_bytes));
    }
    return static_cast<uint32_t>(std::countr_zero(size / slot_bytes));
  };
  auto added = [&](T t, T first) {
    rows(t, sizeof(AddedSlot), 0, kMaxTokens);
    want(first, s.table(t).empty() ? 0 : 257 * 4);
  };
  if (h.model < TokenizerModel::ByteBpe || h.model > TokenizerModel::WordPiece)
    FailSection("unknown model " + std::to_string(static_cast<uint32_t>(h.model)));
  want(T::TokenEnds, (uint64_t{h.token_count} + 1) * 4);
  want(T::PieceEnds, (uint64_t{h.token_count} + 1) * 4);
  want(T::TokenFlags, h.token_count);
  want(T::ByteIds, 256 * 4);
  rows(T::FirstTexts, sizeof(FirstText), 0, h.token_count);
  s.merge_bits = slots(T::Merges, sizeof(MergeSlot));
  s.vocabulary_bits = slots(T::Vocabulary, sizeof(VocabularySlot));
  const bool trie = h.model == TokenizerModel::Unigram || h.model == TokenizerModel::WordPiece;
  rows(T::Trie, sizeof(TrieUnit), trie ? 1 : 0, trie ? UINT32_MAX - 1U : 0);
  if (h.continuing_node != 0 && h.continuing_node >= s.table(T::Trie).size() / sizeof(TrieUnit))
    FailSection("the trie has no node " + std::to_string(h.continuing_node));
  want(T::Scores, h.model == TokenizerModel::Unigram ? uint64_t{h.token_count} * 8 : 0);
  added(T::AddedRaw, T::AddedRawFirst);
  added(T::AddedNormalized, T::AddedNormalizedFirst);
  for (const T t : {T::Normalizers, T::Cuts}) rows(t, sizeof(StepRecord), 0, kMaxTokenizerSteps);
  for (const T t : {T::Single, T::Pair}) rows(t, sizeof(TemplatePiece), 0, kMaxTemplatePieces);
  auto id = [&](int64_t value, int64_t least, const char* what) {
    if (value < least || value >= static_cast<int64_t>(h.token_count)) {
      FailSection(std::string(what) + " id " + std::to_string(value) + " is outside 0.." +
                  std::to_string(h.token_count));
    }
  };
  id(h.bos, -1, "bos");
  id(h.eos, -1, "eos");
  id(h.unk, trie ? 0 : -1, "unk");
  for (const T t : {T::Single, T::Pair}) {
    for (size_t i = 0; i < s.table(t).size() / sizeof(TemplatePiece); ++i)
      id(LoadAt<TemplatePiece>(s.table(t), i).id, kTemplateSecond, "template");
  }
  return s;
}

}  // namespace llmc
