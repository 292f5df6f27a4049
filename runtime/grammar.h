// A context-free language of byte strings, as what GBNF and JSON schemas are lowered to: rules, each a deterministic
// automaton whose edges are bytes or calls of rules. Characters are lowered to the bytes of their UTF-8, so a text may be
// cut anywhere. runtime/README.md, "Constraints".
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan_error.h"

namespace llmc {

inline constexpr size_t kMostGrammarStates = size_t{1} << 18;
inline constexpr size_t kMostGrammarRules = 65536;
inline constexpr size_t kMostGrammarWork = size_t{1} << 24;  // states looked at while rules are made deterministic

// Bytes low..high lead on.
struct GrammarEdge {
  uint8_t low, high;
  uint32_t target;
};
// What a rule matches, then on from `target`. last: nothing but the end of the rule is behind it.
struct GrammarCall {
  uint32_t start;  // the called rule's state
  uint32_t target;
  bool last;
};
struct GrammarState {
  uint32_t edges, edges_end;  // ascending, apart
  uint32_t calls, calls_end;
  bool ends;  // the rule may end here
};
// From every state some text leads to the end of its rule, and no rule calls itself before a byte.
struct Grammar {
  std::vector<GrammarState> states;
  std::vector<GrammarEdge> edges;
  std::vector<GrammarCall> calls;
  uint32_t start = 0;
  std::array<uint8_t, 256> classes{};  // bytes of one class lead to the same from everywhere
  std::vector<uint8_t> class_bytes;    // one of each class
};

struct CodePointRange {
  uint32_t low, high;
};

// Builds rules out of parts. A part is used once. Beyond a limit every function throws PlanError.
class GrammarBuilder {
 public:
  struct Part {
    uint32_t begin, end;
  };
  // A rule that Define gives its text. name: in messages, with the place.
  uint32_t AddRule(std::string name);
  void Define(uint32_t rule, Part body);
  bool Defined(uint32_t rule) const { return rules_[rule].defined; }

  Part Nothing();  // no text at all, not even the empty one
  Part Empty();
  Part Literal(std::string_view bytes);
  // One character of the ranges, which may overlap; surrogates and what is over U+10FFFF is left out.
  Part Characters(std::span<const CodePointRange> ranges);
  Part Call(uint32_t rule);
  Part Sequence(Part first, Part second);
  // `second` may follow `first`; for graphs that sequences, choices and loops don't make.
  void Join(Part first, Part second) { AddStep(first.end, second.begin, Kind::Pass); }
  Part Choice(std::span<const Part> parts);
  Part Optional(Part part);
  // most: unset for any number.
  Part Repeat(Part part, uint32_t least, std::optional<uint32_t> most);

  // Throws PlanError: a rule that isn't defined, one that calls itself before any byte, a root that matches no text, and
  // when the rules' automata are over a limit.
  Grammar Build(uint32_t root) const;

 private:
  friend class GrammarCompiler;
  enum class Kind : uint8_t { Bytes, Pass, Call };
  struct Step {
    Kind kind;
    uint8_t low, high;
    uint32_t rule, target;
    uint32_t next;  // 1 + number of another step from the same state; 0: none
  };
  struct Rule {
    std::string name;
    Part body{};
    bool defined = false;
  };
  uint32_t AddState();
  void AddStep(uint32_t from, uint32_t to, Kind kind, uint8_t low = 0, uint8_t high = 0, uint32_t rule = 0);
  void AddUtf8(Part part, uint32_t low, uint32_t high);

  std::vector<Rule> rules_;
  std::vector<uint32_t> steps_of_;  // by state: 1 + number of the first step
  std::vector<Step> steps_;
};

// The complement of ranges in all of Unicode.
std::vector<CodePointRange> Complement(std::vector<CodePointRange> ranges);

}  // namespace llmc
