// Rules that change logits before a token is chosen: what may not come now, and what should come less often. Each is
// Hugging Face's logits processor of the same name, with its arithmetic in f32 (transformers 5.24,
// generation/logits_process.py); runtime/README.md, "Sampling", states them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace llmc {

struct LogitRules {
  std::vector<std::pair<int32_t, float>> bias;  // id, what is added to its logit
  float repetition_penalty = 1;  // of ids that were there: positive logits are divided, others multiplied
  uint32_t no_repeat_ngram = 0;  // no sequence of so many ids comes twice; 0: off
  std::vector<std::vector<int32_t>> bad_words;    // sequences that are never finished
  uint32_t min_new_tokens = 0;                    // before so many new tokens no stop id comes
  std::vector<int32_t> forced_last;               // one of these is the token behind which the limit is reached
  std::vector<int32_t> suppress, begin_suppress;  // never, and not as the first new token
  std::vector<int32_t> stop_ids;  // for min_new_tokens and bad_words (which leave single stop ids alone)
  uint64_t limit = 0;             // new tokens in all, for forced_last; 0: none
};

// What the rules look at: the prompt's ids and the new ones behind them.
struct LogitHistory {
  std::span<const int32_t> ids;
  size_t prompt = 0;  // of ids
};

// Each changes `scores`, one for each id of the vocabulary; -inf: the id can't come. Ids outside it have no effect.
void ApplyBias(const LogitRules& rules, std::span<float> scores);
void ApplyRepetitionPenalty(const LogitRules& rules, const LogitHistory& history, std::span<float> scores);
void ApplyNoRepeatNgram(const LogitRules& rules, const LogitHistory& history, std::span<float> scores);
void ApplyBadWords(const LogitRules& rules, const LogitHistory& history, std::span<float> scores);
void ApplyMinNewTokens(const LogitRules& rules, const LogitHistory& history, std::span<float> scores);
void ApplyForcedLast(const LogitRules& rules, const LogitHistory& history, std::span<float> scores);
void ApplySuppressed(const LogitRules& rules, const LogitHistory& history, std::span<float> scores);

}  // namespace llmc
