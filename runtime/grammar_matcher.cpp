// Sets of stacks, and where bytes lead from them.
#include "runtime/grammar_matcher.h"

#include <algorithm>
#include <utility>

#include "runtime/plan_tokenizer.h"

namespace llmc {

GrammarMatcher::GrammarMatcher(Grammar grammar) : grammar_(std::move(grammar)), width_(grammar_.class_bytes.size()) {
  Clear();
}

void GrammarMatcher::Clear() {
  stacks_.assign(1, {0, 0, 0});  // number 0 is none
  seen_.assign(1, 0);
  closure_ = 0;
  stack_numbers_.clear();
  place_numbers_.clear();
  places_.assign(1, {});
  next_.assign(width_, kDead);
  bytes_ = 0;
  start_ = PlaceOf({StackOf(grammar_.start, 0)});
}

uint32_t GrammarMatcher::StackOf(uint32_t state, uint32_t under) {
  const auto [at, fresh] =
      stack_numbers_.try_emplace(uint64_t{state} << 32 | under, static_cast<uint32_t>(stacks_.size()));
  if (fresh) {
    stacks_.push_back({state, under, stacks_[under].depth + 1});
    seen_.push_back(0);
    bytes_ += sizeof(Stack) + 64;
  }
  return at->second;
}

// Follows calls and ends from the stacks `tops` until each stands before bytes.
GrammarMatcher::Place GrammarMatcher::PlaceOf(std::vector<uint32_t> tops) {
  ++closure_;
  PlaceInfo info;
  size_t kept = 0;
  for (const uint32_t s : tops) {
    if (seen_[s] != closure_) tops[kept++] = s;
    seen_[s] = closure_;
  }
  tops.resize(kept);
  const auto add = [&](uint32_t s) {
    if (seen_[s] == closure_) return;
    seen_[s] = closure_;
    tops.push_back(s);
  };
  for (size_t i = 0; i < tops.size(); ++i) {
    if (tops.size() > kMostGrammarStacks)
      throw PlanError("the text can be read in over " + std::to_string(kMostGrammarStacks) + " ways by the grammar");
    const Stack stack = stacks_[tops[i]];
    const GrammarState& state = grammar_.states[stack.state];
    if (state.edges != state.edges_end) info.stacks.push_back(tops[i]);
    for (uint32_t c = state.calls; c < state.calls_end; ++c) {
      const GrammarCall& call = grammar_.calls[c];
      if (stack.depth >= kMostGrammarDepth) continue;
      // Behind a last call nothing is left of this rule: its caller goes on, and recursion at the end costs no depth.
      add(StackOf(call.start, call.last ? stack.under : StackOf(call.target, stack.under)));
    }
    if (!state.ends) continue;
    if (stack.under == 0)
      info.ends = true;
    else
      add(stack.under);
  }
  if (info.stacks.empty() && !info.ends) return kDead;
  std::sort(info.stacks.begin(), info.stacks.end());
  uint64_t hash = info.ends ? 1 : 0;
  for (const uint32_t s : info.stacks) hash = MixHash(hash * 31 + s + 7);
  const auto [at, fresh] = place_numbers_.try_emplace(hash, static_cast<Place>(places_.size()));
  if (!fresh) {
    for (Place p = at->second; p != kDead; p = places_[p].next_same_hash) {
      if (places_[p].ends == info.ends && places_[p].stacks == info.stacks) return p;
    }
    info.next_same_hash = at->second;
    at->second = static_cast<Place>(places_.size());
  }
  bytes_ += sizeof(PlaceInfo) + 4 * info.stacks.size() + 4 * width_ + 48;
  places_.push_back(std::move(info));
  next_.resize(next_.size() + width_, kUnknown);
  return static_cast<Place>(places_.size() - 1);
}

GrammarMatcher::Place GrammarMatcher::Advance(Place place, uint8_t byte_class) {
  const uint8_t byte = grammar_.class_bytes[byte_class];
  std::vector<uint32_t> tops;
  for (const uint32_t s : places_[place].stacks) {
    const Stack stack = stacks_[s];
    const GrammarState& state = grammar_.states[stack.state];
    for (uint32_t e = state.edges; e < state.edges_end; ++e) {
      const GrammarEdge& edge = grammar_.edges[e];
      if (edge.low <= byte && byte <= edge.high) tops.push_back(StackOf(edge.target, stack.under));
    }
  }
  const Place next = tops.empty() ? kDead : PlaceOf(std::move(tops));
  next_[place * width_ + byte_class] = next;
  return next;
}

GrammarMatcher::Place GrammarMatcher::Forget(Place place) {
  // The stacks that it needs, those below first.
  std::vector<std::vector<uint32_t>> states;  // of each stack, from the bottom
  for (const uint32_t s : places_[place].stacks) {
    states.emplace_back();
    for (uint32_t at = s; at != 0; at = stacks_[at].under) states.back().push_back(stacks_[at].state);
    std::reverse(states.back().begin(), states.back().end());
  }
  const bool ends = places_[place].ends;
  const bool is_start = place == start_;
  Clear();
  if (is_start || place == kDead) return is_start ? start_ : kDead;
  std::vector<uint32_t> tops;
  for (const std::vector<uint32_t>& chain : states) {
    uint32_t under = 0;
    for (const uint32_t state : chain) under = StackOf(state, under);
    tops.push_back(under);
  }
  // The closure of stacks before bytes holds the same and what their states lead to besides, which was there too.
  const Place again = PlaceOf(std::move(tops));
  if (again == kDead || places_[again].ends != ends) {  // ends by a stack without bytes, which is gone
    PlaceInfo info = again == kDead ? PlaceInfo{} : places_[again];
    info.ends = ends;
    info.next_same_hash = kDead;
    places_.push_back(std::move(info));
    next_.resize(next_.size() + width_, kUnknown);
    return static_cast<Place>(places_.size() - 1);
  }
  return again;
}

}  // namespace llmc
