// Sampling defaults and stop ids.
#include "frontend/generation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "frontend/file.h"
#include "frontend/json.h"

namespace llmc {
namespace {

constexpr size_t kMaxStopIds = 256;
constexpr size_t kMaxRuleIds = 65536;

int32_t IdOf(const Json& value, int64_t vocab) {
  int64_t id = value.AsInt();
  if (id < 0 || id >= vocab)
    Fail(DiagKind::BadValue, value.place(), fmt::format("token id {} is outside the vocabulary of {}", id, vocab));
  return static_cast<int32_t>(id);
}

std::vector<int32_t> StopIds(const Json& value, int64_t vocab) {
  std::vector<int32_t> ids;
  if (!value) return ids;
  if (!value.is(JsonKind::Array)) return {IdOf(value, vocab)};
  if (value.size() > kMaxStopIds)
    Fail(DiagKind::TooLarge, value.place(), fmt::format("{} ids, at most {}", value.size(), kMaxStopIds));
  for (const Json& id : value.items()) ids.push_back(IdOf(id, vocab));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::optional<float> Number(const Json& object, std::string_view key, double most) {
  Json v = FindValue(object, key);
  if (!v) return std::nullopt;
  double d = v.AsDouble();
  if (!std::isfinite(d) || d < 0 || d > most)
    Fail(DiagKind::BadValue, v.place(), fmt::format("{} is {}, must be 0 to {}", key, v.source(), most));
  return static_cast<float>(d);
}

// The keys of transformers' GenerationConfig (generation/configuration_utils.py, 5.24) that change which tokens are
// generated and are not read here, with the value at which they do nothing. Lists, texts and objects do nothing when
// they are empty, flags when they are as here (0 or 1), everything when it is null.
struct UnusedKey {
  std::string_view key;
  double neutral = 0;
};
constexpr UnusedKey kUnused[] = {{"encoder_repetition_penalty", 1},

                                 {"encoder_no_repeat_ngram_size"},

                                 {"force_words_ids"},
                                 {"constraints"},

                                 {"forced_bos_token_id", -1},

                                 {"forced_decoder_ids"},
                                 {"sequence_bias"},
                                 {"min_length"},

                                 {"exponential_decay_length_penalty"},
                                 {"stop_strings"},

                                 {"top_h", 1},
                                 {"epsilon_cutoff"},
                                 {"eta_cutoff"},
                                 {"renormalize_logits"},
                                 {"remove_invalid_values"},
                                 {"guidance_scale", 1},
                                 {"token_healing"},
                                 {"watermarking_config"},
                                 {"num_beams", 1},
                                 {"num_beam_groups", 1},
                                 {"diversity_penalty"},
                                 {"length_penalty", 1},
                                 {"penalty_alpha"},
                                 {"dola_layers"},
                                 {"max_time"},
                                 {"prompt_lookup_num_tokens"}};
// Those that are read, or do not change it: how much is generated and returned (-n says that here), ids that only
// batches need, how transformers computes.
constexpr std::string_view kKnown[] = {"eos_token_id",
                                       "temperature",
                                       "top_p",
                                       "min_p",
                                       "top_k",
                                       "do_sample",
                                       "repetition_penalty",
                                       "no_repeat_ngram_size",
                                       "bad_words_ids",
                                       "suppress_tokens",
                                       "begin_suppress_tokens",
                                       "forced_eos_token_id",
                                       "min_new_tokens",
                                       "typical_p",
                                       "bos_token_id",
                                       "pad_token_id",
                                       "decoder_start_token_id",
                                       "max_length",
                                       "max_new_tokens",
                                       "num_return_sequences",
                                       "early_stopping",
                                       "use_cache",
                                       "cache_implementation",
                                       "cache_config",
                                       "return_legacy_cache",
                                       "prefill_chunk_size",
                                       "compile_config",
                                       "disable_compile",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "output_scores",
                                       "output_logits",
                                       "return_dict_in_generate",
                                       "generation_kwargs",
                                       "is_assistant",
                                       "num_assistant_tokens",
                                       "num_assistant_tokens_schedule",
                                       "assistant_confidence_threshold",
                                       "assistant_early_exit",
                                       "assistant_lookbehind",
                                       "assistant_ensemble_weight",
                                       "target_lookbehind",
                                       "max_cache_len",
                                       "speculation_type",
                                       "use_mtp",
                                       "max_matching_ngram_size",
                                       "low_memory",
                                       "trust_remote_code",
                                       "transformers_version",
                                       "_from_model_config",
                                       "_commit_hash",
                                       "assistant_temperature",
                                       "continuous_batching_config"};

bool DoesNothing(const Json& value, double neutral) {
  switch (value.kind()) {
    case JsonKind::Null: return true;
    case JsonKind::Bool: return value.AsBool() == (neutral == 1);
    case JsonKind::Int:
    case JsonKind::Float: return value.AsDouble() == neutral;
    case JsonKind::String: return value.AsString().empty();
    case JsonKind::Array:
    case JsonKind::Object: return value.size() == 0;
  }
  return false;
}

// Keys that would change what is generated and have no effect: warnings, and lines for the plan.
std::vector<std::string> Unused(const Json& generation, const DiagSink& sink) {
  std::vector<std::string> lines;
  if (!generation) return lines;
  for (const auto& [key, value] : generation.members()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown)) continue;
    const auto* known = std::find_if(std::begin(kUnused), std::end(kUnused),
                                     [&, &name = key](const UnusedKey& unused) { return unused.key == name; });
    if (DoesNothing(value, known == std::end(kUnused) ? 0 : known->neutral)) continue;
    std::string line = fmt::format("{} = {}", key, value.source().substr(0, 60));
    if (sink) sink({Severity::Warning, DiagKind::Unsupported, value.place(), line + " has no effect here", {}});
    for (char& c : line) c = c >= 0x20 && c < 0x7f ? c : '?';
    lines.push_back(std::move(line));
  }
  return lines;
}

uint32_t CountOf(const Json& object, std::string_view key) {
  Json v = FindValue(object, key);
  if (!v) return 0;
  const int64_t n = v.AsInt();
  if (n < 0 || n > std::numeric_limits<int32_t>::max())
    Fail(DiagKind::BadValue, v.place(), fmt::format("{} is {}, must be 0 to 2^31 - 1", key, n));
  return static_cast<uint32_t>(n);
}

// As StopIds, in the order of the file.
std::vector<int32_t> IdList(const Json& value, int64_t vocab) {
  std::vector<int32_t> ids;
  if (value.is(JsonKind::Array) && value.size() > kMaxRuleIds)
    Fail(DiagKind::TooLarge, value.place(), fmt::format("{} entries, at most {}", value.size(), kMaxRuleIds));
  for (const Json& id : value.items()) ids.push_back(IdOf(id, vocab));
  return ids;
}
std::vector<int32_t> IdList(const Json& object, std::string_view key, int64_t vocab) {
  Json v = FindValue(object, key);
  if (!v) return {};
  return v.is(JsonKind::Int) ? std::vector<int32_t>{IdOf(v, vocab)} : IdList(v, vocab);
}

PlanRules RulesOf(const Json& generation, int64_t vocab, const DiagSink& sink) {
  PlanRules rules;
  rules.repetition_penalty = Number(generation, "repetition_penalty", 1e6).value_or(1);
  if (rules.repetition_penalty == 0) {
    const Json v = FindValue(generation, "repetition_penalty");
    Fail(DiagKind::BadValue, v.place(), fmt::format("repetition_penalty is {}, must be above 0", v.source()));
  }
  rules.typical_p = Number(generation, "typical_p", 1).value_or(1);
  rules.no_repeat_ngram_size = CountOf(generation, "no_repeat_ngram_size");
  rules.min_new_tokens = CountOf(generation, "min_new_tokens");
  rules.forced_eos_token_id = IdList(generation, "forced_eos_token_id", vocab);
  rules.suppress_tokens = IdList(generation, "suppress_tokens", vocab);
  rules.begin_suppress_tokens = IdList(generation, "begin_suppress_tokens", vocab);
  if (Json words = FindValue(generation, "bad_words_ids")) {
    if (words.size() > kMaxRuleIds)
      Fail(DiagKind::TooLarge, words.place(), fmt::format("{} entries, at most {}", words.size(), kMaxRuleIds));
    for (const Json& word : words.items()) {
      if (word.size() == 0) Fail(DiagKind::BadValue, word.place(), "a list of bad words is empty");
      rules.bad_words_ids.push_back(IdList(word, vocab));
    }
  }
  rules.unused = Unused(generation, sink);
  return rules;
}

std::optional<int32_t> GgufId(const GgufHeader& header, const std::string& file, std::string_view key, int64_t vocab) {
  const GgufValue* v = header.Find(key);
  if (v == nullptr) return std::nullopt;
  auto id = v->Int();
  if (!id || *id < 0 || *id >= vocab) {
    Fail(DiagKind::BadValue, {file, fmt::format("key {}", key)},
         fmt::format("must be a token id below {}{}", vocab, id ? fmt::format(", is {}", *id) : ""));
  }
  return static_cast<int32_t>(*id);
}

}  // namespace

