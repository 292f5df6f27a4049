// Each schema becomes a rule; what is not understood is refused where it stands.
#include "runtime/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "runtime/json_grammar.h"
#include "runtime/template_json.h"

namespace llmc {
namespace {

using Part = GrammarBuilder::Part;

constexpr uint32_t kMostCount = 65536;  // of items and characters
constexpr std::array<std::string_view, 6> kTypes = {"null", "boolean", "number", "string", "array", "object"};

enum class Keyword : uint8_t { Annotation, Definitions, Type, Whole, Array, Object, String };
struct KeywordInfo {
  std::string_view name;
  Keyword kind;
};
// Whole: it says by itself which values there are.
constexpr KeywordInfo kKeywords[] = {
    {"title", Keyword::Annotation},
    {"description", Keyword::Annotation},
    {"default", Keyword::Annotation},
    {"examples", Keyword::Annotation},
    {"deprecated", Keyword::Annotation},
    {"readOnly", Keyword::Annotation},
    {"writeOnly", Keyword::Annotation},
    {"$comment", Keyword::Annotation},
    {"$schema", Keyword::Annotation},
    {"$defs", Keyword::Definitions},
    {"definitions", Keyword::Definitions},
    {"type", Keyword::Type},
    {"enum", Keyword::Whole},
    {"const", Keyword::Whole},
    {"anyOf", Keyword::Whole},
    {"$ref", Keyword::Whole},
    {"prefixItems", Keyword::Array},
    {"items", Keyword::Array},
    {"minItems", Keyword::Array},
    {"maxItems", Keyword::Array},
    {"properties", Keyword::Object},
    {"required", Keyword::Object},
    {"additionalProperties", Keyword::Object},
    {"minLength", Keyword::String},
    {"maxLength", Keyword::String},
};

class Lowering {
 public:
  explicit Lowering(std::string_view where) : run_(none_, tables_, {}), where_(where), json_(builder_) {}

  Grammar Lower(std::string_view text) {
    root_ = ParseJsonValue(run_, text, where_);
    const uint32_t root = RuleOf(root_, "");
    // A list instead of recursion, and each pointer once: schemas may refer to themselves.
    for (size_t i = 0; i < pending_.size(); ++i) {
      const Pending p = pending_[i];
      try {
        builder_.Define(p.rule, Body(*p.schema, p.pointer));
      } catch (const PlanError& error) {
        const std::string message = error.what();
        if (message.starts_with(where_)) throw;
        throw PlanError(Name(p.pointer) + message);
      }
    }
    try {
      return builder_.Build(root);
    } catch (const PlanError& error) {
      const std::string message = error.what();
      throw PlanError(message.starts_with(where_) ? message : Joined({where_, ": ", message}));
    }
  }

 private:
  struct Pending {
    uint32_t rule;
    const TemplateValue* schema;
    std::string pointer;
  };

  std::string Name(const std::string& pointer) const { return Joined({where_, ": #", pointer, ": "}); }
  [[noreturn]] void Fault(const std::string& pointer, const std::string& message) const {
    throw PlanError(Name(pointer) + message);
  }
  static std::string Below(const std::string& pointer, std::string_view key) {
    std::string text = pointer + "/";
    for (const char c : key) {
      if (c == '~')
        text += "~0";
      else if (c == '/')
        text += "~1";
      else
        text += c;
    }
    return text;
  }

  uint32_t RuleOf(const TemplateValue& schema, const std::string& pointer) {
    const auto [at, fresh] = rules_.try_emplace(pointer, 0);
    if (fresh) {
      at->second = builder_.AddRule(Name(pointer) + "the schema");
      pending_.push_back({at->second, &schema, pointer});
    }
    return at->second;
  }
  Part Call(const TemplateValue& schema, const std::string& pointer) { return builder_.Call(RuleOf(schema, pointer)); }

  // A schema's members by name; absent: null.
  struct Members {
    std::map<std::string_view, const TemplateValue*> values;
    const TemplateValue* operator[](std::string_view name) const {
      const auto at = values.find(name);
      return at == values.end() ? nullptr : at->second;
    }
  };

