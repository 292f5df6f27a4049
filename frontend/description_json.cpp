// llmc's own JSON form of a description: reader and printer (frontend/README.md shows it by example).
#include <algorithm>
#include <cmath>
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
    case JsonKind::Object:
      // How transformers writes what JSON has no number for.
      if (Json special = value.Find("__float__"); special && special.is(JsonKind::String) && value.size() == 1) {
        const std::string_view text = special.AsString();
        v.kind = FieldValue::Kind::Float;
        v.number = text == "Infinity" ? HUGE_VAL : text == "-Infinity" ? -HUGE_VAL : std::nan("");
        return v;
      }
      break;
    case JsonKind::Null:
    case JsonKind::Array: break;
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

std::vector<std::string_view> NamesOf(const Fields& fields) {
  std::vector<std::string_view> names;
  for (const Field& f : fields) names.push_back(f.name);
  return names;
}

// Sets the fields of the group `key` from an object: its kind first, since that says which fields there are.
void ReadGroup(Description& d, Block& block, const std::string& key, const Json& object) {
  const bool has_kinds = key == "beside" || key == "position" || key == "ffn";
  const Json kind = object.Find("kind");
  if (has_kinds && kind) SetField(d, block, key + ".kind", ValueOf(kind));
  std::vector<std::string_view> known;
  if (key == "ends") {
    known = NamesOf(d.ends.Fields());
  } else {
    block.mixer.Select(key);
    for (const FieldGroup& group : GroupsOf(block)) {
      if (group.key != key) continue;
      known = NamesOf(group.fields);
      if (has_kinds) known.emplace_back("kind");
    }
  }
  for (const auto& [name, value] : object.members()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) UnknownKey(value, name, key, known);
    if (!has_kinds || name != "kind") SetField(d, block, fmt::format("{}.{}", key, name), ValueOf(value));
  }
}

Block ReadBlock(Description& d, const Json& object, std::vector<std::string>& plain) {
  Block block;
  std::vector<std::string_view> known = {"like", "norm", "beside", "position", "ffn", "wiring"};
  const std::vector<std::string_view> mixers = Slot<Mixer>::Kinds();
  known.insert(known.end(), mixers.begin(), mixers.end());
  if (Json like = object.Find("like")) {
    auto it = std::find_if(d.blocks.begin(), d.blocks.end(), [&](const auto& b) { return b.first == like.AsString(); });
    if (it == d.blocks.end() || std::find(plain.begin(), plain.end(), it->first) == plain.end()) {
      Fail(DiagKind::UnknownName, like.place(),
           fmt::format("{} is not a block that stands before this one and is not \"like\" another itself",
                       like.source()));
    }
    block = it->second;
  }
  std::string_view mixer;
  for (const auto& [key, value] : object.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) UnknownKey(value, key, "a block", known);
    if (key == "like") continue;
    if (std::find(mixers.begin(), mixers.end(), key) != mixers.end()) {
      if (!mixer.empty())
        Fail(DiagKind::BadValue, value.key_place(), fmt::format("a block has one of {} and {}", mixer, key));
      mixer = key;
    }
    ReadGroup(d, block, std::string(key), value);
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

double Finite(const Json& value) {
  const double number = value.AsDouble();
  if (!std::isfinite(number))
    Fail(DiagKind::BadValue, value.place(), fmt::format("must be a finite number, is {}", value.source()));
  return number;
}

TensorRule ReadRule(const Json& value) {
  TensorRule rule = TensorRuleOf(value);
  if (rule.from.empty() == rule.values.empty())
    Fail(DiagKind::BadValue, value.place(), "a tensor needs a name in the file, or values");
  return rule;
}

void WriteNames(JsonWriter& out, std::string_view key, const std::vector<std::string>& names) {
  if (names.empty()) return;
  out.Key(key).BeginArray();
  for (const std::string& name : names) out.String(name);
  out.End();
}

void WriteRule(JsonWriter& out, const TensorRule& rule) {
  TensorRule plain;
  plain.from = rule.from;
  if (rule == plain) {
    out.String(rule.from);
    return;
  }
  out.BeginObject();
  if (!rule.from.empty()) out.Key("from").String(rule.from);
  WriteNames(out, "others", rule.others);
  if (rule.add != 0) out.Key("add").Double(rule.add);
  if (rule.transposed) out.Key("transposed").Bool(true);
  WriteNames(out, "parts", rule.parts);
  if (!rule.groups.empty()) out.Key("groups").String(rule.groups);
  if (rule.group_count != 1) out.Key("groups").Int(rule.group_count);
  if (!rule.values.empty()) {
    out.Key("values").BeginArray();
    for (double v : rule.values) out.Double(v);
    out.End();
  }
  out.End();
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

TensorRule TensorRuleOf(const Json& value) {
  TensorRule rule;
  if (value.is(JsonKind::String)) {
    rule.from = value.AsString();
    return rule;
  }
  for (const auto& [key, v] : value.members()) {
    if (key == "from") {
      rule.from = v.AsString();
    } else if (key == "others") {
      for (const Json& other : v.items()) rule.others.emplace_back(other.AsString());
    } else if (key == "add") {
      rule.add = Finite(v);
    } else if (key == "transposed") {
      rule.transposed = v.AsBool();
    } else if (key == "parts") {
      for (const Json& part : v.items()) rule.parts.emplace_back(part.AsString());
    } else if (key == "groups") {
      if (v.is(JsonKind::Int)) {
        rule.group_count = v.AsInt();
      } else {
        rule.groups = v.AsString();
      }
    } else if (key == "values") {
      for (const Json& n : v.items()) rule.values.push_back(Finite(n));
    } else {
      UnknownKey(v, key, "a tensor", {"from", "others", "add", "transposed", "parts", "groups", "values"});
    }
  }
  return rule;
}

bool IsDescription(const Json& root) { return root.is(JsonKind::Object) && static_cast<bool>(root.Find("llmc")); }

Description ReadDescription(const Json& root, const std::string& file) {
  Description d;
  std::vector<std::string_view> known = NamesOf(d.model.Fields());
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
      ReadGroup(d, none, "ends", value);
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

std::string PrintDescription(const Description& description) {
  Description d = description;  // lists of fields are of places that could be written to
  JsonWriter out;
  out.BeginObject().Key("llmc").Int(kFormat);
  WriteFields(out, d.model.Fields());
  out.Key("blocks").BeginObject();
  for (auto& [name, block] : d.blocks) {
    out.Key(name).BeginObject();
    for (const FieldGroup& group : GroupsOf(block)) {
      out.Key(group.key).BeginObject();
      if (!group.kind.empty()) out.Key("kind").String(group.kind);
      WriteFields(out, group.fields);
      out.End();
    }
    out.End();
  }
  out.End().Key("layers").BeginArray();
  for (int b : Period(d.layers)) out.String(d.blocks[static_cast<size_t>(b)].first);
  out.End().Key("ends").BeginObject();
  WriteFields(out, d.ends.Fields());
  out.End();
  if (!d.tensors.empty()) {
    out.Key("tensors").BeginObject();
    for (const auto& [name, rule] : d.tensors) {
      out.Key(name);
      WriteRule(out, rule);
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
