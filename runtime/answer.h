// What a conversation shares with the one answer to a prompt.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/generate.h"
#include "runtime/sampler.h"
#include "runtime/tokenizer.h"

namespace llmc {

inline constexpr uint32_t kDefaultCount = 256;  // most new tokens

inline double Milliseconds(uint64_t start, uint64_t end) { return static_cast<double>(end - start) * 1e-6; }
inline double PerSecond(uint64_t count, double milliseconds) {
  return milliseconds > 0 ? static_cast<double>(count) * 1000.0 / milliseconds : 0;
}

// Throws PlanError when the plan's file has changed under the run.
void CheckUnchanged(const RunState& run);
// One row of logits, of `position`: before anything is made of them.
void CheckLogits(const RunState& run, std::span<const float> logits, uint64_t position);
Tokenizer NeedTokenizer(const RunState& run);
// The prompt, once it is known that it can be run.
std::vector<int32_t> CheckedPrompt(const RunState& run);

uint64_t DrawSeed();
// The command line's values before the plan's; the plan's count when it says that the model is to be sampled from, or
// when the command line sets a temperature; rules for logits count always. limit: of new tokens.
SamplerOptions SamplerOf(const RunState& run, uint64_t limit);

// One warning for the options that choose among candidates, where the likeliest is taken.
void SayWhatGreedyIgnores(const RunOptions& options);

// One answer, token by token: which one is picked, and why there are no more.
class AnswerSteps {
 public:
  // each(logits, id, ends) is called for every token with the logits that it was picked from; false ends the answer.
  // ends: it is a stop id, and the last.
  using Each = std::function<bool(std::span<const float> logits, int32_t id, bool ends)>;
  // most: new tokens. run and sampler outlive it.
  AnswerSteps(const RunState& run, Sampler& sampler, uint32_t most, Each each)
      : run_(run), sampler_(sampler), each_(std::move(each)), most_(most), stop_(most == 0 ? "length" : "") {}
  // Picks from the logits of `position`. False: that was the last one, which isn't appended; else id() is to be.
  bool Next(std::span<const float> logits, uint32_t position);
  bool done() const { return !stop_.empty(); }
  int32_t id() const { return id_; }
  uint32_t left() const { return most_ - count_; }  // tokens that may still be picked
  // "eos", "length", "grammar" (the text is whole and can't go on) or "interrupted" (each said so).
  const std::string& stop() const { return stop_; }

 private:
  const RunState& run_;
  Sampler& sampler_;
  const Each each_;
  const uint32_t most_;
  uint32_t count_ = 0;
  int32_t id_ = -1;
  std::string stop_;
};

// All steps of an answer to the prompt, which the session holds and behind which `logits` stand. Returns why it ended.
std::string Answer(RunState& run, Sampler& sampler, std::span<const int32_t> prompt, std::span<const float> logits,
                   uint32_t most, const AnswerSteps::Each& each);

// {"role": .., "content": ..}
std::string ChatMessage(std::string_view role, std::string_view content);

}  // namespace llmc
