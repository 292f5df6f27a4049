// What a conversation shares with the one answer to a prompt.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "runtime/generate.h"
#include "runtime/sampler.h"

namespace llmc {

inline constexpr uint32_t kDefaultCount = 256;  // most new tokens

uint64_t DrawSeed();
// The command line's values before the plan's; the plan's count when it says that the model is to be sampled from, or
// when the command line sets a temperature; rules for logits count always. limit: of new tokens.
SamplerOptions SamplerOf(const RunState& run, uint64_t limit);

// Generates up to `most` tokens behind `prompt`, of which the session holds the first `held` ids: each(logits, id) is
// called for every one before it is appended, with the logits that it was picked from; false ends the answer. The last
// one isn't appended. Returns why it ended: "eos" (the token that said so was not given to `each`), "length" or
// "interrupted".
std::string Answer(RunState& run, Sampler& sampler, std::span<const int32_t> prompt, size_t held, uint32_t most,
                   const std::function<bool(std::span<const float> logits, int32_t id)>& each);

// {"role": .., "content": ..}
std::string ChatMessage(std::string_view role, std::string_view content);

}  // namespace llmc
