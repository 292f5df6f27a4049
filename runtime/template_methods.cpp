// Methods of str, list, tuple, dict and the rest.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "runtime/plan_unicode.h"
#include "runtime/template_run.h"
#include "runtime/template_text.h"

namespace llmc {
namespace {

using V = ValueKind;

// Arguments that go by position alone: `least` to `most`.
const std::vector<TemplateValue>& Positional(TemplateRun& run, const char* name, const Arguments& a, size_t least,
                                             size_t most) {
  if (!a.keywords.empty()) run.TypeError(std::string(name) + "() takes no keyword arguments");
  if (a.positional.size() < least || a.positional.size() > most)
    run.TypeError(std::string(name) + "() takes " + std::to_string(least) + " to " + std::to_string(most) +
                  " arguments (" + std::to_string(a.positional.size()) + " given)");
  return a.positional;
}

const std::string& TextOf(TemplateRun& run, const TemplateValue& value, const char* what) {
  if (!value.Is(V::Str)) run.TypeError(std::string(what) + " must be str, not " + TypeName(value));
  return value.str();
}

TemplateValue Like(TemplateRun& run, const TemplateValue& self, std::string text) {
  return run.Str(std::move(text), self.markup());
}

std::vector<TemplateValue> LikeAll(TemplateRun& run, const TemplateValue& self, std::vector<std::string> texts) {
  std::vector<TemplateValue> items;
  run.Step(texts.size());
  for (std::string& text : texts) items.push_back(Like(run, self, std::move(text)));
  return items;
}

template <std::string (*map)(const TextTables&, std::string_view)>
TemplateValue Mapped(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "str method", a, 0, 0);
  run.Step(self.str().size() / 8);
  return Like(run, self, map(run.tables(), self.str()));
}

template <StripSide side>
TemplateValue Strip(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue>& p = Positional(run, "strip", a, 0, 1);
  const std::string* chars = p.empty() || p[0].Is(V::None) ? nullptr : &TextOf(run, p[0], "strip arg");
  run.Step(chars == nullptr ? 1 : chars->size() / 8 * (self.str().size() / 8 + 1));
  return Like(run, self, std::string(StripText(self.str(), side, chars)));
}

template <bool from_right>
TemplateValue Split(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind(from_right ? "rsplit" : "split", a, {"sep", "maxsplit"}, 0);
  const std::string* separator =
      p[0].Is(V::Missing) || p[0].Is(V::None) ? nullptr : &TextOf(run, p[0], "separator or None");
  if (separator != nullptr && separator->empty()) run.ValueError("empty separator");
  const int64_t limit = p[1].Is(V::Missing) ? -1 : AsIndex(run, p[1]);
  run.Step(self.str().size() / 16);
  return run.List(LikeAll(run, self, SplitText(self.str(), separator, limit, from_right)));
}

TemplateValue Splitlines(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("splitlines", a, {"keepends"}, 0);
  return run.List(LikeAll(run, self, SplitLines(self.str(), Truth(p[0]))));
}

// The part of the text that `start` and `end` (if given, at places 1 and 2) name; where it begins, in code points.
// False: start lies behind the text, where even "" isn't found.
bool Window(TemplateRun& run, const TemplateValue& self, const std::vector<TemplateValue>& p, std::string_view& part,
            int64_t& begin) {
  const int64_t size = TextLength(self);
  const bool ascii = size == static_cast<int64_t>(self.str().size());
  const SliceRange range = ResolveSlice(run, size, p.size() > 1 ? p[1] : TemplateValue(),
                                        p.size() > 2 ? p[2] : TemplateValue(), TemplateValue::None());
  begin = range.start;
  if (p.size() > 1 && p[1].IsInteger() && AsIndex(run, p[1]) > size) return false;
  const int64_t end = p.size() > 2 && p[2].IsInteger() ? AsIndex(run, p[2]) : size;
  if ((end < 0 ? std::max<int64_t>(end + size, 0) : end) < range.start) return false;
  const size_t from = ByteOf(self.str(), range.start, ascii);
  part = std::string_view(self.str()).substr(from);
  part = part.substr(0, ByteOf(part, range.length, ascii));
  run.Step(self.str().size() / 64);
  return true;
}

template <bool at_end>
TemplateValue Begins(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const char* name = at_end ? "endswith" : "startswith";
  const std::vector<TemplateValue>& p = Positional(run, name, a, 1, 3);
  std::string_view part;
  int64_t begin = 0;
  const bool inside = Window(run, self, p, part, begin);
  const auto matches = [&](const TemplateValue& affix) {
    if (!affix.Is(V::Str))
      run.TypeError(std::string(name) + " first arg must be str or a tuple of str, not " + TypeName(affix));
    return inside && (at_end ? part.ends_with(affix.str()) : part.starts_with(affix.str()));
  };
  if (!p[0].Is(V::Tuple)) return TemplateValue::Bool(matches(p[0]));
  for (const TemplateValue& affix : p[0].items()) {
    if (matches(affix)) return TemplateValue::Bool(true);
  }
  return TemplateValue::Bool(false);
}

enum class Seek : uint8_t { Find, RFind, Index, RIndex };
template <Seek seek>
TemplateValue Find(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue>& p = Positional(run, "find", a, 1, 3);
  const std::string& what = TextOf(run, p[0], "argument");
  std::string_view part;
  int64_t begin = 0;
  size_t at = std::string_view::npos;
  if (Window(run, self, p, part, begin))
    at = seek == Seek::RFind || seek == Seek::RIndex ? part.rfind(what) : part.find(what);
  if (at == std::string_view::npos) {
    if (seek == Seek::Index || seek == Seek::RIndex) run.ValueError("substring not found");
    return TemplateValue::Int(-1);
  }
  return TemplateValue::Int(begin + CountPoints(part.substr(0, at)));
}

TemplateValue Count(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue>& p = Positional(run, "count", a, 1, 3);
  const std::string& what = TextOf(run, p[0], "argument");
  std::string_view part;
  int64_t begin = 0, count = 0;
  if (!Window(run, self, p, part, begin)) return TemplateValue::Int(0);
  if (what.empty()) return TemplateValue::Int(CountPoints(part) + 1);
  for (size_t at; (at = part.find(what)) != std::string_view::npos; ++count) part.remove_prefix(at + what.size());
  return TemplateValue::Int(count);
}

TemplateValue Join(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue>& p = Positional(run, "join", a, 1, 1);
  if (!IsIterable(p[0])) run.TypeError("can only join an iterable");
  std::string text;
  size_t number = 0;
  for (const TemplateValue& item : ListOf(run, p[0])) {
    if (number > 0) text += self.str();
    if (self.markup()) {
      text += EscapedOf(run, item).str();
    } else {
      if (!item.Is(V::Str))
        run.TypeError("sequence item " + std::to_string(number) + ": expected str instance, " + TypeName(item) +
                      " found");
      text += item.str();
    }
    run.CheckSize(text.size());
    ++number;
  }
  return Like(run, self, std::move(text));
}

TemplateValue Replace(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue>& p = Positional(run, "replace", a, 2, 3);
  const std::string& from = TextOf(run, p[0], "replace() argument 1");
  const TemplateValue to = self.markup() ? EscapedOf(run, p[1]) : p[1];
  const int64_t limit = p.size() > 2 ? AsIndex(run, p[2]) : -1;
  run.Step(self.str().size() / 16);
  try {
    return Like(run, self,
                ReplaceText(self.str(), from, TextOf(run, to, "replace() argument 2"), limit, uint64_t{1} << 30));
  } catch (const std::length_error&) {
    run.CheckSize(UINT64_MAX);
    throw;
  }
}

enum class Side : uint8_t { Left, Right, Both };  // where the text goes
TemplateValue Padded(TemplateRun& run, const TemplateValue& self, int64_t width, const std::string& fill, Side side) {
  const int64_t missing = width - TextLength(self);
  if (missing <= 0) return self;
  run.CheckSize(static_cast<uint64_t>(missing) * fill.size());
  // Python's centre: the odd one goes left when both width and missing are odd.
  const int64_t left = side == Side::Left ? 0 : side == Side::Right ? missing : missing / 2 + (missing & width & 1);
  std::string text;
  for (int64_t i = 0; i < left; ++i) text += fill;
  text += self.str();
  for (int64_t i = left; i < missing; ++i) text += fill;
  return Like(run, self, std::move(text));
}
template <Side side>
TemplateValue Justify(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue>& p = Positional(run, "justify", a, 1, 2);
  const std::string fill = p.size() > 1 ? TextOf(run, p[1], "The fill character") : " ";
  if (CountPoints(fill) != 1) run.TypeError("The fill character must be exactly one character long");
  return Padded(run, self, AsIndex(run, p[0]), fill, side);
}

TemplateValue Zfill(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const int64_t width = AsIndex(run, Positional(run, "zfill", a, 1, 1)[0]);
  const TemplateValue padded = Padded(run, self, width, "0", Side::Right);
  const std::string& text = self.str();
  if (text.empty() || (text[0] != '+' && text[0] != '-') || padded.str().size() == text.size()) return padded;
  std::string moved = padded.str();
  moved[padded.str().size() - text.size()] = '0';
  moved[0] = text[0];
  return Like(run, self, std::move(moved));
}

TemplateValue Expandtabs(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("expandtabs", a, {"tabsize"}, 0);
  const int64_t size = p[0].Is(V::Missing) ? 8 : AsIndex(run, p[0]);
  run.CheckSize(size > 0 ? static_cast<uint64_t>(size) : 0);
  std::string text;
  int64_t column = 0;
  for (size_t at = 0; at < self.str().size();) {
    const CodePoint c = DecodeUtf8(self.str(), at);
    if (c.value == '\t') {
      const int64_t blanks = size > 0 ? size - column % size : 0;
      text.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
      run.CheckSize(text.size());
    } else {
      text.append(self.str(), at, c.bytes);
      column = c.value == '\n' || c.value == '\r' ? 0 : column + 1;
    }
    at += c.bytes;
  }
  return Like(run, self, std::move(text));
}

template <bool from_right>
TemplateValue Partition(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::string& what = TextOf(run, Positional(run, "partition", a, 1, 1)[0], "argument");
  if (what.empty()) run.ValueError("empty separator");
  const std::string& text = self.str();
  const size_t at = from_right ? text.rfind(what) : text.find(what);
  std::vector<std::string> parts{text, "", ""};
  if (at != std::string::npos)
    parts = {text.substr(0, at), what, text.substr(at + what.size())};
  else if (from_right)
    parts = {"", "", text};
  return run.Tuple(LikeAll(run, self, std::move(parts)));
}

template <bool suffix>
TemplateValue RemoveAffix(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::string& affix = TextOf(run, Positional(run, "removeprefix", a, 1, 1)[0], "argument");
  std::string_view text = self.str();
  if (suffix ? text.ends_with(affix) : text.starts_with(affix))
    text = suffix ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size());
  return Like(run, self, std::string(text));
}

