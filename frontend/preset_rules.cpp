// Rules evaluated against a config.
#include "frontend/preset_rules.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/config_keys.h"

namespace llmc {
namespace {

// A value as "when", "map" and "refuse" spell it.
std::string TextOf(const FieldValue& v) {
  switch (v.kind) {
    case FieldValue::Kind::Bool: return v.boolean ? "true" : "false";
    case FieldValue::Kind::Int: return std::to_string(v.integer);
    case FieldValue::Kind::Float: return fmt::format("{}", v.number);
    case FieldValue::Kind::Text: break;
  }
  return v.text;
}

FieldValue ValueOf(const Json& json) { return ToConfigValue(json).value; }

FieldValue BoolValue(bool b, Place place) {
  FieldValue v;
  v.kind = FieldValue::Kind::Bool;
  v.boolean = b;
  v.shown = b ? "true" : "false";
  v.place = std::move(place);
  return v;
}

// value -> what the rule's "map" has for it; refused by name where it has nothing.
FieldValue Translate(const std::string& what, const Json& map, const FieldValue& value) {
  std::string text = TextOf(value);
  std::vector<std::string_view> known;
  for (const auto& [from, to] : map.members()) {
    known.push_back(from);
    if (from != text) continue;
    FieldValue out = ValueOf(to);
    out.place = value.place;
    return out;
  }
  Fail(DiagKind::Unsupported, value.place,
       fmt::format("{} = {} is not supported; supported: {}", what, value.shown, fmt::join(known, ", ")));
}

void Refuse(const std::string& what, const Json& rule, const FieldValue& value) {
  if (!rule.is(JsonKind::Object)) return;
  Json reasons = rule.Find("refuse");
  if (!reasons) return;
  if (Json reason = reasons.Find(TextOf(value)))
    Fail(DiagKind::BadValue, value.place,
         what.starts_with('$') ? std::string(reason.AsString())
                               : fmt::format("{} = {}: {}", what, value.shown, reason.AsString()));
}

}  // namespace

std::string Rules::KeyOf(const Json& key) const { return WithArch(key.AsString(), arch_); }

bool Rules::Applies(const Json& rule) const {
  Json when = rule.Find("when");
  if (!when) return true;
  for (const auto& [name, values] : when.members()) {
    auto it = known_.find(name);
    bool holds = false;
    for (const Json& v : values.items()) holds = holds || (it != known_.end() && v.AsString() == TextOf(it->second));
    if (!holds) return false;
  }
  return true;
}

FieldValue Rules::Evaluate(const std::string& name, const Json& rule) const {
  FieldValue value = Raw(name, rule);
  Refuse(name, rule, value);
  return value;
}

// The rule's "map": an object, or the name of one of the preset's.
Json Rules::MapOf(const Json& rule) const {
  Json map = rule.Find("map");
  if (!map || !map.is(JsonKind::String)) return map;
  auto it = maps_.find(map.AsString());
  LLMC_CHECK(it != maps_.end(), fmt::format("a rule's map is called {}", map.AsString()));
  return it->second;
}

FieldValue Rules::Raw(const std::string& name, const Json& rule) const {
  if (!rule.is(JsonKind::Object)) return ValueOf(rule);
  if (Json v = rule.Find("value")) return ValueOf(v);
  if (Json tensor = rule.Find("rows_of")) return RowsOf(name, std::string(tensor.AsString()));
  if (Json var = rule.Find("var")) {
    auto it = known_.find(var.AsString());
    LLMC_CHECK(it != known_.end(), fmt::format("a rule reads {}, which stands in front of it", var.AsString()));
    Json map = MapOf(rule);
    return map ? Translate(it->first, map, it->second) : it->second;
  }
  if (Json expression = rule.Find("compute")) return Computed(name, expression);
  if (Json keys = rule.Find("length")) return LengthOf(name, keys);
  if (rule.Find("entry") || rule.Find("last")) return EntryOf(rule);
  if (Json tensor = rule.Find("layers_with")) return LayersWith(tensor.AsString());
  if (Json key = rule.Find("nonzero")) return Nonzero(KeyOf(key), rule, true);
  if (Json key = rule.Find("same")) return Nonzero(KeyOf(key), rule, false);
  if (Json keys = rule.Find("present")) {
    for (const Json& key : keys.items()) {
      auto v = config_->Find(KeyOf(key));
      if (v && !v->null) return BoolValue(true, v->value.place);
    }
    return BoolValue(false, {config_->file(), ""});
  }
  if (Json tensors = rule.Find("tensors")) {
    for (const auto& [tensor, v] : tensors.members()) {
      if (config_->Tensor(tensor) == nullptr) continue;
      RefuseBoth(tensor, rule);
      return ValueOf(v);
    }
    if (!rule.Find("keys")) return Raw(name, rule.Find("absent"));
  }
  return FromKeys(name, rule);
}

// Entries of a list, or letters of a text: of the first key that the config has.
FieldValue Rules::LengthOf(const std::string& name, const Json& keys) const {
  std::vector<std::string> tried;
  for (const Json& item : keys.items()) {
    tried.push_back(KeyOf(item));
    const auto found = config_->Find(tried.back());
    if (!found || found->null) continue;
    FieldValue v = found->value;
    const bool letters = !found->container && v.kind == FieldValue::Kind::Text;
    if (!letters && !found->container)
      Fail(DiagKind::BadValue, v.place, fmt::format("{} must be a list, is {}", tried.back(), v.shown));
    v.integer = static_cast<int64_t>(letters ? v.text.size() : config_->Values(tried.back())->size());
    v.kind = FieldValue::Kind::Int;
    return v;
  }
  Fail(DiagKind::MissingKey, {config_->file(), ""}, fmt::format("{} is missing ({})", fmt::join(tried, " or "), name));
}

// {"entry": KEY, "where": OTHER, "is": VALUE}: the entry of the key's list at the first place at which the list OTHER has
// the value, without "where" the first; {"last": KEY}: the last. Of a key that has a number: that.
FieldValue Rules::EntryOf(const Json& rule) const {
  const Json last = rule.Find("last"), where = rule.Find("where");
  const std::string key = KeyOf(last ? last : rule.Find("entry"));
  const auto found = config_->Find(key);
  if (!found || !found->container) {
    if (found && !found->null) return found->value;
    if (const Json absent = rule.Find("absent")) return Raw("", absent);
    Fail(DiagKind::MissingKey, {config_->file(), ""}, fmt::format("{} is missing", key));
  }
  const std::vector<FieldValue> values = config_->Values(key).value_or(std::vector<FieldValue>());
  if (values.empty()) Fail(DiagKind::BadValue, found->value.place, fmt::format("{} is empty", key));
  size_t at = last ? values.size() - 1 : 0;
  if (where) {
    const std::string other = KeyOf(where);
    const auto marks = config_->Find(other);
    if (!marks || !marks->container)
      Fail(DiagKind::MissingKey, {config_->file(), ""}, fmt::format("{} is no list, but {} is one", other, key));
    const std::vector<FieldValue> kinds = config_->Values(other).value_or(std::vector<FieldValue>());
    if (kinds.size() != values.size())
      Fail(DiagKind::BadValue, found->value.place,
           fmt::format("{} has {} entries, {} has {}", key, values.size(), other, kinds.size()));
    const std::string_view wanted = rule.Find("is").AsString();
    for (size_t i = kinds.size(); i-- > 0;)
      if (TextOf(kinds[i]) == wanted) at = i;
  }
  return values[at];
}

// How many layers have the tensor, {i} being the layer.
FieldValue Rules::LayersWith(std::string_view tensor) const {
  constexpr std::string_view kMark = "{i}";
  constexpr int64_t kMostLayers = 65536;  // Complete() has the real bound
  const size_t mark = tensor.find(kMark);
  const int64_t layers = std::clamp<int64_t>(known_.at("n_layers").integer, 0, kMostLayers);
  FieldValue v;
  v.kind = FieldValue::Kind::Int;
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = fmt::format("{}{}{}", tensor.substr(0, mark), i, tensor.substr(mark + kMark.size()));
    if (config_->Tensor(name) != nullptr) ++v.integer;
  }
  v.shown = std::to_string(v.integer);
  v.place = {config_->file(), ""};
  return v;
}

