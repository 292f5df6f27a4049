// Filters on sequences. Those that jinja2 writes as generators give iterators, which are true, have no length and can
// be walked once.
#include <algorithm>

#include "runtime/template_run.h"
#include "runtime/template_text.h"

namespace llmc {
namespace {

using V = ValueKind;

bool Given(const TemplateValue& value) { return !value.Is(V::Missing) && !value.Is(V::None); }
const TemplateValue& Subject(const Arguments& a) { return a.positional[0]; }

// make_attrgetter: "a.b.0" names items of items.
std::vector<TemplateValue> AttributeParts(TemplateRun& run, const TemplateValue& attribute) {
  if (!Given(attribute)) return {};
  if (!attribute.Is(V::Str)) return {attribute};
  std::vector<TemplateValue> parts;
  const std::string dot = ".";
  for (const std::string& part : SplitText(attribute.str(), &dot, -1, false)) {
    const bool number = !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == std::string::npos;
    parts.push_back(number ? TemplateValue::Int(std::stoll(part)) : run.Str(part));
  }
  return parts;
}

TemplateValue Attribute(TemplateRun& run, TemplateValue item, const std::vector<TemplateValue>& parts,
                        const TemplateValue& absent, bool lower) {
  for (const TemplateValue& part : parts) {
    item = GetItem(run, item, part);
    if (Given(absent) && item.Is(V::Undefined)) item = absent;
  }
  return lower && item.Is(V::Str) ? run.Str(LowerText(run.tables(), item.str()), item.markup()) : item;
}

TemplateValue Length(TemplateRun& run, const Arguments& a) {
  run.Bind("length", a, {}, 0, 1);
  const std::optional<int64_t> length = LengthOf(run, Subject(a));
  if (!length) run.TypeError(std::string("object of type '") + TypeName(Subject(a)) + "' has no len()");
  return TemplateValue::Int(*length);
}

TemplateValue List(TemplateRun& run, const Arguments& a) {
  run.Bind("list", a, {}, 0, 1);
  return run.List(ListOf(run, Subject(a)));
}

TemplateValue First(TemplateRun& run, const Arguments& a) {
  run.Bind("first", a, {}, 0, 1);
  TemplateValue item;
  return run.Next(*IteratorOf(run, Subject(a)), item) ? item : run.Undefined("No first item, sequence was empty.");
}

TemplateValue Last(TemplateRun& run, const Arguments& a) {
  run.Bind("last", a, {}, 0, 1);
  const TemplateValue reversed = ReversedOf(run, Subject(a));
  if (reversed.Is(V::Missing)) run.TypeError(std::string("'") + TypeName(Subject(a)) + "' object is not reversible");
  TemplateValue item;
  return run.Next(reversed.As<IteratorObject>(), item) ? item : run.Undefined("No last item, sequence was empty.");
}

TemplateValue Reverse(TemplateRun& run, const Arguments& a) {
  run.Bind("reverse", a, {}, 0, 1);
  const TemplateValue& value = Subject(a);
  if (value.Is(V::Str))
    return SliceOf(run, value, TemplateValue::None(), TemplateValue::None(), TemplateValue::Int(-1));
  const TemplateValue reversed = ReversedOf(run, value);
  if (!reversed.Is(V::Missing)) return reversed;
  if (!IsIterable(value)) run.Fail("FilterArgumentError", "argument must be iterable");
  std::vector<TemplateValue> items = ListOf(run, value);
  std::reverse(items.begin(), items.end());
  return run.List(std::move(items));
}

TemplateValue Join(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("join", a, {"d", "attribute"}, 0, 1);
  const std::string separator = p[0].Is(V::Missing) ? "" : ToText(run, p[0]);
  const std::vector<TemplateValue> parts = AttributeParts(run, p[1]);
  std::string out;
  bool first = true;
  for (const TemplateValue& item : ListOf(run, Subject(a))) {
    if (!first) out += separator;
    first = false;
    out += ToText(run, Attribute(run, item, parts, {}, false));
    run.CheckSize(out.size());
  }
  return run.Str(std::move(out));
}

TemplateValue Items(TemplateRun& run, const Arguments& a) {
  run.Bind("items", a, {}, 0, 1);
  const TemplateValue subject = Subject(a);
  auto iterator = std::make_shared<IteratorObject*>(nullptr);
  return run.Iterator([subject, iterator](TemplateRun& r, TemplateValue& out) {
    if (*iterator == nullptr) {
      if (!subject.Is(V::Dict) && !subject.Is(V::Undefined)) r.TypeError("Can only get item pairs from a mapping.");
      ViewObject* view = r.New<ViewObject>();
      view->dict = subject.Is(V::Dict) ? &subject.As<DictObject>() : r.NewDict();
      view->part = ViewObject::Part::Items;
      *iterator = IteratorOf(r, TemplateValue::Of(V::View, view));
    }
    return r.Next(**iterator, out);
  });
}

// A generator over a list that is made when its first item is asked for.
template <typename Make>
TemplateValue Generator(TemplateRun& run, const Make& make) {
  struct State {
    std::vector<TemplateValue> items;
    size_t at = 0;
    bool made = false;
  };
  auto state = std::make_shared<State>();
  return run.Iterator([state, make](TemplateRun& r, TemplateValue& out) {
    if (!state->made) state->items = make(r);
    state->made = true;
    if (state->at == state->items.size()) return false;
    out = state->items[state->at++];
    return true;
  });
}

TemplateValue Slice(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("slice", a, {"slices", "fill_with"}, 1, 1);
  return Generator(run, [subject = Subject(a), p](TemplateRun& r) {
    const std::vector<TemplateValue> all = ListOf(r, subject);
    const int64_t length = static_cast<int64_t>(all.size()), slices = AsIndex(r, p[0]);
    if (slices == 0) r.Fail("ZeroDivisionError", "integer division or modulo by zero");
    std::vector<TemplateValue> result;
    int64_t at = 0;
    for (int64_t i = 0; i < slices; ++i) {
      r.Step();
      const bool more = i < length % slices;
      const int64_t size = length / slices + (more ? 1 : 0);
      std::vector<TemplateValue> part(all.begin() + at, all.begin() + at + size);
      at += size;
      if (Given(p[1]) && !more) part.push_back(p[1]);
      result.push_back(r.List(std::move(part)));
    }
    return result;
  });
}

TemplateValue Batch(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("batch", a, {"linecount", "fill_with"}, 1, 1);
  return Generator(run, [subject = Subject(a), p](TemplateRun& r) {
    const int64_t size = p[0].IsInteger() ? AsIndex(r, p[0]) : -1;
    std::vector<TemplateValue> result, part;
    for (const TemplateValue& item : ListOf(r, subject)) {
      if (static_cast<int64_t>(part.size()) == size) {
        result.push_back(r.List(std::move(part)));
        part.clear();
      }
      part.push_back(item);
    }
    if (!part.empty()) {
      if (Given(p[1]) && size > static_cast<int64_t>(part.size())) {
        r.CheckSize(static_cast<uint64_t>(size) * sizeof(TemplateValue));
        part.resize(static_cast<size_t>(size), p[1]);
      }
      result.push_back(r.List(std::move(part)));
    }
    return result;
  });
}

TemplateValue Unique(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("unique", a, {"case_sensitive", "attribute"}, 0, 1);
  const std::vector<TemplateValue> parts = AttributeParts(run, p[1]);
  IteratorObject* source = IsIterable(Subject(a)) ? IteratorOf(run, Subject(a)) : nullptr;
  DictObject* seen = run.NewDict();
  return run.Iterator(
      [subject = Subject(a), source, seen, parts, lower = !Truth(p[0])](TemplateRun& r, TemplateValue& out) {
        IteratorObject& items = source != nullptr ? *source : *IteratorOf(r, subject);  // which fails
        while (r.Next(items, out)) {
          const TemplateValue key = Attribute(r, out, parts, {}, lower);
          if (Hashable(key) && seen->Find(key) != nullptr) continue;
          SetKey(r, *seen, key, TemplateValue::None());
          return true;
        }
        return false;
      });
}

TemplateValue DictSort(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("dictsort", a, {"case_sensitive", "by", "reverse"}, 0, 1);
  const std::string by = p[1].Is(V::Missing) ? "key" : ToText(run, p[1]);
  if (by != "key" && by != "value") run.Fail("FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
  const TemplateValue& dict = Subject(a);
  if (dict.Is(V::Undefined)) run.FailUndefined(dict);
  if (!dict.Is(V::Dict))
    run.Fail("AttributeError", std::string("'") + TypeName(dict) + "' object has no attribute 'items'");
  std::vector<TemplateValue> items = DictItems(run, dict.As<DictObject>(), ViewObject::Part::Items), keys;
  for (const TemplateValue& pair : items)
    keys.push_back(Attribute(run, pair.items()[by == "key" ? 0 : 1], {}, {}, !Truth(p[0])));
  SortBy(run, items, keys, Truth(p[2]));
  return run.List(std::move(items));
}

TemplateValue Sort(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("sort", a, {"reverse", "case_sensitive", "attribute"}, 0, 1);
  std::vector<std::vector<TemplateValue>> attributes;
  if (p[2].Is(V::Str)) {
    const std::string comma = ",";
    for (const std::string& one : SplitText(p[2].str(), &comma, -1, false))
      attributes.push_back(AttributeParts(run, run.Str(one)));
  } else {
    attributes.push_back(AttributeParts(run, p[2]));
  }
  std::vector<TemplateValue> items = ListOf(run, Subject(a)), keys;
  for (const TemplateValue& item : items) {
    std::vector<TemplateValue> key;
    for (const std::vector<TemplateValue>& parts : attributes)
      key.push_back(Attribute(run, item, parts, {}, !Truth(p[1])));
    keys.push_back(run.List(std::move(key)));
  }
  SortBy(run, items, keys, Truth(p[0]));
  return run.List(std::move(items));
}

template <TemplateCompare better>
TemplateValue Extreme(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("min", a, {"case_sensitive", "attribute"}, 0, 1);
  const std::vector<TemplateValue> parts = AttributeParts(run, p[1]);
  IteratorObject* source = IteratorOf(run, Subject(a));
  TemplateValue best, item;
  if (!run.Next(*source, best)) return run.Undefined("No aggregated item, sequence was empty.");
  TemplateValue best_key = Attribute(run, best, parts, {}, !Truth(p[0]));
  while (run.Next(*source, item)) {
    const TemplateValue key = Attribute(run, item, parts, {}, !Truth(p[0]));
    if (!CompareOf(run, better, key, best_key)) continue;
    best = item;
    best_key = key;
  }
  return best;
}

TemplateValue GroupBy(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("groupby", a, {"attribute", "default", "case_sensitive"}, 1, 1);
  const std::vector<TemplateValue> parts = AttributeParts(run, p[0]);
  const bool lower = !Truth(p[2]);
  std::vector<TemplateValue> items = ListOf(run, Subject(a)), keys;
  for (const TemplateValue& item : items) keys.push_back(Attribute(run, item, parts, p[1], lower));
  SortBy(run, items, keys, false);
  std::vector<TemplateValue> groups;
  TemplateValue key;
  for (const TemplateValue& item : items) {
    const TemplateValue next = Attribute(run, item, parts, p[1], lower);
    if (groups.empty() || !Equal(run, key, next)) {
      const TemplateValue group = run.Tuple({Attribute(run, item, parts, p[1], false), run.List({})});
      group.As<ListObject>().group = true;
      groups.push_back(group);
      key = next;
    }
    groups.back().items()[1].items().push_back(item);
  }
  return run.List(std::move(groups));
}

TemplateValue Sum(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("sum", a, {"attribute", "start"}, 0, 1);
  const std::vector<TemplateValue> parts = AttributeParts(run, p[0]);
  TemplateValue sum = p[1].Is(V::Missing) ? TemplateValue::Int(0) : p[1];
  if (sum.Is(V::Str)) run.TypeError("sum() can't sum strings [use ''.join(seq) instead]");
  for (const TemplateValue& item : ListOf(run, Subject(a)))
    sum = BinaryOf(run, TemplateBinary::Add, sum, Attribute(run, item, parts, {}, false));
  return sum;
}

TemplateValue Map(TemplateRun& run, const Arguments& a) {
  IteratorObject* source = IsIterable(a.positional[0]) ? IteratorOf(run, a.positional[0]) : nullptr;
  return run.Iterator([a, source](TemplateRun& r, TemplateValue& out) {
    if (!Truth(Subject(a))) return false;
    const auto keyword = [&](std::string_view name) {
      const auto found =
          std::find_if(a.keywords.begin(), a.keywords.end(), [&](const auto& k) { return k.first == name; });
      return found == a.keywords.end() ? TemplateValue() : found->second;
    };
    const bool attribute = a.positional.size() == 1 && !keyword("attribute").Is(V::Missing);
    if (attribute) {
      for (const auto& [name, value] : a.keywords) {
        if (name != "attribute" && name != "default")
          r.Fail("FilterArgumentError", "Unexpected keyword argument '" + name + "'");
      }
    } else if (a.positional.size() == 1) {
      r.Fail("FilterArgumentError", "map requires a filter argument");
    }
    IteratorObject& items = source != nullptr ? *source : *IteratorOf(r, Subject(a));  // which fails
    if (!r.Next(items, out)) return false;
    if (attribute) {
      out = Attribute(r, out, AttributeParts(r, keyword("attribute")), keyword("default"), false);
      return true;
    }
    if (!a.positional[1].Is(V::Str))
      r.Fail("TemplateRuntimeError", "No filter named " + Repr(r, a.positional[1]) + ".");
    Arguments call;
    call.positional = {out};
    call.positional.insert(call.positional.end(), a.positional.begin() + 2, a.positional.end());
    call.keywords = a.keywords;
    out = r.CallFilter(a.positional[1].str(), call);
    return true;
  });
}

template <bool keep, bool attribute>
TemplateValue Select(TemplateRun& run, const Arguments& a) {
  IteratorObject* source = IsIterable(a.positional[0]) ? IteratorOf(run, a.positional[0]) : nullptr;
  return run.Iterator([a, source](TemplateRun& r, TemplateValue& out) {
    if (!Truth(Subject(a))) return false;
    constexpr size_t kTest = attribute ? 2 : 1;
    if (a.positional.size() < kTest) r.Fail("FilterArgumentError", "Missing parameter for attribute name");
    IteratorObject& items = source != nullptr ? *source : *IteratorOf(r, Subject(a));  // which fails
    const std::vector<TemplateValue> parts =
        attribute ? AttributeParts(r, a.positional[1]) : std::vector<TemplateValue>();
    while (r.Next(items, out)) {
      const TemplateValue value = Attribute(r, out, parts, {}, false);
      bool passes = false;
      if (a.positional.size() == kTest) {
        passes = Truth(value);
      } else {
        if (!a.positional[kTest].Is(V::Str))
          r.Fail("TemplateRuntimeError", "No test named " + Repr(r, a.positional[kTest]) + ".");
        Arguments call;
        call.positional = {value};
        call.positional.insert(call.positional.end(), a.positional.begin() + kTest + 1, a.positional.end());
        call.keywords = a.keywords;
        passes = r.CallTest(a.positional[kTest].str(), call);
      }
      if (passes == keep) return true;
    }
    return false;
  });
}

struct Entry {
  const char* name;
  NativeFunction function;
};
constexpr Entry kFilters[] = {
    {"batch", Batch},
    {"count", Length},
    {"dictsort", DictSort},
    {"first", First},
    {"groupby", GroupBy},
    {"items", Items},
    {"join", Join},
    {"last", Last},
    {"length", Length},
    {"list", List},
    {"map", Map},
    {"max", Extreme<TemplateCompare::Gt>},
    {"min", Extreme<TemplateCompare::Lt>},
    {"reject", Select<false, false>},
    {"rejectattr", Select<false, true>},
    {"reverse", Reverse},
    {"select", Select<true, false>},
    {"selectattr", Select<true, true>},
    {"slice", Slice},
    {"sort", Sort},
    {"sum", Sum},
    {"unique", Unique},
};

}  // namespace

NativeFunction FindSequenceFilter(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kFilters), std::end(kFilters), [&](const Entry& entry) { return name == entry.name; });
  return found == std::end(kFilters) ? nullptr : found->function;
}

}  // namespace llmc
