// Rules made deterministic by the subset construction, freed of what leads nowhere, and checked for left recursion.
#include <algorithm>
#include <map>
#include <utility>

#include "runtime/grammar.h"

namespace llmc {

using Set = std::vector<uint32_t>;  // states of the builder, ascending

class GrammarCompiler {
 public:
  explicit GrammarCompiler(const GrammarBuilder& builder) : b_(builder), marks_(builder.steps_of_.size(), 0) {}

  Grammar Compile(uint32_t root) {
    for (const GrammarBuilder::Rule& rule : b_.rules_) {
      if (!rule.defined) throw PlanError(rule.name + " isn't defined");
    }
    start_of_.assign(b_.rules_.size(), 0);
    // Those alone that the root reaches.
    std::vector<bool> known(b_.rules_.size(), false);
    std::vector<uint32_t> rules = {root};
    known[root] = true;
    for (size_t i = 0; i < rules.size(); ++i) {
      const size_t first = states_.size();
      Determine(rules[i]);
      for (size_t s = first; s < states_.size(); ++s) {
        for (const Call& call : states_[s].calls) {
          if (!known[call.rule]) rules.push_back(call.rule), known[call.rule] = true;
        }
      }
    }
    const std::vector<bool> live = Reaching(true);
    if (!live[start_of_[root]]) throw PlanError(b_.rules_[root].name + " matches no text");
    Trim(live);
    CheckLeftRecursion(rules);
    return Flatten(root);
  }

 private:
  struct Call {
    uint32_t rule, target;
  };
  struct State {
    bool ends = false;
    std::vector<GrammarEdge> edges;
    std::vector<Call> calls;
  };

  // All that passes lead to.
  Set Closed(Set set) {
    ++mark_;
    for (const uint32_t s : set) marks_[s] = mark_;
    for (size_t i = 0; i < set.size(); ++i) {
      for (uint32_t at = b_.steps_of_[set[i]]; at != 0; at = b_.steps_[at - 1].next) {
        const GrammarBuilder::Step& step = b_.steps_[at - 1];
        if (++work_ > kMostGrammarWork)
          throw PlanError("the grammar is too large: its choices have too much in common");
        if (step.kind != GrammarBuilder::Kind::Pass || marks_[step.target] == mark_) continue;
        marks_[step.target] = mark_;
        set.push_back(step.target);
      }
    }
    std::sort(set.begin(), set.end());
    return set;
  }

  void Determine(uint32_t rule) {
    std::map<Set, uint32_t> numbers;
    std::vector<Set> sets;
    const size_t first = states_.size();
    const auto number = [&](Set set) {
      std::sort(set.begin(), set.end());
      set.erase(std::unique(set.begin(), set.end()), set.end());
      set = Closed(std::move(set));
      const auto [at, fresh] = numbers.try_emplace(set, static_cast<uint32_t>(first + sets.size()));
      if (fresh) {
        if (first + sets.size() >= kMostGrammarStates)
          throw PlanError("the grammar is too large: over " + std::to_string(kMostGrammarStates) + " states");
        sets.push_back(std::move(set));
      }
      return at->second;
    };
    const GrammarBuilder::Part& body = b_.rules_[rule].body;
    start_of_[rule] = number({body.begin});
    for (size_t i = 0; i < sets.size(); ++i) {
      State state;
      std::map<uint32_t, Set> calls;  // by rule
      std::vector<std::pair<std::pair<int, int>, uint32_t>> bytes;
      for (const uint32_t s : sets[i]) {
        state.ends = state.ends || s == body.end;
        for (uint32_t at = b_.steps_of_[s]; at != 0; at = b_.steps_[at - 1].next) {
          const GrammarBuilder::Step& step = b_.steps_[at - 1];
          if (step.kind == GrammarBuilder::Kind::Call) calls[step.rule].push_back(step.target);
          if (step.kind == GrammarBuilder::Kind::Bytes) bytes.push_back({{step.low, step.high}, step.target});
        }
      }
      std::vector<int> cuts;  // where something begins
      for (const auto& [range, target] : bytes) cuts.insert(cuts.end(), {range.first, range.second + 1});
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      for (size_t k = 0; k + 1 < cuts.size(); ++k) {
        Set targets;
        for (const auto& [range, target] : bytes) {
          if (range.first <= cuts[k] && cuts[k] <= range.second) targets.push_back(target);
        }
        work_ += bytes.size();
        if (targets.empty()) continue;
        const uint32_t target = number(std::move(targets));
        const auto low = static_cast<uint8_t>(cuts[k]), high = static_cast<uint8_t>(cuts[k + 1] - 1);
        if (!state.edges.empty() && state.edges.back().target == target && state.edges.back().high + 1 == low)
          state.edges.back().high = high;
        else
          state.edges.push_back({low, high, target});
      }
      for (auto& [called, targets] : calls) state.calls.push_back({called, number(std::move(targets))});
      states_.push_back(std::move(state));
    }
  }