// A tensor decides the field; a key that decides it otherwise contradicts.
void Rules::RefuseBoth(std::string_view tensor, const Json& rule) const {
  Json keys = rule.Find("keys");
  if (!keys) return;
  for (const Json& item : keys.items()) {
    std::string key = KeyOf(item);
    auto v = config_->Find(key);
    if (!v || v->container || v->null) continue;
    Json map = MapOf(rule);
    const Json beside = rule.Find("beside");
    const std::string text = TextOf(map ? Translate(key, map, v->value) : v->value);
    bool agrees = false;
    for (const Json& value : beside ? beside.items() : std::vector<Json>()) agrees = agrees || value.AsString() == text;
    if (agrees) continue;
    Fail(DiagKind::Unsupported, v->value.place,
         fmt::format("{} = {} together with the tensor {} is not supported", key, v->value.shown, tensor));
  }
}

FieldValue Rules::RowsOf(const std::string& name, const std::string& tensor) const {
  const TensorInfo* t = config_->Tensor(tensor);
  if (t == nullptr)
    Fail(DiagKind::MissingTensor, {config_->file(), "tensor " + tensor},
         fmt::format("the tensor is missing ({} is its number of rows)", name));
  FieldValue v;
  v.kind = FieldValue::Kind::Int;
  v.integer = t->dims[0];
  v.shown = std::to_string(v.integer);
  v.place = {config_->file(), "tensor " + tensor};
  return v;
}

