// llmc's own JSON form of a description: reader and printer (frontend/README.md shows it by example).
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "frontend/description.h"

namespace llmc {

std::optional<FieldValue> ScalarOf(const Json& value) {
  FieldValue v;
  v.place = value.place();
  v.shown = value.source().substr(0, kShownBytes);
  switch (value.kind()) {
    case JsonKind::Bool:
      v.kind = FieldValue::Kind::Bool;
      v.boolean = value.AsBool();
      return v;
    case JsonKind::Int:
      v.kind = FieldValue::Kind::Int;
      v.integer = value.AsInt();
      return v;
    case JsonKind::Float:
      v.kind = FieldValue::Kind::Float;
      v.number = value.AsDouble();
      return v;
    case JsonKind::String:
      v.kind = FieldValue::Kind::Text;
      v.text = value.AsString();
      return v;
    case JsonKind::Null:
    case JsonKind::Array:
    case JsonKind::Object: break;
  }
  return std::nullopt;
}

namespace {

constexpr int64_t kFormat = 1;  // value of the key "llmc"
constexpr size_t kMaxBlocks = 256;

[[noreturn]] void UnknownKey(const Json& value, std::string_view key, std::string_view where,
                             const std::vector<std::string_view>& known) {
  std::string near = NearestName(key, known);
  Fail(DiagKind::UnknownKey, value.key_place(),
       fmt::format("{} has no key {}{}", where, JsonQuote(key),
                   near.empty() ? "" : fmt::format("; did you mean {}?", JsonQuote(near))));
}

FieldValue ValueOf(const Json& value) {
  std::optional<FieldValue> v = ScalarOf(value);
  if (!v)
    Fail(DiagKind::BadValue, value.place(), fmt::format("must be a plain value, is {}", JsonKindText(value.kind())));
  return *std::move(v);
}

template <class G>
std::vector<std::string_view> FieldNames(const G& group) {
  std::vector<std::string_view> names;
  VisitFields(group, [&](std::string_view name, const auto&, std::string_view) { names.push_back(name); });
  return names;
}

// Sets the fields of one group from an object; `prefix` is "" or "attention.".
template <class G>
void ReadGroup(Description& d, Block& block, const G& group, const std::string& prefix, const Json& object) {
  std::vector<std::string_view> known = FieldNames(group);
  for (const auto& [key, value] : object.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      UnknownKey(value, key, prefix.substr(0, prefix.size() - 1), known);
    SetField(d, block, prefix + std::string(key), ValueOf(value));
  }
}

Block ReadBlock(Description& d, const Json& object, std::vector<std::string>& plain) {
  Block block;
  std::vector<std::string_view> known = {"like"};
  VisitGroups(block, [&](std::string_view key, const auto&) { known.push_back(key); });
  if (Json like = object.Find("like")) {
    auto it = std::find_if(d.blocks.begin(), d.blocks.end(), [&](const auto& b) { return b.first == like.AsString(); });
    if (it == d.blocks.end() || std::find(plain.begin(), plain.end(), it->first) == plain.end()) {
      Fail(DiagKind::UnknownName, like.place(),
           fmt::format("{} is not a block that stands before this one and is not \"like\" another itself",
                       like.source()));
    }
    block = it->second;
  }
  for (const auto& [key, value] : object.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) UnknownKey(value, key, "a block", known);
    VisitGroups(block, [&, &k = key, &v = value](std::string_view name, const auto& group) {
      if (name == k) ReadGroup(d, block, group, std::string(k) + ".", v);
    });
  }
  return block;
}

void ReadBlocks(Description& d, const Json& blocks) {
  if (blocks.size() == 0 || blocks.size() > kMaxBlocks) {
    Fail(DiagKind::BadValue, blocks.place(),
         fmt::format("{} blocks; there must be 1 to {}", blocks.size(), kMaxBlocks));
  }
  std::vector<std::string> plain;
  for (const auto& [name, object] : blocks.members()) {
    Block block = ReadBlock(d, object, plain);
    if (!object.Find("like")) plain.emplace_back(name);
    d.blocks.emplace_back(std::string(name), block);
  }
}

// Names of blocks, repeated until n_layers; a missing list is the only block there is.
void ReadLayers(Description& d, const Json& root, const std::string& file) {
  if (d.model.n_layers < 1 || d.model.n_layers > 65536) return;  // Complete() says what is wrong
  std::vector<int> pattern;
  Json list = root.Find("layers");
  if (!list) {
    if (d.blocks.size() != 1)
      Fail(DiagKind::MissingKey, {file, ""}, "\"layers\" is missing, and there is more than one block");
    pattern = {0};
  } else {
    for (const Json& name : list.items()) {
      auto it =
          std::find_if(d.blocks.begin(), d.blocks.end(), [&](const auto& b) { return b.first == name.AsString(); });
      if (it == d.blocks.end())
        Fail(DiagKind::UnknownName, name.place(), fmt::format("there is no block {}", name.source()));
      pattern.push_back(static_cast<int>(it - d.blocks.begin()));
    }
    if (pattern.empty() || static_cast<int64_t>(pattern.size()) > d.model.n_layers) {
      Fail(DiagKind::BadValue, list.place(),
           fmt::format("\"layers\" has {} names, must have 1 to n_layers = {}", pattern.size(), d.model.n_layers));
    }
  }
  for (int64_t i = 0; i < d.model.n_layers; ++i) d.layers.push_back(pattern[static_cast<size_t>(i) % pattern.size()]);
}

TensorRule ReadRule(const Json& value) {
  TensorRule rule;
  if (value.is(JsonKind::String)) {
    rule.from = value.AsString();
  } else {
    for (const auto& [key, v] : value.members()) {
      if (key == "from") {
        rule.from = v.AsString();
      } else if (key == "add") {
        rule.add = v.AsDouble();
      } else {
        UnknownKey(v, key, "a tensor", {"from", "add"});
      }
    }
  }
  if (rule.from.empty()) Fail(DiagKind::BadValue, value.place(), "a tensor needs a name in the file");
  return rule;
}

template <class T>
void WriteValue(JsonWriter& out, const T& v) {
  if constexpr (std::is_same_v<T, bool>) {
    out.Bool(v);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    out.Int(v);
  } else if constexpr (std::is_same_v<T, double>) {
    out.Double(v);
  } else if constexpr (std::is_same_v<T, std::string>) {
    out.String(v);
  } else {
    out.String(ChoiceText(v));
  }
}

template <class G>
void WriteFields(JsonWriter& out, const G& group) {
  VisitFields(group, [&](std::string_view name, const auto& member, std::string_view) {
    out.Key(name);
    WriteValue(out, member);
  });
}

// The shortest list that gives `layers` when repeated.
std::vector<int> Period(const std::vector<int>& layers) {
  for (size_t p = 1; p < layers.size(); ++p) {
    bool repeats = true;
    for (size_t i = p; i < layers.size() && repeats; ++i) repeats = layers[i] == layers[i - p];
    if (repeats) return {layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(p)};
  }
  return layers;
}

}  // namespace

