// What a model's generation_config says about its sampler beyond the manifest's numbers: rules that change logits
// (runtime/logit_rules.h), and the keys that have no effect here.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// The names are generation_config's.
struct PlanRules {
  float repetition_penalty = 1, typical_p = 1;
  uint32_t no_repeat_ngram_size = 0, min_new_tokens = 0;
  std::vector<int32_t> forced_eos_token_id, suppress_tokens, begin_suppress_tokens;
  std::vector<std::vector<int32_t>> bad_words_ids;
  std::vector<std::string> unused;  // "num_beams = 4"
  bool operator==(const PlanRules&) const = default;
};

// A line for each that isn't neutral, in the order above: "repetition_penalty = 1.1", "suppress_tokens = 1,2",
// "bad_words_ids = 1;2,3", "unused: num_beams = 4". Empty when all are.
std::string RulesText(const PlanRules& rules);
// The inverse; throws PlanError("WHERE: ..") for a text that RulesText does not write.
PlanRules ParseRules(std::string_view text, std::string_view where);
// Throws PlanError for a number out of range or an id outside 0..vocab-1.
void CheckRules(const PlanRules& rules, uint32_t vocab, std::string_view where);

}  // namespace llmc
