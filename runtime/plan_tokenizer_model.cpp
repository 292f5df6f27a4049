// Orders of steps and corner cases follow Hugging Face's tokenizers, which is the oracle of the tests.
#include "runtime/plan_tokenizer_model.h"

#include <algorithm>
#include <functional>

#include "runtime/plan_load.h"

namespace llmc {
namespace {

// Up to so many symbols the best pair is searched for, beyond them kept in a heap.
constexpr size_t kFewSymbols = 24;

}  // namespace

int32_t PieceEncoder::FindToken(std::string_view bytes, uint8_t flags) {
  if (bytes.size() > s_.header.longest_piece || bytes.empty()) return -1;
  const std::string_view table = s_.table(TokenizerTable::Vocabulary);
  const size_t slots = table.size() / sizeof(VocabularySlot);
  const uint64_t hash = HashBytes(bytes);
  const size_t first = FirstSlot(hash, s_.vocabulary_bits);
  for (size_t probe = 0; probe < std::min<size_t>(slots, kMaxProbes); ++probe) {
    ++steps_;
    const auto slot = LoadAt<VocabularySlot>(table, (first + probe) & (slots - 1));
    if (slot.id < 0) return -1;
    if (slot.tag != static_cast<uint32_t>(hash) || s_.PieceBytes(slot.id) != bytes) continue;
    return (s_.TokenFlags(slot.id) & flags) == flags ? slot.id : -1;
  }
  return -1;
}

MergeSlot PieceEncoder::FindMerge(int32_t left, int32_t right) {
  const std::string_view table = s_.table(TokenizerTable::Merges);
  const size_t slots = table.size() / sizeof(MergeSlot);
  const size_t first = FirstSlot(HashPair(left, right), s_.merge_bits);
  for (size_t probe = 0; probe < std::min<size_t>(slots, kMaxProbes); ++probe) {
    ++steps_;
    const auto slot = LoadAt<MergeSlot>(table, (first + probe) & (slots - 1));
    if (slot.left < 0 || (slot.left == left && slot.right == right)) return slot;
  }
  return {-1, -1, 0, -1};
}

uint32_t PieceEncoder::TrieChild(uint32_t node, uint8_t byte) {
  ++steps_;
  const std::string_view trie = s_.table(TokenizerTable::Trie);
  const uint64_t child = uint64_t{LoadAt<TrieUnit>(trie, node).base} + byte;
  if (child == 0 || child >= trie.size() / sizeof(TrieUnit)) return 0;
  return LoadAt<TrieUnit>(trie, child).parent == node ? static_cast<uint32_t>(child) : 0;
}

int32_t PieceEncoder::TrieId(uint32_t node) const { return LoadAt<TrieUnit>(s_.table(TokenizerTable::Trie), node).id; }

int32_t PieceEncoder::Whole(std::string_view piece) {
  const bool any = (s_.header.flags & kTokenizerIgnoreMerges) != 0;
  return FindToken(piece, any ? kTokenInModel : kTokenInModel | kTokenWhole);
}

std::span<const PieceToken> PieceEncoder::Encode(std::string_view piece) {
  tokens_.clear();
  switch (s_.header.model) {
    case TokenizerModel::ByteBpe:
    case TokenizerModel::CharBpe: Bpe(piece); break;
    case TokenizerModel::Unigram: Unigram(piece); break;
    case TokenizerModel::WordPiece: WordPiece(piece); break;
  }
  return tokens_;
}

// Tokens that lie side by side are kept; others (dropped bytes, several tokens for a character) are looked up again.
std::span<const PieceToken> PieceEncoder::Look(std::string_view piece, PieceCache::Entry* keep) {
  if (const int32_t id = Whole(piece); id >= 0) {
    tokens_.assign(1, {id, 0, static_cast<uint32_t>(piece.size())});
  } else {
    Encode(piece);
  }
  if (keep == nullptr || tokens_.size() > PieceCache::kMostTokens) return tokens_;
  uint32_t end = 0;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].begin != end || tokens_[i].end > piece.size()) return tokens_;
    end = tokens_[i].end;
    keep->ends[i] = static_cast<uint8_t>(end);
    keep->ids[i] = tokens_[i].id;
  }
  keep->tokens = static_cast<uint8_t>(tokens_.size());
  return tokens_;
}

// ---- BPE ----------------------------------------------------------------------------------------------------------

void PieceEncoder::Bpe(std::string_view piece) {
  symbols_.clear();
  if (s_.header.model == TokenizerModel::ByteBpe) {
    ByteSymbols(piece);
  } else {
    CharSymbols(piece);
  }
  if (symbols_.size() <= kFewSymbols) {
    MergeFew();
  } else {
    MergeMany();
  }
  for (uint32_t i = 0; i < symbols_.size(); i = symbols_[i].next) {
    const Symbol& symbol = symbols_[i];
    tokens_.push_back({symbol.id, symbol.begin, symbol.begin + symbol.bytes});
  }
}

