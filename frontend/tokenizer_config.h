// Added tokens beside those of tokenizer.json: what tokenizer_config.json names. As transformers 5.24's AutoTokenizer
// on top of tokenizers 0.23. Internal to the front end's tokenizer files.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>

#include "frontend/json.h"
#include "frontend/tokenizer_source.h"

namespace llmc {

// The id that tokenizers give to a token that is added now: its own, if the vocabulary or an added token has that text,
// else the next one behind the vocabulary and all added tokens.
class AddedIds {
 public:
  explicit AddedIds(const TokenizerSource& source);
  int64_t IdOf(std::string_view content) const;
  // Takes note of an added token; throws InputError when `stated` isn't the id that it gets: which of the two a
  // checkpoint was trained with can't be known.
  void Add(const std::string& content, int64_t stated, const Place& place);

 private:
  std::unordered_map<std::string, int64_t> ids_;
  int64_t size_ = 0, next_ = 0;  // of the vocabulary; behind the highest added id
};

// Adds the tokens of added_tokens_decoder that tokenizer.json lacks, then the named ones (bos_token .. mask_token,
// additional_special_tokens, extra_special_tokens) that are no added tokens yet. Flags of a token that is one already
// have no effect. Throws InputError for split_special_tokens, which isn't supported, and for ids as AddedIds does.
void AddConfiguredTokens(const Json& config, AddedIds& ids, TokenizerSource& source);

}  // namespace llmc
