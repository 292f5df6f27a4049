// Tokenizers: a Hugging Face tokenizer.json or the tokenizer in a GGUF file's metadata becomes the plan's tokenizer
// section (runtime/plan_tokenizer.h). Byte-level BPE only. Anything that would be encoded differently is refused with
// the name of what isn't supported (kind Unsupported).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/gguf.h"

namespace llmc {

struct LoweredTokenizer {
  std::string section;
  std::optional<int32_t> bos_id;
  bool add_bos = false;           // raw prompts begin with bos_id
  std::vector<int32_t> stop_ids;  // ascending; generation ends with any of them
};

// A file as text: empty text means that there is none; the name is for messages.
struct NamedText {
  std::string name, text;
};
struct HfTokenizerFiles {
  NamedText tokenizer;          // tokenizer.json
  NamedText tokenizer_config;   // bos and eos by name, add_bos_token
  NamedText generation_config;  // eos_token_id
  NamedText config;             // eos_token_id
};
// vocab_rows: rows of the model's embedding; a tokenizer id at or beyond it is an error (0: not checked). Stop ids come
// from generation_config, else config, else the tokenizer's eos. BOS is added if tokenizer_config's add_bos_token or,
// without that key, the post-processor's template says so.
LoweredTokenizer LowerHfTokenizer(const HfTokenizerFiles& files, int64_t vocab_rows);
// The files of a model's directory; a missing tokenizer.json is an error.
LoweredTokenizer LowerHfTokenizer(const std::string& directory, int64_t vocab_rows);

// The metadata of a GGUF file that a tokenizer is made of: keys tokenizer.ggml.*, views into the file.
struct GgufTokenizer {
  std::string_view model;                // "gpt2" is byte-level BPE
  std::string_view pre;                  // name of the pre-tokenizer; "": not given
  std::vector<std::string_view> tokens;  // by id
  std::vector<int64_t> token_type;       // by id, or empty: all normal
  std::vector<std::string_view> merges;  // "left right", by rank
  std::optional<int64_t> bos_id, eos_id, eot_id;
  std::optional<bool> add_bos, add_eos;
};
GgufTokenizer ReadGgufTokenizer(const GgufHeader& header);
// Stop ids are eos, eot and the tokens that end a turn in the usual chat formats.
LoweredTokenizer LowerGgufTokenizer(const GgufTokenizer& source, const std::string& file, int64_t vocab_rows);

}  // namespace llmc
