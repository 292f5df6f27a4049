// The text of one answer, as its tokens come.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/logprobs.h"
#include "runtime/report.h"
#include "runtime/run_options.h"
#include "runtime/stop_strings.h"
#include "runtime/tokenizer.h"

namespace llmc {

class AnswerText {
 public:
  // tokenizer null (--print-tokens): the text is the ids, comma-separated. Both outlive it.
  AnswerText(const RunOptions& options, const Tokenizer* tokenizer);
  // A token that doesn't end the answer, with the logits that it was picked from: what the text gains. Behind a stop
  // string it gains nothing more.
  std::string Add(std::span<const float> logits, int32_t id);
  // What is left when no more come.
  std::string Finish();
  bool stopped() const { return stops_.stopped(); }  // by a stop string

  const std::vector<int32_t>& ids() const { return ids_; }
  const std::string& text() const { return text_; }
  const Logprobs& logprobs() const { return logprobs_; }
  // Members text, tokens, stop, seed (if one was used), mean_logprob (of --best-of) and logprobs (if asked for).
  void Put(JsonObject& json, const std::string& stop, std::optional<uint64_t> seed,
           std::optional<double> mean_logprob = {}) const;

 private:
  const RunOptions* options_;
  std::vector<int32_t> ids_;
  std::string text_;
  StopStrings stops_;
  std::optional<StreamDecoder> decoder_;
  Logprobs logprobs_;
};

}  // namespace llmc
