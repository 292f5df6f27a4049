// HF configs and GGUF metadata as ConfigSource.
#include "frontend/config_source.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace llmc {
namespace {

// The double that a person would have written: 1e-05, not 9.999999747378752e-06. Rounded to f32 again it is the same
// float.
double ShortestDouble(float v) {
  std::array<char, 32> text{};
  char* end = std::to_chars(text.data(), text.data() + text.size(), v).ptr;
  double out = static_cast<double>(v);
  std::from_chars(text.data(), end, out);
  return out;
}

}  // namespace

ConfigValue ToConfigValue(const Json& value) {
  ConfigValue out;
  if (std::optional<FieldValue> scalar = ScalarOf(value)) {
    out.value = *std::move(scalar);
    out.empty = value.kind() == JsonKind::Bool ? !out.value.boolean
                                               : value.kind() == JsonKind::String && out.value.text.empty();
    return out;
  }
  out.value.place = value.place();
  out.value.shown = value.source().substr(0, kShownBytes);
  out.null = value.kind() == JsonKind::Null;
  out.container = !out.null;
  out.empty = out.null || value.size() == 0;
  return out;
}

// HF config.json.

Json HfConfig::Value(std::string_view key) const {
  if (Json v = root_.Find(key)) return v;
  size_t dot = key.find('.');
  if (dot == std::string_view::npos) return {};
  Json outer = root_.Find(key.substr(0, dot));
  return outer && outer.is(JsonKind::Object) ? outer.Find(key.substr(dot + 1)) : Json();
}

std::optional<ConfigValue> HfConfig::Find(std::string_view key) const {
  Json v = Value(key);
  if (!v) return std::nullopt;
  return ToConfigValue(v);
}

std::vector<ConfigSource::Key> HfConfig::Keys(const std::vector<std::string>& nested) const {
  std::vector<Key> out;
  for (const auto& [key, value] : root_.members()) {
    if (value.is(JsonKind::Object) && std::find(nested.begin(), nested.end(), key) != nested.end()) {
      for (const auto& [inner, v] : value.members())
        out.push_back({fmt::format("{}.{}", key, inner), ToConfigValue(v), true, v.key_place()});
    } else {
      out.push_back({std::string(key), ToConfigValue(value), false, value.key_place()});
    }
  }
  return out;
}

std::optional<std::vector<std::string>> HfConfig::Strings(std::string_view key) const {
  Json v = Value(key);
  if (!v || v.is(JsonKind::Null)) return std::nullopt;
  std::vector<std::string> out;
  for (const Json& item : v.items()) out.emplace_back(item.AsString());
  return out;
}

// GGUF.

ConfigValue GgufConfig::Convert(const GgufKey& key) const {
  ConfigValue out;
  FieldValue& v = out.value;
  v.place = {file_, fmt::format("key {}", key.key)};
  if (key.value.type == GgufType::Array) {
    out.container = true;
    out.empty = key.value.count == 0;
    v.shown = fmt::format("an array of {} {}", key.value.count, GgufTypeText(key.value.element));
  } else if (auto text = key.value.String()) {
    v.kind = FieldValue::Kind::Text;
    v.text = *text;
    out.empty = text->empty();
    v.shown = JsonQuote(text->substr(0, kShownBytes));
  } else if (auto flag = key.value.Bool()) {
    v.kind = FieldValue::Kind::Bool;
    v.boolean = *flag;
    out.empty = !*flag;
    v.shown = *flag ? "true" : "false";
  } else if (auto number = key.value.Float()) {
    v.kind = FieldValue::Kind::Float;
    v.number = key.value.type == GgufType::F32 ? ShortestDouble(static_cast<float>(*number)) : *number;
    v.shown = fmt::format("{}", v.number);
  } else if (auto integer = key.value.Int()) {
    v.kind = FieldValue::Kind::Int;
    v.integer = *integer;
    v.shown = fmt::format("{}", *integer);
  } else {
    out.container = true;  // an unsigned integer above int64: no field takes it
    v.shown = "an integer above 2^63 - 1";
  }
  return out;
}

std::optional<ConfigValue> GgufConfig::Find(std::string_view key) const {
  for (const GgufKey& k : header_.keys) {
    if (k.key == key) return Convert(k);
  }
  return std::nullopt;
}

std::vector<ConfigSource::Key> GgufConfig::Keys(const std::vector<std::string>&) const {
  std::vector<Key> out;
  out.reserve(header_.keys.size());
  for (const GgufKey& k : header_.keys)
    out.push_back({std::string(k.key), Convert(k), false, {file_, fmt::format("key {}", k.key)}});
  return out;
}

std::optional<std::vector<std::string>> GgufConfig::Strings(std::string_view key) const {
  const GgufValue* v = header_.Find(key);
  if (v == nullptr) return std::nullopt;
  if (!v->IsArrayOf(GgufType::String))
    Fail(DiagKind::BadValue, {file_, fmt::format("key {}", key)}, "must be an array of strings");
  std::vector<std::string> out;
  for (std::string_view s : v->Strings()) out.emplace_back(s);
  return out;
}

}  // namespace llmc
