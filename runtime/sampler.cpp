// Greedy choice, filters and the categorical draw.
#include "runtime/sampler.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <string>

#include "runtime/math.h"
#include "runtime/plan_error.h"
#include "runtime/plan_finite.h"
#include "runtime/token_constraint.h"
#include "runtime/xtc.h"

namespace llmc {
namespace {

void CheckFinite(std::span<const float> logits, uint32_t position) {
  const size_t at = FindNotFinite(logits);
  if (at < logits.size()) throw PlanError(NotFiniteText(logits, at, position));
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

std::string_view SamplerStageName(SamplerStage stage) {
  static constexpr std::array<std::string_view, kSamplerStages> kNames = {"bias",
                                                                          "repetition",
                                                                          "no-repeat-ngram",
                                                                          "bad-words",
                                                                          "min-new-tokens",
                                                                          "forced",
                                                                          "suppressed",
                                                                          "presence-frequency",
                                                                          "dry",
                                                                          "temperature",
                                                                          "top-k",
                                                                          "top-p",
                                                                          "min-p",
                                                                          "typical",
                                                                          "xtc"};
  return kNames[static_cast<size_t>(stage)];
}

Sampler::Sampler(const SamplerOptions& options, std::span<const int32_t> prompt)
    : options_(options), random_(options.seed), ids_(prompt.begin(), prompt.end()), prompt_(prompt.size()) {
  // Comparisons that NaN fails.
  if (!(options.temperature >= 0 && options.temperature <= 1e6))
    throw PlanError("temperature " + std::to_string(options.temperature) + " isn't in 0..1000000");
  if (options.top_k < 0) throw PlanError("top_k " + std::to_string(options.top_k) + " is negative");
  const auto unit = [](const char* name, double value) {
    if (!(value >= 0 && value <= 1))
      throw PlanError(std::string(name) + " " + std::to_string(value) + " isn't in 0..1");
  };
  unit("top_p", options.top_p);
  unit("min_p", options.min_p);
  unit("typical_p", options.typical_p);
  unit("xtc_probability", options.xtc_probability);
  unit("xtc_threshold", options.xtc_threshold);
  const auto within = [](const char* name, double value, double low) {
    if (!(value >= low && value <= 1e6))
      throw PlanError(std::string(name) + " " + std::to_string(value) + " isn't in " +
                      std::to_string(static_cast<int>(low)) + "..1000000");
  };
  within("mirostat_tau", options.mirostat_tau, 0);
  within("mirostat_eta", options.mirostat_eta, 0);
  within("presence_penalty", static_cast<double>(options.penalties.presence), -1e6);
  within("frequency_penalty", static_cast<double>(options.penalties.frequency), -1e6);
  within("dry_multiplier", static_cast<double>(options.dry.multiplier), 0);
  within("dry_base", static_cast<double>(options.dry.base), 1);
  if (options.dry.allowed_length == 0) throw PlanError("dry_allowed_length is 0");
  if (options.mirostat_tau > 0) mirostat_.emplace(options.mirostat_tau, options.mirostat_eta);
  const float penalty = options.rules.repetition_penalty;
  if (!(penalty > 0 && penalty <= 1e6f))
    throw PlanError("repetition_penalty " + std::to_string(penalty) + " isn't above 0 and at most 1000000");
  const LogitRules& r = options.rules;
  idle_ = r.bias.empty() && penalty == 1 && r.no_repeat_ngram == 0 && r.bad_words.empty() && r.min_new_tokens == 0 &&
          r.forced_last.empty() && r.suppress.empty() && r.begin_suppress.empty() && options.penalties.presence == 0 &&
          options.penalties.frequency == 0 && options.dry.multiplier == 0 && options.constraint == nullptr;
  if (options.constraint != nullptr) options.constraint->Reset();
}

bool Sampler::finished() const { return options_.constraint != nullptr && options_.constraint->finished(); }

int32_t Argmax(std::span<const float> logits, uint32_t position) {
  CheckFinite(logits, position);
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), Highest(logits)) - logits.begin());
}

