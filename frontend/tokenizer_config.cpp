// Tokens that tokenizer_config.json adds, and the ids that added tokens get.
#include "frontend/tokenizer_config.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace llmc {
namespace {

bool IsAdded(const TokenizerSource& source, std::string_view content) {
  return std::any_of(source.added.begin(), source.added.end(),
                     [&](const SourceAddedToken& token) { return token.content == content; });
}

bool Flag(const Json& object, std::string_view key, bool otherwise) {
  const Json value = FindValue(object, key);
  return value ? value.AsBool() : otherwise;
}

// A text, or an object with "content" and flags. Named tokens are special whatever they say.
SourceAddedToken TokenOf(const Json& value, bool named) {
  if (value.is(JsonKind::String)) return {std::string(value.AsString()), -1, kAddedSpecial, false};
  const Json content = FindValue(value, "content");
  if (!content) Fail(DiagKind::MissingKey, value.place(), "tokenizer: a token needs \"content\"");
  const bool special = named || Flag(value, "special", false);
  const uint32_t flags = (special ? kAddedSpecial : 0) | (Flag(value, "lstrip", false) ? kAddedStripLeft : 0) |
                         (Flag(value, "rstrip", false) ? kAddedStripRight : 0) |
                         (Flag(value, "single_word", false) ? kAddedSingleWord : 0);
  return {std::string(content.AsString()), -1, flags, Flag(value, "normalized", !special)};
}

// The tokens under the keys that name some, in transformers' order.
std::vector<Json> NamedTokens(const Json& config) {
  std::vector<Json> tokens;
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    if (const Json value = FindValue(config, key)) tokens.push_back(value);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const Json list = FindValue(config, key);
    if (!list) continue;
    if (list.is(JsonKind::Object)) {
      for (const auto& [name, token] : list.members()) tokens.push_back(token);
    } else {
      for (const Json& token : list.items()) tokens.push_back(token);
    }
  }
  return tokens;
}

}  // namespace

AddedIds::AddedIds(const TokenizerSource& source) : size_(static_cast<int64_t>(source.vocabulary.size())) {
  ids_.reserve(source.vocabulary.size());
  for (const auto& [text, id] : source.vocabulary) ids_.emplace(text, id);
}

int64_t AddedIds::IdOf(std::string_view content) const {
  const auto known = ids_.find(std::string(content));
  return known != ids_.end() ? known->second : std::max(size_, next_);
}

void AddedIds::Add(const std::string& content, int64_t stated, const Place& place) {
  const int64_t id = IdOf(content);
  if (stated != id) {
    Fail(DiagKind::BadValue, place,
         fmt::format("tokenizer: added token {} has the id {}, but tokenizers gives it {}: ids of added tokens go on "
                     "behind the vocabulary without a gap",
                     JsonQuote(content), stated, id));
  }
  ids_.emplace(content, id);
  next_ = std::max(next_, id + 1);
}

void AddConfiguredTokens(const Json& config, AddedIds& ids, TokenizerSource& source) {
  if (!config) return;
  if (const Json split = FindValue(config, "split_special_tokens"); split && split.AsBool())
    FailUnsupportedTokenizer(split.place(), "split_special_tokens");
  const auto add = [&](SourceAddedToken token, int64_t stated, const Place& place) {
    if (token.content.empty() || IsAdded(source, token.content)) return;
    token.id = stated >= 0 ? stated : ids.IdOf(token.content);
    ids.Add(token.content, token.id, place);
    source.added.push_back(std::move(token));
  };
  if (const Json decoder = FindValue(config, "added_tokens_decoder")) {
    std::vector<std::pair<int64_t, Json>> entries;
    for (const auto& [key, token] : decoder.members()) {
      int64_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id < 0)
        Fail(DiagKind::BadValue, token.key_place(), fmt::format("tokenizer: {} is no id", JsonQuote(key)));
      entries.emplace_back(id, token);
    }
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [id, token] : entries) add(TokenOf(token, false), id, token.place());
  }
  for (const Json& token : NamedTokens(config)) add(TokenOf(token, true), -1, token.place());
}

}  // namespace llmc
