// A text made through a Speculator, with a hash of all logits that its tokens were picked from; proposers that are right
// as often as a test wants.
#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/plan_hash.h"
#include "runtime/speculate.h"

namespace llmc::test {

struct SpeculatedText {
  std::vector<int32_t> ids;
  uint64_t logits = 0;  // XXH3 of the rows, one behind the other
  bool operator==(const SpeculatedText&) const = default;
};

inline SpeculatedText MakeText(Session& session, Speculator& speculator, std::span<const int32_t> prompt,
                               uint32_t count, const SamplerOptions& options) {
  session.Reset();
  Sampler sampler(options, prompt);
  SpeculatedText text;
  Xxh3 hash;
  std::span<const float> logits = session.Prefill(prompt);
  speculator.Begin(prompt);
  while (true) {
    hash.Update(logits.data(), logits.size_bytes());
    EXPECT_EQ(speculator.position(), prompt.size() + text.ids.size());
    text.ids.push_back(sampler.Next(logits, speculator.position() - 1));
    const auto made = static_cast<uint32_t>(text.ids.size());
    if (made == count) break;
    logits = speculator.Decode(text.ids.back(), count - made - 1, sampler);
  }
  speculator.Settle();
  EXPECT_EQ(session.position(), prompt.size() + count - 1);
  text.logits = hash.Digest();
  return text;
}

// Guesses the tokens of a text that is known, each with probability `right`, else another id.
class ScriptedProposer : public Proposer {
 public:
  ScriptedProposer(std::vector<int32_t> text, uint32_t vocab, double right, uint32_t seed)
      : text_(std::move(text)), vocab_(vocab), right_(right), random_(seed) {}
  std::array<double, kDraftClasses> Prior() const override { return {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}; }
  bool TakesTime() const override { return false; }
  void Propose(std::span<const int32_t> ids, uint32_t most, const Sampler&, std::vector<Draft>& drafts) override {
    for (size_t at = ids.size(); at < ids.size() + most; ++at) {
      const int32_t id = at < text_.size() ? text_[at] : 0;
      const bool right = std::uniform_real_distribution<>()(random_) < right_;
      drafts.push_back({right ? id : static_cast<int32_t>((static_cast<uint32_t>(id) + 1) % vocab_), 0});
    }
  }

 private:
  std::vector<int32_t> text_;  // prompt and what follows
  uint32_t vocab_;
  double right_;
  std::mt19937 random_;
};

// Options of many sorts, greedy for 0.
inline SamplerOptions SamplingOf(uint32_t seed) {
  SamplerOptions options;
  options.seed = seed;
  if (seed % 3 == 1) options.rules.repetition_penalty = 1.1f;
  if (seed % 5 == 2) options.rules.no_repeat_ngram = 3;
  if (seed == 0) return options;
  options.temperature = 0.25 * (1 + seed % 6);
  if (seed % 2 == 1) options.top_k = 12;
  if (seed % 4 == 2) options.top_p = 0.9;
  if (seed % 7 == 3) options.min_p = 0.05;
  if (seed % 5 == 4) options.typical_p = 0.8;
  return options;
}

}  // namespace llmc::test
