// Regular expressions of tokenizers, compiled to table automata (runtime/plan_automaton.h).
//
// Syntax and meaning are Oniguruma's (Ruby syntax, UTF-8), which Hugging Face's tokenizers uses, as far as a table can
// follow: literals and escapes; . \d \w \s \h and their negations; \p{..}, \P{..}, \p{^..} with general categories,
// scripts and a few properties; classes with ranges, negation, nesting, POSIX brackets and &&; groups, alternatives;
// * + ? {n,m} greedy or lazy, up to 1,000 times; possessive *+ ++ ?+ of one character; (?i:..) and (?i) with simple
// case folding; $ \z, and (?=c) and (?!c) where c is one character of a class. Refused, with the pattern: longer
// lookaheads, lookbehind, other anchors, backreferences, atomic groups, patterns that match nothing at all or repeat
// such a part without limit, automata beyond kMaxAutomatonBytes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "frontend/unicode.h"

namespace llmc {

// What stands in a pattern. Internal to the two files of the compiler, and to the tests' own matcher.
struct PatternNode {
  enum class Kind : uint8_t {
    Set,        // one character of set
    Sequence,   // parts one after another
    Choice,     // the first of parts that leads to a match
    Repeat,     // parts[0], min to max times
    Condition,  // the next character is of set, or there is none and at_end is true; takes nothing
  };
  Kind kind = Kind::Sequence;
  CodeSet set = {};
  bool at_end = false;
  std::vector<PatternNode> parts = {};
  uint32_t min = 0, max = 0;  // max kUnlimited: any number
  bool lazy = false;
};
inline constexpr uint32_t kUnlimited = UINT32_MAX;
inline constexpr uint32_t kMostRepeats = 1000;

// Why a pattern is refused, in words that follow "the pattern ...".
struct PatternError {
  std::string reason;
};
// Throws PatternError.
PatternNode ParsePattern(std::string_view pattern);

enum class PatternInput : uint8_t {
  Characters,
  ByteLetters,  // the text is bytes, the pattern speaks of the letters that stand for them (GPT-2's byte alphabet)
};
// Throws PatternError.
std::string CompilePattern(const PatternNode& pattern, PatternInput input = PatternInput::Characters);
std::string CompilePattern(std::string_view pattern, PatternInput input = PatternInput::Characters);
// A pattern that matches exactly this text, or one character of this set.
PatternNode TextPattern(std::string_view text);
PatternNode SetPattern(const CodeSet& set);

// The letter that stands for a byte in GPT-2's byte alphabet: bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for the
// code points of the same value, all others, ascending, for U+0100 and up.
uint32_t LetterOfByte(uint8_t byte);
// The byte that a letter stands for, or -1.
int ByteOfLetter(uint32_t code_point);

}  // namespace llmc
