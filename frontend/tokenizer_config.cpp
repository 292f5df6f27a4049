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

// What stands at a key: of the map where it counts and has the key, else of the configuration.
Json KeyOf(const TokenizerConfigFiles& files, std::string_view key) {
  const Json value = IsLegacy(files) ? Member(files.special_tokens_map, key) : Json();
  return value ? value : Member(files.config, key);
}

struct PlacedToken {
  SourceAddedToken token;
  Place place;
};

// bos_token .. mask_token.
std::vector<PlacedToken> StandardTokens(const TokenizerConfigFiles& files, const TokenDefaults& defaults) {
  std::vector<PlacedToken> out;
  for (const std::string_view key : kNamedKeys) {
    if (std::optional<SourceAddedToken> token = FindNamedToken(files, defaults, key)) {
      const Json value = KeyOf(files, key);
      out.push_back({std::move(*token), value ? value.place() : Place()});
    }
  }
  return out;
}

bool IsSpecial(const std::vector<PlacedToken>& named, std::string_view content) {
  return std::any_of(named.begin(), named.end(), [&](const PlacedToken& n) { return n.token.content == content; });
}

// Other keys that end in _token, and extra_special_tokens by name. The map's come before the configuration's texts, which
// count where both have a key.
void AddModelTokens(const TokenizerConfigFiles& files, std::vector<PlacedToken>& out) {
  const Json map = IsLegacy(files) ? files.special_tokens_map : Json();
  auto is_text = [](const Json& value) { return value && value.is(JsonKind::String); };
  auto keys = [&](const Json& file, bool texts, bool objects) {
    if (!file) return;
    for (const auto& [key, value] : file.members()) {
      const bool standard = std::find(kNamedKeys.begin(), kNamedKeys.end(), key) != kNamedKeys.end();
      if (standard || !key.ends_with("_token")) continue;
      if (texts && objects && is_text(Member(files.config, key))) continue;
      const bool object = value.is(JsonKind::Object) && FindValue(value, "content");
      if ((texts && value.is(JsonKind::String)) || (objects && object))
        out.push_back({TokenOf(value, true), value.place()});
    }
  };
  keys(files.config, false, true);
  keys(map, true, true);
  keys(files.config, true, false);
  for (const Json& file : {files.config, map}) {
    const Json extra = Member(file, "extra_special_tokens");
    if (IsNull(extra) || !extra.is(JsonKind::Object)) continue;
    for (const auto& [name, value] : extra.members()) out.push_back({TokenOf(value, true), value.place()});
  }
}

void AddList(const Json& list, std::vector<PlacedToken>& out) {
  if (IsNull(list)) return;
  for (const Json& value : list.items()) out.push_back({TokenOf(value, true), value.place()});
}

// additional_special_tokens is the older name of extra_special_tokens and counts where that is empty; the map's extra
// ones come behind the configuration's. False if there are none of these lists.
bool AddExtraLists(const TokenizerConfigFiles& files, std::vector<PlacedToken>& out) {
  const Json extra = Member(files.config, "extra_special_tokens");
  const Json additional = Member(files.config, "additional_special_tokens");
  const Json more = IsLegacy(files) ? Member(files.special_tokens_map, "extra_special_tokens") : Json();
  const bool older = additional && !IsSet(extra);
  const bool listed = older || (extra && (IsNull(extra) || !extra.is(JsonKind::Object)));
  if (listed) AddList(older ? additional : extra, out);
  const bool mapped = !IsNull(more) && more.is(JsonKind::Array);
  if (mapped) AddList(more, out);
  return listed || mapped;
}

// Without them a class's own, else what additional_special_tokens holds all the same.
void AddExtraTokens(const TokenizerConfigFiles& files, const TokenDefaults& defaults, std::vector<PlacedToken>& out) {
  if (AddExtraLists(files, out)) return;
  if (!defaults.extra) return AddList(KeyOf(files, "additional_special_tokens"), out);
  for (const SourceAddedToken& token : *defaults.extra) out.push_back({token, {}});
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
  if (const Json value = KeyOf(files, key)) return IsNull(value) ? std::nullopt : std::optional(TokenOf(value, true));
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
    std::vector<PlacedToken> special = StandardTokens(files, defaults);
    AddExtraLists(files, special);
    for (const auto& [text, id] : files.added_tokens.members()) {
      if (id.AsInt() < 0)
        Fail(DiagKind::BadValue, id.place(), fmt::format("tokenizer: {} is no id of {}", id.AsInt(), JsonQuote(text)));
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
  const size_t of_vocabulary = files.has_tokenizer_json && IsLegacy(files) ? source.added.size() : 0;
  auto is_there = [&](int64_t id) {
    return std::any_of(source.added.begin(), source.added.begin() + static_cast<std::ptrdiff_t>(of_vocabulary),
                       [&](const SourceAddedToken& have) { return have.id == id; });
  };
  for (StatedToken& stated : StatedTokens(files, defaults)) {
    SourceAddedToken& token = stated.token;
    if (is_there(stated.id)) continue;
    if (const auto old = known.find(token.content); old != known.end()) {
      const SourceAddedToken& have = source.added[old->second];
      if (have.id == stated.id && have.flags == token.flags && have.normalized == token.normalized) continue;
    }
    if (IsSpecial(named, token.content)) token.flags |= kAddedSpecial;
    add(std::move(token), stated.id, stated.place);
  }
  AddModelTokens(files, named);
  AddExtraTokens(files, defaults, named);
  const auto there = known;
  for (PlacedToken& entry : named) {
    if (!there.contains(entry.token.content)) add(std::move(entry.token), -1, entry.place);
  }
}

}  // namespace llmc
