// Log softmax of single ids, and their texts as JSON and lines.
#include "runtime/logprobs.h"

#include <algorithm>
#include <charconv>

#include "runtime/report.h"
#include "runtime/sampler.h"

namespace llmc {

std::vector<TokenLogprob> HighestLogits(std::span<const float> logits, uint32_t n) {
  std::vector<TokenLogprob> all;
  all.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) all.push_back({static_cast<int32_t>(i), static_cast<double>(logits[i])});
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(n, all.size()));
  std::partial_sort(all.begin(), end, all.end(), [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.value != b.value ? a.value > b.value : a.id < b.id;
  });
  all.erase(end, all.end());
  return all;
}

void Logprobs::Add(std::span<const float> logits, int32_t id) {
  Entry& entry = entries_.emplace_back();
  entry.token = {id, -NegativeLogLikelihood(logits, id)};
  entry.top = HighestLogits(logits, n_);
  for (TokenLogprob& token : entry.top) token.value = -NegativeLogLikelihood(logits, token.id);
}

std::string Logprobs::Json() const {
  const auto object = [&](const TokenLogprob& token, const std::string& top) {
    const std::string text = QuotedToken(tokenizer_, token.id);
    return "{\"id\": " + std::to_string(token.id) + (text.empty() ? "" : ", \"text\": " + text) +
           ", \"logprob\": " + ShortText(token.value) + top + "}";
  };
  std::string json;
  for (const Entry& entry : entries_) {
    std::string top;
    for (const TokenLogprob& token : entry.top) top += (top.empty() ? "" : ", ") + object(token, "");
    json += (json.empty() ? "" : ", ") + object(entry.token, ", \"top\": [" + top + "]");
  }
  return "[" + json + "]";
}

std::string Logprobs::Lines() const {
  std::string lines;
  const auto add = [&](const TokenLogprob& token) {
    lines += std::to_string(token.id) + "\t" + QuotedToken(tokenizer_, token.id) + "\t" + ShortText(token.value);
  };
  for (const Entry& entry : entries_) {
    add(entry.token);
    for (const TokenLogprob& token : entry.top) {
      lines += "\t";
      add(token);
    }
    lines += "\n";
  }
  return lines;
}

std::string QuotedToken(const Tokenizer* tokenizer, int32_t id) {
  if (tokenizer == nullptr) return "";
  return JsonQuoted(tokenizer->Decode({&id, 1}));
}

std::string ShortText(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), static_cast<float>(value)).ptr};
}

}  // namespace llmc
