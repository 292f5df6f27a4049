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

namespace {

// The entry of a list whose number `key` is.
Json Entry(const Json& list, std::string_view key) {
  size_t at = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), at);
  if (error != std::errc() || end != key.data() + key.size() || at >= list.size()) return {};
  return list.items()[at];
}

Json Member(const Json& object, std::string_view key) {
  if (Json v = object.Find(key)) return v;
  size_t dot = key.find('.');
  if (dot == std::string_view::npos) return {};
  Json outer = object.Find(key.substr(0, dot));
  if (!outer || outer.is(JsonKind::Null)) return {};
  if (outer.is(JsonKind::Array)) return Entry(outer, key.substr(dot + 1));
  if (!outer.is(JsonKind::Object))
    Fail(DiagKind::BadValue, outer.place(),
         fmt::format("{} must be an object, is {}", key.substr(0, dot), outer.source().substr(0, kShownBytes)));
  return Member(outer, key.substr(dot + 1));
}

void AddKeys(const Json& object, const std::string& prefix, const std::set<std::string>& nested,
             std::vector<ConfigSource::Key>& out) {
  for (const auto& [name, value] : object.members()) {
    std::string key = prefix + std::string(name);
    if (value.is(JsonKind::Object) && nested.contains(key)) {
      AddKeys(value, key + ".", nested, out);
    } else if (value.is(JsonKind::Array) && nested.contains(key)) {
      const std::vector<Json> entries = value.items();
      for (size_t i = 0; i < entries.size(); ++i)
        out.push_back({fmt::format("{}.{}", key, i), ToConfigValue(entries[i]), true, value.key_place()});
    } else {
      out.push_back({key, ToConfigValue(value), !prefix.empty(), value.key_place()});
    }
  }
}

}  // namespace

Json HfConfig::Value(std::string_view key) const { return Member(root_, key); }

std::optional<ConfigValue> HfConfig::Find(std::string_view key) const {
  Json v = Value(key);
  if (!v) return std::nullopt;
  return ToConfigValue(v);
}

std::vector<ConfigSource::Key> HfConfig::Keys(const std::set<std::string>& nested) const {
  std::vector<Key> out;
  AddKeys(root_, "", nested, out);
  return out;
}

std::optional<std::vector<std::string>> HfConfig::Strings(std::string_view key) const {
  Json v = Value(key);
  if (!v || v.is(JsonKind::Null)) return std::nullopt;
  std::vector<std::string> out;
  for (const Json& item : v.items()) out.emplace_back(item.AsString());
  return out;
}

std::optional<std::vector<FieldValue>> HfConfig::Values(std::string_view key) const {
  Json v = Value(key);
  if (!v || v.is(JsonKind::Null)) return std::nullopt;
  std::vector<FieldValue> out;
  for (const Json& item : v.items()) {
    std::optional<FieldValue> scalar = ScalarOf(item);
    if (!scalar) Fail(DiagKind::BadValue, item.place(), fmt::format("must be a plain value, is {}", item.source()));
    out.push_back(*std::move(scalar));
  }
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

std::vector<ConfigSource::Key> GgufConfig::Keys(const std::set<std::string>&) const {
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

std::optional<std::vector<FieldValue>> GgufConfig::Values(std::string_view key) const {
  const GgufValue* v = header_.Find(key);
  if (v == nullptr) return std::nullopt;
  const Place place{file_, fmt::format("key {}", key)};
  if (v->type != GgufType::Array || v->element == GgufType::Array)
    Fail(DiagKind::BadValue, place, "must be an array of plain values");
  std::vector<FieldValue> out;
  auto add = [&](FieldValue::Kind kind, std::string shown) -> FieldValue& {
    out.emplace_back();
    out.back().kind = kind;
    out.back().shown = std::move(shown);
    out.back().place = place;
    return out.back();
  };
  if (v->element == GgufType::Bool) {
    for (std::byte b : v->data)
      add(FieldValue::Kind::Bool, b != std::byte{0} ? "true" : "false").boolean = b != std::byte{0};
  } else if (v->element == GgufType::String) {
    for (std::string_view s : v->Strings()) add(FieldValue::Kind::Text, JsonQuote(s.substr(0, kShownBytes))).text = s;
  } else if (v->element == GgufType::F32 || v->element == GgufType::F64) {
    for (double x : v->Floats()) add(FieldValue::Kind::Float, fmt::format("{}", x)).number = x;
  } else {
    for (int64_t n : v->Ints()) add(FieldValue::Kind::Int, std::to_string(n)).integer = n;
  }
  return out;
}

}  // namespace llmc
