// Tests (`x is odd`) and globals (`range(3)`).
#include <algorithm>
#include <cstring>
#include <ctime>

#include <sys/time.h>

#include "runtime/template_run.h"
#include "runtime/template_text.h"

namespace llmc {
namespace {

using V = ValueKind;

const TemplateValue& Subject(const Arguments& a) { return a.positional[0]; }

template <bool (*holds)(const TemplateValue&)>
TemplateValue Simple(TemplateRun& run, const Arguments& a) {
  run.Bind("test", a, {}, 0, 1);
  return TemplateValue::Bool(holds(Subject(a)));
}

bool IsDefined(const TemplateValue& v) { return !v.Is(V::Undefined); }
bool IsUndefined(const TemplateValue& v) { return v.Is(V::Undefined); }
bool IsNone(const TemplateValue& v) { return v.Is(V::None); }
bool IsBoolean(const TemplateValue& v) { return v.Is(V::Bool); }
bool IsFalse(const TemplateValue& v) { return v.Is(V::Bool) && !v.boolean; }
bool IsTrue(const TemplateValue& v) { return v.Is(V::Bool) && v.boolean; }
bool IsWhole(const TemplateValue& v) { return v.IsInteger() && !v.Is(V::Bool); }
bool IsFloat(const TemplateValue& v) { return v.Is(V::Float); }
bool IsString(const TemplateValue& v) { return v.Is(V::Str); }
bool IsMapping(const TemplateValue& v) { return v.Is(V::Dict); }
bool IsNumber(const TemplateValue& v) { return v.IsNumber(); }
bool IsEscaped(const TemplateValue& v) { return v.markup(); }
bool IsSequence(const TemplateValue& v) {  // has a length and items
  return v.Is(V::Str) || v.IsSequence() || v.Is(V::Dict) || v.Is(V::Range) || v.Is(V::Undefined);
}
bool IsCallable(const TemplateValue& v) {
  return v.Is(V::Macro) || v.Is(V::Function) || v.Is(V::Method) || v.Is(V::Undefined) || v.Is(V::Joiner) ||
         v.Is(V::Loop);
}

template <TemplateCompare op>
TemplateValue Compared(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("test", a, {"other"}, 1, 1);
  return TemplateValue::Bool(CompareOf(run, op, Subject(a), p[0]));
}

// value % number == rest
TemplateValue Rest(TemplateRun& run, const TemplateValue& value, const TemplateValue& number, int64_t rest) {
  return TemplateValue::Bool(Equal(run, BinaryOf(run, TemplateBinary::Mod, value, number), TemplateValue::Int(rest)));
}
TemplateValue Odd(TemplateRun& run, const Arguments& a) {
  run.Bind("odd", a, {}, 0, 1);
  return Rest(run, Subject(a), TemplateValue::Int(2), 1);
}
TemplateValue Even(TemplateRun& run, const Arguments& a) {
  run.Bind("even", a, {}, 0, 1);
  return Rest(run, Subject(a), TemplateValue::Int(2), 0);
}
TemplateValue DivisibleBy(TemplateRun& run, const Arguments& a) {
  return Rest(run, Subject(a), run.Bind("divisibleby", a, {"num"}, 1, 1)[0], 0);
}

template <bool upper>
TemplateValue Cased(TemplateRun& run, const Arguments& a) {
  run.Bind("test", a, {}, 0, 1);
  const TemplateValue text = SoftText(run, Subject(a));
  const char* name = nullptr;
  return FindMethod(text, upper ? "isupper" : "islower", name)(run, text, Arguments());
}

TemplateValue SameAs(TemplateRun& run, const Arguments& a) {
  const TemplateValue other = run.Bind("sameas", a, {"other"}, 1, 1)[0];
  const TemplateValue& value = Subject(a);
  if (value.kind != other.kind) return TemplateValue::Bool(false);
  switch (value.kind) {
    case V::None: return TemplateValue::Bool(true);
    case V::Bool: return TemplateValue::Bool(value.boolean == other.boolean);
    case V::Int:
      if (value.integer != other.integer) return TemplateValue::Bool(false);
      if (value.integer >= -5 && value.integer <= 256) return TemplateValue::Bool(true);  // CPython keeps one of each
      break;
    case V::Float:
    case V::BigInt:
    case V::Str:
    case V::Tuple:
      if (!Equal(run, value, other)) return TemplateValue::Bool(false);
      break;
    default: return TemplateValue::Bool(value.object == other.object);
  }
  run.Fail("", std::string("whether two equal values of type ") + TypeName(value) +
                   " are the same object isn't known (sameas): not supported");
}

TemplateValue IsFilter(TemplateRun& run, const Arguments& a) {
  run.Bind("filter", a, {}, 0, 1);
  return TemplateValue::Bool(Subject(a).Is(V::Str) && IsKnownFilter(Subject(a).str()));
}
TemplateValue IsTest(TemplateRun& run, const Arguments& a) {
  run.Bind("test", a, {}, 0, 1);
  return TemplateValue::Bool(Subject(a).Is(V::Str) && IsKnownTest(Subject(a).str()));
}

struct Entry {
  const char* name;
  NativeFunction function;
};
constexpr Entry kTests[] = {
    {"!=", Compared<TemplateCompare::Ne>},
    {"<", Compared<TemplateCompare::Lt>},
    {"<=", Compared<TemplateCompare::Le>},
    {"==", Compared<TemplateCompare::Eq>},
    {">", Compared<TemplateCompare::Gt>},
    {">=", Compared<TemplateCompare::Ge>},
    {"boolean", Simple<IsBoolean>},
    {"callable", Simple<IsCallable>},
    {"defined", Simple<IsDefined>},
    {"divisibleby", DivisibleBy},
    {"eq", Compared<TemplateCompare::Eq>},
    {"equalto", Compared<TemplateCompare::Eq>},
    {"escaped", Simple<IsEscaped>},
    {"even", Even},
    {"false", Simple<IsFalse>},
    {"filter", IsFilter},
    {"float", Simple<IsFloat>},
    {"ge", Compared<TemplateCompare::Ge>},
    {"greaterthan", Compared<TemplateCompare::Gt>},
    {"gt", Compared<TemplateCompare::Gt>},
    {"in", Compared<TemplateCompare::In>},
    {"integer", Simple<IsWhole>},
    {"iterable", Simple<IsIterable>},
    {"le", Compared<TemplateCompare::Le>},
    {"lessthan", Compared<TemplateCompare::Lt>},
    {"lower", Cased<false>},
    {"lt", Compared<TemplateCompare::Lt>},
    {"mapping", Simple<IsMapping>},
    {"ne", Compared<TemplateCompare::Ne>},
    {"none", Simple<IsNone>},
    {"number", Simple<IsNumber>},
    {"odd", Odd},
    {"sameas", SameAs},
    {"sequence", Simple<IsSequence>},
    {"string", Simple<IsString>},
    {"test", IsTest},
    {"true", Simple<IsTrue>},
    {"undefined", Simple<IsUndefined>},
    {"upper", Cased<true>},
};

// Globals.

TemplateValue MakeRange(TemplateRun& run, const Arguments& a) {
  constexpr int64_t kMostItems = 100'000;  // the sandbox's MAX_RANGE
  if (!a.keywords.empty()) run.TypeError("range() takes no keyword arguments");
  if (a.positional.empty() || a.positional.size() > 3) run.TypeError("range expected 1 to 3 arguments");
  std::vector<int64_t> n;
  for (const TemplateValue& value : a.positional) n.push_back(AsIndex(run, value));
  RangeObject* range = run.New<RangeObject>();
  range->start = n.size() > 1 ? n[0] : 0;
  range->stop = n.size() > 1 ? n[1] : n[0];
  range->step = n.size() > 2 ? n[2] : 1;
  if (range->step == 0) run.ValueError("range() arg 3 must not be zero");
  const bool up = range->step > 0;
  if (up ? range->start < range->stop : range->start > range->stop) {
    const uint64_t distance = up ? static_cast<uint64_t>(range->stop) - static_cast<uint64_t>(range->start)
                                 : static_cast<uint64_t>(range->start) - static_cast<uint64_t>(range->stop);
    const uint64_t step = up ? static_cast<uint64_t>(range->step) : 0 - static_cast<uint64_t>(range->step);
    const uint64_t length = (distance - 1) / step + 1;
    if (length > kMostItems)
      run.Fail("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    range->length = static_cast<int64_t>(length);
  }
  return TemplateValue::Of(V::Range, range);
}

// dict(*args, **kwargs), into `to`.
void FillDict(TemplateRun& run, DictObject& to, const Arguments& a) {
  if (a.positional.size() > 1)
    run.TypeError("dict expected at most 1 argument, got " + std::to_string(a.positional.size()));
  if (!a.positional.empty()) UpdateDict(run, to, a.positional[0]);
  for (const auto& [name, value] : a.keywords) SetKey(run, to, run.Str(name), value);
}

TemplateValue MakeDict(TemplateRun& run, const Arguments& a) {
  DictObject* dict = run.NewDict();
  FillDict(run, *dict, a);
  return TemplateValue::Of(V::Dict, dict);
}

TemplateValue MakeNamespace(TemplateRun& run, const Arguments& a) {
  NamespaceObject* result = run.New<NamespaceObject>();
  FillDict(run, result->attributes, a);
  for (const auto& [key, value] : result->attributes.items) {
    if (key.Is(V::Str) && key.str().starts_with("_"))
      run.Fail("SecurityError", "Chat templates cannot store underscore-prefixed attributes on a namespace, but got " +
                                    Repr(run, key) + ". Please rename the attribute.");
  }
  return TemplateValue::Of(V::Namespace, result);
}

TemplateValue MakeCycler(TemplateRun& run, const Arguments& a) {
  if (!a.keywords.empty()) run.TypeError("cycler() takes no keyword arguments");
  if (a.positional.empty()) run.Fail("RuntimeError", "at least one item has to be provided");
  CyclerObject* cycler = run.New<CyclerObject>();
  cycler->items = a.positional;
  return TemplateValue::Of(V::Cycler, cycler);
}

TemplateValue MakeJoiner(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("joiner", a, {"sep"}, 0);
  JoinerObject* joiner = run.New<JoinerObject>();
  joiner->separator = p[0].Is(V::Missing) ? run.Str(", ") : p[0];
  return TemplateValue::Of(V::Joiner, joiner);
}

TemplateValue RaiseException(TemplateRun& run, const Arguments& a) {
  run.Fail("", ToText(run, run.Bind("raise_exception", a, {"message"}, 1)[0]));
}

TemplateValue Lipsum(TemplateRun& run, const Arguments& /*a*/) { run.Fail("", "lipsum() is random: not supported"); }

}  // namespace

// datetime.now().strftime(format): local time, no zone.
TemplateValue StrftimeNow(TemplateRun& run, const Arguments& a) {
  const TemplateValue format = run.Bind("strftime_now", a, {"format"}, 1)[0];
  if (!format.Is(V::Str)) run.TypeError(std::string("strftime() argument 1 must be str, not ") + TypeName(format));
  int64_t seconds = 0, micros = 0;
  if (run.now) {
    std::tie(seconds, micros) = *run.now;
  } else {
    timeval time{};
    gettimeofday(&time, nullptr);
    seconds = time.tv_sec;
    micros = time.tv_usec;
  }
  const time_t when = static_cast<time_t>(seconds);
  tm local{};
  localtime_r(&when, &local);
  std::string pattern;
  const std::string& text = format.str();
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%' || at + 1 == text.size()) {
      pattern.push_back(text[at]);
      continue;
    }
    const char letter = text[++at];
    if (letter == 'f') {
      const std::string digits = std::to_string(micros);
      pattern += std::string(6 - std::min<size_t>(digits.size(), 6), '0') + digits;
    } else if (letter != 'z' && letter != 'Z') {
      pattern += {'%', letter};
    }
  }
  if (pattern.empty()) return run.Str("");
  if (pattern.size() > 4096) run.ValueError("a format of more than 4096 bytes");
  std::string out(pattern.size() * 64 + 256, '\0');
  out.resize(std::strftime(out.data(), out.size(), pattern.c_str(), &local));
  return run.Str(std::move(out));
}

bool IsKnownFilter(std::string_view name) { return FindFilter(name) != nullptr; }
bool IsKnownTest(std::string_view name) { return FindTest(name) != nullptr; }

NativeFunction FindTest(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const Entry& entry) { return name == entry.name; });
  return found == std::end(kTests) ? nullptr : found->function;
}

bool TemplateRun::CallTest(const std::string& name, const Arguments& arguments) {
  const NativeFunction function = FindTest(name);
  if (function == nullptr) Fail("TemplateRuntimeError", "No test named '" + name + "' found.");
  return Truth(function(*this, arguments));
}

void AddGlobals(TemplateRun& run, DictObject& globals) {
  constexpr Entry kGlobals[] = {
      {"cycler", MakeCycler},       {"dict", MakeDict},
      {"joiner", MakeJoiner},       {"lipsum", Lipsum},
      {"namespace", MakeNamespace}, {"raise_exception", RaiseException},
      {"range", MakeRange},         {"strftime_now", StrftimeNow},
  };
  for (const Entry& global : kGlobals) globals.Set(run.Str(global.name), run.Function(global.name, global.function));
}

}  // namespace llmc