  Part Body(const TemplateValue& schema, const std::string& pointer) {
    if (schema.Is(ValueKind::Bool)) return schema.boolean ? json_.Any() : builder_.Nothing();
    if (!schema.Is(ValueKind::Dict)) Fault(pointer, "a schema is an object, true or false");
    Members m;
    std::string_view whole;
    for (const auto& [key, value] : schema.As<DictObject>().items) {
      const std::string_view name = key.str();
      const auto* info = std::find_if(std::begin(kKeywords), std::end(kKeywords),
                                      [&](const KeywordInfo& keyword) { return keyword.name == name; });
      // An id of the root is a base for references to itself alone, and those are not followed.
      if (info == std::end(kKeywords) && !(name == "$id" && pointer.empty()))
        Fault(Below(pointer, name), "the keyword isn't supported");
      if (info != std::end(kKeywords) && info->kind == Keyword::Whole) {
        if (!whole.empty()) Fault(Below(pointer, name), Joined({"can't stand beside ", whole}));
        whole = name;
      }
      m.values[name] = &value;
    }
    if (whole.empty()) return OfTypes(m, pointer);
    for (const KeywordInfo& keyword : kKeywords) {
      const bool values = whole == "enum" || whole == "const";
      if (m[keyword.name] != nullptr && (keyword.kind > Keyword::Whole || (keyword.kind == Keyword::Type && !values)))
        Fault(Below(pointer, keyword.name), Joined({"can't stand beside ", whole}));
    }
    if (whole == "$ref") return Reference(*m["$ref"], Below(pointer, "$ref"));
    if (whole == "anyOf") return AnyOf(*m["anyOf"], Below(pointer, "anyOf"));
    const std::string at = Below(pointer, whole);
    const std::vector<std::string> types = Types(m, pointer);
    if (whole == "const") return Constants({m["const"], 1}, types, at);
    if (!m["enum"]->Is(ValueKind::List)) Fault(at, "not a list");
    return Constants(m["enum"]->items(), types, at);
  }

  std::vector<std::string> Types(const Members& m, const std::string& pointer) const {
    const TemplateValue* type = m["type"];
    if (type == nullptr) return {kTypes.begin(), kTypes.end()};
    std::vector<TemplateValue> list = {*type};
    if (type->Is(ValueKind::List)) list = type->items();
    std::vector<std::string> types;
    for (const TemplateValue& item : list) {
      const std::string name = item.Is(ValueKind::Str) ? item.str() : "";
      if (name != "integer" && std::find(kTypes.begin(), kTypes.end(), name) == kTypes.end())
        Fault(Below(pointer, "type"), "null, boolean, integer, number, string, array or object, or a list of these");
      if (std::find(types.begin(), types.end(), name) == types.end()) types.push_back(name);
    }
    return types;
  }

  Part OfTypes(const Members& m, const std::string& pointer) {
    std::vector<Part> parts;
    for (const std::string& type : Types(m, pointer)) {
      if (type == "string" && (m["minLength"] != nullptr || m["maxLength"] != nullptr)) {
        const auto [least, most] = Counts(m, "minLength", "maxLength", pointer);
        parts.push_back(json_.String(least, most));
      } else if (type == "array" && (m["items"] != nullptr || m["prefixItems"] != nullptr || m["minItems"] != nullptr ||
                                     m["maxItems"] != nullptr)) {
        parts.push_back(Array(m, pointer));
      } else if (type == "object" &&
                 (m["properties"] != nullptr || m["required"] != nullptr || m["additionalProperties"] != nullptr)) {
        parts.push_back(Object(m, pointer));
      } else {
        parts.push_back(json_.Type(type));
      }
    }
    return builder_.Choice(parts);
  }

  std::pair<uint32_t, std::optional<uint32_t>> Counts(const Members& m, std::string_view low, std::string_view high,
                                                      const std::string& pointer) const {
    const auto count = [&](std::string_view name) -> std::optional<uint32_t> {
      const TemplateValue* value = m[name];
      if (value == nullptr) return std::nullopt;
      // JSON Schema counts 2.0 among the integers.
      const double number = value->Is(ValueKind::Int)     ? static_cast<double>(value->integer)
                            : value->Is(ValueKind::Float) ? value->number
                                                          : -1.0;
      if (!(number >= 0 && number <= kMostCount) || number != std::floor(number))
        Fault(Below(pointer, name), "not a number from 0 to " + std::to_string(kMostCount));
      return static_cast<uint32_t>(number);
    };
    const uint32_t least = count(low).value_or(0);
    const std::optional<uint32_t> most = count(high);
    if (most && *most < least)
      Fault(Below(pointer, low), std::to_string(least) + " is over " + Joined({high, " "}) + std::to_string(*most));
    return {least, most};
  }

