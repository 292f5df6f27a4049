// Which tokens may come next so that the text stays a beginning of one of a grammar's, wherever tokens cut it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/grammar_matcher.h"
#include "runtime/token_trie.h"
#include "runtime/tokenizer.h"

namespace llmc {

class TokenConstraint {
 public:
  // Keeps the tokenizer's views of its section. stop_ids: what ends the text; they may come where the grammar can end.
  // Special tokens and those without text never come. Sorts the vocabulary.
  TokenConstraint(Grammar grammar, const Tokenizer& tokenizer, std::span<const int32_t> stop_ids);

  void Reset();  // a new text begins
  // Excludes (-inf) the ids that may not come. Throws PlanError for a text that can be read in too many ways.
  void Apply(std::span<float> scores);
  // The token that came. One that Apply excludes leaves a text after which no id may come.
  void Accept(int32_t id);
  // The text is one of the grammar, and no longer one begins with it.
  bool finished() const { return matcher_.Finished(place_); }

 private:
  using Mask = std::vector<uint64_t>;  // a bit an id
  using Place = GrammarMatcher::Place;
  const Mask& MaskOf(Place place);
  Mask Walk(Place place);
  Mask AtTheStart();
  // Where the text stands behind a token. first: nothing stands before it, and `strip` spaces at the start vanish.
  Place Behind(Place place, int32_t id, bool first, uint32_t& strip);
  std::string_view TextOf(int32_t id) const;

  Tokenizer tokenizer_;
  std::vector<int32_t> stop_ids_;  // ascending
  GrammarMatcher matcher_;
  TokenTrie trie_;
  Place place_;
  bool first_ = true;
  uint32_t strip_ = 0;  // as StreamDecoder's
  std::unordered_map<Place, Mask> masks_;
  size_t mask_bytes_ = 0;
};

}  // namespace llmc
