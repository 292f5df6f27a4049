// The rules of a preset, applied to a config: which preset, its fields one by one, the layers' windows, tensor names,
// and then every key that is left.
#include "frontend/preset.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/config_keys.h"
#include "frontend/embedded.h"
#include "frontend/weight_list.h"

namespace llmc {
namespace {

constexpr std::string_view kFolder = "arch/";

std::vector<Json> LoadPresets() {
  std::vector<Json> out;
  for (const EmbeddedFile& f : EmbeddedFiles()) {
    if (f.name.starts_with(kFolder)) out.push_back(ParseJson(std::string(f.text), std::string(f.name)));
  }
  return out;
}

std::string NameOf(const Json& preset) { return std::string(preset.Find("name").AsString()); }

// One format's part of a preset and, behind it, of the preset it is "like": a lookup takes the first that has the key.
class Section {
 public:
  Section(const std::vector<Json>& presets, const Json& preset, std::string_view format) {
    if (Json s = preset.Find(format)) parts_.push_back(s);
    if (Json like = preset.Find("like")) {
      for (const Json& p : presets) {
        if (NameOf(p) == like.AsString()) parts_.push_back(p.Find(format));
      }
      LLMC_CHECK(parts_.size() >= 1 && !presets.empty(), "the preset that another is like exists");
    }
  }
  Json Find(std::string_view key) const {
    for (const Json& part : parts_) {
      if (Json v = part.Find(key)) return v;
    }
    return {};
  }
  // Members of an object, those of the preset itself in place of those of the one it is like.
  std::vector<std::pair<std::string, Json>> Merged(std::string_view key) const {
    std::vector<std::pair<std::string, Json>> out;
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      Json object = part->Find(key);
      if (!object) continue;
      for (const auto& [name, value] : object.members()) {
        auto it = std::find_if(out.begin(), out.end(), [&, &n = name](const auto& m) { return m.first == n; });
        if (it == out.end()) {
          out.emplace_back(std::string(name), value);
        } else {
          it->second = value;
        }
      }
    }
    return out;
  }

 private:
  std::vector<Json> parts_;
};

class Mapper {
 public:
  Mapper(const ConfigSource& config, const Section& section, std::string arch)
      : config_(config), section_(section), arch_(std::move(arch)) {}

  void Fields() {
    for (const auto& [field, rule] : section_.Merged("fields")) {
      NoteKeys(rule);
      if (!Applies(rule)) continue;
      FieldValue value = Evaluate(field, rule);
      shown_[field] = value.text;
      SetField(d_, block_, field, value);
    }
  }

