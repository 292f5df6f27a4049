// Masks: one walk over the vocabulary for each place of the grammar, kept as long as memory allows.
#include "runtime/token_constraint.h"

#include <algorithm>
#include <limits>

namespace llmc {
namespace {

constexpr size_t kMostCached = size_t{64} << 20;    // bytes of places and masks that are kept from token to token
constexpr size_t kMostInOneWalk = size_t{1} << 29;  // a grammar that wants more is refused

std::vector<int32_t> Sorted(std::span<const int32_t> ids) {
  std::vector<int32_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

TokenConstraint::TokenConstraint(Grammar grammar, const Tokenizer& tokenizer, std::span<const int32_t> stop_ids)
    : tokenizer_(tokenizer),
      stop_ids_(Sorted(stop_ids)),
      matcher_(std::move(grammar)),
      trie_(tokenizer.size(), [this](int32_t id) { return TextOf(id); }),
      place_(matcher_.start()) {
  Reset();
}

// What a token adds to the text; "" for one that can't come.
std::string_view TokenConstraint::TextOf(int32_t id) const {
  if (tokenizer_.IsSpecial(id) || std::binary_search(stop_ids_.begin(), stop_ids_.end(), id)) return {};
  return tokenizer_.TokenText(id);
}

void TokenConstraint::Reset() {
  place_ = matcher_.start();
  first_ = true;
  strip_ = tokenizer_.strip_first();
}

TokenConstraint::Place TokenConstraint::Behind(Place place, int32_t id, bool first, uint32_t& strip) {
  std::string_view text = TextOf(id);
  if (text.empty()) return GrammarMatcher::kDead;
  if (first) text = tokenizer_.FirstTokenText(id);
  for (; strip > 0 && text.starts_with(' '); --strip) text.remove_prefix(1);
  if (!text.empty()) strip = 0;
  for (size_t i = 0; i < text.size() && place != GrammarMatcher::kDead; ++i)
    place = matcher_.Step(place, static_cast<uint8_t>(text[i]));
  return place;
}

void TokenConstraint::Accept(int32_t id) {
  if (std::binary_search(stop_ids_.begin(), stop_ids_.end(), id)) {
    place_ = GrammarMatcher::kDead;
  } else {
    place_ = Behind(place_, id, first_, strip_);
    first_ = false;
  }
  if (matcher_.bytes() + mask_bytes_ < kMostCached) return;
  place_ = matcher_.Forget(place_);
  masks_.clear();
  mask_bytes_ = 0;
}

TokenConstraint::Mask TokenConstraint::Walk(Place place) {
  Mask mask((static_cast<size_t>(tokenizer_.size()) + 63) / 64, 0);
  std::vector<Place> at(trie_.depth() + 1, place);  // by depth
  const TokenTrie::Node* nodes = trie_.nodes().data();
  for (size_t i = 0, end = trie_.nodes().size() - 1; i < end;) {
    const TokenTrie::Node& node = nodes[i];
    const Place next = matcher_.Step(at[node.depth - 1], node.byte);
    if (next == GrammarMatcher::kDead) {
      i = node.end;
      continue;
    }
    at[node.depth] = next;
    for (uint32_t k = node.ids; k < nodes[i + 1].ids; ++k) {
      const auto id = static_cast<uint32_t>(trie_.ids()[k]);
      mask[id / 64] |= uint64_t{1} << (id % 64);
    }
    ++i;
    if (matcher_.bytes() > kMostInOneWalk) throw PlanError("the grammar can go on in too many ways");
  }
  return mask;
}

// Tokens that read differently at the start of a text are looked at one by one.
TokenConstraint::Mask TokenConstraint::AtTheStart() {
  Mask mask((static_cast<size_t>(tokenizer_.size()) + 63) / 64, 0);
  for (int32_t id = 0; id < tokenizer_.size(); ++id) {
    uint32_t strip = strip_;
    if (Behind(place_, id, first_, strip) != GrammarMatcher::kDead)
      mask[static_cast<uint32_t>(id) / 64] |= uint64_t{1} << (id % 64);
  }
  return mask;
}

const TokenConstraint::Mask& TokenConstraint::MaskOf(Place place) {
  const auto [at, fresh] = masks_.try_emplace(place);
  if (fresh) {
    try {
      at->second = Walk(place);
    } catch (...) {
      masks_.erase(at);
      throw;
    }
    mask_bytes_ += at->second.size() * 8 + 64;
  }
  return at->second;
}

void TokenConstraint::Apply(std::span<float> scores) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const bool start = strip_ > 0 || (first_ && tokenizer_.HasFirstTexts());
  Mask own;
  if (start) own = AtTheStart();
  const Mask& mask = start ? own : MaskOf(place_);
  const bool ends = matcher_.Ends(place_);
  for (size_t id = 0; id < scores.size(); ++id) {
    if (id / 64 < mask.size() && (mask[id / 64] >> (id % 64) & 1) != 0) continue;
    if (ends && std::binary_search(stop_ids_.begin(), stop_ids_.end(), static_cast<int32_t>(id))) continue;
    scores[id] = kNever;
  }
}

}  // namespace llmc
