// Keys that no preset maps.
#include "frontend/config_keys.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "frontend/embedded.h"

namespace llmc {
namespace {

Json KeyTable() {
  for (const EmbeddedFile& f : EmbeddedFiles()) {
    if (f.name == "config_keys.json") return ParseJson(std::string(f.text), std::string(f.name));
  }
  throw InternalError(__FILE__, __LINE__, "config_keys.json is not embedded");
}

bool Holds(const Json& list, std::string_view text, const std::string& arch) {
  for (const Json& item : list.items()) {
    if (WithArch(item.AsString(), arch) == text) return true;
  }
  return false;
}

bool HasPrefix(const Json& list, std::string_view text) {
  for (const Json& item : list.items()) {
    if (text.starts_with(item.AsString())) return true;
  }
  return false;
}

bool Equal(const ConfigValue& a, const ConfigValue& b) {
  const bool plain = !a.null && !a.container && !b.null && !b.container;
  if (!plain) return a.null == b.null && a.container == b.container && (a.null || (a.empty && b.empty));
  using Kind = FieldValue::Kind;
  auto is = [&](Kind kind) { return a.value.kind == kind || b.value.kind == kind; };
  if (is(Kind::Bool)) return a.value.kind == b.value.kind && a.value.boolean == b.value.boolean;
  if (is(Kind::Text)) return a.value.kind == b.value.kind && a.value.text == b.value.text;
  return NumberOf(a.value) == NumberOf(b.value);
}

// The values with which a key changes nothing: those of the table; for a key that is not in it no value at all, and
// outside the objects of arithmetic nothing that counts as off.
Json NeutralValues(const Json& table, const std::string& key, const std::string& arch) {
  for (const auto& [name, values] : table.members()) {
    if (WithArch(name, arch) == key) return values;
  }
  return {};
}

bool IsNeutral(const Json& values, const ConfigSource::Key& key) {
  if (!values) return key.member ? key.value.null : key.value.empty;
  for (const Json& v : values.items()) {
    if (Equal(ToConfigValue(v), key.value)) return true;
  }
  return false;
}

std::string StemIn(const Json& stems, std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Json& stem : stems.items()) {
    if (name.find(stem.AsString()) != std::string::npos) return std::string(stem.AsString());
  }
  return "";
}

}  // namespace

std::string WithArch(std::string_view text, const std::string& arch) {
  constexpr std::string_view kMark = "{arch}";
  size_t at = text.find(kMark);
  if (at == std::string_view::npos) return std::string(text);
  return fmt::format("{}{}{}", text.substr(0, at), arch, text.substr(at + kMark.size()));
}

void CheckKeys(const ConfigSource& config, const std::string& section, const std::string& arch,
               const std::set<std::string>& mapped, const PresetOptions& options) {
  Json table = KeyTable();
  Json lists = table.Find(section);
  Json prefixes = lists.Find("known_prefixes");
  std::set<std::string> nested;
  for (const std::string& m : mapped) {
    for (size_t dot = m.find('.'); dot != std::string::npos; dot = m.find('.', dot + 1))
      nested.insert(m.substr(0, dot));
  }
  for (const ConfigSource::Key& key : config.Keys(nested)) {
    if (mapped.contains(key.text) || Holds(lists.Find("known"), key.text, arch)) continue;
    if (prefixes && HasPrefix(prefixes, key.text)) continue;
    if (std::find(options.allow_unknown.begin(), options.allow_unknown.end(), key.text) != options.allow_unknown.end())
      continue;
    const Json neutral = NeutralValues(lists.Find("neutral"), key.text, arch);
    if (IsNeutral(neutral, key)) continue;
    std::string hint = fmt::format("--allow-unknown {} passes over it", key.text);
    std::string reason = neutral ? fmt::format("supported: {}", neutral.source()) : "";
    for (const auto& [name, why] : lists.Find("refused").members()) {
      if (WithArch(name, arch) == key.text) reason = why.AsString();
    }
    if (!reason.empty()) {
      Fail(DiagKind::Unsupported, key.place,
           fmt::format("{} = {}: {}; {}", key.text, key.value.value.shown, reason, hint));
    }
    std::string stem = StemIn(table.Find("stems"), key.text);
    if (key.member || !stem.empty()) {
      std::string why = stem.empty() ? std::string("it stands among keys of arithmetic")
                                     : fmt::format("its name has the stem \"{}\"", stem);
      Fail(DiagKind::UnknownKey, key.place,
           fmt::format("{} = {} is not known and may change the arithmetic ({}); {}", key.text, key.value.value.shown,
                       why, hint));
    }
    if (options.sink) {
      options.sink({Severity::Warning,
                    DiagKind::UnknownKey,
                    key.place,
                    fmt::format("{} = {} is not known and passed over", key.text, key.value.value.shown),
                    {}});
    }
  }
}

}  // namespace llmc