  Part Array(const Members& m, const std::string& pointer) {
    const auto [least, most] = Counts(m, "minItems", "maxItems", pointer);
    static const std::vector<TemplateValue> kNone;
    const TemplateValue* prefix = m["prefixItems"];
    if (prefix != nullptr && !prefix->Is(ValueKind::List))
      Fault(Below(pointer, "prefixItems"), "not a list of schemas");
    const std::vector<TemplateValue>& first = prefix == nullptr ? kNone : prefix->items();
    const auto item = [&](size_t i) {
      if (i < first.size()) return Call(first[i], Below(Below(pointer, "prefixItems"), std::to_string(i)));
      return m["items"] == nullptr ? json_.Any() : Call(*m["items"], Below(pointer, "items"));
    };
    const auto next = [&](size_t i) { return i == 0 ? item(i) : builder_.Sequence(json_.Text(", "), item(i)); };
    // One item after another as far as they differ, or are counted; then a loop.
    const size_t apart = most ? *most : std::max<size_t>({first.size(), least, 1});
    Part list = json_.Text("[");
    const Part end = json_.Text("]");
    for (size_t i = 0; i < apart; ++i) {
      if (i >= least) builder_.Join(list, end);
      list = builder_.Sequence(list, next(i));
    }
    if (!most) list = builder_.Sequence(list, builder_.Repeat(next(apart), 0, std::nullopt));
    builder_.Join(list, end);
    return {list.begin, end.end};
  }

  Part Object(const Members& m, const std::string& pointer) {
    struct Property {
      std::string name;
      Part value;
      bool required;
    };
    std::set<std::string> required;
    if (const TemplateValue* list = m["required"]) {
      const std::string at = Below(pointer, "required");
      if (!list->Is(ValueKind::List)) Fault(at, "not a list of names");
      for (const TemplateValue& name : list->items()) {
        if (!name.Is(ValueKind::Str)) Fault(at, "not a list of names");
        required.insert(name.str());
      }
    }
    const TemplateValue* others = m["additionalProperties"];
    const auto other = [&] {
      return others == nullptr ? json_.Any() : Call(*others, Below(pointer, "additionalProperties"));
    };
    std::vector<Property> properties;
    std::vector<std::string> names;
    if (const TemplateValue* list = m["properties"]) {
      const std::string at = Below(pointer, "properties");
      if (!list->Is(ValueKind::Dict)) Fault(at, "not an object of schemas");
      for (const auto& [key, schema] : list->As<DictObject>().items) {
        names.push_back(key.str());
        properties.push_back({key.str(), Call(schema, Below(at, key.str())), required.erase(key.str()) > 0});
      }
    }
    for (const std::string& name : required) {  // those that no property describes, by name
      names.push_back(name);
      properties.push_back({name, other(), true});
    }
    // Two chains side by side: nothing written yet, or something, so that a comma comes first.
    Part none = json_.Text("{");
    Part some = builder_.Nothing();
    const auto member = [&](const Property& p) {
      return builder_.Sequence(json_.Text(Json(run_.Str(p.name)) + ": "), p.value);
    };
    for (const Property& p : properties) {
      const Part one = member(p), comma = json_.Text(", "), behind = builder_.Empty();
      builder_.Join(none, one);
      builder_.Join(some, comma);
      builder_.Join(comma, one);
      builder_.Join(one, behind);
      if (p.required) {
        none = {none.begin, builder_.Nothing().end};
      } else {
        builder_.Join(some, behind);
      }
      some.end = behind.end;
    }
    const Part end = json_.Text("}");
    const bool closed = others != nullptr && others->Is(ValueKind::Bool) && !others->boolean;
    if (!closed) {
      const Part one = Sequence3(json_.KeyBut(names), json_.Text(": "), other()), comma = json_.Text(", ");
      builder_.Join(none, one);
      builder_.Join(some, comma);
      builder_.Join(comma, one);
      builder_.Join(one, comma);
      builder_.Join(one, end);
    }
    builder_.Join(none, end);
    builder_.Join(some, end);
    return {none.begin, end.end};
  }
  Part Sequence3(Part a, Part b, Part c) { return builder_.Sequence(builder_.Sequence(a, b), c); }

