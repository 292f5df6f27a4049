// Tokenizers: a Hugging Face tokenizer.json, a SentencePiece model, or the tokenizer in a GGUF file's metadata becomes
// the plan's tokenizer section (runtime/plan_tokenizer.h). Anything that would be encoded differently is refused with
// the name of what isn't supported (kind Unsupported).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/frontend.h"
#include "frontend/gguf.h"

namespace llmc {

struct LoweredTokenizer {
  std::string section;
  std::optional<int32_t> bos_id;
  bool add_bos = false;           // raw prompts begin with bos_id
  std::vector<int32_t> stop_ids;  // ascending: what the tokenizer itself says; frontend/generation.h knows more
};

// A file as text; the name is for messages.
struct NamedText {
  std::string name, text;
};
struct HfTokenizerFiles {
  NamedText tokenizer;                                   // tokenizer.json
  NamedText config;                                      // tokenizer_config.json, or no text: bos and eos by name
  NamedText special_tokens_map = {}, added_tokens = {};  // the files of these names, or no text
};
// vocab_rows: rows of the model's embedding; a tokenizer id at or beyond it is an error (0: not checked). The
// post-processor says what is added to a text. The stop id is eos.
LoweredTokenizer LowerHfTokenizer(const HfTokenizerFiles& files, int64_t vocab_rows);
// A tokenizer.model that stands beside no tokenizer.json; the others without text where they are absent.
struct SentencePieceFiles {
  NamedText model;               // tokenizer.model
  NamedText config;              // tokenizer_config.json
  NamedText special_tokens_map;  // special_tokens_map.json
  NamedText added_tokens;        // added_tokens.json
  NamedText model_config;        // config.json: model_type and tokenizer_class
};
LoweredTokenizer LowerSentencePiece(const SentencePieceFiles& files, int64_t vocab_rows);
// From the files of a model's directory, which are added to inputs. Nothing when there is no tokenizer at all.
std::optional<LoweredTokenizer> LoadHfTokenizer(const std::string& directory, int64_t vocab_rows,
                                                std::vector<InputHash>& inputs);

// The metadata of a GGUF file that a tokenizer is made of: keys tokenizer.ggml.*, views into the file.
struct GgufTokenizer {
  std::string_view model;                // tokenizer_gguf.cpp has a table
  std::string_view pre;                  // name of the pre-tokenizer; "": not given
  std::string_view architecture;         // general.architecture
  std::vector<std::string_view> tokens;  // by id
  std::vector<int64_t> token_type;       // by id, or empty: all normal
  std::vector<float> scores;             // by id: Unigram, SentencePiece
  std::vector<std::string_view> merges;  // "left right", by rank: gpt2, gemma4
  std::string charsmap;                  // SentencePiece's normalisation: t5
  std::optional<int64_t> bos_id, eos_id, eot_id, unk_id, cls_id, sep_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
};
// Nothing when the file has no tokenizer. A list of more than 2^20 entries is an error (TooLarge).
std::optional<GgufTokenizer> ReadGgufTokenizer(const GgufHeader& header, const std::string& file);
// Stop ids are eos, eot and the tokens that end a turn in the usual chat formats.
LoweredTokenizer LowerGgufTokenizer(const GgufTokenizer& source, const std::string& file, int64_t vocab_rows);

// The tokenizer of a model's folder, a tokenizer.json, a SentencePiece model, or a GGUF file, which may hold a
// vocabulary alone. Throws InputError; Unsupported when there is none.
LoweredTokenizer LoadTokenizer(const std::string& path);

}  // namespace llmc
