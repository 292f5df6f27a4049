// Objects, limits, dicts, iteration.
#include "runtime/template_run.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/plan_unicode.h"
#include "runtime/template_text.h"

namespace llmc {

TemplateRun::~TemplateRun() = default;

TemplateValue TemplateRun::Str(std::string text, bool markup) {
  CheckSize(text.size());
  Step(text.size() / 64);
  StrObject* object = New<StrObject>(text.size());
  object->text = std::move(text);
  object->markup = markup;
  return TemplateValue::Of(ValueKind::Str, object);
}

TemplateValue TemplateRun::List(std::vector<TemplateValue> items) {
  ListObject* object = New<ListObject>(items.size() * sizeof(TemplateValue));
  object->items = std::move(items);
  return TemplateValue::Of(ValueKind::List, object);
}

TemplateValue TemplateRun::Tuple(std::vector<TemplateValue> items) {
  TemplateValue tuple = List(std::move(items));
  tuple.kind = ValueKind::Tuple;
  return tuple;
}

TemplateValue TemplateRun::Big(BigInt value) {
  if (value.FitsInt64()) return TemplateValue::Int(value.ToInt64());
  BigObject* object = New<BigObject>(value.bits() / 8);
  object->value = std::move(value);
  return TemplateValue::Of(ValueKind::BigInt, object);
}

TemplateValue TemplateRun::Undefined(std::string message, bool security) {
  UndefinedObject* object = New<UndefinedObject>(message.size());
  object->message = std::move(message);
  object->security = security;
  return TemplateValue::Of(ValueKind::Undefined, object);
}

namespace {

struct CallbackIterator : IteratorObject {
  std::function<bool(TemplateRun&, TemplateValue&)> next;
  bool done = false;
  bool Next(TemplateRun& run, TemplateValue& out) override {
    if (!done && !next(run, out)) done = true;
    return !done;
  }
};

uint64_t Mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9E3779B97F4A7C15u ^ hash >> 29; }

}  // namespace

TemplateValue TemplateRun::Iterator(std::function<bool(TemplateRun&, TemplateValue&)> next, const char* type) {
  CallbackIterator* iterator = New<CallbackIterator>(64);
  iterator->next = std::move(next);
  iterator->type = type;
  return TemplateValue::Of(ValueKind::Iterator, iterator);
}

TemplateValue TemplateRun::Function(const char* name, NativeFunction function) {
  FunctionObject* object = New<FunctionObject>();
  object->name = name;
  object->function = function;
  return TemplateValue::Of(ValueKind::Function, object);
}

void TemplateRun::Fail(std::string_view type, std::string_view message) const {
  uint32_t line = 0;
  for (const auto& [from, number] : program_.lines) {
    if (from > at_) break;
    line = number;
  }
  std::string text = "chat template";
  if (program_.name != "default") text += " \"" + program_.name + "\"";
  if (line != 0) text += ", line " + std::to_string(line);
  text += ": ";
  if (!type.empty()) text.append(type).append(": ");
  throw TemplateError(text.append(message));
}

void TemplateRun::FailUndefined(const TemplateValue& undefined) const {
  const UndefinedObject& object = undefined.As<UndefinedObject>();
  Fail(object.security ? "SecurityError" : "UndefinedError", object.message);
}

void TemplateRun::TooMuch(const char* what, uint64_t limit) const {
  Fail("", "more than " + std::to_string(limit) + " " + what);
}

bool TemplateRun::Next(IteratorObject& iterator, TemplateValue& out) {
  Step();
  if (iterator.reentered) ValueError("generator already executing");
  const Deeper deeper(*this);
  iterator.reentered = true;
  const bool more = iterator.Next(*this, out);
  iterator.reentered = false;
  return more;
}

std::vector<TemplateValue> TemplateRun::Bind(std::string_view function, const Arguments& arguments,
                                             std::initializer_list<std::string_view> names, size_t required,
                                             size_t skip) {
  std::vector<TemplateValue> bound(names.size());
  const size_t given = arguments.positional.size() - std::min(skip, arguments.positional.size());
  if (given > names.size())
    TypeError(std::string(function) + "() takes at most " + std::to_string(names.size()) + " arguments (" +
              std::to_string(given) + " given)");
  for (size_t i = 0; i < given; ++i) bound[i] = arguments.positional[skip + i];
  for (const auto& [name, value] : arguments.keywords) {
    const auto* found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) TypeError(std::string(function) + "() got an unexpected keyword argument '" + name + "'");
    TemplateValue& place = bound[static_cast<size_t>(found - names.begin())];
    if (!place.Is(ValueKind::Missing))
      TypeError(std::string(function) + "() got multiple values for argument '" + name + "'");
    place = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i].Is(ValueKind::Missing))
      TypeError(std::string(function) + "() missing required argument '" + std::string(names.begin()[i]) + "'");
  }
  return bound;
}

