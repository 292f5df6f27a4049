// Tokens that tokenizer_config.json adds, and the ids that added tokens get.
#include "frontend/tokenizer_config.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace llmc {
namespace {

constexpr std::array<std::string_view, 7> kNamedKeys = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                        "pad_token", "cls_token", "mask_token"};

// A text, or an object with "content" and flags. Named tokens are special whatever they say.
SourceAddedToken TokenOf(const Json& value, bool named) {
  if (value.is(JsonKind::String)) return {std::string(value.AsString()), -1, kAddedSpecial, false};
  const Json content = FindValue(value, "content");
  if (!content) Fail(DiagKind::MissingKey, value.place(), "tokenizer: a token needs \"content\"");
  const bool special = named || FlagOf(value, "special", false);
  const uint32_t flags = (special ? kAddedSpecial : 0) | (FlagOf(value, "lstrip", false) ? kAddedStripLeft : 0) |
                         (FlagOf(value, "rstrip", false) ? kAddedStripRight : 0) |
                         (FlagOf(value, "single_word", false) ? kAddedSingleWord : 0);
  return {std::string(content.AsString()), -1, flags, FlagOf(value, "normalized", !special)};
}

// A member, null too.
Json Member(const Json& object, std::string_view key) { return object ? object.Find(key) : Json(); }

bool IsNull(const Json& value) { return !value || value.is(JsonKind::Null); }

bool IsSet(const Json& value) {
  return !IsNull(value) && !((value.is(JsonKind::Array) || value.is(JsonKind::Object)) && value.size() == 0);
}

// Where older files count.
bool IsLegacy(const TokenizerConfigFiles& files) { return !Member(files.config, "added_tokens_decoder"); }

struct PlacedToken {
  SourceAddedToken token;
  Place place;
};

// bos_token .. mask_token.
std::vector<PlacedToken> StandardTokens(const TokenizerConfigFiles& files, const TokenDefaults& defaults) {
  std::vector<PlacedToken> out;
  for (const std::string_view key : kNamedKeys) {
    if (std::optional<SourceAddedToken> token = FindNamedToken(files, defaults, key)) {
      const Json value = Member(files.config, key);
      out.push_back({std::move(*token), value ? value.place() : Place()});
    }
  }
  return out;
}

bool IsSpecial(const std::vector<PlacedToken>& named, std::string_view content) {
  return std::any_of(named.begin(), named.end(), [&](const PlacedToken& n) { return n.token.content == content; });
}

// Other keys that end in _token, and extra_special_tokens by name.
void AddModelTokens(const Json& config, std::vector<PlacedToken>& out) {
  if (!config) return;
  for (const bool text : {false, true}) {
    for (const auto& [key, value] : config.members()) {
      const bool standard = std::find(kNamedKeys.begin(), kNamedKeys.end(), key) != kNamedKeys.end();
      if (standard || !key.ends_with("_token")) continue;
      const bool object = value.is(JsonKind::Object) && FindValue(value, "content");
      if (text ? value.is(JsonKind::String) : object) out.push_back({TokenOf(value, true), value.place()});
    }
  }
  if (const Json extra = config.Find("extra_special_tokens"); extra && extra.is(JsonKind::Object)) {
    for (const auto& [name, value] : extra.members()) out.push_back({TokenOf(value, true), value.place()});
  }
}

// additional_special_tokens is the older name of extra_special_tokens and counts where that is empty.
void AddExtraTokens(const Json& config, const TokenDefaults& defaults, std::vector<PlacedToken>& out) {
  const Json extra = Member(config, "extra_special_tokens"), additional = Member(config, "additional_special_tokens");
  const bool by_name = !IsNull(extra) && extra.is(JsonKind::Object);
  const bool older = additional && !IsSet(extra);
  Json list = additional;
  if (!older && extra && !by_name) {
    list = extra;
  } else if (!older && defaults.extra) {
    for (const SourceAddedToken& token : *defaults.extra) out.push_back({token, {}});
    return;
  }
  if (IsNull(list)) return;
  for (const Json& value : list.items()) out.push_back({TokenOf(value, true), value.place()});
}

