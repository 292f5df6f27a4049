// Breakers from the vocabulary, lengths of repetitions by the Z algorithm from the end, penalties.
#include "runtime/dry.h"

#include <algorithm>
#include <limits>
#include <map>

#include "runtime/math.h"
#include "runtime/plan_error.h"

namespace llmc {
namespace {

using Breakers = std::vector<std::vector<int32_t>>;

// Breakers that begin with an id.
std::span<const std::vector<int32_t>> BeginningWith(const Breakers& breakers, int32_t id) {
  const auto low = std::lower_bound(breakers.begin(), breakers.end(), id,
                                    [](const std::vector<int32_t>& b, int32_t i) { return b[0] < i; });
  const auto high =
      std::find_if(low, breakers.end(), [id](const std::vector<int32_t>& breaker) { return breaker[0] != id; });
  return {low, high};
}

// How long a run at the end of `back` (the history, last id first) may be: to the last breaker.
size_t RunLimit(const Breakers& breakers, std::span<const int32_t> back) {
  for (size_t i = 0; i < back.size(); ++i) {
    size_t longest = 0;  // ids of the longest breaker that begins here and is whole
    for (const std::vector<int32_t>& breaker : BeginningWith(breakers, back[i])) {
      if (breaker.size() <= longest || breaker.size() > i + 1) continue;
      bool same = true;
      for (size_t k = 1; k < breaker.size() && same; ++k) same = breaker[k] == back[i - k];
      if (same) longest = breaker.size();
    }
    if (longest > 0) return i + 1 - longest;
  }
  return back.size();
}

// For each place of `back` how many ids from there on are the same as those from its start on (0 for the start itself).
std::vector<size_t> SameAsStart(std::span<const int32_t> back) {
  std::vector<size_t> same(back.size());
  for (size_t k = 1, left = 0, right = 0; k < back.size(); ++k) {  // [left, right) is the known match that ends last
    size_t n = k < right ? std::min(same[k - left], right - k) : 0;
    while (k + n < back.size() && back[n] == back[k + n]) ++n;
    same[k] = n;
    if (k + n > right) left = k, right = k + n;
  }
  return same;
}

// base^n for a base of at least 1, n clamped so that f32 doesn't overflow by the power alone.
double Power(float base, size_t n) {
  constexpr double kLogOfHighest = 88.7228391;  // ln of the highest f32
  if (base > 1.000001f) {
    const double most = kLogOfHighest / NaturalLog(static_cast<double>(base));
    n = std::min(n, static_cast<size_t>(most));
  }
  double power = 1, square = static_cast<double>(base);
  for (; n > 0; n >>= 1, square *= square) {
    if ((n & 1) != 0) power *= square;
  }
  return power;
}

}  // namespace

std::vector<std::string> DefaultDryBreakers() { return {"\n", ":", "\"", "*"}; }

Breakers DryBreakers(const Tokenizer& tokenizer, std::span<const std::string> texts) {
  Breakers breakers;
  for (const std::string& text : texts) {
    if (text.empty() || text.size() > kMostBreakerBytes)
      throw PlanError("a breaker of DRY has " + std::to_string(text.size()) + " bytes, not 1 to " +
                      std::to_string(kMostBreakerBytes));
    std::map<size_t, std::vector<int32_t>> rests;  // ids of the text behind its first bytes
    const auto rest_of = [&](size_t bytes) -> const std::vector<int32_t>& {
      const auto [at, fresh] = rests.try_emplace(bytes);
      if (fresh) {
        at->second =
            tokenizer.Encode(std::string_view(text).substr(bytes), {.add_special = false, .parse_special = false});
        if (at->second.size() > kMostBreakerIds) at->second.resize(kMostBreakerIds);
      }
      return at->second;
    };
    for (int32_t id = 0; id < tokenizer.size(); ++id) {
      const std::string_view word = tokenizer.TokenText(id);
      if (word.find(text) != std::string_view::npos) {
        breakers.push_back({id});
        continue;
      }
      for (size_t n = std::min(word.size(), text.size() - 1); n > 0; --n) {
        if (!word.ends_with(std::string_view(text).substr(0, n))) continue;
        std::vector<int32_t> breaker = {id};
        const std::vector<int32_t>& rest = rest_of(n);
        breaker.insert(breaker.end(), rest.begin(), rest.end());
        breakers.push_back(std::move(breaker));
      }
    }
  }
  std::sort(breakers.begin(), breakers.end());
  breakers.erase(std::unique(breakers.begin(), breakers.end()), breakers.end());
  return breakers;
}

void ApplyDry(const DryOptions& options, std::span<const int32_t> history, std::span<float> scores) {
  if (options.multiplier == 0 || history.size() <= options.allowed_length) return;
  const std::vector<int32_t> back(history.rbegin(), history.rend());
  const size_t limit = RunLimit(options.breakers, back);
  if (limit < options.allowed_length) return;
  const std::vector<size_t> same = SameAsStart(back);
  std::map<int32_t, size_t> runs;  // by the id that would go on
  for (size_t k = 1; k < back.size(); ++k) {
    const size_t n = std::min(same[k], limit);
    if (n < options.allowed_length) continue;
    size_t& longest = runs[back[k - 1]];
    longest = std::max(longest, n);
  }
  for (const auto& [id, n] : runs) {
    if (id < 0 || static_cast<size_t>(id) >= scores.size()) continue;
    const auto of_id = BeginningWith(options.breakers, id);
    if (!of_id.empty() && of_id.front().size() == 1) continue;
    float& score = scores[static_cast<size_t>(id)];
    const double penalty = static_cast<double>(options.multiplier) * Power(options.base, n - options.allowed_length);
    // Beyond f32 the id can't come; the conversion of such a double isn't defined.
    score = penalty > static_cast<double>(std::numeric_limits<float>::max()) ? -std::numeric_limits<float>::infinity()
                                                                             : score - static_cast<float>(penalty);
  }
}

}  // namespace llmc