  Part AnyOf(const TemplateValue& list, const std::string& pointer) {
    if (!list.Is(ValueKind::List) || list.items().empty()) Fault(pointer, "not a list of schemas");
    std::vector<Part> parts;
    for (size_t i = 0; i < list.items().size(); ++i)
      parts.push_back(Call(list.items()[i], Below(pointer, std::to_string(i))));
    return builder_.Choice(parts);
  }

  std::string Json(const TemplateValue& value) { return ToJson(run_, value, {}); }

  static bool IsOfType(const TemplateValue& value, std::string_view type) {
    switch (value.kind) {
      case ValueKind::None: return type == "null";
      case ValueKind::Bool: return type == "boolean";
      case ValueKind::Int:
      case ValueKind::BigInt: return type == "number" || type == "integer";
      case ValueKind::Float: {
        constexpr double kWhole = 0x1p53;  // from here on all are
        const double size = value.number < 0 ? -value.number : value.number;
        const bool whole = size >= kWhole || size == static_cast<double>(static_cast<int64_t>(size));
        return type == "number" || (type == "integer" && whole);
      }
      case ValueKind::Str: return type == "string";
      case ValueKind::List: return type == "array";
      case ValueKind::Dict: return type == "object";
      default: return false;
    }
  }

  Part Constants(std::span<const TemplateValue> values, const std::vector<std::string>& types,
                 const std::string& pointer) {
    std::vector<Part> parts;
    for (const TemplateValue& value : values) {
      if (std::any_of(types.begin(), types.end(), [&](const std::string& type) { return IsOfType(value, type); }))
        parts.push_back(json_.Text(Json(value)));
    }
    if (parts.empty()) Fault(pointer, "no value is left");
    return builder_.Choice(parts);
  }

  Part Reference(const TemplateValue& reference, const std::string& pointer) {
    const std::string text = reference.Is(ValueKind::Str) ? reference.str() : "";
    if (!text.starts_with("#") || (text.size() > 1 && text[1] != '/'))
      Fault(pointer, "not a JSON pointer into this schema (#/..)");
    // As of a URI: %25 is a percent sign.
    std::string decoded;
    for (size_t i = 1; i < text.size(); ++i) {
      const auto digit = [&](size_t at) {
        const char c = at < text.size() ? text[at] : ' ';
        const char lower = static_cast<char>(c | 0x20);
        return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
      };
      if (text[i] != '%') {
        decoded += text[i];
        continue;
      }
      if (digit(i + 1) < 0 || digit(i + 2) < 0) Fault(pointer, "a % without two hex digits");
      decoded += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    }
    const TemplateValue* at = &root_;
    std::string canonical;
    for (size_t begin = 0; begin < decoded.size();) {
      const size_t end = std::min(decoded.find('/', begin + 1), decoded.size());
      std::string key;
      for (size_t i = begin + 1; i < end; ++i) {
        if (decoded[i] == '~' && i + 1 < end && (decoded[i + 1] == '0' || decoded[i + 1] == '1'))
          key += decoded[++i] == '0' ? '~' : '/';
        else
          key += decoded[i];
      }
      begin = end;
      const TemplateValue* next = nullptr;
      if (at->Is(ValueKind::Dict)) {
        next = at->As<DictObject>().Find(key);
      } else if (at->Is(ValueKind::List) && !key.empty() && key.size() < 7 &&
                 key.find_first_not_of("0123456789") == std::string::npos && std::stoul(key) < at->items().size()) {
        next = &at->items()[std::stoul(key)];
      }
      if (next == nullptr) Fault(pointer, "there is nothing at " + text);
      at = next;
      canonical = Below(canonical, key);
    }
    return Call(*at, canonical);
  }

  const TemplateProgram none_;
  const TextTables tables_;
  TemplateRun run_;
  std::string_view where_;
  GrammarBuilder builder_;
  JsonRules json_;
  TemplateValue root_;
  std::map<std::string, uint32_t> rules_;  // by pointer
  std::vector<Pending> pending_;
};

}  // namespace

Grammar GrammarOfJsonSchema(std::string_view text, std::string_view where) { return Lowering(where).Lower(text); }

}  // namespace llmc