bool Sampler::ChangeLogits(SamplerStage stage) {
  const LogitRules& rules = options_.rules;
  const LogitHistory history{ids_, prompt_};
  const std::span<const int32_t> last = std::span(ids_).last(
      options_.penalty_last_n == 0 ? ids_.size() : std::min<size_t>(options_.penalty_last_n, ids_.size()));
  switch (stage) {
    case SamplerStage::Bias: ApplyBias(rules, scores_); return true;
    case SamplerStage::Repetition: ApplyRepetitionPenalty(rules, history, scores_); return true;
    case SamplerStage::NoRepeatNgram: ApplyNoRepeatNgram(rules, history, scores_); return true;
    case SamplerStage::BadWords: ApplyBadWords(rules, history, scores_); return true;
    case SamplerStage::MinNewTokens: ApplyMinNewTokens(rules, history, scores_); return true;
    case SamplerStage::Forced: ApplyForcedLast(rules, history, scores_); return true;
    case SamplerStage::Suppressed: ApplySuppressed(rules, history, scores_); return true;
    case SamplerStage::PresenceFrequency: ApplyPenalties(options_.penalties, last, scores_); return true;
    case SamplerStage::Dry: ApplyDry(options_.dry, last, scores_); return true;
    default: return false;
  }
}

void Sampler::Choose(SamplerStage stage) {
  if (mirostat_ && stage != SamplerStage::Temperature) return;
  switch (stage) {
    case SamplerStage::Temperature: {
      // The highest may be gone, in another order: weights are of what is left.
      double highest = -std::numeric_limits<double>::infinity();
      for (const Candidate& c : candidates_.list) highest = std::max(highest, c.x);
      for (Candidate& c : candidates_.list) c.x = (c.x - highest) / options_.temperature;
      candidates_.weighed = false;
      return;
    }
    case SamplerStage::TopK: return KeepTopK();
    case SamplerStage::TopP:
      if (options_.top_p < 1) KeepTopP();
      return;
    case SamplerStage::MinP:
      if (options_.min_p > 0) KeepMinP();
      return;
    case SamplerStage::Typical:
      if (options_.typical_p < 1) KeepTypical();
      return;
    case SamplerStage::Xtc:
      if (options_.xtc_probability > 0 && random_.NextUnit() < options_.xtc_probability)
        ExcludeTopChoices(candidates_, options_.xtc_threshold);
      return;
    default: return;
  }
}

int32_t Sampler::Next(std::span<const float> logits, uint32_t position) {
  if (options_.temperature == 0 && idle_) return Argmax(logits, position);
  CheckFinite(logits, position);
  scores_.assign(logits.begin(), logits.end());
  for (const SamplerStage stage : options_.order) ChangeLogits(stage);
  if (options_.constraint != nullptr) options_.constraint->Apply(scores_);
  const float highest = Highest(scores_);
  if (highest == -std::numeric_limits<float>::infinity())
    throw PlanError("position " + std::to_string(position) +
                    (options_.constraint != nullptr
                         ? ": every id is excluded, by the grammar or because it is suppressed, bad or repeated"
                         : ": every id is excluded (suppressed, bad or repeated ones)"));
  if (highest == std::numeric_limits<float>::infinity())
    throw PlanError("position " + std::to_string(position) + ": the rules make a logit infinite");
  int32_t id = 0;
  if (options_.temperature == 0) {
    id = static_cast<int32_t>(std::find(scores_.begin(), scores_.end(), highest) - scores_.begin());
  } else {
    candidates_.list.clear();
    for (size_t i = 0; i < scores_.size(); ++i) {
      // The highest is subtracted first, so that no temperature overflows.
      const double x = static_cast<double>(scores_[i]) - static_cast<double>(highest);
      if (x > -std::numeric_limits<double>::infinity()) candidates_.list.push_back({static_cast<int32_t>(i), x, 0});
    }
    candidates_.weighed = false;
    for (const SamplerStage stage : options_.order) Choose(stage);
    if (mirostat_) mirostat_->Truncate(candidates_);
    const Candidate drawn = Draw();
    if (mirostat_) mirostat_->Observe(drawn.weight / candidates_.Sum());
    id = drawn.id;
  }
  ids_.push_back(id);
  if (options_.constraint != nullptr) options_.constraint->Accept(id);
  return id;
}

