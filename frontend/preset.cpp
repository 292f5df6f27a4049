// A preset applied to a config: which preset, its fields one by one, the blocks of its layers, tensor names, and then
// every key that is left.
#include "frontend/preset.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/config_keys.h"
#include "frontend/embedded.h"
#include "frontend/preset_rules.h"
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

// One format's part of a preset and, behind it, of the presets it is "like": a lookup takes the first that has the key.
class Section {
 public:
  Section(const std::vector<Json>& presets, const Json& preset, std::string_view format) {
    constexpr size_t kDeepest = 8;
    for (Json p = preset; p;) {
      if (Json s = p.Find(format)) parts_.push_back(s);
      Json like = p.Find("like");
      if (!like) break;
      auto it =
          std::find_if(presets.begin(), presets.end(), [&](const Json& q) { return NameOf(q) == like.AsString(); });
      LLMC_CHECK(it != presets.end() && parts_.size() < kDeepest, "the preset that another is like exists");
      p = *it;
    }
  }
  Json Find(std::string_view key) const {
    for (const Json& part : parts_) {
      if (Json v = part.Find(key)) return v;
    }
    return {};
  }
  // Members of an object, those of the preset itself in place of those of the one it is like; null takes one away.
  std::vector<std::pair<std::string, Json>> Merged(std::string_view key) const {
    std::vector<std::pair<std::string, Json>> out;
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      Json object = part->Find(key);
      if (!object) continue;
      for (const auto& [name, value] : object.members()) {
        auto it = std::find_if(out.begin(), out.end(), [&, &n = name](const auto& m) { return m.first == n; });
        if (value.is(JsonKind::Null)) {
          if (it != out.end()) out.erase(it);
        } else if (it == out.end()) {
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

std::map<std::string, Json, std::less<>> MapsOf(const Section& section) {
  std::map<std::string, Json, std::less<>> maps;
  for (const auto& [name, map] : section.Merged("maps")) maps.emplace(name, map);
  return maps;
}

class Mapper {
 public:
  Mapper(const ConfigSource& config, const Section& section, const std::string& arch)
      : config_(config), section_(section), arch_(arch), rules_(config, arch, MapsOf(section)) {
    for (std::string_view key : {"fields", "blocks"}) {
      for (const auto& [name, rule] : section_.Merged(key)) CollectKeys(rule, arch_, mapped_);
    }
    CollectKeys(section_.Find("layers"), arch_, mapped_);
    for (const auto& [name, keys] : section_.Merged("values")) {
      for (const Json& key : keys.items()) mapped_.insert(rules_.KeyOf(key));
    }
  }

  // Fields of all blocks, then the blocks that layers are of, each with its own fields on top.
  void Blocks() {
    Block base;
    Set(rules_, base, section_.Merged("fields"));
    constexpr int64_t kMostLayers = 65536;  // Complete() has the real bound
    const int64_t n = std::clamp<int64_t>(d_.model.n_layers, 0, kMostLayers);
    Json list = section_.Find("layers");
    const std::vector<std::string> names =
        list ? LayerBlocks(rules_, list, n) : std::vector<std::string>(static_cast<size_t>(n), "layer");
    const auto blocks = section_.Merged("blocks");
    std::map<std::string, int> index;
    for (const auto& [name, fields] : blocks) {
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      Block block = base;
      Rules own = rules_;
      std::vector<std::pair<std::string, Json>> rules;
      for (const auto& [field, rule] : fields.members()) rules.emplace_back(field, rule);
      Set(own, block, rules);
      index[name] = static_cast<int>(d_.blocks.size());
      d_.blocks.emplace_back(name, std::move(block));
    }
    if (d_.blocks.empty()) d_.blocks.emplace_back("layer", base);
    if (d_.blocks.size() == 1) d_.blocks[0].first = "layer";
    for (const std::string& name : names) d_.layers.push_back(d_.blocks.size() == 1 ? 0 : index.at(name));
  }

  void Tensors() {
    const auto prefixes = section_.Merged("prefixes");
    // The name with each prefix that stands for its own in other files.
    auto others = [&](const std::string& name) {
      std::vector<std::string> out;
      for (const auto& [prefix, list] : prefixes) {
        if (!name.starts_with(prefix)) continue;
        for (const Json& other : list.items())
          out.push_back(std::string(other.AsString()) + name.substr(prefix.size()));
      }
      return out;
    };
    for (const auto& [name, json] : section_.Merged("tensors")) {
      TensorRule rule = TensorRuleOf(json);
      for (std::string& other : others(rule.from)) rule.others.push_back(std::move(other));
      d_.tensors[name] = std::move(rule);
    }
    // Vectors whose numbers the config lists.
    for (const auto& [name, keys] : section_.Merged("values")) {
      for (const Json& key : keys.items()) {
        const auto values = config_.Values(rules_.KeyOf(key));
        if (!values) continue;
        TensorRule rule;
        for (const FieldValue& v : *values) {
          if (v.kind != FieldValue::Kind::Int && v.kind != FieldValue::Kind::Float)
            Fail(DiagKind::BadValue, v.place, fmt::format("must be a number, is {}", v.shown));
          rule.values.push_back(NumberOf(v));
        }
        d_.tensors[name] = std::move(rule);
        break;
      }
    }
    if (Json list = section_.Find("ignored_tensors")) {
      for (const Json& pattern : list.items()) {
        // "{n}": the number of layers, which is the number of the first one behind them.
        std::string text(pattern.AsString());
        if (const size_t at = text.find("{n}"); at != std::string::npos)
          text.replace(at, 3, std::to_string(d_.model.n_layers));
        d_.ignored_tensors.push_back(std::move(text));
      }
    }
  }

  // Keys that must say the same as a field.
  void Equalities() {
    for (const auto& [key, field] : section_.Merged("equal")) {
      std::string name = WithArch(key, arch_);
      mapped_.insert(name);
      auto v = config_.Find(name);
      if (!v || v->null || (!v->container && v->value.shown == "\"auto\"")) continue;  // auto: as it comes out
      std::optional<FieldValue> wanted;  // of the first block that has the field
      for (size_t b = 0; b < d_.blocks.size() && !wanted; ++b)
        wanted = GetField(d_, d_.blocks[b].second, field.AsString());
      if (!wanted) continue;  // no layer has the part
      LLMC_CHECK(wanted->kind == FieldValue::Kind::Int, "\"equal\" names a size");
      if (v->value.kind != FieldValue::Kind::Int || v->container || v->value.integer != wanted->integer) {
        Fail(DiagKind::Unsupported, v->value.place,
             fmt::format("{} = {}; supported: equal to {} = {}", name, v->value.shown, field.AsString(),
                         wanted->integer));
      }
    }
  }

  // Lists that have as many entries as a number, or as there are layers ("n_layers"; or one value for all of them).
  void Entries() {
    for (const auto& [key, count] : section_.Merged("entries")) {
      const std::string name = WithArch(key, arch_);
      mapped_.insert(name);
      const auto found = config_.Find(name);
      const bool layers = count.is(JsonKind::String);
      if (!found || found->null || (!found->container && layers)) continue;
      if (!found->container)
        Fail(DiagKind::BadValue, found->value.place, fmt::format("{} must be a list, is {}", name, found->value.shown));
      const int64_t wanted = layers ? d_.model.n_layers : count.AsInt();
      const size_t have = config_.Values(name).value_or(std::vector<FieldValue>{}).size();
      if (static_cast<int64_t>(have) != wanted)
        Fail(DiagKind::BadValue, found->value.place,
             fmt::format("{} has {} entries, must have {}", name, have, wanted));
    }
  }

  // Lists of which every entry must be the value given.
  void Uniform() {
    for (const auto& [key, only] : section_.Merged("uniform")) {
      const std::string name = WithArch(key, arch_);
      mapped_.insert(name);
      const auto found = config_.Find(name);
      if (!found || found->null) continue;
      for (const FieldValue& v : config_.Values(name).value_or(std::vector<FieldValue>{})) {
        if (v.kind != FieldValue::Kind::Text || v.text != only.AsString())
          Fail(DiagKind::Unsupported, found->value.place,
               fmt::format("{} has {}; supported: {}", name, v.shown, only.AsString()));
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

  // Completes the description. What is wrong is said of fields; notes say which keys of the config they come from.
  void Finish() {
    try {
      Complete(d_, config_.file());
    } catch (const InputError& error) {
      Explain(error);
    }
  }
  // The error again, with the keys that the fields and locals in its message come from.
  [[noreturn]] void Explain(const InputError& error) const {
    Diag diag = error.diag();
    for (const auto& [name, rule] : AllRules()) {
      if (!HasWord(diag.message, name)) continue;
      std::set<std::string> seen, keys;
      Sources(name, seen, keys);
      std::erase_if(keys, [&](const std::string& k) { return !config_.Find(k) || HasWord(diag.message, k); });
      const std::string note = fmt::format("{} comes from {}", name, fmt::join(keys, ", "));
      if (!keys.empty() && std::find(diag.notes.begin(), diag.notes.end(), note) == diag.notes.end())
        diag.notes.push_back(note);
    }
    throw InputError(std::move(diag));
  }

  Description& description() { return d_; }
  const std::set<std::string>& mapped() const { return mapped_; }

 private:
  using RuleList = std::vector<std::pair<std::string, Json>>;

  // Rules of all blocks and of each one.
  RuleList AllRules() const {
    RuleList all = section_.Merged("fields");
    for (const auto& [block, fields] : section_.Merged("blocks")) {
      for (const auto& [name, rule] : fields.members()) all.emplace_back(std::string(name), rule);
    }
    return all;
  }

  // The keys that the rules of a name read, and those of the names that they read.
  void Sources(const std::string& name, std::set<std::string>& seen, std::set<std::string>& keys) const {
    if (!seen.insert(name).second) return;
    for (const auto& [other, rule] : AllRules()) {
      if (other != name) continue;
      CollectKeys(rule, arch_, keys);
      std::set<std::string> names;
      CollectNames(rule, names);
      for (const std::string& n : names) Sources(n, seen, keys);
    }
  }

  static bool HasWord(std::string_view text, std::string_view word) {
    const auto joins = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; };
    for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
      const size_t end = at + word.size();
      if ((at == 0 || !joins(text[at - 1])) && (end == text.size() || !joins(text[end]))) return true;
    }
    return false;
  }

  // Applies the rules in their order, each behind those that it reads. Names that start with "$" are locals.
  void Set(Rules& rules, Block& block, const RuleList& list) {
    std::set<std::string> done;
    for (const auto& [name, rule] : list) Apply(rules, block, list, name, rule, done);
  }

  void Apply(Rules& rules, Block& block, const RuleList& list, const std::string& name, const Json& rule,
             std::set<std::string>& done) {
    if (!done.insert(name).second) return;
    std::set<std::string> reads;
    CollectNames(rule, reads);
    for (const auto& [other, other_rule] : list) {
      if (reads.contains(other)) Apply(rules, block, list, other, other_rule, done);
    }
    const bool applies = rules.Applies(rule);
    if (!applies && !rule.Find("otherwise")) return;
    FieldValue value = rules.Evaluate(name, applies ? rule : rule.Find("otherwise"));
    if (value.kind == FieldValue::Kind::Text && value.text == "derived") {
      rules.Remember(name, Zero());  // Complete() finds it
      return;
    }
    if (!name.starts_with("$")) {
      // No size is zero, and a zero that a config has is not a size that it leaves out.
      if (rule.Find("keys") && !value.place.at.empty() && value.kind == FieldValue::Kind::Int && value.integer == 0 &&
          GetField(d_, block, name)->kind == FieldValue::Kind::Int)
        Fail(DiagKind::BadValue, value.place, fmt::format("{} is {}, must not be zero", name, value.shown));
      SetField(d_, block, name, value);
    }
    rules.Remember(name, std::move(value));
  }

  static FieldValue Zero() {
    FieldValue v;
    v.kind = FieldValue::Kind::Int;
    v.shown = "derived";
    return v;
  }

  const ConfigSource& config_;
  const Section& section_;
  std::string arch_;
  Rules rules_;
  Description d_;
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

// The preset whose `format` part lists `name` under `key`. Of several the one that lists one of `classes` too; else the
// first that doesn't insist on its classes ("only_architectures").
Json Choose(const std::vector<Json>& presets, std::string_view format, std::string_view key, std::string_view name,
            const Place& place, const std::vector<std::string>& classes = {}) {
  std::set<std::string> known;
  Json first;
  for (const Json& preset : presets) {
    Json section = preset.Find(format);
    for (const Json& item : section ? section.Find(key).items() : std::vector<Json>()) known.emplace(item.AsString());
    if (const Json wrappers = section ? section.Find("wrappers") : Json()) {
      for (const auto& [type, inner] : wrappers.members()) known.emplace(type);
    }
    if (!Lists(section, key, name)) continue;
    const bool listed = std::any_of(classes.begin(), classes.end(),
                                    [&](const std::string& c) { return Lists(section, "architectures", c); });
    if (listed) return preset;
    if (!first && !section.Find("only_architectures")) first = preset;
  }
  if (first) return first;
  Fail(DiagKind::UnknownArchitecture, place,
       fmt::format("architecture {} is not supported; supported: {}", JsonQuote(name), fmt::join(known, ", ")));
}

Description Map(const ConfigSource& config, const std::vector<Json>& presets, const Json& preset,
                const std::string& format, const std::string& arch, const PresetOptions& options) {
  Section section(presets, preset, format);
  Mapper mapper(config, section, arch);
  mapper.Exclusive();
  try {
    mapper.Blocks();
  } catch (const InputError& error) {
    mapper.Explain(error);
  }
  mapper.Tensors();
  Description& d = mapper.description();
  d.model.name = NameOf(preset);
  mapper.Finish();
  KeepUsedTensorRules(d);
  mapper.Equalities();
  mapper.Uniform();
  mapper.Entries();
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

// Outside the text part only quantisation changes what the text part computes.
void CheckWrapper(const ConfigSource& config, std::string_view inner, const PresetOptions& options) {
  const auto v = config.Find("quantization_config");
  if (v && !v->empty)
    Fail(DiagKind::Unsupported, v->value.place,
         fmt::format("quantization_config beside {}: the checkpoint is quantised in a form that is not supported",
                     inner));
  if (!options.sink) return;
  options.sink({Severity::Warning,
                DiagKind::UnknownKey,
                {config.file(), ""},
                fmt::format("{} is taken; what stands beside it is for other inputs than text", inner),
                {}});
}

}  // namespace

Description DescribeHf(const HfConfig& config, const PresetOptions& options) {
  std::vector<Json> presets = LoadPresets();
  std::string type = RequiredText(config, "model_type");
  // A model of several kinds of input keeps its text part's config in an object.
  std::string wrapped;
  for (const Json& preset : presets) {
    const Json wrappers = preset.Find("hf") ? preset.Find("hf").Find("wrappers") : Json();
    const Json key = wrappers ? wrappers.Find(type) : Json();
    const Json inner = key ? config.root().Find(key.AsString()) : Json();
    if (key) wrapped = key.AsString();
    if (!inner) continue;
    if (!inner.is(JsonKind::Object))
      Fail(DiagKind::BadValue, inner.place(),
           fmt::format("{} must be an object, is {}", key.AsString(), inner.source().substr(0, kShownBytes)));
    CheckWrapper(config, key.AsString(), options);
    return Map(HfConfig(inner, config.file()), presets, preset, "hf", type, options);
  }
  const bool plain = std::any_of(presets.begin(), presets.end(),
                                 [&](const Json& p) { return Lists(p.Find("hf"), "model_types", type); });
  if (!wrapped.empty() && !plain)
    Fail(DiagKind::MissingKey, {config.file(), ""},
         fmt::format("{} is missing: a config of model_type {} keeps its text part's there", wrapped, JsonQuote(type)));
  const auto classes = config.Strings("architectures");
  Json preset = Choose(presets, "hf", "model_types", type, config.Find("model_type")->value.place,
                       classes.value_or(std::vector<std::string>()));
  if (classes && !classes->empty()) {
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

std::optional<RegisteredTokenizer> FindRegisteredTokenizer(std::string_view model_type) {
  for (const Json& preset : LoadPresets()) {
    const Json hf = preset.Find("hf");
    if (!Lists(hf, "model_types", model_type)) continue;
    // Not of a preset that this one is like.
    const Json name = hf.Find("tokenizer_class");
    if (!name) return std::nullopt;
    const Json always = hf.Find("tokenizer_class_always");
    return RegisteredTokenizer{name.is(JsonKind::Null) ? "" : std::string(name.AsString()), always && always.AsBool()};
  }
  return std::nullopt;
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> out;
  for (const Json& preset : LoadPresets()) out.push_back(NameOf(preset));
  return out;
}

}  // namespace llmc
