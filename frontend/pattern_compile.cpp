// From a pattern's tree to its automaton.
//
// The tree becomes a program (Thompson's construction) whose threads are ordered by preference: of a choice the
// earlier, of a repeat one more time before no more. A state of the automaton is an ordered list of threads, each of
// which has just read a character. Reading the next one, of class c, runs the threads in order up to the characters
// that they want: conditions on the next character are decided by c; a thread that arrives at the end makes the text
// before c a match and cuts off all threads behind it, since a backtracking engine would never come to them. Characters
// that no set of the pattern tells apart are one class.
#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "frontend/pattern.h"
#include "runtime/plan_automaton.h"

namespace llmc {
namespace {

using Kind = PatternNode::Kind;
constexpr size_t kMostInstructions = 50'000;
constexpr size_t kMostThreads = 1'000'000;    // in all states' lists
constexpr uint64_t kMostSteps = 200'000'000;  // a second or so

struct Instruction {
  enum class Op : uint8_t { Set, Condition, Split, Jump, Match };
  Op op;
  uint32_t set = 0;                // Set, Condition: number in sets
  bool at_end = false;             // Condition
  uint32_t first = 0, second = 0;  // Split: first is preferred; Jump: first
};
using Op = Instruction::Op;

class Program {
 public:
  explicit Program(const PatternNode& pattern) {
    Emit(pattern);
    Add({.op = Op::Match});
  }
  std::vector<Instruction> code;
  std::vector<CodeSet> sets;

 private:
  uint32_t Add(Instruction instruction) {
    if (code.size() >= kMostInstructions) throw PatternError{"is too long once its repeats are written out"};
    code.push_back(instruction);
    return static_cast<uint32_t>(code.size() - 1);
  }
  uint32_t Here() const { return static_cast<uint32_t>(code.size()); }
  uint32_t SetNumber(const CodeSet& set) {
    const auto found = std::find(sets.begin(), sets.end(), set);
    if (found != sets.end()) return static_cast<uint32_t>(found - sets.begin());
    sets.push_back(set);
    return static_cast<uint32_t>(sets.size() - 1);
  }

  void Emit(const PatternNode& node) {
    switch (node.kind) {
      case Kind::Set: Add({.op = Op::Set, .set = SetNumber(node.set)}); break;
      case Kind::Condition: Add({.op = Op::Condition, .set = SetNumber(node.set), .at_end = node.at_end}); break;
      case Kind::Sequence:
        for (const PatternNode& part : node.parts) Emit(part);
        break;
      case Kind::Choice: EmitChoice(node); break;
      case Kind::Repeat: EmitRepeat(node); break;
    }
  }

  void EmitChoice(const PatternNode& node) {
    std::vector<uint32_t> ends;
    for (size_t i = 0; i + 1 < node.parts.size(); ++i) {
      const uint32_t split = Add({.op = Op::Split});
      code[split].first = Here();
      Emit(node.parts[i]);
      ends.push_back(Add({.op = Op::Jump}));
      code[split].second = Here();
    }
    Emit(node.parts.back());
    for (const uint32_t jump : ends) code[jump].first = Here();
  }

  // A split between going on (`into`) and what comes behind; filled in by Close.
  uint32_t Open() { return Add({.op = Op::Split}); }
  void Close(uint32_t split, uint32_t into, bool lazy) {
    code[split].first = lazy ? Here() : into;
    code[split].second = lazy ? into : Here();
  }

  static bool MayBeEmpty(const PatternNode& node) {
    auto empty = [](const PatternNode& part) { return MayBeEmpty(part); };
    switch (node.kind) {
      case Kind::Set: return false;
      case Kind::Condition: return true;
      case Kind::Sequence: return std::all_of(node.parts.begin(), node.parts.end(), empty);
      case Kind::Choice: return std::any_of(node.parts.begin(), node.parts.end(), empty);
      case Kind::Repeat: return node.min == 0 || MayBeEmpty(node.parts[0]);
    }
    return false;
  }

  // What a round that takes nothing means for the rounds behind it differs from engine to engine, and a thread that
  // comes back to where it was loses its place in the order.
  void EmitRepeat(const PatternNode& node) {
    const PatternNode& part = node.parts[0];
    if (node.max == kUnlimited && MayBeEmpty(part)) throw PatternError{"repeats without limit what may match nothing"};
    for (uint32_t i = 0; i < node.min; ++i) Emit(part);
    if (node.max == kUnlimited) {
      const uint32_t split = Open();
      const uint32_t into = Here();
      Emit(part);
      Add({.op = Op::Jump, .first = split});
      Close(split, into, node.lazy);
      return;
    }
    std::vector<uint32_t> splits;
    for (uint32_t i = node.min; i < node.max; ++i) {
      splits.push_back(Open());
      Emit(part);
    }
    for (const uint32_t split : splits) Close(split, split + 1, node.lazy);
  }
};

// Characters that are in the same sets are one class.
struct Classes {
  std::vector<std::vector<bool>> members;  // of each class, whether it is in each set
  std::string map;                         // as in the table
  uint32_t count() const { return static_cast<uint32_t>(members.size()); }

  uint8_t Add(const std::vector<bool>& in) {
    const auto [it, fresh] = numbers_.emplace(in, members.size());
    if (fresh) {
      if (members.size() == 255) throw PatternError{"tells more than 255 classes of characters apart"};
      members.push_back(in);
    }
    return static_cast<uint8_t>(it->second);
  }