void PieceEncoder::AddSymbol(int32_t id, size_t begin, size_t bytes) {
  const auto index = static_cast<uint32_t>(symbols_.size());
  symbols_.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(bytes), index - 1, index + 1});
}

void PieceEncoder::ByteSymbols(std::string_view piece) {
  bool unknown_before = false;
  for (size_t at = 0; at < piece.size(); ++at) {
    int32_t id = LoadAt<int32_t>(s_.table(TokenizerTable::ByteIds), static_cast<uint8_t>(piece[at]));
    const bool unknown = id < 0;
    if (unknown) id = s_.header.unk;
    if (id < 0) continue;  // no token and no unk: dropped
    if (unknown && unknown_before && (s_.header.flags & kTokenizerFuseUnk) != 0) {
      ++symbols_.back().bytes;
      continue;
    }
    AddSymbol(id, at, 1);
    unknown_before = unknown;
  }
}

// Characters that fall back to bytes do not end a run of unknown ones before them: the run's unk comes behind them.
void PieceEncoder::CharSymbols(std::string_view piece) {
  const bool fuse = (s_.header.flags & kTokenizerFuseUnk) != 0;
  size_t unknown_begin = 0, unknown_bytes = 0;
  auto flush = [&] {
    if (unknown_bytes != 0) AddSymbol(s_.header.unk, unknown_begin, unknown_bytes);
    unknown_bytes = 0;
  };
  for (size_t at = 0; at < piece.size();) {
    const size_t bytes = DecodeUtf8(piece, at).bytes;
    const std::string_view character = piece.substr(at, bytes);
    if (const int32_t id = FindToken(character, kTokenInModel); id >= 0) {
      flush();
      AddSymbol(id, at, bytes);
    } else if (!FallBack(character, at, false) && s_.header.unk >= 0) {
      if (!fuse) flush();
      if (unknown_bytes == 0) unknown_begin = at;
      unknown_bytes += bytes;
    }
    at += bytes;
  }
  flush();
}

// The bytes of a character as tokens, if that is wanted and each byte has one: symbols, or tokens_ for whole_spans.
bool PieceEncoder::FallBack(std::string_view character, size_t begin, bool whole_spans) {
  if ((s_.header.flags & kTokenizerByteFallback) == 0) return false;
  auto byte_id = [&](char c) { return LoadAt<int32_t>(s_.table(TokenizerTable::ByteIds), static_cast<uint8_t>(c)); };
  if (std::any_of(character.begin(), character.end(), [&](char c) { return byte_id(c) < 0; })) return false;
  for (size_t i = 0; i < character.size(); ++i) {
    if (whole_spans) {
      tokens_.push_back(
          {byte_id(character[i]), static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + character.size())});
    } else {
      AddSymbol(byte_id(character[i]), begin + i, 1);
    }
  }
  return true;
}

void PieceEncoder::MergeFew() {
  auto count = static_cast<uint32_t>(symbols_.size());
  if (count < 2) return;
  constexpr MergeSlot kNone = {-1, -1, 0, -1};
  pairs_.resize(count);
  for (uint32_t i = 0; i + 1 < count; ++i) pairs_[i] = FindMerge(symbols_[i].id, symbols_[i + 1].id);
  while (count > 1) {
    uint32_t best = count;
    for (uint32_t i = 0; i + 1 < count; ++i) {
      if (pairs_[i].left >= 0 && (best == count || pairs_[i].rank < pairs_[best].rank)) best = i;
    }
    if (best == count) break;
    symbols_[best].id = pairs_[best].result;
    symbols_[best].bytes = symbols_[best + 1].begin + symbols_[best + 1].bytes - symbols_[best].begin;
    for (uint32_t i = best + 1; i + 1 < count; ++i) {
      symbols_[i] = symbols_[i + 1];
      pairs_[i] = pairs_[i + 1];
    }
    --count;
    if (best > 0) pairs_[best - 1] = FindMerge(symbols_[best - 1].id, symbols_[best].id);
    pairs_[best] = best + 1 < count ? FindMerge(symbols_[best].id, symbols_[best + 1].id) : kNone;
  }
  symbols_.resize(count);
  for (uint32_t i = 0; i < count; ++i) symbols_[i].next = i + 1;
}

void PieceEncoder::AddCandidate(uint32_t at) {
  const Symbol& left = symbols_[at];
  if (left.next >= symbols_.size()) return;
  const Symbol& right = symbols_[left.next];
  const MergeSlot merge = FindMerge(left.id, right.id);
  if (merge.left >= 0) candidates_.push_back({merge.rank, at, merge.result, left.bytes + right.bytes});
}