TemplateValue Format(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  return run.Str(FormatBraces(run, self, a), self.markup());
}
TemplateValue FormatMap(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const TemplateValue mapping = Positional(run, "format_map", a, 1, 1)[0];
  if (!mapping.Is(V::Dict)) run.TypeError("format_map() needs a dict here");
  Arguments filled;
  for (const auto& [key, value] : mapping.As<DictObject>().items) {
    if (key.Is(V::Str)) filled.keywords.emplace_back(key.str(), value);
  }
  return run.Str(FormatBraces(run, self, filled), self.markup());
}

// All characters have one of the properties, and there is one.
template <uint32_t properties>
TemplateValue AllAre(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "str method", a, 0, 0);
  const std::string& text = self.str();
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    if ((run.tables().Properties(c.value) & properties) == 0) return TemplateValue::Bool(false);
    at += c.bytes;
  }
  return TemplateValue::Bool(!text.empty() || properties == kTextPrintable);
}
TemplateValue IsSpace(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "isspace", a, 0, 0);
  return TemplateValue::Bool(!self.str().empty() && StripText(self.str(), StripSide::Left, nullptr).empty());
}
TemplateValue IsAscii(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "isascii", a, 0, 0);
  return TemplateValue::Bool(
      std::all_of(self.str().begin(), self.str().end(), [](char c) { return static_cast<uint8_t>(c) < 128; }));
}
enum class CaseOf : uint8_t { Upper, Lower, Title };
template <CaseOf which>
TemplateValue HasCase(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "str method", a, 0, 0);
  bool found = false, cased_before = false;
  for (size_t at = 0; at < self.str().size();) {
    const CodePoint c = DecodeUtf8(self.str(), at);
    const uint32_t bits = run.tables().Properties(c.value);
    const bool big = (bits & (kTextUpper | kTextTitle)) != 0, small = (bits & kTextLower) != 0;
    if (which == CaseOf::Title) {
      if ((big && cased_before) || (small && !cased_before)) return TemplateValue::Bool(false);
      cased_before = big || small;
      found = found || cased_before;
    } else {
      if (which == CaseOf::Upper ? small || (bits & kTextTitle) != 0 : big) return TemplateValue::Bool(false);
      found = found || (bits & (which == CaseOf::Upper ? kTextUpper : kTextLower)) != 0;
    }
    at += c.bytes;
  }
  return TemplateValue::Bool(found);
}

