// Greedy choice, filters and the categorical draw.
#include "runtime/sampler.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <string>

#include "runtime/math.h"
#include "runtime/plan_error.h"

namespace llmc {
namespace {

bool Finite(float x) { return (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u; }

void CheckFinite(std::span<const float> logits, uint32_t position) {
  // Four at a time: a vocabulary is looked at once a token.
  using Vector = uint32_t __attribute__((vector_size(16), aligned(4), may_alias));
  Vector bad = {};
  size_t i = 0;
  for (; i + 4 <= logits.size(); i += 4) {
    const Vector exponent = *reinterpret_cast<const Vector*>(&logits[i]) & 0x7f800000u;
    bad |= reinterpret_cast<Vector>(exponent == 0x7f800000u);
  }
  bool any = (bad[0] | bad[1] | bad[2] | bad[3]) != 0;
  for (; i < logits.size(); ++i) any |= !Finite(logits[i]);
  if (!any) return;
  const auto at = std::find_if_not(logits.begin(), logits.end(), Finite);
  throw PlanError("position " + std::to_string(position) + ": the logit of id " + std::to_string(at - logits.begin()) +
                  " is " + (*at != *at ? "NaN" : "infinite"));
}

float Highest(std::span<const float> logits) {
  using Vector = float __attribute__((vector_size(16), aligned(4), may_alias));
  float highest = logits[0];
  size_t i = 0;
  Vector best = {highest, highest, highest, highest};
  for (; i + 4 <= logits.size(); i += 4) {
    const Vector v = *reinterpret_cast<const Vector*>(&logits[i]);
    best = v > best ? v : best;
  }
  for (int lane = 0; lane < 4; ++lane) highest = std::max(highest, best[lane]);
  for (; i < logits.size(); ++i) highest = std::max(highest, logits[i]);
  return highest;
}

uint64_t RotateLeft(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

}  // namespace

SamplerRandom::SamplerRandom(uint64_t seed) {
  for (uint64_t& word : state_) {  // splitmix64
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

uint64_t SamplerRandom::Next() {  // xoshiro256**
  const uint64_t result = RotateLeft(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = RotateLeft(state_[3], 45);
  return result;
}

Sampler::Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {
  // Comparisons that NaN fails.
  if (!(options.temperature >= 0 && options.temperature <= 1e6))
    throw PlanError("temperature " + std::to_string(options.temperature) + " isn't in 0..1000000");
  if (options.top_k < 0) throw PlanError("top_k " + std::to_string(options.top_k) + " is negative");
  if (!(options.top_p >= 0 && options.top_p <= 1))
    throw PlanError("top_p " + std::to_string(options.top_p) + " isn't in 0..1");
  if (!(options.min_p >= 0 && options.min_p <= 1))
    throw PlanError("min_p " + std::to_string(options.min_p) + " isn't in 0..1");
}

int32_t Argmax(std::span<const float> logits, uint32_t position) {
  CheckFinite(logits, position);
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), Highest(logits)) - logits.begin());
}

int32_t Sampler::Next(std::span<const float> logits, uint32_t position) {
  if (options_.temperature == 0) return Argmax(logits, position);
  CheckFinite(logits, position);
  const float highest = Highest(logits);
  float lowest_kept = std::numeric_limits<float>::lowest();
  if (options_.top_k > 0 && static_cast<size_t>(options_.top_k) < logits.size()) {
    scratch_.assign(logits.begin(), logits.end());
    const auto kth = scratch_.begin() + (options_.top_k - 1);
    std::nth_element(scratch_.begin(), kth, scratch_.end(), std::greater<>());
    lowest_kept = *kth;
  }
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] < lowest_kept) continue;
    // The highest is subtracted first, so that no temperature overflows.
    candidates_.push_back(
        {static_cast<int32_t>(i), ExpOfNegative((static_cast<double>(logits[i]) - highest) / options_.temperature)});
  }
  if (options_.top_p < 1) KeepTopP();
  if (options_.min_p > 0) std::erase_if(candidates_, [this](const Candidate& c) { return c.weight < options_.min_p; });

  double sum = 0;
  for (const Candidate& c : candidates_) sum += c.weight;
  const double target = random_.NextUnit() * sum;
  double reached = 0;
  int32_t last = 0;
  for (const Candidate& c : candidates_) {
    if (c.weight == 0) continue;
    reached += c.weight;
    last = c.id;
    if (reached > target) break;
  }
  return last;  // the last with a weight when rounding kept `reached` at the target
}

void Sampler::KeepTopP() {
  double sum = 0;
  for (const Candidate& c : candidates_) sum += c.weight;
  // A heap, since few of many are taken: highest weight first, the lower id among equals.
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.id > b.id;
  };
  std::make_heap(candidates_.begin(), candidates_.end(), later);
  auto end = candidates_.end();
  double before = 0;
  do {
    std::pop_heap(candidates_.begin(), end, later);
    --end;
    before += end->weight;
  } while (end != candidates_.begin() && before < options_.top_p * sum);
  candidates_.erase(candidates_.begin(), end);
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

double NegativeLogLikelihood(std::span<const float> logits, int32_t id) {
  const double highest = Highest(logits);
  double sum = 0;
  for (const float logit : logits) sum += ExpOfNegative(logit - highest);
  return NaturalLog(sum) - (static_cast<double>(logits[static_cast<size_t>(id)]) - highest);
}

}  // namespace llmc
