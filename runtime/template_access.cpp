// x.y, x[y] and slices, as jinja2's immutable sandbox has them.
#include <algorithm>

#include "runtime/template_run.h"
#include "runtime/template_text.h"

namespace llmc {
namespace {

// object_type_repr of jinja2.
std::string Described(const TemplateValue& object) {
  if (object.Is(ValueKind::None)) return "None";
  if (object.markup()) return "markupsafe.Markup object";
  return std::string(TypeName(object)) + " object";
}

bool In(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Methods that change a list or dict, which the sandbox refuses.
bool Changes(const TemplateValue& object, std::string_view name) {
  if (object.Is(ValueKind::List))
    return In(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  return object.Is(ValueKind::Dict) && In(name, {"clear", "pop", "popitem", "setdefault", "update"});
}

// Attributes of every object that the sandbox refuses.
bool IsInternal(std::string_view name) {
  return In(name, {"__class__",        "__doc__",
                   "__init__",         "__new__",
                   "__dir__",          "__eq__",
                   "__ne__",           "__lt__",
                   "__le__",           "__gt__",
                   "__ge__",           "__hash__",
                   "__str__",          "__repr__",
                   "__format__",       "__reduce__",
                   "__reduce_ex__",    "__sizeof__",
                   "__setattr__",      "__delattr__",
                   "__getattribute__", "__init_subclass__",
                   "__subclasshook__"});
}

TemplateValue Texts(TemplateRun& run, const std::vector<std::string>& texts) {
  std::vector<TemplateValue> items;
  for (const std::string& text : texts) items.push_back(run.Str(text));
  return run.Tuple(std::move(items));
}

TemplateValue LoopAttribute(TemplateRun& run, LoopObject& loop, std::string_view name) {
  if (name == "index0") return TemplateValue::Int(loop.index0);
  if (name == "index") return TemplateValue::Int(loop.index0 + 1);
  if (name == "first") return TemplateValue::Bool(loop.index0 == 0);
  if (name == "last") return TemplateValue::Bool(run.LoopPeek(loop).Is(ValueKind::Missing));
  if (name == "length") return TemplateValue::Int(run.LoopLength(loop));
  if (name == "revindex0") return TemplateValue::Int(run.LoopLength(loop) - loop.index0 - 1);
  if (name == "revindex") return TemplateValue::Int(run.LoopLength(loop) - loop.index0);
  if (name == "depth0") return TemplateValue::Int(loop.depth0);
  if (name == "depth") return TemplateValue::Int(loop.depth0 + 1);
  if (name == "previtem") return loop.index0 == 0 ? run.Undefined("there is no previous item") : loop.before;
  if (name == "nextitem") {
    const TemplateValue& next = run.LoopPeek(loop);
    return next.Is(ValueKind::Missing) ? run.Undefined("there is no next item") : next;
  }
  return {};
}

TemplateValue DataAttribute(TemplateRun& run, const TemplateValue& object, std::string_view name) {
  switch (object.kind) {
    case ValueKind::Bool:
    case ValueKind::Int:
    case ValueKind::BigInt:
      if (name == "real" || name == "numerator") return Positive(run, object);
      if (name == "imag") return TemplateValue::Int(0);
      if (name == "denominator") return TemplateValue::Int(1);
      return {};
    case ValueKind::Float:
      if (name == "real") return object;
      return name == "imag" ? TemplateValue::Float(0) : TemplateValue();
    case ValueKind::Tuple:
      if (!object.As<ListObject>().group) return {};
      if (name == "grouper") return object.items()[0];
      return name == "list" ? object.items()[1] : TemplateValue();
    case ValueKind::Range: {
      const RangeObject& range = object.As<RangeObject>();
      if (name == "start") return TemplateValue::Int(range.start);
      if (name == "stop") return TemplateValue::Int(range.stop);
      return name == "step" ? TemplateValue::Int(range.step) : TemplateValue();
    }
    case ValueKind::Namespace: {
      const TemplateValue* found = object.As<NamespaceObject>().attributes.Find(name);
      return found == nullptr ? TemplateValue() : *found;
    }
    case ValueKind::Macro: {
      const TemplateFunction& function = *object.As<MacroObject>().function;
      if (name == "name") return function.name.empty() ? TemplateValue::None() : run.Str(function.name);
      if (name == "arguments") return Texts(run, function.parameters);
      if (name == "catch_kwargs") return TemplateValue::Bool(function.kwargs);
      if (name == "catch_varargs") return TemplateValue::Bool(function.varargs);
      if (name == "caller") return TemplateValue::Bool(function.caller);
      if (name == "explicit_caller")
        return TemplateValue::Bool(std::find(function.parameters.begin(), function.parameters.end(), "caller") !=
                                   function.parameters.end());
      return {};
    }
    case ValueKind::Loop: return LoopAttribute(run, object.As<LoopObject>(), name);
    case ValueKind::Cycler: {
      const CyclerObject& cycler = object.As<CyclerObject>();
      if (name == "pos") return TemplateValue::Int(static_cast<int64_t>(cycler.position));
      if (name == "items") return run.Tuple(cycler.items);
      return name == "current" ? cycler.items[cycler.position] : TemplateValue();
    }
    case ValueKind::Joiner:
      if (name == "sep") return object.As<JoinerObject>().separator;
      return name == "used" ? TemplateValue::Bool(object.As<JoinerObject>().used) : TemplateValue();
    default: return {};
  }
}

// The item alone; Missing: TypeError or LookupError in Python.
TemplateValue FindItem(TemplateRun& run, const TemplateValue& object, const TemplateValue& key) {
  if (object.Is(ValueKind::Undefined)) run.FailUndefined(object);
  if (object.Is(ValueKind::Dict)) {
    const TemplateValue* found = Hashable(key) ? object.As<DictObject>().Find(key) : nullptr;
    return found == nullptr ? TemplateValue() : *found;
  }
  if (!key.Is(ValueKind::Int) && !key.Is(ValueKind::Bool)) return {};
  const bool indexed = object.Is(ValueKind::Str) || object.IsSequence() || object.Is(ValueKind::Range);
  if (!indexed) return {};
  const int64_t size = *LengthOf(run, object);
  int64_t index = AsIndex(run, key);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  if (object.Is(ValueKind::Range)) {
    const RangeObject& range = object.As<RangeObject>();
    return TemplateValue::Int(range.start + range.step * index);
  }
  if (object.IsSequence()) return object.items()[static_cast<size_t>(index)];
  if (static_cast<size_t>(size) != object.str().size()) run.Step(object.str().size() / 64);
  return run.Str(SlicePoints(object.str(), index, 1, 1, size), object.markup());
}

TemplateValue NoSuch(TemplateRun& run, const TemplateValue& object, const TemplateValue& key) {
  if (!key.Is(ValueKind::Str)) return run.Undefined(Described(object) + " has no element " + Repr(run, key));
  return run.Undefined(Repr(run, run.Str(Described(object))) + " has no attribute " + Repr(run, run.Str(key.str())));
}

}  // namespace

TemplateValue FindAttribute(TemplateRun& run, const TemplateValue& object, const std::string& name) {
  if (object.Is(ValueKind::Undefined)) {
    if (name.starts_with("__") && name.ends_with("__")) return {};
    run.FailUndefined(object);
  }
  if (Changes(object, name) || (IsInternal(name) && !object.Is(ValueKind::Namespace)))
    return run.Undefined(
        "access to attribute " + Repr(run, run.Str(name)) + " of '" + TypeName(object) + "' object is unsafe.", true);
  TemplateValue data = DataAttribute(run, object, name);
  if (!data.Is(ValueKind::Missing) || object.Is(ValueKind::Namespace)) return data;
  const char* stored = nullptr;
  const NativeMethod method = FindMethod(object, name, stored);
  if (method == nullptr) return {};
  MethodObject* bound = run.New<MethodObject>();
  bound->name = stored;
  bound->self = object;
  bound->method = method;
  return TemplateValue::Of(ValueKind::Method, bound);
}

TemplateValue GetAttribute(TemplateRun& run, const TemplateValue& object, const std::string& name) {
  TemplateValue found = FindAttribute(run, object, name);
  if (!found.Is(ValueKind::Missing)) return found;
  const TemplateValue key = run.Str(name);
  found = FindItem(run, object, key);
  return found.Is(ValueKind::Missing) ? NoSuch(run, object, key) : found;
}

TemplateValue GetItem(TemplateRun& run, const TemplateValue& object, const TemplateValue& key) {
  TemplateValue found = FindItem(run, object, key);
  if (!found.Is(ValueKind::Missing)) return found;
  if (key.Is(ValueKind::Str)) found = FindAttribute(run, object, key.str());
  return found.Is(ValueKind::Missing) ? NoSuch(run, object, key) : found;
}

SliceRange ResolveSlice(TemplateRun& run, int64_t size, const TemplateValue& start, const TemplateValue& stop,
                        const TemplateValue& step) {
  const auto bound = [&](const TemplateValue& value, int64_t absent) {
    if (value.Is(ValueKind::None) || value.Is(ValueKind::Missing)) return absent;
    if (!value.IsInteger()) run.TypeError("slice indices must be integers or None or have an __index__ method");
    return AsIndex(run, value);
  };
  SliceRange range{0, bound(step, 1), 0};
  if (range.step == 0) run.ValueError("slice step cannot be zero");
  range.step = std::max(range.step, -INT64_MAX);
  const bool backwards = range.step < 0;
  const auto clamp = [&](int64_t at) {
    if (at < 0)
      at = at < -size ? -1 : at + size;
    else if (at >= size)
      at = size;
    else
      return at;
    if (at < 0) return backwards ? int64_t{-1} : int64_t{0};
    return at >= size ? (backwards ? size - 1 : size) : at;
  };
  const bool no_start = start.Is(ValueKind::None) || start.Is(ValueKind::Missing);
  const bool no_stop = stop.Is(ValueKind::None) || stop.Is(ValueKind::Missing);
  range.start = no_start ? (backwards ? size - 1 : 0) : clamp(bound(start, 0));
  const int64_t end = no_stop ? (backwards ? -1 : size) : clamp(bound(stop, 0));
  const int64_t distance = backwards ? range.start - end : end - range.start;
  if (distance > 0) range.length = (distance - 1) / (backwards ? -range.step : range.step) + 1;
  return range;
}

TemplateValue SliceOf(TemplateRun& run, const TemplateValue& object, const TemplateValue& start,
                      const TemplateValue& stop, const TemplateValue& step) {
  if (object.Is(ValueKind::Undefined)) run.FailUndefined(object);
  if (object.Is(ValueKind::Dict)) run.TypeError("unhashable type: 'slice'");
  const bool sliced = object.Is(ValueKind::Str) || object.IsSequence() || object.Is(ValueKind::Range);
  if (!sliced) run.TypeError(std::string("'") + TypeName(object) + "' object is not subscriptable");
  const int64_t size = *LengthOf(run, object);
  const SliceRange range = ResolveSlice(run, size, start, stop, step);
  if (object.Is(ValueKind::Str)) {
    run.Step(object.str().size() / 64 + static_cast<uint64_t>(range.length) / 16);
    return run.Str(SlicePoints(object.str(), range.start, range.step, range.length, size), object.markup());
  }
  if (object.Is(ValueKind::Range)) {
    const RangeObject& from = object.As<RangeObject>();
    RangeObject* part = run.New<RangeObject>();
    part->start = from.start + from.step * range.start;
    part->step = from.step * range.step;
    part->length = range.length;
    part->stop = part->start + part->step * range.length;
    return TemplateValue::Of(ValueKind::Range, part);
  }
  run.Step(static_cast<uint64_t>(range.length));
  std::vector<TemplateValue> items;
  for (int64_t i = 0; i < range.length; ++i)
    items.push_back(object.items()[static_cast<size_t>(range.start + i * range.step)]);
  return object.Is(ValueKind::List) ? run.List(std::move(items)) : run.Tuple(std::move(items));
}

}  // namespace llmc
