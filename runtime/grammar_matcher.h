// Where a text stands in a grammar: the set of stacks of rules that are open. Sets are numbered, and where a byte leads
// from one is kept, so that a grammar becomes a deterministic automaton as far as texts reach into it.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/grammar.h"

namespace llmc {

inline constexpr uint32_t kMostGrammarDepth = 4096;    // open rules; deeper texts don't match
inline constexpr size_t kMostGrammarStacks = 1 << 14;  // of one place, stacks on the way to a byte among them

class GrammarMatcher {
 public:
  // A place in a text. 0: no text of the grammar goes on so.
  using Place = uint32_t;
  static constexpr Place kDead = 0;

  explicit GrammarMatcher(Grammar grammar);

  Place start() const { return start_; }
  // Throws PlanError when the text can be read in more ways than kMostGrammarStacks.
  Place Step(Place place, uint8_t byte) {
    const Place next = next_[place * width_ + grammar_.classes[byte]];
    return next != kUnknown ? next : Advance(place, grammar_.classes[byte]);
  }
  bool Ends(Place place) const { return places_[place].ends; }  // the text is one of the grammar
  // The same, and no longer one of the grammar begins with it.
  bool Finished(Place place) const { return places_[place].ends && places_[place].stacks.empty(); }

  size_t bytes() const { return bytes_; }  // of memory, about
  // Forgets all places but `place` and the start; returns the number that it has from now on.
  Place Forget(Place place);

 private:
  static constexpr Place kUnknown = UINT32_MAX;
  // A stack: where its top is, and the stack that the rule was called from, where that one goes on.
  struct Stack {
    uint32_t state, under;  // under: number of a stack; 0: none
    uint32_t depth;
  };
  struct PlaceInfo {
    std::vector<uint32_t> stacks;  // ascending: those whose top has bytes
    bool ends = false;
    Place next_same_hash = kDead;
  };
  void Clear();
  uint32_t StackOf(uint32_t state, uint32_t under);
  Place PlaceOf(std::vector<uint32_t> tops);
  Place Advance(Place place, uint8_t byte_class);

  Grammar grammar_;
  size_t width_;  // classes of bytes
  std::vector<Stack> stacks_;
  std::unordered_map<uint64_t, uint32_t> stack_numbers_;  // by state and under
  std::vector<PlaceInfo> places_;
  std::unordered_map<uint64_t, Place> place_numbers_;  // by hash; the others through next_same_hash
  std::vector<Place> next_;                            // by place and class
  std::vector<uint32_t> seen_;                         // by stack: the closure that saw it last
  uint32_t closure_ = 0;
  Place start_ = kDead;
  size_t bytes_ = 0;
};

}  // namespace llmc