TemplateValue ItemCount(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const TemplateValue& what = Positional(run, "count", a, 1, 1)[0];
  int64_t count = 0;
  for (const TemplateValue& item : ListOf(run, self)) count += Equal(run, item, what) ? 1 : 0;
  return TemplateValue::Int(count);
}
TemplateValue ItemIndex(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue>& p = Positional(run, "index", a, 1, 3);
  const std::vector<TemplateValue> items = ListOf(run, self);
  const SliceRange range = ResolveSlice(run, static_cast<int64_t>(items.size()), p.size() > 1 ? p[1] : TemplateValue(),
                                        p.size() > 2 ? p[2] : TemplateValue(), TemplateValue::None());
  for (int64_t i = 0; i < range.length; ++i) {
    if (Equal(run, items[static_cast<size_t>(range.start + i)], p[0])) return TemplateValue::Int(range.start + i);
  }
  run.ValueError(Repr(run, p[0]) + " is not in " + TypeName(self));
}
TemplateValue CopyOf(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "copy", a, 0, 0);
  if (self.Is(V::List)) return run.List(self.items());
  DictObject* copy = run.NewDict();
  UpdateDict(run, *copy, self);
  return TemplateValue::Of(V::Dict, copy);
}
TemplateValue DictGet(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  const std::vector<TemplateValue>& p = Positional(run, "get", a, 1, 2);
  if (!Hashable(p[0])) run.TypeError(std::string("unhashable type: '") + TypeName(p[0]) + "'");
  const TemplateValue* found = self.As<DictObject>().Find(p[0]);
  return found != nullptr ? *found : p.size() > 1 ? p[1] : TemplateValue::None();
}
template <ViewObject::Part part>
TemplateValue DictView(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "dict method", a, 0, 0);
  ViewObject* view = run.New<ViewObject>();
  view->dict = &self.As<DictObject>();
  view->part = part;
  return TemplateValue::Of(V::View, view);
}
TemplateValue FromKeys(TemplateRun& run, const TemplateValue& /*self*/, const Arguments& a) {
  const std::vector<TemplateValue>& p = Positional(run, "fromkeys", a, 1, 2);
  DictObject* dict = run.NewDict();
  for (const TemplateValue& key : ListOf(run, p[0]))
    SetKey(run, *dict, key, p.size() > 1 ? p[1] : TemplateValue::None());
  return TemplateValue::Of(V::Dict, dict);
}

