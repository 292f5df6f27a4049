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
// The WordPiece pre-tokenizer that lower-cases and strips accents.
inline constexpr std::string_view kLowerCasedWords = "bert-bge";
// The architecture whose control tokens take the white space behind them.
inline constexpr std::string_view kStripsAfterTurns = "phi3";

// False when the name is unknown.
bool FindGgufFamily(std::string_view pre, GgufFamily& out);

}  // namespace llmc
