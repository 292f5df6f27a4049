// From logits to the next token. runtime/README.md, "Sampling", states the arithmetic; a seed gives the same tokens on
// every machine.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace llmc {

// Filters apply in this order, which is Hugging Face's: temperature, top_k, top_p, min_p.
struct SamplerOptions {
  double temperature = 0;  // 0: the highest logit, the lowest id among equals; the rest is then unused
  int32_t top_k = 0;       // keep logits no lower than the k-th highest; 0: off
  double top_p = 1;  // in descending order keep each token before which the probabilities sum to less than top_p, at
                     // least one; 1: off
  double min_p = 0;  // keep probabilities of at least min_p times the highest; 0: off
  uint64_t seed = 0;
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
  // Throws PlanError for a temperature that is negative, NaN or infinite, a negative top_k, a top_p or min_p outside
  // 0..1.
  explicit Sampler(const SamplerOptions& options);
  // One draw from the generator a token (none at temperature 0). Throws PlanError naming `position` and the id when a
  // logit isn't finite.
  int32_t Next(std::span<const float> logits, uint32_t position);

 private:
  struct Candidate {
    int32_t id;
    double weight;  // e^(scaled logit - highest), the highest has 1
  };
  void KeepTopP();

  SamplerOptions options_;
  SamplerRandom random_;
  std::vector<Candidate> candidates_;
  std::vector<float> scratch_;
};

// The highest logit's id, the lowest among equals. Throws PlanError naming `position` and the id when a logit isn't
// finite.
int32_t Argmax(std::span<const float> logits, uint32_t position);

// -log of the probability that softmax(logits) gives to `id`.
double NegativeLogLikelihood(std::span<const float> logits, int32_t id);

}  // namespace llmc