int64_t ParseId(std::string_view key, const Json& value) {
  int64_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0)
    Fail(DiagKind::BadValue, value.key_place(), fmt::format("tokenizer: {} is no id", JsonQuote(key)));
  return id;
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

std::optional<SourceAddedToken> FindNamedToken(const TokenizerConfigFiles& files, const TokenDefaults& defaults,
                                               std::string_view key) {
  Json value = IsLegacy(files) ? Member(files.special_tokens_map, key) : Json();
  if (!value) value = Member(files.config, key);
  if (value) return IsNull(value) ? std::nullopt : std::optional(TokenOf(value, true));
  for (const auto& [name, text] : defaults.named) {
    if (name == key) return SourceAddedToken{text, -1, kAddedSpecial, false};
  }
  return std::nullopt;
}

std::vector<StatedToken> StatedTokens(const TokenizerConfigFiles& files, const TokenDefaults& defaults) {
  std::vector<StatedToken> out;
  if (const Json decoder = Member(files.config, "added_tokens_decoder"); !IsNull(decoder)) {
    for (const auto& [key, value] : decoder.members()) {
      out.push_back({ParseId(key, value), TokenOf(value, false), value.place()});
    }
  } else if (IsLegacy(files) && files.added_tokens) {
    const std::vector<PlacedToken> special = StandardTokens(files, defaults);
    for (const auto& [text, id] : files.added_tokens.members()) {
      const bool named = IsSpecial(special, text);
      out.push_back({id.AsInt(), {std::string(text), -1, named ? kAddedSpecial : 0, !named}, id.place()});
    }
  }
  for (StatedToken& stated : out) {
    if (defaults.match_raw) stated.token.normalized = false;
  }
  std::sort(out.begin(), out.end(), [](const StatedToken& a, const StatedToken& b) { return a.id < b.id; });
  return out;
}

void AddConfiguredTokens(const TokenizerConfigFiles& files, const TokenDefaults& defaults, AddedIds& ids,
                         TokenizerSource& source) {
  if (FlagOf(files.config, "split_special_tokens", false))
    FailUnsupportedTokenizer(FindValue(files.config, "split_special_tokens").place(), "split_special_tokens");
  std::unordered_map<std::string, size_t> known;  // places in source.added
  for (size_t i = 0; i < source.added.size(); ++i) known.emplace(source.added[i].content, i);
  const auto add = [&](SourceAddedToken token, int64_t stated, const Place& place) {
    if (token.content.empty()) return;
    token.id = stated >= 0 ? stated : ids.IdOf(token.content);
    ids.Add(token.content, token.id, place);
    const auto [entry, fresh] = known.emplace(token.content, source.added.size());
    if (fresh) {
      source.added.push_back(std::move(token));
    } else {
      source.added[entry->second] = std::move(token);
    }
  };
  std::vector<PlacedToken> named = StandardTokens(files, defaults);
  for (StatedToken& stated : StatedTokens(files, defaults)) {
    SourceAddedToken& token = stated.token;
    if (const auto old = known.find(token.content); old != known.end()) {
      const SourceAddedToken& have = source.added[old->second];
      if (have.id == stated.id && have.flags == token.flags && have.normalized == token.normalized) continue;
    }
    if (IsSpecial(named, token.content)) token.flags |= kAddedSpecial;
    add(std::move(token), stated.id, stated.place);
  }
  AddModelTokens(files.config, named);
  AddExtraTokens(files.config, defaults, named);
  const auto there = known;
  for (PlacedToken& entry : named) {
    if (!there.contains(entry.token.content)) add(std::move(entry.token), -1, entry.place);
  }
}

}  // namespace llmc