  // A dotted field's integer, for the checks of "equal".
  int64_t IntField(std::string_view field) const {
    int64_t out = -1;
    auto look = [&](std::string_view prefix, const auto& group) {
      VisitFields(group, [&](std::string_view name, const auto& member, std::string_view) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, int64_t>) {
          if (fmt::format("{}{}", prefix, name) == field) out = member;
        }
      });
    };
    look("", d_.model);
    VisitGroups(d_.BlockOf(0), [&](std::string_view key, const auto& group) { look(fmt::format("{}.", key), group); });
    return out;
  }

  void Layers() {
    constexpr int64_t kMostLayers = 65536;  // Complete() has the real bound
    int64_t n = std::clamp<int64_t>(d_.model.n_layers, 0, kMostLayers);
    std::vector<bool> windowed(static_cast<size_t>(n), false);
    if (Json window = section_.Find("window")) Windows(window, windowed);
    bool any = std::find(windowed.begin(), windowed.end(), true) != windowed.end();
    bool all = std::find(windowed.begin(), windowed.end(), false) == windowed.end();
    Block full = block_;
    full.attention.window = 0;
    if (!any) {
      d_.blocks = {{"layer", full}};
    } else if (all) {
      d_.blocks = {{"layer", block_}};
    } else {
      d_.blocks = {{"full", full}, {"windowed", block_}};
    }
    for (bool w : windowed) d_.layers.push_back(w && !all ? 1 : 0);
  }

  void Tensors() {
    for (const auto& [name, from] : section_.Merged("tensors")) d_.tensors[name] = {std::string(from.AsString()), 0};
    if (Json list = section_.Find("ignored_tensors")) {
      for (const Json& pattern : list.items()) d_.ignored_tensors.emplace_back(pattern.AsString());
    }
  }

  // Keys that must say the same as a field.
  void Equalities() {
    for (const auto& [key, field] : section_.Merged("equal")) {
      std::string name = WithArch(key, arch_);
      mapped_.insert(name);
      auto v = config_.Find(name);
      if (!v) continue;
      int64_t wanted = IntField(field.AsString());
      if (v->value.kind != FieldValue::Kind::Int || v->container || v->value.integer != wanted) {
        Fail(DiagKind::Unsupported, v->value.place,
             fmt::format("{} = {}; supported: equal to {} = {}", name, v->value.shown, field.AsString(), wanted));
      }
    }
  }

  // Objects of which only one may have members.
  void Exclusive() {
    Json list = section_.Find("exclusive");
    if (!list) return;
    std::string first;
    for (const Json& item : list.items()) {
      std::string key(item.AsString());
      auto v = config_.Find(key);
      if (!v || v->empty) continue;
      if (!first.empty())
        Fail(DiagKind::BadValue, v->value.place, fmt::format("both {} and {} have values", first, key));
      if (!v->container)
        Fail(DiagKind::BadValue, v->value.place, fmt::format("{} must be an object, is {}", key, v->value.shown));
      first = key;
    }
  }

  Description& description() { return d_; }
  const std::set<std::string>& mapped() const { return mapped_; }

 private:
  void NoteKeys(const Json& rule) {
    if (Json keys = rule.Find("keys")) {
      for (const Json& key : keys.items()) mapped_.insert(WithArch(key.AsString(), arch_));
    }
  }

  bool Applies(const Json& rule) const {
    Json when = rule.Find("when");
    if (!when) return true;
    for (const auto& [field, values] : when.members()) {
      auto it = shown_.find(std::string(field));
      bool holds = false;
      for (const Json& v : values.items()) holds = holds || (it != shown_.end() && v.AsString() == it->second);
      if (!holds) return false;
    }
    return true;
  }

  FieldValue Evaluate(const std::string& field, const Json& rule) const {
    if (Json v = rule.Find("value")) return ToConfigValue(v).value;
    if (Json tensor = rule.Find("rows_of")) return RowsOf(field, std::string(tensor.AsString()));
    if (Json tensors = rule.Find("tensors")) {
      for (const auto& [name, v] : tensors.members()) {
        if (config_.Tensor(name) == nullptr) continue;
        RefuseBoth(name, rule);
        return ToConfigValue(v).value;
      }
      if (!rule.Find("keys")) return ToConfigValue(rule.Find("absent")).value;
    }
    return FromKeys(field, rule);
  }

  // A tensor decides the field; a key that decides it otherwise contradicts.
  void RefuseBoth(std::string_view tensor, const Json& rule) const {
    Json keys = rule.Find("keys");
    if (!keys) return;
    for (const Json& item : keys.items()) {
      std::string key = WithArch(item.AsString(), arch_);
      auto v = config_.Find(key);
      if (!v || v->container || Translate(key, rule, v->value).text == rule.Find("absent").AsString()) continue;
      Fail(DiagKind::Unsupported, v->value.place,
           fmt::format("{} = {} together with the tensor {} is not supported", key, v->value.shown, tensor));
    }
  }

  FieldValue RowsOf(const std::string& field, const std::string& name) const {
    const TensorInfo* t = config_.Tensor(name);
    if (t == nullptr)
      Fail(DiagKind::MissingTensor, {config_.file(), "tensor " + name},
           fmt::format("the tensor is missing ({} is its number of rows)", field));
    FieldValue v;
    v.kind = FieldValue::Kind::Int;
    v.integer = t->dims[0];
    v.shown = std::to_string(v.integer);
    v.place = {config_.file(), "tensor " + name};
    return v;
  }

  FieldValue FromKeys(const std::string& field, const Json& rule) const {
    std::vector<std::string> keys;
    for (const Json& key : rule.Find("keys").items()) keys.push_back(WithArch(key.AsString(), arch_));
    Json absent = rule.Find("absent");
    for (const std::string& key : keys) {
      auto found = config_.Find(key);
      if (!found) continue;
      if (found->null) {
        if (Json null = rule.Find("null")) {
          absent = null;
          continue;  // a later key may have a value
        }
      }
      if (found->null || found->container) {
        Fail(DiagKind::BadValue, found->value.place,
             fmt::format("{} must be a plain value, is {}", key, found->value.shown));
      }
      return Translate(key, rule, found->value);
    }
    if (!absent)
      Fail(DiagKind::MissingKey, {config_.file(), ""},
           fmt::format("{} is missing ({})", fmt::join(keys, " or "), field));
    return ToConfigValue(absent).value;
  }

  static FieldValue Translate(const std::string& key, const Json& rule, FieldValue value) {
    Json map = rule.Find("map");
    if (!map) {
      value.shown = fmt::format("{} (key {})", value.shown, key);
      return value;
    }
    std::string text = value.kind == FieldValue::Kind::Text ? value.text : value.shown;
    std::vector<std::string_view> known;
    for (const auto& [from, to] : map.members()) {
      known.push_back(from);
      if (from != text) continue;
      FieldValue out = ToConfigValue(to).value;
      out.place = value.place;
      return out;
    }
    Fail(DiagKind::Unsupported, value.place,
         fmt::format("{} = {} is not supported; supported: {}", key, value.shown, fmt::join(known, ", ")));
  }

  int64_t IntOf(const Json& rule) {
    NoteKeys(rule);
    FieldValue v = Evaluate("window", rule);
    if (v.kind != FieldValue::Kind::Int)
      Fail(DiagKind::BadValue, v.place, fmt::format("must be an integer, is {}", v.shown));
    return v.integer;
  }

  // Which layers have a sliding window, by one of: a list of layer types; a flag and the first such layer; a size
  // alone.
  void Windows(const Json& window, std::vector<bool>& windowed) {
    int64_t size = IntOf(window.Find("size"));
    if (Json enabled = window.Find("enabled")) {
      NoteKeys(enabled);
      FieldValue v = FromKeys("window", enabled);
      if (v.kind != FieldValue::Kind::Bool)
        Fail(DiagKind::BadValue, v.place, fmt::format("must be true or false, is {}", v.shown));
      if (!v.boolean) size = 0;
    }
    int64_t first = 0;
    if (Json rule = window.Find("first_layer")) first = IntOf(rule);
    block_.attention.window = size;
    for (size_t i = 0; i < windowed.size(); ++i) windowed[i] = size != 0 && static_cast<int64_t>(i) >= first;

    Json types = window.Find("types");
    if (!types) return;
    std::string key(types.AsString());
    mapped_.insert(key);
    auto list = config_.Strings(key);
    if (!list) return;
    Place place = config_.Find(key)->value.place;
    if (list->size() != windowed.size()) {
      Fail(DiagKind::BadValue, place,
           fmt::format("{} has {} entries for {} layers", key, list->size(), windowed.size()));
    }
    for (size_t i = 0; i < windowed.size(); ++i) {
      const std::string& type = (*list)[i];
      windowed[i] = type == "sliding_attention";
      if (!windowed[i] && type != "full_attention") {
        Fail(DiagKind::Unsupported, place,
             fmt::format("{}: layer {} is {}; supported: full_attention, sliding_attention", key, i, JsonQuote(type)));
      }
      if (windowed[i] && size == 0)
        Fail(DiagKind::BadValue, place,
             fmt::format("{}: layer {} is sliding_attention, and there is no window size", key, i));
    }
  }

  const ConfigSource& config_;
  const Section& section_;
  std::string arch_;
  Description d_;
  Block block_;
  std::map<std::string, std::string> shown_;  // fields set so far, where they are choices
  std::set<std::string> mapped_;
};