bool IsDescription(const Json& root) { return root.is(JsonKind::Object) && static_cast<bool>(root.Find("llmc")); }

Description ReadDescription(const Json& root, const std::string& file) {
  Description d;
  std::vector<std::string_view> known = FieldNames(d.model);
  for (std::string_view key : {"llmc", "blocks", "layers", "ends", "tensors", "ignored_tensors", "weights"})
    known.push_back(key);
  int64_t format = root.Find("llmc").AsInt();
  if (format != kFormat)
    Fail(DiagKind::Unsupported, root.Find("llmc").place(),
         fmt::format("format {} of descriptions; {} is supported", format, kFormat));
  Block none;
  for (const auto& [key, value] : root.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) UnknownKey(value, key, "the description", known);
    if (key == "blocks") {
      ReadBlocks(d, value);
    } else if (key == "ends") {
      ReadGroup(d, none, d.ends, "ends.", value);
    } else if (key == "tensors") {
      for (const auto& [name, rule] : value.members()) d.tensors[std::string(name)] = ReadRule(rule);
    } else if (key == "ignored_tensors") {
      for (const Json& pattern : value.items()) d.ignored_tensors.emplace_back(pattern.AsString());
    } else if (key == "weights") {
      d.weights = value.AsString();
    } else if (key != "llmc" && key != "layers") {
      SetField(d, none, key, ValueOf(value));
    }
  }
  if (d.blocks.empty()) Fail(DiagKind::MissingKey, {file, ""}, "\"blocks\" is missing");
  ReadLayers(d, root, file);
  Complete(d, file);
  return d;
}

std::string PrintDescription(const Description& d) {
  JsonWriter out;
  out.BeginObject().Key("llmc").Int(kFormat);
  WriteFields(out, d.model);
  out.Key("blocks").BeginObject();
  for (const auto& [name, block] : d.blocks) {
    out.Key(name).BeginObject();
    VisitGroups(block, [&](std::string_view key, const auto& group) {
      out.Key(key).BeginObject();
      WriteFields(out, group);
      out.End();
    });
    out.End();
  }
  out.End().Key("layers").BeginArray();
  for (int b : Period(d.layers)) out.String(d.blocks[static_cast<size_t>(b)].first);
  out.End().Key("ends").BeginObject();
  WriteFields(out, d.ends);
  out.End();
  if (!d.tensors.empty()) {
    out.Key("tensors").BeginObject();
    for (const auto& [name, rule] : d.tensors) {
      out.Key(name);
      if (rule.add == 0) {
        out.String(rule.from);
      } else {
        out.BeginObject().Key("from").String(rule.from).Key("add").Double(rule.add).End();
      }
    }
    out.End();
  }
  if (!d.ignored_tensors.empty()) {
    out.Key("ignored_tensors").BeginArray();
    for (const std::string& pattern : d.ignored_tensors) out.String(pattern);
    out.End();
  }
  if (!d.weights.empty()) out.Key("weights").String(d.weights);
  return out.End().Finish();
}

}  // namespace llmc