// Two names of one key that say two numbers, or yes and no: which of them counts depends on their order. Of texts the
// first key counts: published files keep an old key beside the one that replaces it; so do the rope parameters' objects.
void Rules::RefuseAnother(const std::vector<std::string>& keys, const std::string& used,
                          const FieldValue& value) const {
  if (value.kind == FieldValue::Kind::Text || used.find('.') != std::string::npos) return;
  for (const std::string& key : keys) {
    auto other = key == used || key.find('.') != std::string::npos ? std::nullopt : config_->Find(key);
    if (!other || other->null || other->container || TextOf(other->value) == TextOf(value)) continue;
    Fail(DiagKind::BadValue, other->value.place,
         fmt::format("{} = {} contradicts {} = {}", key, other->value.shown, used, value.shown));
  }
}

FieldValue Rules::FromKeys(const std::string& name, const Json& rule) const {
  std::vector<std::string> keys;
  for (const Json& key : rule.Find("keys").items()) keys.push_back(KeyOf(key));
  Json absent = rule.Find("absent");
  for (const std::string& key : keys) {
    auto found = config_->Find(key);
    if (!found) continue;
    FieldValue& value = found->value;
    if (found->null) {
      if (Json null = rule.Find("null")) {
        absent = null;
        continue;  // a later key may have a value
      }
    }
    if (found->null || found->container) {
      Fail(DiagKind::BadValue, value.place, fmt::format("{} must be a plain value, is {}", key, value.shown));
    }
    RefuseAnother(keys, key, value);
    if (const Json least = rule.Find("least");
        least && (value.kind != FieldValue::Kind::Int || value.integer < least.AsInt()))
      Fail(DiagKind::BadValue, value.place,
           fmt::format("{} must be an integer of at least {}, is {}", key, least.AsInt(), value.shown));
    if (Json map = MapOf(rule)) return Translate(key, map, value);
    value.shown = fmt::format("{} (key {})", value.shown, key);
    return value;
  }
  if (!absent)
    Fail(DiagKind::MissingKey, {config_->file(), ""}, fmt::format("{} is missing ({})", fmt::join(keys, " or "), name));
  return Raw(name, absent);
}

// The one number besides 0 that the key's list has, or the key's number.
FieldValue Rules::Nonzero(const std::string& key, const Json& rule, bool zeros) const {
  const auto found = config_->Find(key);
  if (!found || !found->container) {
    if (found && !found->null) return found->value;
    const Json absent = rule.Find("absent");
    if (absent) return ValueOf(absent);
    Fail(DiagKind::MissingKey, {config_->file(), ""}, fmt::format("{} is missing", key));
  }
  std::optional<FieldValue> number;
  const std::vector<FieldValue> values = config_->Values(key).value_or(std::vector<FieldValue>());
  for (const FieldValue& v : values) {
    if (zeros && v.kind == FieldValue::Kind::Int && v.integer == 0) continue;
    if (number && TextOf(*number) != TextOf(v))
      Fail(DiagKind::Unsupported, found->value.place,
           fmt::format("{} has {} and {}; supported: one number{}", key, number->shown, v.shown,
                       zeros ? " besides 0" : ""));
    number = v;
  }
  if (!number) Fail(DiagKind::BadValue, found->value.place, fmt::format("{} has no number besides 0", key));
  number->place = found->value.place;
  return *number;
}