bool Lists(const Json& section, std::string_view key, std::string_view name) {
  Json list = section ? section.Find(key) : Json();
  if (!list) return false;
  for (const Json& item : list.items()) {
    if (item.AsString() == name) return true;
  }
  return false;
}

// The preset whose `format` part lists `name` under `key`.
Json Choose(const std::vector<Json>& presets, std::string_view format, std::string_view key, std::string_view name,
            const Place& place) {
  std::vector<std::string> known;
  for (const Json& preset : presets) {
    Json section = preset.Find(format);
    if (Lists(section, key, name)) return preset;
    if (section) known.push_back(NameOf(preset));
  }
  Fail(DiagKind::UnknownArchitecture, place,
       fmt::format("architecture {} is not supported; supported: {}", JsonQuote(name), fmt::join(known, ", ")));
}

Description Map(const ConfigSource& config, const std::vector<Json>& presets, const Json& preset,
                const std::string& format, const std::string& arch, const PresetOptions& options) {
  Section section(presets, preset, format);
  Mapper mapper(config, section, arch);
  mapper.Exclusive();
  mapper.Fields();
  mapper.Layers();
  mapper.Tensors();
  Description& d = mapper.description();
  d.model.name = NameOf(preset);
  Complete(d, config.file());
  KeepUsedTensorRules(d);
  mapper.Equalities();
  CheckKeys(config, format, arch, mapper.mapped(), options);
  return std::move(d);
}