// Dicts.

bool Hashable(const TemplateValue& value) {
  switch (value.kind) {
    case ValueKind::List:
    case ValueKind::Dict: return false;
    case ValueKind::View: return value.As<ViewObject>().part == ViewObject::Part::Values;
    case ValueKind::Tuple: {
      const std::vector<TemplateValue>& items = value.items();
      return std::all_of(items.begin(), items.end(), Hashable);
    }
    default: return true;
  }
}

uint64_t HashOf(const TemplateValue& value) {
  switch (value.kind) {
    case ValueKind::Str: return Mix(1, std::hash<std::string>()(value.str()));
    case ValueKind::Bool:
    case ValueKind::Int:
      return Mix(2, static_cast<uint64_t>(value.Is(ValueKind::Bool) ? int64_t{value.boolean} : value.integer));
    case ValueKind::Float:
      if (value.number == std::floor(value.number) && std::fabs(value.number) < 0x1p62)
        return Mix(2, static_cast<uint64_t>(static_cast<int64_t>(value.number)));
      return std::isfinite(value.number) && value.number == std::floor(value.number)
                 ? BigInt::FromDouble(value.number).Hash()
                 : Mix(3, std::bit_cast<uint64_t>(value.number));
    case ValueKind::BigInt: return value.As<BigObject>().value.Hash();
    case ValueKind::Tuple: {
      uint64_t hash = 5;
      for (const TemplateValue& item : value.items()) hash = Mix(hash, HashOf(item));
      return hash;
    }
    case ValueKind::None:
    case ValueKind::Undefined:
    case ValueKind::Missing: return static_cast<uint64_t>(value.kind);
    default: return std::bit_cast<uint64_t>(value.object);
  }
}

bool KeyEqual(const TemplateValue& a, const TemplateValue& b) {
  if (a.Is(ValueKind::Str) || b.Is(ValueKind::Str)) return a.kind == b.kind && a.str() == b.str();
  if (a.IsNumber() && b.IsNumber()) {
    bool unordered = false;
    return CompareNumbers(a, b, unordered) == 0 && !unordered;
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case ValueKind::Undefined:
    case ValueKind::None:
    case ValueKind::Missing: return true;
    case ValueKind::Tuple: {
      const std::vector<TemplateValue>&x = a.items(), &y = b.items();
      return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), KeyEqual);
    }
    default: return a.object == b.object;
  }
}

namespace {

constexpr size_t kPlain = 8;  // up to so many keys are looked for one by one

}  // namespace

const TemplateValue* DictObject::Find(const TemplateValue& key) const {
  if (index.empty()) {
    for (const auto& [k, value] : items) {
      if (KeyEqual(k, key)) return &value;
    }
    return nullptr;
  }
  for (size_t slot = HashOf(key) & (index.size() - 1); index[slot] != 0; slot = (slot + 1) & (index.size() - 1)) {
    const auto& [k, value] = items[index[slot] - 1];
    if (KeyEqual(k, key)) return &value;
  }
  return nullptr;
}

const TemplateValue* DictObject::Find(std::string_view key) const {
  StrObject text;
  text.text = key;
  return Find(TemplateValue::Of(ValueKind::Str, &text));
}

void DictObject::Set(const TemplateValue& key, const TemplateValue& value) {
  if (const TemplateValue* found = Find(key)) {
    *const_cast<TemplateValue*>(found) = value;
    return;
  }
  items.emplace_back(key, value);
  if (items.size() <= kPlain) return;
  const auto insert = [&](size_t place) {
    size_t slot = HashOf(items[place].first) & (index.size() - 1);
    while (index[slot] != 0) slot = (slot + 1) & (index.size() - 1);
    index[slot] = static_cast<uint32_t>(place + 1);
  };
  if (items.size() * 2 > index.size()) {
    index.assign(std::bit_ceil(items.size() * 4), 0);
    for (size_t i = 0; i < items.size(); ++i) insert(i);
  } else {
    insert(items.size() - 1);
  }
}