TemplateValue LoopCycle(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  if (!a.keywords.empty()) run.TypeError("cycle() got an unexpected keyword argument");
  if (a.positional.empty()) run.TypeError("no items for cycling given");
  const int64_t count = static_cast<int64_t>(a.positional.size());
  return a.positional[static_cast<size_t>(((self.As<LoopObject>().index0 % count) + count) % count)];
}
TemplateValue LoopChanged(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  if (!a.keywords.empty()) run.TypeError("changed() got an unexpected keyword argument");
  LoopObject& loop = self.As<LoopObject>();
  const TemplateValue now = run.Tuple(a.positional);
  if (!loop.changed.Is(V::Missing) && Equal(run, loop.changed, now)) return TemplateValue::Bool(false);
  loop.changed = now;
  return TemplateValue::Bool(true);
}
TemplateValue CyclerNext(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "next", a, 0, 0);
  CyclerObject& cycler = self.As<CyclerObject>();
  const TemplateValue item = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return item;
}
TemplateValue CyclerReset(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "reset", a, 0, 0);
  self.As<CyclerObject>().position = 0;
  return TemplateValue::None();
}
TemplateValue BitLength(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "bit_length", a, 0, 0);
  return TemplateValue::Int(static_cast<int64_t>(AsBig(self).bits()));
}
TemplateValue IsInteger(TemplateRun& run, const TemplateValue& self, const Arguments& a) {
  Positional(run, "is_integer", a, 0, 0);
  return TemplateValue::Bool(self.number - self.number == 0 &&
                             AsBig(run.Big(BigInt::FromDouble(self.number))).ToDouble() == self.number);
}
// There is such a method, but what it gives is no value of templates.
TemplateValue NotSupported(TemplateRun& run, const TemplateValue& self, const Arguments& /*a*/) {
  run.Fail("", std::string("this method of ") + TypeName(self) + " is not supported");
}

