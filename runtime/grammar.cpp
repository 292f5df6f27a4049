// Parts of rules as automata with free passes, and the bytes of characters.
#include "runtime/grammar.h"

#include <algorithm>
#include <bit>

#include "runtime/plan_unicode.h"

namespace llmc {

uint32_t GrammarBuilder::AddState() {
  if (steps_of_.size() >= kMostGrammarStates)
    throw PlanError("the grammar is too large: over " + std::to_string(kMostGrammarStates) + " states");
  steps_of_.push_back(0);
  return static_cast<uint32_t>(steps_of_.size() - 1);
}

void GrammarBuilder::AddStep(uint32_t from, uint32_t to, Kind kind, uint8_t low, uint8_t high, uint32_t rule) {
  if (steps_.size() >= 4 * kMostGrammarStates)
    throw PlanError("the grammar is too large: over " + std::to_string(4 * kMostGrammarStates) + " steps");
  steps_.push_back({kind, low, high, rule, to, steps_of_[from]});
  steps_of_[from] = static_cast<uint32_t>(steps_.size());
}

uint32_t GrammarBuilder::AddRule(std::string name) {
  if (rules_.size() >= kMostGrammarRules)
    throw PlanError("the grammar is too large: over " + std::to_string(kMostGrammarRules) + " rules");
  rules_.push_back({std::move(name)});
  return static_cast<uint32_t>(rules_.size() - 1);
}

void GrammarBuilder::Define(uint32_t rule, Part body) {
  rules_[rule].body = body;
  rules_[rule].defined = true;
}

GrammarBuilder::Part GrammarBuilder::Nothing() {
  const uint32_t begin = AddState();
  return {begin, AddState()};
}

GrammarBuilder::Part GrammarBuilder::Empty() {
  const uint32_t state = AddState();
  return {state, state};
}

GrammarBuilder::Part GrammarBuilder::Literal(std::string_view bytes) {
  Part part = Empty();
  for (const char c : bytes) {
    const uint32_t next = AddState();
    AddStep(part.end, next, Kind::Bytes, static_cast<uint8_t>(c), static_cast<uint8_t>(c));
    part.end = next;
  }
  return part;
}

// low..high have encodings of the same length. Splits them where a byte's range would not be the same for all: the
// standard way from code points to byte ranges.
void GrammarBuilder::AddUtf8(Part part, uint32_t low, uint32_t high) {
  const auto bytes_of = [](uint32_t code_point) {
    std::string bytes;
    AppendUtf8(bytes, code_point);
    return bytes;
  };
  const std::string first = bytes_of(low), last = bytes_of(high);
  for (size_t rest = 1; rest < first.size(); ++rest) {
    const uint32_t mask = (uint32_t{1} << (6 * rest)) - 1;
    if ((low & ~mask) == (high & ~mask)) break;
    if ((low & mask) != 0) {
      AddUtf8(part, low, low | mask);
      return AddUtf8(part, (low | mask) + 1, high);
    }
    if ((high & mask) != mask) {
      AddUtf8(part, low, (high & ~mask) - 1);
      return AddUtf8(part, high & ~mask, high);
    }
  }
  uint32_t at = part.begin;
  for (size_t i = 0; i < first.size(); ++i) {
    const uint32_t next = i + 1 == first.size() ? part.end : AddState();
    AddStep(at, next, Kind::Bytes, static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i]));
    at = next;
  }
}

GrammarBuilder::Part GrammarBuilder::Characters(std::span<const CodePointRange> ranges) {
  // Where the length of an encoding changes, and what lies around the surrogates.
  constexpr CodePointRange kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kMaxCodePoint}};
  const Part part = Nothing();
  for (const CodePointRange& range : ranges) {
    for (const CodePointRange& length : kLengths) {
      const uint32_t low = std::max(range.low, length.low), high = std::min(range.high, length.high);
      if (low <= high) AddUtf8(part, low, high);
    }
  }
  return part;
}

GrammarBuilder::Part GrammarBuilder::Call(uint32_t rule) {
  const Part part = Nothing();
  AddStep(part.begin, part.end, Kind::Call, 0, 0, rule);
  return part;
}

GrammarBuilder::Part GrammarBuilder::Sequence(Part first, Part second) {
  AddStep(first.end, second.begin, Kind::Pass);
  return {first.begin, second.end};
}

GrammarBuilder::Part GrammarBuilder::Choice(std::span<const Part> parts) {
  const Part choice = Nothing();
  for (const Part& part : parts) {
    AddStep(choice.begin, part.begin, Kind::Pass);
    AddStep(part.end, choice.end, Kind::Pass);
  }
  return choice;
}

GrammarBuilder::Part GrammarBuilder::Optional(Part part) {
  const Part none = Empty();
  const Part both[] = {part, none};
  return Choice(both);
}

GrammarBuilder::Part GrammarBuilder::Repeat(Part part, uint32_t least, std::optional<uint32_t> most) {
  if (most == 0) return Empty();
  if (least == 0 && most == 1) return Optional(part);
  const auto loop = [this](Part body) {  // once or more
    const Part whole = Nothing();
    AddStep(whole.begin, body.begin, Kind::Pass);
    AddStep(body.end, body.begin, Kind::Pass);
    AddStep(body.end, whole.end, Kind::Pass);
    return whole;
  };
  if (!most && least == 0) return Optional(loop(part));
  if (!most && least == 1) return loop(part);
  // A rule of its own, so that a copy is one step.
  const uint32_t rule = AddRule("");
  Define(rule, part);
  Part whole = Empty();
  for (uint32_t i = 1; i < least; ++i) whole = Sequence(whole, Call(rule));
  if (!most) return Sequence(whole, loop(Call(rule)));
  if (least > 0) whole = Sequence(whole, Call(rule));
  const uint32_t end = AddState();
  AddStep(whole.end, end, Kind::Pass);
  for (uint32_t i = least; i < *most; ++i) {
    whole = Sequence(whole, Call(rule));
    AddStep(whole.end, end, Kind::Pass);
  }
  return {whole.begin, end};
}

std::vector<CodePointRange> Complement(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
  std::vector<CodePointRange> rest;
  uint32_t next = 0;
  for (const CodePointRange& range : ranges) {
    if (range.low > next) rest.push_back({next, range.low - 1});
    next = std::max(next, range.high + 1);
  }
  if (next <= kMaxCodePoint) rest.push_back({next, kMaxCodePoint});
  return rest;
}

}  // namespace llmc
