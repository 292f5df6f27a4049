// Filters on single values. Those on numbers are in template_number_filters.cpp, those on sequences in
// template_sequence_filters.cpp.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "runtime/plan_unicode.h"
#include "runtime/template_run.h"
#include "runtime/template_text.h"

namespace llmc {
namespace {

using V = ValueKind;

bool Given(const TemplateValue& value) { return !value.Is(V::Missing) && !value.Is(V::None); }
const TemplateValue& Subject(const Arguments& a) { return a.positional[0]; }

// The same method of the value's text.
template <std::string (*map)(const TextTables&, std::string_view)>
TemplateValue Mapped(TemplateRun& run, const Arguments& a) {
  run.Bind("filter", a, {}, 0, 1);
  const TemplateValue text = SoftText(run, Subject(a));
  run.Step(text.str().size() / 8);
  return run.Str(map(run.tables(), text.str()), text.markup());
}

TemplateValue Title(TemplateRun& run, const Arguments& a) {
  run.Bind("title", a, {}, 0, 1);
  const TemplateValue text = SoftText(run, Subject(a));
  std::string out, word;
  bool separator = true;
  const auto flush = [&] {
    if (separator) {
      out += word;
    } else {
      const size_t first = DecodeUtf8(word, 0).bytes;
      out += UpperText(run.tables(), std::string_view(word).substr(0, first)) +
             LowerText(run.tables(), std::string_view(word).substr(first));
    }
    word.clear();
  };
  for (size_t at = 0; at < text.str().size();) {
    const CodePoint c = DecodeUtf8(text.str(), at);
    const bool separates =
        IsTextSpace(c.value) || c.value == '-' || c.value == '(' || c.value == '{' || c.value == '[' || c.value == '<';
    if (separates != separator && !word.empty()) flush();
    separator = separates;
    word.append(text.str(), at, c.bytes);
    at += c.bytes;
  }
  if (!word.empty()) flush();
  return run.Str(std::move(out));
}

TemplateValue Trim(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("trim", a, {"chars"}, 0, 1);
  const TemplateValue text = SoftText(run, Subject(a));
  if (Given(p[0]) && !p[0].Is(V::Str)) run.TypeError("strip arg must be None or str");
  return run.Str(std::string(StripText(text.str(), StripSide::Both, Given(p[0]) ? &p[0].str() : nullptr)),
                 text.markup());
}

TemplateValue Replace(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("replace", a, {"old", "new", "count"}, 2, 1);
  const std::string text = ToText(run, Subject(a));
  run.Step(text.size() / 16);
  try {
    return run.Str(ReplaceText(text, ToText(run, p[0]), ToText(run, p[1]), Given(p[2]) ? AsIndex(run, p[2]) : -1,
                               uint64_t{1} << 30));
  } catch (const std::length_error&) {
    run.CheckSize(UINT64_MAX);
    throw;
  }
}

TemplateValue Center(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("center", a, {"width"}, 0, 1);
  const TemplateValue text = SoftText(run, Subject(a));
  Arguments width;
  width.positional.push_back(Given(p[0]) ? p[0] : TemplateValue::Int(80));
  const char* name = nullptr;
  return FindMethod(text, "center", name)(run, text, width);
}

TemplateValue String(TemplateRun& run, const Arguments& a) {
  run.Bind("string", a, {}, 0, 1);
  return SoftText(run, Subject(a));
}
TemplateValue Safe(TemplateRun& run, const Arguments& a) {
  run.Bind("safe", a, {}, 0, 1);
  return run.Str(ToText(run, Subject(a)), true);
}
TemplateValue Escape(TemplateRun& run, const Arguments& a) {
  run.Bind("escape", a, {}, 0, 1);
  return EscapedOf(run, Subject(a));
}
TemplateValue ForceEscape(TemplateRun& run, const Arguments& a) {
  run.Bind("forceescape", a, {}, 0, 1);
  return run.Str(EscapeHtml(ToText(run, Subject(a))), true);
}

TemplateValue Indent(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("indent", a, {"width", "first", "blank"}, 0, 1);
  const TemplateValue& s = Subject(a);
  if (s.Is(V::Undefined)) run.FailUndefined(s);
  if (!s.Is(V::Str)) run.TypeError(std::string("unsupported operand type(s) for +=: '") + TypeName(s) + "' and 'str'");
  std::string indention;
  if (p[0].Is(V::Str)) {
    indention = p[0].str();
  } else {
    const int64_t width = p[0].Is(V::Missing) ? 4 : AsIndex(run, p[0]);
    run.CheckSize(width > 0 ? static_cast<uint64_t>(width) : 0);
    indention.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  if (s.markup()) indention = EscapedOf(run, run.Str(indention, p[0].markup() || !p[0].Is(V::Str))).str();
  const bool blank = Truth(p[2]);
  std::string out = Truth(p[1]) ? indention : "";
  size_t number = 0;
  for (const std::string& line : SplitLines(s.str() + "\n", false)) {
    if (number++ > 0) {
      out += "\n";
      if (blank || !line.empty()) out += indention;
    }
    out += line;
    run.Step();
    run.CheckSize(out.size());
  }
  return run.Str(std::move(out), s.markup());
}

TemplateValue Truncate(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("truncate", a, {"length", "killwords", "end", "leeway"}, 0, 1);
  const TemplateValue& s = Subject(a);
  const int64_t length = p[0].Is(V::Missing) ? 255 : AsIndex(run, p[0]);
  const TemplateValue end = p[2].Is(V::Missing) ? run.Str("...") : p[2];
  const int64_t leeway = Given(p[3]) ? AsIndex(run, p[3]) : 5;
  if (!end.Is(V::Str) || !s.Is(V::Str)) run.TypeError(std::string("truncate() needs text, not ") + TypeName(s));
  const int64_t end_size = TextLength(end);
  if (length < end_size)
    run.Fail("AssertionError", "expected length >= " + std::to_string(end_size) + ", got " + std::to_string(length));
  if (leeway < 0) run.Fail("AssertionError", "expected leeway >= 0, got " + std::to_string(leeway));
  const int64_t size = TextLength(s);
  if (size - leeway <= length) return s;
  std::string cut = SlicePoints(s.str(), 0, 1, std::min(length - end_size, size), size);
  if (!Truth(p[1])) {
    const size_t blank = cut.rfind(' ');
    if (blank != std::string::npos) cut.resize(blank);
  }
  return BinaryOf(run, TemplateBinary::Add, run.Str(std::move(cut), s.markup()), end);
}

TemplateValue WordCount(TemplateRun& run, const Arguments& a) {
  run.Bind("wordcount", a, {}, 0, 1);
  const std::string text = ToText(run, Subject(a));
  int64_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    const bool word = c.value == '_' ||
                      (run.tables().Properties(c.value) & (kTextAlpha | kTextDecimal | kTextDigit | kTextNumeric)) != 0;
    count += word && !inside ? 1 : 0;
    inside = word;
    at += c.bytes;
  }
  return TemplateValue::Int(count);
}

std::string Quoted(TemplateRun& run, const TemplateValue& value, bool query) {
  std::string out;
  char buffer[8];
  for (const char c : ToText(run, value)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    std::snprintf(buffer, sizeof(buffer), "%%%02X", static_cast<unsigned>(static_cast<uint8_t>(c)));
    out += plain ? std::string(1, c) : query && c == ' ' ? "+" : buffer;
  }
  return out;
}
TemplateValue UrlEncode(TemplateRun& run, const Arguments& a) {
  run.Bind("urlencode", a, {}, 0, 1);
  const TemplateValue& value = Subject(a);
  if (value.Is(V::Str) || !IsIterable(value)) return run.Str(Quoted(run, value, false));
  std::string out;
  const std::vector<TemplateValue> pairs =
      value.Is(V::Dict) ? DictItems(run, value.As<DictObject>(), ViewObject::Part::Items) : ListOf(run, value);
  for (const TemplateValue& pair : pairs) {
    const std::vector<TemplateValue> parts = ListOf(run, pair);
    if (parts.size() != 2) run.ValueError("too many or not enough values to unpack (expected 2)");
    out += (out.empty() ? "" : "&") + Quoted(run, parts[0], true) + "=" + Quoted(run, parts[1], true);
  }
  return run.Str(std::move(out));
}

TemplateValue XmlAttr(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("xmlattr", a, {"autospace"}, 0, 1);
  const TemplateValue& dict = Subject(a);
  if (dict.Is(V::Undefined)) run.FailUndefined(dict);
  if (!dict.Is(V::Dict))
    run.Fail("AttributeError", std::string("'") + TypeName(dict) + "' object has no attribute 'items'");
  std::string out;
  for (const auto& [key, value] : dict.As<DictObject>().items) {
    if (value.Is(V::None) || value.Is(V::Undefined)) continue;
    if (!key.Is(V::Str)) run.TypeError("expected string or bytes-like object");
    if (key.str().find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      run.ValueError("Invalid character in attribute name: " + Repr(run, key));
    out += (out.empty() ? "" : " ") + EscapedOf(run, key).str() + "=\"" + EscapedOf(run, value).str() + "\"";
  }
  if (!out.empty() && (p[0].Is(V::Missing) || Truth(p[0]))) out = " " + out;
  return run.Str(std::move(out));
}

TemplateValue Format(TemplateRun& run, const Arguments& a) {
  if (a.positional.size() > 1 && !a.keywords.empty())
    run.Fail("FilterArgumentError", "can't handle positional and keyword arguments at the same time");
  const TemplateValue text = SoftText(run, Subject(a));
  TemplateValue filled;
  if (!a.keywords.empty()) {
    DictObject* dict = run.NewDict();
    for (const auto& [name, value] : a.keywords) dict->Set(run.Str(name), value);
    filled = TemplateValue::Of(V::Dict, dict);
  } else {
    filled = run.Tuple({a.positional.begin() + 1, a.positional.end()});
  }
  return run.Str(FormatPercent(run, text, filled), text.markup());
}

TemplateValue Default(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("default", a, {"default_value", "boolean"}, 0, 1);
  const TemplateValue& value = Subject(a);
  if (!value.Is(V::Undefined) && !(Truth(p[1]) && !Truth(value))) return value;
  return p[0].Is(V::Missing) ? run.Str("") : p[0];
}

TemplateValue Attr(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("attr", a, {"name"}, 1, 1);
  if (!p[0].Is(V::Str)) run.TypeError("attribute name must be string");
  const TemplateValue found = FindAttribute(run, Subject(a), p[0].str());
  return found.Is(V::Missing)
             ? run.Undefined(std::string("'") + TypeName(Subject(a)) + " object' has no attribute " + Repr(run, p[0]))
             : found;
}

TemplateValue Json(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p =
      run.Bind("tojson", a, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, 1);
  JsonStyle style;
  style.ascii = Truth(p[0]);
  style.sort = Truth(p[3]);
  if (Given(p[1])) {
    style.indent = "";
    if (p[1].Is(V::Str)) {
      style.indent = p[1].str();
    } else {
      const int64_t width = AsIndex(run, p[1]);
      run.CheckSize(width > 0 ? static_cast<uint64_t>(width) : 0);
      style.indent->assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
    style.item = ",";
  }
  if (Given(p[2])) {
    const std::vector<TemplateValue> both = ListOf(run, p[2]);
    if (both.size() != 2 || !both[0].Is(V::Str) || !both[1].Is(V::Str)) run.ValueError("separators must be two texts");
    style.item = both[0].str();
    style.key = both[1].str();
  }
  return run.Str(ToJson(run, Subject(a), style));
}

TemplateValue NotSupported(TemplateRun& run, const Arguments& /*a*/) {
  run.Fail("", "this filter of jinja2 is not supported");
}

struct Entry {
  const char* name;
  NativeFunction function;
};
constexpr Entry kFilters[] = {
    {"attr", Attr},
    {"capitalize", Mapped<CapitalizedText>},
    {"center", Center},
    {"d", Default},
    {"default", Default},
    {"e", Escape},
    {"escape", Escape},
    {"forceescape", ForceEscape},
    {"format", Format},
    {"indent", Indent},
    {"lower", Mapped<LowerText>},
    {"pprint", NotSupported},
    {"random", NotSupported},
    {"replace", Replace},
    {"safe", Safe},
    {"string", String},
    {"striptags", NotSupported},
    {"title", Title},
    {"tojson", Json},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", Mapped<UpperText>},
    {"urlencode", UrlEncode},
    {"urlize", NotSupported},
    {"wordcount", WordCount},
    {"wordwrap", NotSupported},
    {"xmlattr", XmlAttr},
};

}  // namespace

NativeFunction FindFilter(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kFilters), std::end(kFilters), [&](const Entry& entry) { return name == entry.name; });
  if (found != std::end(kFilters)) return found->function;
  const NativeFunction of_number = FindNumberFilter(name);
  return of_number != nullptr ? of_number : FindSequenceFilter(name);
}

TemplateValue TemplateRun::CallFilter(const std::string& name, const Arguments& arguments) {
  const NativeFunction function = FindFilter(name);
  if (function == nullptr) Fail("TemplateRuntimeError", "No filter named '" + name + "' found.");
  return function(*this, arguments);
}

}  // namespace llmc
