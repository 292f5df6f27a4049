// Patterns as table automata: what a regular expression of a tokenizer became at compile time (frontend/pattern.h), and
// the scanner over the tables. A match is the one that a backtracking engine finds: the first alternative that leads to
// one, not the longest.
//
// Table, little-endian: AutomatonHeader, then `map`, then u16 transitions[states][classes].
//   map          kAutomatonChars: CodePointBytes, a code point's class; kAutomatonBytes: u8[256], a byte's class
//   transitions  of state s on a character of class c: bit 15: the text before this character is a match; low bits: the
//                next state, 0: no match goes on. The last class is the end of the text. State 1 is the start.
// A condition on the character behind a match is thus in the transition that reads it.
#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "runtime/plan_unicode.h"

namespace llmc {

inline constexpr uint32_t kAutomatonChars = 0, kAutomatonBytes = 1;
inline constexpr uint16_t kAutomatonMatch = 0x8000;
inline constexpr size_t kMaxAutomatonBytes = size_t{1} << 20;

struct AutomatonHeader {
  uint32_t kind, states, classes, map_bytes;
};

class Automaton {
 public:
  // Borrows the table. Throws PlanError when its header doesn't fit its size.
  explicit Automaton(std::string_view table);

 private:
  friend class Matcher;
  bool bytes_ = false;
  uint32_t states_ = 0, classes_ = 0;
  std::string_view map_, transitions_;
  uint8_t ascii_[128];  // classes of the first 128 characters
  bool begins_[128];    // whether a match may begin with it
};

// Finds matches in one text, from the left. Looks at a bounded number of characters for each of the text's, over all
// calls: places from which a long look ahead found nothing are remembered.
class Matcher {
 public:
  // Adds the characters that were looked at to steps.
  Matcher(const Automaton& automaton, std::string_view text, uint64_t& steps)
      : a_(automaton), text_(text), steps_(steps) {}
  // End of the match that begins at `begin` (< text.size()); `begin` if none does.
  size_t End(size_t begin);
  struct Match {
    size_t begin, end;
  };
  // The first match at or behind `from`; both ends are text.size() if there is none.
  Match Next(size_t from);

 private:
  size_t LongEnd(size_t at, uint32_t state, size_t last);
  uint16_t Step(uint32_t state, uint32_t type) const;
  CodePoint Read(size_t at, uint32_t& type) const;

  const Automaton& a_;
  std::string_view text_;
  uint64_t& steps_;
  std::unordered_set<uint64_t> hopeless_;  // (place, state) from which no match ends
};

}  // namespace llmc