void PieceEncoder::MergeMany() {
  candidates_.clear();
  const auto count = static_cast<uint32_t>(symbols_.size());
  for (uint32_t i = 0; i + 1 < count; ++i) AddCandidate(i);
  std::make_heap(candidates_.begin(), candidates_.end(), std::greater<>());
  auto push = [&](uint32_t at) {
    const size_t before = candidates_.size();
    AddCandidate(at);
    if (candidates_.size() != before) std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
  };
  while (!candidates_.empty()) {
    ++steps_;
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    const Candidate top = candidates_.back();
    candidates_.pop_back();
    Symbol& left = symbols_[top.at];
    if (left.bytes == 0 || left.next >= count || left.bytes + symbols_[left.next].bytes != top.bytes)
      continue;  // changed since
    Symbol& right = symbols_[left.next];
    left.id = top.result;
    left.bytes = top.bytes;
    left.next = right.next;
    right.bytes = 0;
    if (left.next < count) symbols_[left.next].previous = top.at;
    if (left.previous < count) push(left.previous);
    push(top.at);
  }
}

// ---- Unigram ------------------------------------------------------------------------------------------------------

void PieceEncoder::Unigram(std::string_view piece) {
  const std::string_view scores = s_.table(TokenizerTable::Scores);
  arrivals_.assign(piece.size() + 1, {0, UINT32_MAX, -1});
  for (size_t begin = 0; begin < piece.size();) {
    const double so_far = arrivals_[begin].score;
    const size_t character = DecodeUtf8(piece, begin).bytes;
    bool single = false;
    uint32_t node = 0;
    for (size_t at = begin; at < piece.size(); ++at) {
      node = TrieChild(node, static_cast<uint8_t>(piece[at]));
      if (node == 0) break;
      const int32_t id = TrieId(node);
      if (static_cast<uint32_t>(id) >= s_.header.token_count) continue;
      Arrival& arrival = arrivals_[at + 1];
      const double score = so_far + LoadAt<double>(scores, static_cast<size_t>(id));
      if (arrival.begin == UINT32_MAX || score > arrival.score) arrival = {score, static_cast<uint32_t>(begin), id};
      single = single || at + 1 - begin == character;
    }
    if (!single) {
      Arrival& arrival = arrivals_[begin + character];
      const double score = so_far + s_.header.unk_score;
      if (arrival.begin == UINT32_MAX || score > arrival.score)
        arrival = {score, static_cast<uint32_t>(begin), s_.header.unk};
    }
    begin += character;
  }
  // Back along the best way; unknown characters side by side are one.
  std::vector<PieceToken>& way = tokens_;
  const bool fuse = (s_.header.flags & kTokenizerFuseUnk) != 0;
  for (size_t end = piece.size(); end > 0;) {
    const Arrival arrival = arrivals_[end];
    if (arrival.begin >= end) break;  // damaged tables
    if (fuse && arrival.id == s_.header.unk && !way.empty() && way.back().id == s_.header.unk) {
      way.back().begin = arrival.begin;
    } else {
      way.push_back({arrival.id, arrival.begin, static_cast<uint32_t>(end)});
    }
    end = arrival.begin;
  }
  std::reverse(way.begin(), way.end());
  if (std::none_of(way.begin(), way.end(), [&](const PieceToken& t) { return t.id == s_.header.unk; })) return;
  const std::vector<PieceToken> chosen = std::move(way);
  tokens_.clear();
  for (const PieceToken& token : chosen) EmitUnigram(piece, token.begin, token.end, token.id);
}

// What is unknown is looked up once more as a whole, then byte by byte.
void PieceEncoder::EmitUnigram(std::string_view piece, size_t begin, size_t end, int32_t id) {
  const std::string_view text = piece.substr(begin, end - begin);
  if (id == s_.header.unk) {
    if (const int32_t found = FindToken(text, kTokenInModel); found >= 0) {
      id = found;
    } else if (FallBack(text, begin, true)) {
      return;
    }
  }
  tokens_.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
}

// ---- WordPiece ----------------------------------------------------------------------------------------------------

void PieceEncoder::WordPiece(std::string_view piece) {
  const PieceToken unknown = {s_.header.unk, 0, static_cast<uint32_t>(piece.size())};
  uint32_t characters = 0;
  for (size_t at = 0; at < piece.size() && characters <= s_.header.max_word_chars; ++characters)
    at += DecodeUtf8(piece, at).bytes;
  if (characters > s_.header.max_word_chars) {
    tokens_ = {unknown};
    return;
  }
  for (size_t begin = 0; begin < piece.size();) {
    uint32_t node = begin == 0 ? 0 : s_.header.continuing_node;
    const bool possible = begin == 0 || node != 0;
    size_t end = begin;
    int32_t id = -1;
    for (size_t at = begin; possible && at < piece.size(); ++at) {
      node = TrieChild(node, static_cast<uint8_t>(piece[at]));
      if (node == 0) break;
      if (TrieId(node) >= 0) {
        id = TrieId(node);
        end = at + 1;
      }
    }
    if (id < 0) {
      tokens_ = {unknown};
      return;
    }
    tokens_.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    begin = end;
  }
}

}  // namespace llmc
