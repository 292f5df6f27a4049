// From logits to the next token. runtime/README.md, "Sampling", states the arithmetic; a seed gives the same tokens on
// every machine.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/candidates.h"
#include "runtime/dry.h"
#include "runtime/logit_rules.h"
#include "runtime/mirostat.h"
#include "runtime/penalties.h"

namespace llmc {

class TokenConstraint;

// The stages, each of which does nothing at its neutral value. Those before Temperature change logits, the rest choose
// among what is left and count at a temperature over 0 alone.
enum class SamplerStage : uint8_t {
  Bias,
  Repetition,
  NoRepeatNgram,
  BadWords,
  MinNewTokens,
  Forced,
  Suppressed,
  PresenceFrequency,
  Dry,
  Temperature,
  TopK,
  TopP,
  MinP,
  Typical,
  Xtc
};
constexpr size_t kSamplerStages = 15;
// "bias", "repetition", ..: of --sampler-order.
std::string_view SamplerStageName(SamplerStage stage);
// That of the enumeration; Hugging Face's generate() has those that it knows in the same order.
constexpr std::array<SamplerStage, kSamplerStages> kSamplerOrder = {SamplerStage::Bias,
                                                                    SamplerStage::Repetition,
                                                                    SamplerStage::NoRepeatNgram,
                                                                    SamplerStage::BadWords,
                                                                    SamplerStage::MinNewTokens,
                                                                    SamplerStage::Forced,
                                                                    SamplerStage::Suppressed,
                                                                    SamplerStage::PresenceFrequency,
                                                                    SamplerStage::Dry,
                                                                    SamplerStage::Temperature,
                                                                    SamplerStage::TopK,
                                                                    SamplerStage::TopP,
                                                                    SamplerStage::MinP,
                                                                    SamplerStage::Typical,
                                                                    SamplerStage::Xtc};

struct SamplerOptions {
  double temperature = 0;  // 0: the highest logit, the lowest id among equals
  int32_t top_k = 0;       // keep logits no lower than the k-th highest; 0: off
  double top_p = 1;  // in descending order keep each token before which the probabilities sum to less than top_p, at
                     // least one; 1: off
  double min_p = 0;  // keep probabilities of at least min_p times the highest; 0: off
  double typical_p =
      1;  // keep the tokens whose -log p is nearest to its mean, until they have this probability; 1: off
  uint64_t seed = 0;
  double xtc_probability = 0;  // how often XTC is applied; 0: off
  double xtc_threshold = 0.1;
  double mirostat_tau = 0;  // bits a token; over 0: mirostat v2 instead of all stages that choose but temperature
  double mirostat_eta = 0.1;
  PenaltyOptions penalties = {};
  DryOptions dry = {};
  // A grammar that the new text keeps to: applied behind all that changes logits. One sampler at a time uses it, and
  // begins it anew.
  std::shared_ptr<TokenConstraint> constraint = {};
  uint32_t penalty_last_n = 0;  // so many of the last ids count for penalties and DRY; 0: all
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
  // negative top_k, a probability outside 0..1, a repetition penalty that isn't positive and finite, penalties that
  // aren't within 1e6, a base of DRY below 1 or an allowed length of 0, a tau or eta of mirostat outside 0..1e6.
  explicit Sampler(const SamplerOptions& options, std::span<const int32_t> prompt = {});
  // The next id, which joins those that the rules look at. One draw from the generator a token (none at temperature 0),
  // one before it with XTC.
  // Throws PlanError naming `position` and the id when a logit isn't finite, and when the rules leave no id.
  int32_t Next(std::span<const float> logits, uint32_t position);

  // The text is one of the constraint's grammar, and can't go on.
  bool finished() const;

  // Instead of the prompt's and new ids: what the rules look at from now on, none of them new.
  void SetHistory(std::span<const int32_t> ids);

  // Becomes a copy of `other` as far as its next picks depend on, without a constraint: for guesses.
  void Follow(const Sampler& other);

  // The ids that the last Next drew from, ascending; for tests.
  std::vector<int32_t> Kept() const;

 private:
  bool ChangeLogits(SamplerStage stage);  // whether the stage is one of those
  void Choose(SamplerStage stage);
  void KeepTopK();
  void KeepTopP();
  void KeepMinP();
  void KeepTypical();
  Candidate Draw();

  SamplerOptions options_;
  SamplerRandom random_;
  std::vector<int32_t> ids_;
  size_t prompt_;
  bool idle_ = false;  // no rule changes logits
  std::optional<Mirostat> mirostat_;
  std::vector<float> scores_;
  Candidates candidates_;
};

// The highest logit's id, the lowest among equals. Throws PlanError naming `position` and the id when a logit isn't
// finite.
int32_t Argmax(std::span<const float> logits, uint32_t position);

// -log of the probability that softmax(logits) gives to `id`.
double NegativeLogLikelihood(std::span<const float> logits, int32_t id);

}  // namespace llmc
