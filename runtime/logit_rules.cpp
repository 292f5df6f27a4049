// The rules, one function each.
#include "runtime/logit_rules.h"

#include <algorithm>
#include <limits>

namespace llmc {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float* ScoreOf(int32_t id, std::span<float> scores) {
  return id >= 0 && static_cast<size_t>(id) < scores.size() ? &scores[static_cast<size_t>(id)] : nullptr;
}
void Exclude(int32_t id, std::span<float> scores) {
  if (float* score = ScoreOf(id, scores)) *score = kNever;
}
void Exclude(std::span<const int32_t> ids, std::span<float> scores) {
  for (const int32_t id : ids) Exclude(id, scores);
}

// Whether `ids` ends with `tail`.
bool EndsWith(std::span<const int32_t> ids, std::span<const int32_t> tail) {
  return tail.size() <= ids.size() &&
         std::equal(tail.begin(), tail.end(), ids.end() - static_cast<std::ptrdiff_t>(tail.size()));
}

}  // namespace

void ApplyBias(const LogitRules& rules, std::span<float> scores) {
  for (const auto& [id, bias] : rules.bias) {
    if (float* score = ScoreOf(id, scores)) *score = *score + bias;
  }
}

void ApplyRepetitionPenalty(const LogitRules& rules, const LogitHistory& history, std::span<float> scores) {
  if (rules.repetition_penalty == 1) return;
  std::vector<int32_t> ids(history.ids.begin(), history.ids.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const int32_t id : ids) {
    float* score = ScoreOf(id, scores);
    if (score != nullptr) *score = *score < 0 ? *score * rules.repetition_penalty : *score / rules.repetition_penalty;
  }
}

void ApplyNoRepeatNgram(const LogitRules& rules, const LogitHistory& history, std::span<float> scores) {
  const size_t n = rules.no_repeat_ngram;
  if (n == 0 || history.ids.size() + 1 < n) return;
  const std::span<const int32_t> tail = history.ids.last(n - 1);
  for (size_t end = n - 1; end < history.ids.size(); ++end) {
    if (EndsWith(history.ids.first(end), tail)) Exclude(history.ids[end], scores);
  }
}

void ApplyBadWords(const LogitRules& rules, const LogitHistory& history, std::span<float> scores) {
  for (const std::vector<int32_t>& word : rules.bad_words) {
    if (word.empty() || word.size() > std::max<size_t>(history.ids.size(), 1)) continue;
    if (word.size() == 1 && std::find(rules.stop_ids.begin(), rules.stop_ids.end(), word[0]) != rules.stop_ids.end())
      continue;
    if (EndsWith(history.ids, std::span(word).first(word.size() - 1))) Exclude(word.back(), scores);
  }
}

void ApplyMinNewTokens(const LogitRules& rules, const LogitHistory& history, std::span<float> scores) {
  if (history.ids.size() - history.prompt < rules.min_new_tokens) Exclude(rules.stop_ids, scores);
}

void ApplyForcedLast(const LogitRules& rules, const LogitHistory& history, std::span<float> scores) {
  if (rules.forced_last.empty() || history.ids.size() - history.prompt + 1 != rules.limit) return;
  std::fill(scores.begin(), scores.end(), kNever);
  for (const int32_t id : rules.forced_last) {
    if (float* score = ScoreOf(id, scores)) *score = 0;
  }
}

void ApplySuppressed(const LogitRules& rules, const LogitHistory& history, std::span<float> scores) {
  Exclude(rules.suppress, scores);
  if (history.ids.size() == history.prompt) Exclude(rules.begin_suppress, scores);
}

}  // namespace llmc