struct Entry {
  V kind;
  const char* name;
  NativeMethod method;
};
constexpr Entry kMethods[] = {
    {V::Str, "capitalize", Mapped<CapitalizedText>},
    {V::Str, "casefold", NotSupported},
    {V::Str, "center", Justify<Side::Both>},
    {V::Str, "count", Count},
    {V::Str, "encode", NotSupported},
    {V::Str, "endswith", Begins<true>},
    {V::Str, "expandtabs", Expandtabs},
    {V::Str, "find", Find<Seek::Find>},
    {V::Str, "format", Format},
    {V::Str, "format_map", FormatMap},
    {V::Str, "index", Find<Seek::Index>},
    {V::Str, "isalnum", AllAre<kTextAlpha | kTextDecimal | kTextDigit | kTextNumeric>},
    {V::Str, "isalpha", AllAre<kTextAlpha>},
    {V::Str, "isascii", IsAscii},
    {V::Str, "isdecimal", AllAre<kTextDecimal>},
    {V::Str, "isdigit", AllAre<kTextDigit>},
    {V::Str, "isidentifier", NotSupported},
    {V::Str, "islower", HasCase<CaseOf::Lower>},
    {V::Str, "isnumeric", NotSupported},
    {V::Str, "isprintable", AllAre<kTextPrintable>},
    {V::Str, "isspace", IsSpace},
    {V::Str, "istitle", HasCase<CaseOf::Title>},
    {V::Str, "isupper", HasCase<CaseOf::Upper>},
    {V::Str, "join", Join},
    {V::Str, "ljust", Justify<Side::Left>},
    {V::Str, "lower", Mapped<LowerText>},
    {V::Str, "lstrip", Strip<StripSide::Left>},
    {V::Str, "maketrans", NotSupported},
    {V::Str, "partition", Partition<false>},
    {V::Str, "removeprefix", RemoveAffix<false>},
    {V::Str, "removesuffix", RemoveAffix<true>},
    {V::Str, "replace", Replace},
    {V::Str, "rfind", Find<Seek::RFind>},
    {V::Str, "rindex", Find<Seek::RIndex>},
    {V::Str, "rjust", Justify<Side::Right>},
    {V::Str, "rpartition", Partition<true>},
    {V::Str, "rsplit", Split<true>},
    {V::Str, "rstrip", Strip<StripSide::Right>},
    {V::Str, "split", Split<false>},
    {V::Str, "splitlines", Splitlines},
    {V::Str, "startswith", Begins<false>},
    {V::Str, "strip", Strip<StripSide::Both>},
    {V::Str, "swapcase", Mapped<SwappedCase>},
    {V::Str, "title", Mapped<TitleText>},
    {V::Str, "translate", NotSupported},
    {V::Str, "upper", Mapped<UpperText>},
    {V::Str, "zfill", Zfill},
    {V::List, "copy", CopyOf},
    {V::List, "count", ItemCount},
    {V::List, "index", ItemIndex},
    {V::Tuple, "count", ItemCount},
    {V::Tuple, "index", ItemIndex},
    {V::Range, "count", ItemCount},
    {V::Range, "index", ItemIndex},
    {V::Dict, "copy", CopyOf},
    {V::Dict, "fromkeys", FromKeys},
    {V::Dict, "get", DictGet},
    {V::Dict, "items", DictView<ViewObject::Part::Items>},
    {V::Dict, "keys", DictView<ViewObject::Part::Keys>},
    {V::Dict, "values", DictView<ViewObject::Part::Values>},
    {V::Loop, "cycle", LoopCycle},
    {V::Loop, "changed", LoopChanged},
    {V::Cycler, "next", CyclerNext},
    {V::Cycler, "reset", CyclerReset},
    {V::Int, "bit_length", BitLength},
    {V::Float, "is_integer", IsInteger},
    {V::Iterator, "close", NotSupported},
    {V::Iterator, "send", NotSupported},
    {V::Iterator, "throw", NotSupported},
};

}  // namespace

NativeMethod FindMethod(const TemplateValue& self, std::string_view name, const char*& stored_name) {
  const V kind = self.IsInteger() ? V::Int : self.kind;
  for (const Entry& entry : kMethods) {
    if (entry.kind == kind && name == entry.name) {
      stored_name = entry.name;
      return entry.method;
    }
  }
  if (self.Is(V::Function) && name == "fromkeys" && std::string_view(self.As<FunctionObject>().name) == "dict") {
    stored_name = "fromkeys";
    return FromKeys;
  }
  return nullptr;
}

}  // namespace llmc
