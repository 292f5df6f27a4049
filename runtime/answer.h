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

// Generates up to `most` tokens behind the prompt, which the session holds and behind which `logits` stand: each(logits,
// id, ends) is called for every one before it is appended, with the logits that it was picked from; false ends the
// answer. ends: it is the one that says so, and the last. The last one isn't appended. Returns why it ended: "eos",
// "length", "grammar" (the text is whole and can't go on) or "interrupted".
std::string Answer(RunState& run, Sampler& sampler, std::span<const int32_t> prompt, std::span<const float> logits,
                   uint32_t most,
                   const std::function<bool(std::span<const float> logits, int32_t id, bool ends)>& each);

// {"role": .., "content": ..}
std::string ChatMessage(std::string_view role, std::string_view content);

}  // namespace llmc
