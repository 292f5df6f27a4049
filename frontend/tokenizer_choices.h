// The stages of a tokenizer around its vocabulary, and the tables of those that are known. Internal to the front end's
// tokenizer files.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/json.h"
#include "runtime/plan_tokenizer.h"

namespace llmc {

// A member that is there and not null.
inline Json FindValue(const Json& object, std::string_view key) {
  const Json value = object.Find(key);
  return value && !value.is(JsonKind::Null) ? value : Json();
}

// Each reads one key of a tokenizer.json's root object, and refuses what it can't honour with InputError Unsupported.
bool HfIsNfc(const Json& root);                          // normalizer
std::vector<TokenizerStep> HfSteps(const Json& root);    // pre_tokenizer
void CheckHfDecoder(const Json& root);                   // decoder
std::optional<int64_t> HfTemplateBos(const Json& root);  // post_processor: the id that a raw text is given in front

// The pre-tokenizer of a GGUF file by its name; null when unknown.
struct GgufPre {
  std::string_view name;
  std::vector<TokenizerStep> steps;
  bool nfc = false, ignore_merges = false, add_bos = false;
};
const GgufPre* FindGgufPre(std::string_view name);

}  // namespace llmc