void Sampler::SetHistory(std::span<const int32_t> ids) {
  ids_.assign(ids.begin(), ids.end());
  prompt_ = ids_.size();
}

void Sampler::Follow(const Sampler& other) {
  options_ = other.options_;
  random_ = other.random_;
  ids_ = other.ids_;
  prompt_ = other.prompt_;
  idle_ = other.idle_;
  options_.constraint = nullptr;
  mirostat_ = other.mirostat_;
}

std::vector<int32_t> Sampler::Kept() const {
  std::vector<int32_t> ids;
  for (const Candidate& c : candidates_.list) ids.push_back(c.id);
  return ids;
}

void Sampler::KeepTopK() {
  std::vector<Candidate>& list = candidates_.list;
  if (options_.top_k <= 0 || static_cast<size_t>(options_.top_k) >= list.size()) return;
  std::vector<double> order;
  order.reserve(list.size());
  for (const Candidate& c : list) order.push_back(c.x);
  const auto kth = order.begin() + (options_.top_k - 1);
  std::nth_element(order.begin(), kth, order.end(), std::greater<>());
  std::erase_if(list, [lowest = *kth](const Candidate& c) { return c.x < lowest; });
}

void Sampler::KeepMinP() {
  candidates_.Weigh();
  double highest = 0;
  for (const Candidate& c : candidates_.list) highest = std::max(highest, c.weight);
  std::erase_if(candidates_.list, [least = options_.min_p * highest](const Candidate& c) { return c.weight < least; });
}

void Sampler::KeepTopP() {
  const double sum = candidates_.Sum();
  std::vector<Candidate>& list = candidates_.list;
  // A heap, since few of many are taken: highest weight first, the lower id among equals.
  const auto later = [](const Candidate& a, const Candidate& b) { return ComesBefore(b, a); };
  std::make_heap(list.begin(), list.end(), later);
  auto end = list.end();
  double before = 0;
  do {
    std::pop_heap(list.begin(), end, later);
    --end;
    before += end->weight;
  } while (end != list.begin() && before < options_.top_p * sum);
  list.erase(list.begin(), end);
  std::sort(list.begin(), list.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

void Sampler::KeepTypical() {
  const double sum = candidates_.Sum(), log_sum = NaturalLog(sum);
  std::vector<Candidate>& list = candidates_.list;
  double mean = 0;  // of -log p
  for (const Candidate& c : list) mean += c.weight / sum * (log_sum - c.x);
  struct Distance {
    double far, weight;
  };
  std::vector<Distance> order;
  order.reserve(list.size());
  const auto far = [&](const Candidate& c) {
    const double d = log_sum - c.x - mean;
    return d < 0 ? -d : d;
  };
  for (const Candidate& c : list) order.push_back({far(c), c.weight});
  std::stable_sort(order.begin(), order.end(), [](const Distance& a, const Distance& b) { return a.far < b.far; });
  double reached = 0, farthest = order.back().far;
  for (const Distance& d : order) {
    reached += d.weight;
    if (reached < options_.typical_p * sum) continue;
    farthest = d.far;
    break;
  }
  std::erase_if(list, [&](const Candidate& c) { return far(c) > farthest; });
}

Candidate Sampler::Draw() {
  const double target = random_.NextUnit() * candidates_.Sum();
  double reached = 0;
  Candidate last{};
  for (const Candidate& c : candidates_.list) {
    if (c.weight == 0) continue;
    reached += c.weight;
    last = c;
    if (reached > target) break;
  }
  return last;  // the last with a weight when rounding kept `reached` at the target
}

double NegativeLogLikelihood(std::span<const float> logits, int32_t id) {
  const double highest = Highest(logits);
  double sum = 0;
  for (const float logit : logits) sum += ExpOfNegative(logit - highest);
  return NaturalLog(sum) - (static_cast<double>(logits[static_cast<size_t>(id)]) - highest);
}

}  // namespace llmc
