// Ids, text and log probabilities of an answer.
#include "runtime/answer_text.h"

namespace llmc {

AnswerText::AnswerText(const RunOptions& options, const Tokenizer* tokenizer)
    : options_(&options), stops_(options.stop), logprobs_(options.logprobs, tokenizer) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer, true);
}

std::string AnswerText::Add(std::span<const float> logits, int32_t id) {
  ids_.push_back(id);
  if (options_->logprobs > 0) logprobs_.Add(logits, id);
  std::string piece = decoder_ ? stops_.Push(decoder_->Push(id)) : (ids_.size() > 1 ? "," : "") + std::to_string(id);
  text_ += piece;
  return piece;
}

std::string AnswerText::Finish() {
  std::string piece;
  if (decoder_) piece = stops_.Push(decoder_->Finish()) + stops_.Finish();
  text_ += piece;
  return piece;
}

void AnswerText::Put(JsonObject& json, const std::string& stop, std::optional<uint64_t> seed,
                     std::optional<double> mean_logprob) const {
  std::string list;
  for (const int32_t id : ids_) list += (list.empty() ? "" : ", ") + std::to_string(id);
  if (decoder_) json.Text("text", text_);
  json.Raw("tokens", "[" + list + "]").Text("stop", stop);
  if (seed) json.Integer("seed", *seed);
  if (mean_logprob) json.Number("mean_logprob", *mean_logprob);
  if (options_->logprobs > 0) json.Raw("logprobs", logprobs_.Json());
}

}  // namespace llmc
