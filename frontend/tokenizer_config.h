// Added tokens beside those of the vocabulary's file: what tokenizer_config.json and its older companions name. As
// transformers 5.24's AutoTokenizer on top of tokenizers 0.23. Internal to the front end's tokenizer files.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

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

// Objects, or none. special_tokens_map.json and added_tokens.json count only where tokenizer_config.json has no
// added_tokens_decoder; the map's keys then stand for those of tokenizer_config.json.
struct TokenizerConfigFiles {
  Json config, special_tokens_map, added_tokens;
  bool has_tokenizer_json = false;  // whose added tokens stand for those of added_tokens.json with the same id
};
// What a tokenizer class brings itself.
struct TokenDefaults {
  std::vector<std::pair<std::string_view, std::string>> named;  // key, text: where no file has the key
  std::optional<std::vector<SourceAddedToken>> extra;           // where the configuration names no extra tokens
  bool match_raw = false;                                       // tokens of added_tokens_decoder are not normalised
};

// The token that a key such as bos_token names; none where it is null, or nobody has it.
std::optional<SourceAddedToken> FindNamedToken(const TokenizerConfigFiles& files, const TokenDefaults& defaults,
                                               std::string_view key);

// added_tokens_decoder or added_tokens.json as tokens without an id, ascending by the id that each states.
struct StatedToken {
  int64_t id = 0;
  SourceAddedToken token;
  Place place;
};
std::vector<StatedToken> StatedTokens(const TokenizerConfigFiles& files, const TokenDefaults& defaults);

// Adds the stated tokens, then those named by bos_token .. mask_token, by other keys that end in _token, and the extra
// ones, which must be no added tokens yet. A token that is added again has the flags of the last time. Throws
// InputError for split_special_tokens, which isn't supported, and for ids as AddedIds does.
void AddConfiguredTokens(const TokenizerConfigFiles& files, const TokenDefaults& defaults, AddedIds& ids,
                         TokenizerSource& source);

}  // namespace llmc