PlanGeneration HfGeneration(const std::string& directory, const std::string& config_path, int64_t vocab,
                            const DiagSink& sink) {
  Json generation = ReadJsonObject(JoinPath(directory, "generation_config.json"));
  Json config = ReadJsonObject(config_path);
  PlanGeneration out;
  Json eos = FindValue(generation, "eos_token_id");
  out.stop_ids = StopIds(eos ? eos : FindValue(config, "eos_token_id"), vocab);
  out.temperature = Number(generation, "temperature", 1e6);
  out.top_p = Number(generation, "top_p", 1);
  out.min_p = Number(generation, "min_p", 1);
  if (Json k = FindValue(generation, "top_k")) {
    int64_t n = k.AsInt();
    if (n < 0 || n > std::numeric_limits<int32_t>::max())
      Fail(DiagKind::BadValue, k.place(), fmt::format("top_k is {}, must not be negative", n));
    out.top_k = static_cast<int32_t>(n);
  }
  if (Json flag = FindValue(generation, "do_sample")) out.do_sample = flag.AsBool();
  if (out.do_sample && !out.top_k) out.top_k = 50;  // transformers' default
  out.rules = RulesOf(generation, vocab, sink);
  return out;
}

PlanGeneration GgufGeneration(const GgufHeader& header, const std::string& file, int64_t vocab) {
  PlanGeneration out;
  for (std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (auto id = GgufId(header, file, key, vocab)) out.stop_ids.push_back(*id);
  }
  std::sort(out.stop_ids.begin(), out.stop_ids.end());
  out.stop_ids.erase(std::unique(out.stop_ids.begin(), out.stop_ids.end()), out.stop_ids.end());
  return out;
}

}  // namespace llmc
