// Pre-tokenizers by the name that a GGUF file gives them. Internal to the front end's tokenizer files.
#pragma once
#include <string_view>
#include <vector>

#include "runtime/plan_tokenizer.h"

namespace llmc {

// What the family's tokenizer.json says beside its vocabulary.
struct GgufFamily {
  std::vector<TokenizerStep> normalizers, cuts;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file doesn't say
};
// False when the name is unknown.
bool FindGgufFamily(std::string_view pre, GgufFamily& out);

}  // namespace llmc
