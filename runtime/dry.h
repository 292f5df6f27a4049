// DRY ("don't repeat yourself"): an id that would go on with a repetition is penalised by how long that already is.
// llama.cpp's sampler of that name.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/tokenizer.h"

namespace llmc {

inline constexpr size_t kMostBreakerBytes = 40;
inline constexpr size_t kMostBreakerIds = 20;  // behind the first

// Unless others are given: llama.cpp's.
std::vector<std::string> DefaultDryBreakers();

struct DryOptions {
  float multiplier = 0;  // 0: off
  float base = 1.75f;
  uint32_t allowed_length = 2;  // shorter repetitions cost nothing
  // Sequences of ids over which no repetition is followed; ascending, none empty.
  std::vector<std::vector<int32_t>> breakers = {};
};

// What ids can make `texts`: a token that contains one, or one whose end begins it, and then the tokens of the rest.
// Ascending. Throws PlanError for an empty text, and for one over kMostBreakerBytes.
std::vector<std::vector<int32_t>> DryBreakers(const Tokenizer& tokenizer, std::span<const std::string> texts);

// With n the length of the longest run that ends the history, is there once more, and is followed there by an id: that
// id's logit less multiplier * base^(n - allowed_length), if n is that at least. No run reaches over a breaker, and an
// id that is a breaker costs nothing. Linear in the history, but for breakers of several ids.
void ApplyDry(const DryOptions& options, std::span<const int32_t> history, std::span<float> scores);

}  // namespace llmc