void SetKey(TemplateRun& run, DictObject& to, const TemplateValue& key, const TemplateValue& value) {
  if (!Hashable(key)) run.TypeError(std::string("unhashable type: '") + TypeName(key) + "'");
  run.Charge(sizeof(TemplateValue) * 4);
  to.Set(key, value);
}

void UpdateDict(TemplateRun& run, DictObject& to, const TemplateValue& from) {
  if (from.Is(ValueKind::Dict)) {
    for (const auto& [key, value] : from.As<DictObject>().items) SetKey(run, to, key, value);
    return;
  }
  for (const TemplateValue& pair : ListOf(run, from)) {
    if (!IsIterable(pair)) run.TypeError("cannot convert dictionary update sequence element to a sequence");
    const std::vector<TemplateValue> parts = ListOf(run, pair);
    if (parts.size() != 2)
      run.ValueError("dictionary update sequence element has length " + std::to_string(parts.size()) +
                     "; 2 is required");
    SetKey(run, to, parts[0], parts[1]);
  }
}

std::vector<TemplateValue> DictItems(TemplateRun& run, const DictObject& dict, ViewObject::Part part) {
  run.Step(dict.items.size());
  std::vector<TemplateValue> result;
  for (const auto& [key, value] : dict.items) {
    result.push_back(part == ViewObject::Part::Keys     ? key
                     : part == ViewObject::Part::Values ? value
                                                        : run.Tuple({key, value}));
  }
  return result;
}

// Iteration.

bool IsIterable(const TemplateValue& value) {
  switch (value.kind) {
    case ValueKind::Undefined:
    case ValueKind::Str:
    case ValueKind::List:
    case ValueKind::Tuple:
    case ValueKind::Dict:
    case ValueKind::View:
    case ValueKind::Range:
    case ValueKind::Iterator:
    case ValueKind::Loop: return true;
    default: return false;
  }
}

namespace {

struct ItemsIterator : IteratorObject {
  const std::vector<TemplateValue>* items = nullptr;
  std::vector<TemplateValue> own;
  size_t at = 0;
  bool Next(TemplateRun& /*run*/, TemplateValue& out) override {
    if (at == items->size()) return false;
    out = (*items)[at++];
    return true;
  }
};

struct TextIterator : IteratorObject {
  TemplateValue text;
  size_t at = 0;
  bool Next(TemplateRun& run, TemplateValue& out) override {
    const std::string& bytes = text.str();
    if (at >= bytes.size()) return false;
    const size_t size = DecodeUtf8(bytes, at).bytes;
    out = run.Str(bytes.substr(at, size));  // plain, of Markup too
    at += size;
    return true;
  }
};

struct RangeIterator : IteratorObject {
  const RangeObject* range = nullptr;
  int64_t at = 0;
  bool Next(TemplateRun& /*run*/, TemplateValue& out) override {
    if (at >= range->length) return false;
    out = TemplateValue::Int(range->start + range->step * at++);
    return true;
  }
};

}  // namespace

IteratorObject* IteratorOf(TemplateRun& run, const TemplateValue& value) {
  switch (value.kind) {
    case ValueKind::Iterator: return &value.As<IteratorObject>();
    case ValueKind::List:
    case ValueKind::Tuple: {
      ItemsIterator* iterator = run.New<ItemsIterator>();
      iterator->items = &value.items();
      return iterator;
    }
    case ValueKind::Undefined:
    case ValueKind::Dict:
    case ValueKind::View: {
      ItemsIterator* iterator = run.New<ItemsIterator>();
      if (value.Is(ValueKind::Dict))
        iterator->own = DictItems(run, value.As<DictObject>(), ViewObject::Part::Keys);
      else if (value.Is(ValueKind::View))
        iterator->own = DictItems(run, *value.As<ViewObject>().dict, value.As<ViewObject>().part);
      iterator->items = &iterator->own;
      return iterator;
    }
    case ValueKind::Str: {
      TextIterator* iterator = run.New<TextIterator>();
      iterator->text = value;
      return iterator;
    }
    case ValueKind::Range: {
      RangeIterator* iterator = run.New<RangeIterator>();
      iterator->range = &value.As<RangeObject>();
      return iterator;
    }
    case ValueKind::Loop: run.Fail("", "iterating over `loop` is not supported");
    default: run.TypeError(std::string("'") + TypeName(value) + "' object is not iterable");
  }
}