  // States from which the end of their rule is reached: by bytes too, or by no byte.
  std::vector<bool> Reaching(bool by_bytes) const {
    struct Waiting {
      uint32_t from, other;  // a call's state, and its target or the called rule's start
    };
    std::vector<std::vector<uint32_t>> byte_from(states_.size());
    std::vector<std::vector<Waiting>> call_from(states_.size());
    for (uint32_t s = 0; s < states_.size(); ++s) {
      for (const GrammarEdge& edge : states_[s].edges) byte_from[edge.target].push_back(s);
      for (const Call& call : states_[s].calls) {
        call_from[call.target].push_back({s, start_of_[call.rule]});
        call_from[start_of_[call.rule]].push_back({s, call.target});
      }
    }
    std::vector<bool> reaching(states_.size(), false);
    std::vector<uint32_t> list;
    const auto add = [&](uint32_t s) {
      if (!reaching[s]) reaching[s] = true, list.push_back(s);
    };
    for (uint32_t s = 0; s < states_.size(); ++s) {
      if (states_[s].ends) add(s);
    }
    while (!list.empty()) {
      const uint32_t s = list.back();
      list.pop_back();
      if (by_bytes) {
        for (const uint32_t from : byte_from[s]) add(from);
      }
      for (const Waiting& w : call_from[s]) {
        if (reaching[w.other]) add(w.from);
      }
    }
    return reaching;
  }

  void Trim(const std::vector<bool>& live) {
    for (State& state : states_) {
      std::erase_if(state.edges, [&](const GrammarEdge& edge) { return !live[edge.target]; });
      std::erase_if(state.calls, [&](const Call& call) { return !live[call.target] || !live[start_of_[call.rule]]; });
    }
  }

  // A cycle of calls, each before any byte of its rule. Without recursion: rules may be many.
  void CheckLeftRecursion(const std::vector<uint32_t>& rules) const {
    const std::vector<bool> empty = Reaching(false);
    std::vector<std::vector<uint32_t>> first_calls(b_.rules_.size());
    std::vector<bool> seen(states_.size(), false);
    for (const uint32_t rule : rules) {
      std::vector<uint32_t> list = {start_of_[rule]};
      seen[list[0]] = true;
      for (size_t i = 0; i < list.size(); ++i) {
        for (const Call& call : states_[list[i]].calls) {
          first_calls[rule].push_back(call.rule);
          if (!empty[start_of_[call.rule]] || seen[call.target]) continue;
          seen[call.target] = true;
          list.push_back(call.target);
        }
      }
    }
    enum class Mark : uint8_t { New, Open, Done };
    std::vector<Mark> marks(b_.rules_.size(), Mark::New);
    std::vector<std::pair<uint32_t, size_t>> path;  // a rule, and how many of its calls were looked at
    for (const uint32_t from : rules) {
      if (marks[from] != Mark::New) continue;
      marks[from] = Mark::Open;
      path.emplace_back(from, 0);
      while (!path.empty()) {
        auto& [rule, next] = path.back();
        if (next == first_calls[rule].size()) {
          marks[rule] = Mark::Done;
          path.pop_back();
          continue;
        }
        const uint32_t called = first_calls[rule][next++];
        if (marks[called] == Mark::Open) LeftRecursion(path, called);
        if (marks[called] != Mark::New) continue;
        marks[called] = Mark::Open;
        path.emplace_back(called, 0);
      }
    }
  }

  [[noreturn]] void LeftRecursion(const std::vector<std::pair<uint32_t, size_t>>& path, uint32_t called) const {
    auto at = std::find_if(path.begin(), path.end(), [&](const auto& step) { return step.first == called; });
    while (at + 1 != path.end() && b_.rules_[at->first].name.empty()) ++at;  // one with a name
    throw PlanError(b_.rules_[at->first].name + " calls itself before any character (left recursion)");
  }

  Grammar Flatten(uint32_t root) const {
    Grammar g;
    std::vector<bool> cut(257, false);
    for (const State& state : states_) {
      GrammarState flat{static_cast<uint32_t>(g.edges.size()), 0, static_cast<uint32_t>(g.calls.size()), 0, state.ends};
      for (const GrammarEdge& edge : state.edges) {
        cut[edge.low] = cut[edge.high + size_t{1}] = true;
        g.edges.push_back(edge);
      }
      for (const Call& call : state.calls) {
        const State& behind = states_[call.target];
        g.calls.push_back(
            {start_of_[call.rule], call.target, behind.ends && behind.edges.empty() && behind.calls.empty()});
      }
      flat.edges_end = static_cast<uint32_t>(g.edges.size());
      flat.calls_end = static_cast<uint32_t>(g.calls.size());
      g.states.push_back(flat);
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      if (byte == 0 || cut[byte]) g.class_bytes.push_back(static_cast<uint8_t>(byte));
      g.classes[byte] = static_cast<uint8_t>(g.class_bytes.size() - 1);
    }
    g.start = start_of_[root];
    return g;
  }

  const GrammarBuilder& b_;
  std::vector<uint32_t> marks_;
  uint32_t mark_ = 0;
  size_t work_ = 0;
  std::vector<State> states_;
  std::vector<uint32_t> start_of_;  // by rule
};

Grammar GrammarBuilder::Build(uint32_t root) const { return GrammarCompiler(*this).Compile(root); }

}  // namespace llmc
