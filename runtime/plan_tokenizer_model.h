// From a piece of text to tokens, over a tokenizer section: BPE, Unigram, WordPiece. In the plan's layer, because the
// writer of a section asks which tokens the model makes of their own bytes.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/plan_piece_cache.h"
#include "runtime/plan_tokenizer.h"

namespace llmc {

struct PieceToken {
  int32_t id;
  uint32_t begin, end;  // bytes of the piece; of a character that became several tokens each may be a part or all of it
};

class PieceEncoder {
 public:
  // Counts bytes and characters compared and pairs looked up in steps.
  PieceEncoder(const TokenizerSection& section, uint64_t& steps) : s_(section), steps_(steps) {}

  // The id of a piece that is one token, whatever the model would look at; else -1.
  int32_t Whole(std::string_view piece);
  // The tokens of a piece, valid until the next call. Ids may be outside the vocabulary if the tables are damaged.
  std::span<const PieceToken> Encode(std::string_view piece);
  // Calls token(id, begin, end) for each token of a piece, that of Whole or those of Encode, which it remembers once
  // Remember has been told the size of the text that the pieces are from.
  template <typename Token>
  void Tokens(std::string_view piece, const Token& token);
  void Remember(size_t text_bytes) { cache_.Reserve(text_bytes); }

 private:
  struct Symbol {
    int32_t id;
    uint32_t begin, bytes;  // of the piece; bytes 0: merged into the one before
    uint32_t previous, next;
  };
  // A pair that may merge. Pairs are taken by rank, then from the left. The pair at a place only ever grows, so it is
  // the same one exactly if its bytes are.
  struct Candidate {
    uint32_t rank, at;
    int32_t result;
    uint32_t bytes;
    bool operator>(const Candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  // The best way to a place of a piece.
  struct Arrival {
    double score;
    uint32_t begin;  // of its last token
    int32_t id;
  };

  std::span<const PieceToken> Look(std::string_view piece, PieceCache::Entry* keep);
  int32_t FindToken(std::string_view bytes, uint8_t flags);
  MergeSlot FindMerge(int32_t left, int32_t right);
  uint32_t TrieChild(uint32_t node, uint8_t byte);
  int32_t TrieId(uint32_t node) const;

  void Bpe(std::string_view piece);
  void ByteSymbols(std::string_view piece);
  void CharSymbols(std::string_view piece);
  void AddSymbol(int32_t id, size_t begin, size_t bytes);
  void MergeFew();
  void MergeMany();
  void AddCandidate(uint32_t at);
  void Unigram(std::string_view piece);
  void EmitUnigram(std::string_view piece, size_t begin, size_t end, int32_t id);
  bool FallBack(std::string_view character, size_t begin, bool whole_spans);
  void WordPiece(std::string_view piece);

  const TokenizerSection& s_;
  uint64_t& steps_;
  PieceCache cache_;
  std::vector<PieceToken> tokens_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;
  std::vector<MergeSlot> pairs_;
  std::vector<Arrival> arrivals_;
};

template <typename Token>
void PieceEncoder::Tokens(std::string_view piece, const Token& token) {
  PieceCache::Entry* const entry = cache_.Find(piece);
  if (entry == nullptr || entry->tokens == 0) {
    for (const PieceToken& t : Look(piece, entry)) token(t.id, t.begin, t.end);
    return;
  }
  ++steps_;
  for (uint32_t i = 0, begin = 0; i < entry->tokens; ++i) {
    token(entry->ids[i], begin, uint32_t{entry->ends[i]});
    begin = entry->ends[i];
  }
}

}  // namespace llmc