std::string RequiredText(const ConfigSource& config, const std::string& key) {
  auto v = config.Find(key);
  if (!v)
    Fail(DiagKind::MissingKey, {config.file(), ""},
         fmt::format("{} is missing: it says which architecture this is", key));
  if (v->container || v->null || v->value.kind != FieldValue::Kind::Text) {
    Fail(DiagKind::BadValue, v->value.place, fmt::format("{} must be a string, is {}", key, v->value.shown));
  }
  return v->value.text;
}

}  // namespace

Description DescribeHf(const HfConfig& config, const PresetOptions& options) {
  std::vector<Json> presets = LoadPresets();
  std::string type = RequiredText(config, "model_type");
  Json preset = Choose(presets, "hf", "model_types", type, config.Find("model_type")->value.place);
  if (auto classes = config.Strings("architectures"); classes && !classes->empty()) {
    bool known = std::any_of(classes->begin(), classes->end(),
                             [&](const std::string& c) { return Lists(preset.Find("hf"), "architectures", c); });
    if (!known) {
      Fail(DiagKind::UnknownArchitecture, config.Find("architectures")->value.place,
           fmt::format("architectures = {}; supported for model_type {}: {}", JsonQuote((*classes)[0]), JsonQuote(type),
                       preset.Find("hf").Find("architectures").items()[0].AsString()));
    }
  }
  return Map(config, presets, preset, "hf", type, options);
}

Description DescribeGguf(const GgufConfig& config, const PresetOptions& options) {
  std::vector<Json> presets = LoadPresets();
  std::string arch = RequiredText(config, "general.architecture");
  Json preset = Choose(presets, "gguf", "architectures", arch, config.Find("general.architecture")->value.place);
  return Map(config, presets, preset, "gguf", arch, options);
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> out;
  for (const Json& preset : LoadPresets()) out.push_back(NameOf(preset));
  return out;
}

}  // namespace llmc