std::vector<TemplateValue> ListOf(TemplateRun& run, const TemplateValue& iterable) {
  if (iterable.IsSequence()) {
    run.Step(iterable.items().size());
    return iterable.items();
  }
  IteratorObject* iterator = IteratorOf(run, iterable);
  std::vector<TemplateValue> items;
  for (TemplateValue item; run.Next(*iterator, item);) {
    run.Charge(sizeof(TemplateValue));
    items.push_back(item);
  }
  return items;
}

TemplateValue ReversedOf(TemplateRun& run, const TemplateValue& value) {
  const char* type = "reversed";
  switch (value.kind) {
    case ValueKind::List: type = "list_reverseiterator"; break;
    case ValueKind::Dict: type = "dict_reversekeyiterator"; break;
    case ValueKind::View:
    case ValueKind::Range:
    case ValueKind::Tuple:
    case ValueKind::Str:
    case ValueKind::Undefined: break;
    default: return {};
  }
  std::vector<TemplateValue> items = ListOf(run, value);
  std::reverse(items.begin(), items.end());
  ItemsIterator* iterator = run.New<ItemsIterator>(items.size() * sizeof(TemplateValue));
  iterator->own = std::move(items);
  iterator->items = &iterator->own;
  iterator->type = type;
  return TemplateValue::Of(ValueKind::Iterator, iterator);
}

std::optional<int64_t> LengthOf(TemplateRun& run, const TemplateValue& value) {
  switch (value.kind) {
    case ValueKind::Undefined: return 0;
    case ValueKind::Str: return TextLength(value);
    case ValueKind::List:
    case ValueKind::Tuple: return static_cast<int64_t>(value.items().size());
    case ValueKind::Dict: return static_cast<int64_t>(value.As<DictObject>().items.size());
    case ValueKind::View: return static_cast<int64_t>(value.As<ViewObject>().dict->items.size());
    case ValueKind::Range: return value.As<RangeObject>().length;
    case ValueKind::Loop: return run.LoopLength(value.As<LoopObject>());
    default: return std::nullopt;
  }
}

bool Truth(const TemplateValue& value) {
  switch (value.kind) {
    case ValueKind::Missing:
    case ValueKind::Undefined:
    case ValueKind::None: return false;
    case ValueKind::Bool: return value.boolean;
    case ValueKind::Int: return value.integer != 0;
    case ValueKind::Float: return value.number != 0;
    case ValueKind::Str: return !value.str().empty();
    case ValueKind::List:
    case ValueKind::Tuple: return !value.items().empty();
    case ValueKind::Dict: return !value.As<DictObject>().items.empty();
    case ValueKind::View: return !value.As<ViewObject>().dict->items.empty();
    case ValueKind::Range: return value.As<RangeObject>().length != 0;
    default: return true;  // a loop's body runs only when its length isn't 0
  }
}

const char* TypeName(const TemplateValue& value) {
  switch (value.kind) {
    case ValueKind::Missing:
    case ValueKind::Undefined: return "Undefined";
    case ValueKind::None: return "NoneType";
    case ValueKind::Bool: return "bool";
    case ValueKind::Int:
    case ValueKind::BigInt: return "int";
    case ValueKind::Float: return "float";
    case ValueKind::Str: return value.markup() ? "Markup" : "str";
    case ValueKind::List: return "list";
    case ValueKind::Tuple: return value.As<ListObject>().group ? "_GroupTuple" : "tuple";
    case ValueKind::Dict: return "dict";
    case ValueKind::View: {
      const ViewObject::Part part = value.As<ViewObject>().part;
      return part == ViewObject::Part::Keys     ? "dict_keys"
             : part == ViewObject::Part::Values ? "dict_values"
                                                : "dict_items";
    }
    case ValueKind::Range: return "range";
    case ValueKind::Iterator: return value.As<IteratorObject>().type;
    case ValueKind::Namespace: return "TemplateNamespace";
    case ValueKind::Macro: return "Macro";
    case ValueKind::Loop: return "LoopContext";
    case ValueKind::Cycler: return "Cycler";
    case ValueKind::Joiner: return "Joiner";
    case ValueKind::Function: return "function";
    case ValueKind::Method: return "builtin_function_or_method";
  }
  return "object";
}

}  // namespace llmc
