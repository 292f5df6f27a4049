// Log probabilities of tokens, for people and for checks of an engine. Of the model's logits as they are: before any
// rule, filter or temperature.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/tokenizer.h"

namespace llmc {

struct TokenLogprob {
  int32_t id = 0;
  double value = 0;  // a log probability, or a logit
};

// The ids with the n highest logits, highest first, the lower id among equals; value: the logit.
std::vector<TokenLogprob> HighestLogits(std::span<const float> logits, uint32_t n);

// The log probability of each new token and of the likeliest there.
class Logprobs {
 public:
  // tokenizer: null for a plan without one; then there is no text.
  Logprobs(uint32_t n, const Tokenizer* tokenizer) : n_(n), tokenizer_(tokenizer) {}
  void Add(std::span<const float> logits, int32_t id);
  // [{"id": 5, "text": "a", "logprob": -0.1, "top": [{...}]}, ..]
  std::string Json() const;
  // A line a token: id, text as a JSON string, log probability, and the same three of each of the likeliest, by tabs.
  std::string Lines() const;

 private:
  struct Entry {
    TokenLogprob token;
    std::vector<TokenLogprob> top;
  };
  uint32_t n_;
  const Tokenizer* tokenizer_;
  std::vector<Entry> entries_;
};

// `"text"` of a token as a JSON string; "" without a tokenizer.
std::string QuotedToken(const Tokenizer* tokenizer, int32_t id);
// Shortest decimal text that reads back to the same f32.
std::string ShortText(double value);

}  // namespace llmc