FieldValue Rules::Computed(const std::string& name, const Json& expression) const {
  FieldValue v;
  v.place = {config_->file(), ""};
  v.number = Number(name, expression, v.place);
  if (!std::isfinite(v.number) || std::abs(v.number) > 1e15)
    Fail(DiagKind::BadValue, v.place, fmt::format("{} comes out as {}", name, v.number));
  v.kind = FieldValue::Kind::Float;
  v.shown = fmt::format("{} (computed)", v.number);
  if (v.number == std::floor(v.number)) {
    v.kind = FieldValue::Kind::Int;
    v.integer = static_cast<int64_t>(v.number);
  }
  return v;
}

// A number, a name that stands for one, or [function, arguments..]. place: of the last name's value.
double Rules::Number(const std::string& name, const Json& e, Place& place) const {
  if (e.is(JsonKind::String)) {
    auto it = known_.find(e.AsString());
    LLMC_CHECK(it != known_.end(), fmt::format("a rule reads {}, which stands in front of it", e.AsString()));
    const FieldValue& v = it->second;
    if (!v.place.at.empty()) place = v.place;
    if (v.kind != FieldValue::Kind::Int && v.kind != FieldValue::Kind::Float)
      Fail(DiagKind::BadValue, v.place, fmt::format("{} must be a number, is {}", e.AsString(), v.shown));
    return NumberOf(v);
  }
  if (!e.is(JsonKind::Array)) return e.AsDouble();
  std::vector<Json> items = e.items();
  std::vector<double> a;
  for (size_t i = 1; i < items.size(); ++i) a.push_back(Number(name, items[i], place));
  std::string_view f = items[0].AsString();
  auto fold = [&](auto op) {
    double out = a[0];
    for (size_t i = 1; i < a.size(); ++i) out = op(out, a[i]);
    return out;
  };
  if (f == "add") return fold(std::plus<>());
  if (f == "sub") return fold(std::minus<>());
  if (f == "mul") return fold(std::multiplies<>());
  if (f == "div") return fold(std::divides<>());
  if (f == "pow") return std::pow(a[0], a[1]);
  if (f == "sqrt") return std::sqrt(a[0]);
  if (f == "floor") return std::floor(a[0]);
  if (f == "ln") return std::log(a[0]);
  if (f == "max") return fold([](double x, double y) { return std::max(x, y); });
  if (f == "or") return fold([](double x, double y) { return x != 0 ? x : y; });  // the first that is not zero
  throw InternalError(__FILE__, __LINE__, fmt::format("{}: no function {}", name, f));
}

void CollectKeys(const Json& rule, const std::string& arch, std::set<std::string>& keys) {
  if (!rule) return;
  if (rule.is(JsonKind::Array)) {
    for (const Json& item : rule.items()) CollectKeys(item, arch, keys);
    return;
  }
  if (!rule.is(JsonKind::Object)) return;
  for (const auto& [name, value] : rule.members()) {
    if (name == "keys" || name == "present" || name == "length") {
      for (const Json& key : value.items()) keys.insert(WithArch(key.AsString(), arch));
    } else if (name == "types" || name == "listed" || name == "letters" || name == "zero" || name == "nonzero" ||
               name == "same" || name == "entry" || name == "last" || name == "where") {
      keys.insert(WithArch(value.AsString(), arch));
    } else {
      CollectKeys(value, arch, keys);
    }
  }
}

void CollectNames(const Json& rule, std::set<std::string>& names) {
  if (!rule || !rule.is(JsonKind::Object)) return;
  if (Json when = rule.Find("when")) {
    for (const auto& [name, values] : when.members()) names.insert(std::string(name));
  }
  if (rule.Find("layers_with")) names.insert("n_layers");
  if (Json var = rule.Find("var")) names.insert(std::string(var.AsString()));
  std::function<void(const Json&)> in_expression = [&](const Json& e) {
    if (e.is(JsonKind::String)) names.insert(std::string(e.AsString()));
    if (!e.is(JsonKind::Array)) return;
    for (const Json& item : e.items()) in_expression(item);
  };
  if (Json expression = rule.Find("compute")) in_expression(expression);
  for (std::string_view inner : {"absent", "otherwise"}) CollectNames(rule.Find(inner), names);
}

}  // namespace llmc
