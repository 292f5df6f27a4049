// From logits to the next token. runtime/README.md, "Sampling", states the arithmetic; a seed gives the same tokens on
// every machine.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/logit_rules.h"

namespace llmc {

// The stages, each of which does nothing at its neutral value. The first seven change logits, the rest choose among
// what is left and count at a temperature over 0 alone.
enum class SamplerStage : uint8_t {
  Bias,
  Repetition,
  NoRepeatNgram,
  BadWords,
  MinNewTokens,
  Forced,
  Suppressed,
  Temperature,
  TopK,
  TopP,
  MinP,
  Typical
};
constexpr size_t kSamplerStages = 12;
// "bias", "repetition", ..: of --sampler-order.
std::string_view SamplerStageName(SamplerStage stage);
// The order of Hugging Face's generate(): that of the enumeration.
constexpr std::array<SamplerStage, kSamplerStages> kSamplerOrder = {
    SamplerStage::Bias,         SamplerStage::Repetition, SamplerStage::NoRepeatNgram, SamplerStage::BadWords,
    SamplerStage::MinNewTokens, SamplerStage::Forced,     SamplerStage::Suppressed,    SamplerStage::Temperature,
    SamplerStage::TopK,         SamplerStage::TopP,       SamplerStage::MinP,          SamplerStage::Typical};

struct SamplerOptions {
  double temperature = 0;  // 0: the highest logit, the lowest id among equals
  int32_t top_k = 0;       // keep logits no lower than the k-th highest; 0: off
  double top_p = 1;  // in descending order keep each token before which the probabilities sum to less than top_p, at
                     // least one; 1: off
  double min_p = 0;  // keep probabilities of at least min_p times the highest; 0: off
  double typical_p =
      1;  // keep the tokens whose -log p is nearest to its mean, until they have this probability; 1: off
  uint64_t seed = 0;
  LogitRules rules = {};
  std::vector<SamplerStage> order{kSamplerOrder.begin(), kSamplerOrder.end()};  // those that are left out do nothing
};

// xoshiro256** seeded by splitmix64 (Blackman, Vigna: "Scrambled linear pseudorandom number generators", 2018).
class SamplerRandom {
 public:
  explicit SamplerRandom(uint64_t seed);
  uint64_t Next();
  double NextUnit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // in [0, 1)

 private:
  uint64_t state_[4];
};

class Sampler {
 public:
  // prompt: its ids, which the rules look at. Throws PlanError for a temperature that is negative, NaN or infinite, a
  // negative top_k, a top_p, min_p or typical_p outside 0..1, a repetition penalty that isn't positive and finite.
  explicit Sampler(const SamplerOptions& options, std::span<const int32_t> prompt = {});
  // The next id, which joins those that the rules look at. One draw from the generator a token (none at temperature 0).
  // Throws PlanError naming `position` and the id when a logit isn't finite, and when the rules leave no id.
  int32_t Next(std::span<const float> logits, uint32_t position);

  // Becomes a copy of `other` as far as its next picks depend on: all but what a pick needs room for.
  void Follow(const Sampler& other);

  // The ids that the last Next drew from, ascending; for tests.
  std::vector<int32_t> Kept() const;

 private:
  struct Candidate {
    int32_t id;
    double x;       // logit less the highest one, after temperature
    double weight;  // e^x, once `weighed_`
  };
  bool ChangeLogits(SamplerStage stage);  // whether the stage is one of those
  void Choose(SamplerStage stage);
  void Weigh();
  void KeepTopK();
  void KeepTopP();
  void KeepTypical();
  int32_t Draw();

  SamplerOptions options_;
  SamplerRandom random_;
  std::vector<int32_t> ids_;
  size_t prompt_;
  bool idle_ = false, weighed_ = false;  // no rule changes logits
  std::vector<float> scores_;
  std::vector<Candidate> candidates_;  // ids ascend
};

// The highest logit's id, the lowest among equals. Throws PlanError naming `position` and the id when a logit isn't
// finite.
int32_t Argmax(std::span<const float> logits, uint32_t position);

// -log of the probability that softmax(logits) gives to `id`.
double NegativeLogLikelihood(std::span<const float> logits, int32_t id);

}  // namespace llmc