 private:
  std::map<std::vector<bool>, size_t> numbers_;
};

Classes ClassesOf(const std::vector<CodeSet>& sets, PatternInput input) {
  Classes out;
  auto sets_of = [&](uint32_t c) {
    std::vector<bool> in(sets.size());
    for (size_t i = 0; i < sets.size(); ++i) in[i] = sets[i].Contains(c);
    return in;
  };
  if (input == PatternInput::ByteLetters) {
    for (uint32_t b = 0; b < 256; ++b)
      out.map.push_back(static_cast<char>(out.Add(sets_of(LetterOfByte(static_cast<uint8_t>(b))))));
    return out;
  }
  std::vector<uint32_t> starts = {0};
  for (const CodeSet& set : sets) {
    for (const CodeRange& r : set.ranges()) {
      starts.push_back(r.first);
      if (r.last < kMaxCodePoint) starts.push_back(r.last + 1);
    }
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  std::vector<std::vector<CodeRange>> ranges;
  for (size_t i = 0; i < starts.size(); ++i) {
    const uint8_t number = out.Add(sets_of(starts[i]));
    if (number >= ranges.size()) ranges.resize(size_t{number} + 1);
    ranges[number].push_back({starts[i], i + 1 < starts.size() ? starts[i + 1] - 1 : kMaxCodePoint});
  }
  std::vector<CodeSet> class_sets;
  std::vector<uint8_t> values;
  for (size_t i = 0; i < ranges.size(); ++i) {
    class_sets.emplace_back(std::move(ranges[i]));
    values.push_back(static_cast<uint8_t>(i));
  }
  out.map = CodePointTable(class_sets, values);
  return out;
}

class Determinizer {
 public:
  Determinizer(const Program& program, const Classes& classes) : program_(program), classes_(classes) {}

  std::vector<uint16_t> Run() {
    const size_t columns = size_t{classes_.count()} + 1;
    const size_t most_states =
        std::min<size_t>(kAutomatonMatch - 1U, (kMaxAutomatonBytes - classes_.map.size()) / (columns * 2));
    std::vector<uint16_t> transitions(columns);  // state 0
    Number({0});
    for (size_t state = 1; state <= lists_.size(); ++state) {
      for (uint32_t c = 0; c <= classes_.count(); ++c) {
        bool match = false;
        std::vector<uint32_t> next = Step(lists_[state - 1], c, match);
        if (match && state == 1) throw PatternError{"can match nothing at all"};
        const size_t to = next.empty() ? 0 : Number(std::move(next));
        if (to >= most_states)
          throw PatternError{fmt::format("needs more than {} states, a table of more than 1 MiB", most_states)};
        transitions.push_back(static_cast<uint16_t>(to | (match ? kAutomatonMatch : 0U)));
      }
    }
    return transitions;
  }

 private:
  size_t Number(std::vector<uint32_t> list) {
    const auto [it, fresh] = numbers_.emplace(std::move(list), lists_.size() + 1);
    if (!fresh) return it->second;
    lists_.push_back(it->first);
    threads_ += it->first.size();
    if (threads_ > kMostThreads || steps_ > kMostSteps) throw PatternError{"has too many states at once"};
    return it->second;
  }

  // What the threads become on a character of class c, or at the end of the text.
  std::vector<uint32_t> Step(const std::vector<uint32_t>& threads, uint32_t c, bool& match) {
    const bool end = c == classes_.count();
    auto wanted = [&](uint32_t set) { return !end && classes_.members[c][set]; };
    ++round_;
    seen_.resize(program_.code.size(), 0);
    read_.resize(program_.code.size() + 1, 0);
    std::vector<uint32_t> next;
    for (const uint32_t thread : threads) {
      stack_ = {thread};
      while (!stack_.empty()) {
        const uint32_t at = stack_.back();
        stack_.pop_back();
        ++steps_;
        if (seen_[at] == round_) continue;
        seen_[at] = round_;
        const Instruction& instruction = program_.code[at];
        switch (instruction.op) {
          case Op::Match: match = true; return next;
          case Op::Jump: stack_.push_back(instruction.first); break;
          case Op::Split:
            stack_.push_back(instruction.second);
            stack_.push_back(instruction.first);
            break;
          case Op::Condition:
            if (end ? instruction.at_end : wanted(instruction.set)) stack_.push_back(at + 1);
            break;
          case Op::Set:
            if (wanted(instruction.set) && read_[at + 1] != round_) {
              read_[at + 1] = round_;
              next.push_back(at + 1);
            }
            break;
        }
      }
    }
    return next;
  }

  const Program& program_;
  const Classes& classes_;
  std::map<std::vector<uint32_t>, size_t> numbers_;
  std::vector<std::vector<uint32_t>> lists_;  // of state i + 1
  std::vector<uint32_t> stack_;
  std::vector<uint64_t> seen_, read_;
  uint64_t round_ = 0, steps_ = 0;
  size_t threads_ = 0;
};

}  // namespace

std::string CompilePattern(const PatternNode& pattern, PatternInput input) {
  const Program program(pattern);
  const Classes classes = ClassesOf(program.sets, input);
  const std::vector<uint16_t> transitions = Determinizer(program, classes).Run();
  AutomatonHeader h{};
  h.kind = input == PatternInput::ByteLetters ? kAutomatonBytes : kAutomatonChars;
  h.classes = classes.count() + 1;
  h.states = static_cast<uint32_t>(transitions.size() / h.classes);
  h.map_bytes = static_cast<uint32_t>(classes.map.size());
  std::string out(reinterpret_cast<const char*>(&h), sizeof h);
  out += classes.map;
  out.append(reinterpret_cast<const char*>(transitions.data()), transitions.size() * 2);
  return out;
}

std::string CompilePattern(std::string_view pattern, PatternInput input) {
  return CompilePattern(ParsePattern(pattern), input);
}

}  // namespace llmc
