// FindRepeats compares each item with its partner one period on, and that step with the next step, once per period;
// runs of agreeing items then give the blocks.
#include "ir/repeat.h"

#include <map>
#include <optional>
#include <utility>

#include "ir/diag.h"

namespace llmc {
namespace {

// Integers beyond these must be equal, so that c + s*i stays within 64 bits.
constexpr int64_t kMaxAffine = int64_t{1} << 40;
constexpr int kMaxLayer = 1 << 20;

bool InRange(int64_t value) { return value >= -kMaxAffine && value <= kMaxAffine; }

// Item `b` is `a`, `period` layers on.
bool Matches(const RepeatItem& a, const RepeatItem& b, int period) {
  if (a.tokens.size() != b.tokens.size() || b.layer > kMaxLayer) return false;
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    const RepeatToken& from = a.tokens[i];
    const RepeatToken& to = b.tokens[i];
    if (from.kind != to.kind || from.text != to.text) return false;
    if (from.value == to.value || from.kind == RepeatToken::Kind::Text) continue;
    if (from.kind == RepeatToken::Kind::Layer && to.value - from.value != period) return false;
    if (from.kind == RepeatToken::Kind::Int && !(InRange(from.value) && InRange(to.value))) return false;
  }
  return true;
}

// The step from `a` to `b` is the step from `b` to `c`; the pairs match.
bool SameStep(const RepeatItem& a, const RepeatItem& b, const RepeatItem& c) {
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    const int64_t x = a.tokens[i].value;
    const int64_t y = b.tokens[i].value;
    const int64_t z = c.tokens[i].value;
    if (x == y ? y != z : (y == z || y - x != z - y)) return false;
  }
  return true;
}

bool SameIntegers(const RepeatItem& a, const RepeatItem& b) {
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    if (a.tokens[i].kind == RepeatToken::Kind::Int && a.tokens[i].value != b.tokens[i].value) return false;
  }
  return true;
}

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// Steps of one period: partner[k] is the item one period after k, or none.
struct Steps {
  std::vector<size_t> partner;
  std::vector<size_t> run;       // items from k on whose partners lie at k's distance
  std::vector<size_t> even_run;  // ... and whose partner's step is their own
  std::vector<size_t> same_run;  // ... and whose partner has the same integers
};
constexpr size_t kNone = static_cast<size_t>(-1);

using Index = std::map<std::pair<int, std::string_view>, size_t>;

Steps FindSteps(const std::vector<RepeatItem>& items, const Index& index, int period) {
  const size_t n = items.size();
  Steps steps{std::vector<size_t>(n, kNone), std::vector<size_t>(n + 1, 0), std::vector<size_t>(n + 1, 0),
              std::vector<size_t>(n + 1, 0)};
  for (size_t k = 0; k < n; ++k) {
    if (items[k].layer < 0) continue;
    const auto found = index.find({items[k].layer + period, items[k].key});
    if (found != index.end() && found->second > k && Matches(items[k], items[found->second], period)) {
      steps.partner[k] = found->second;
    }
  }
  for (size_t k = n; k-- > 0;) {
    const size_t partner = steps.partner[k];
    if (partner == kNone) continue;
    const size_t distance = partner - k;
    const bool goes_on = k + 1 < n && steps.partner[k + 1] == k + 1 + distance;
    steps.run[k] = 1 + (goes_on ? steps.run[k + 1] : 0);
    if (SameIntegers(items[k], items[partner])) steps.same_run[k] = 1 + (goes_on ? steps.same_run[k + 1] : 0);
    if (steps.partner[partner] == partner + distance && SameStep(items[k], items[partner], items[partner + distance])) {
      steps.even_run[k] = 1 + (goes_on ? steps.even_run[k + 1] : 0);
    }
  }
  return steps;
}

}  // namespace

void RepeatItem::Text(std::string_view text) {
  if (tokens.empty() || tokens.back().kind != RepeatToken::Kind::Text) tokens.emplace_back();
  tokens.back().text += text;
}

std::vector<RepeatBlock> FindRepeats(const std::vector<RepeatItem>& items) {
  Index index;
  for (size_t k = 0; k < items.size(); ++k) {
    if (items[k].layer >= 0) index.emplace(std::pair(items[k].layer, std::string_view(items[k].key)), k);
  }
  std::vector<Steps> steps;
  for (int period = 1; period <= kMaxPeriod; ++period) steps.push_back(FindSteps(items, index, period));
  std::vector<RepeatBlock> blocks;
  for (size_t k = 0; k < items.size();) {
    RepeatBlock best{k, 1, 1, -1, 0};
    for (int period = 1; period <= kMaxPeriod; ++period) {
      const Steps& step = steps[static_cast<size_t>(period - 1)];
      if (step.partner[k] == kNone) continue;
      const size_t length = step.partner[k] - k;
      if (step.run[k] < length) continue;
      const size_t count = 2 + step.even_run[k] / length;
      if (count == 2 && step.same_run[k] < length) continue;  // any two integers are affine: that is no pattern
      if (best.count == 1 || length * count > best.items * best.count) {
        best = {k, length, count, items[k].layer, period};
      }
    }
    blocks.push_back(best);
    k += best.items * best.count;
  }
  return blocks;
}

std::string ItemText(const RepeatItem& item) {
  std::string text;
  for (const RepeatToken& token : item.tokens) {
    text += token.kind == RepeatToken::Kind::Text ? token.text : std::to_string(token.value);
  }
  return text;
}

std::string ItemText(const std::vector<RepeatItem>& items, const RepeatBlock& block, size_t k) {
  const RepeatItem& item = items[block.begin + k];
  if (block.count == 1) return ItemText(item);
  const RepeatItem& next = items[block.begin + block.items + k];
  std::string text;
  for (size_t i = 0; i < item.tokens.size(); ++i) {
    const RepeatToken& token = item.tokens[i];
    const int64_t step = next.tokens[i].value - token.value;
    if (token.kind == RepeatToken::Kind::Text) {
      text += token.text;
    } else if (step == 0) {
      text += std::to_string(token.value);
    } else if (token.kind == RepeatToken::Kind::Layer) {
      const int64_t ahead = token.value - block.first_layer;
      text += "{i" + (ahead == 0 ? std::string() : (ahead > 0 ? "+" : "") + std::to_string(ahead)) + "}";
    } else {
      const bool divides = step % block.period == 0;
      const int64_t slope = divides ? step / block.period : step;
      const int64_t divisor = divides ? 1 : block.period;
      const int64_t base = token.value - FloorDivide(slope * block.first_layer, divisor);
      text += "{" + std::to_string(base) + (slope < 0 ? " - " : " + ") + std::to_string(slope < 0 ? -slope : slope) +
              "*i" + (divides ? "" : "/" + std::to_string(divisor)) + "}";
    }
  }
  return text;
}

}  // namespace llmc
