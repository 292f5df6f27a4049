// Filters on numbers, and those that make them of text.
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

const TemplateValue& Subject(const Arguments& a) { return a.positional[0]; }

// A text's number, as int(text, base) reads it; Missing: it is none.
TemplateValue ParseInt(TemplateRun& run, std::string_view text, int64_t base) {
  text = StripText(text, StripSide::Both, nullptr);
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  bool prefixed = false;
  if (text.size() > 1 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int64_t named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      base = named;
      prefixed = true;
      text.remove_prefix(2);
    }
  }
  const bool any_base = base == 0;
  if (any_base) base = 10;
  std::string digits;
  bool underscore = !prefixed;  // one may not stand here
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    at += c.bytes;
    if (c.value == '_') {
      if (underscore) return {};
      underscore = true;
      continue;
    }
    underscore = false;
    const int decimal = c.value < 0x80 ? -1 : run.tables().DecimalValue(c.value);
    if (decimal >= 0)
      digits.push_back(static_cast<char>('0' + decimal));
    else if (c.value < 0x80)
      digits.push_back(static_cast<char>(c.value));
    else
      return {};
  }
  if (underscore) return {};
  if (any_base && digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos)
    return {};
  if (digits.size() > 4300) return {};
  run.Step(digits.size() * digits.size() / 256);
  BigInt value;
  if (!BigInt::Parse(digits, static_cast<uint32_t>(base), value)) return {};
  return run.Big(negative ? -value : value);
}

// float(text); Missing: it is none.
TemplateValue ParseFloat(TemplateRun& run, std::string_view text) {
  text = StripText(text, StripSide::Both, nullptr);
  std::string plain;
  char before = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    at += c.bytes;
    const int decimal = c.value < 0x80 ? -1 : run.tables().DecimalValue(c.value);
    if (c.value >= 0x80 && decimal < 0) return {};
    const char letter = decimal >= 0 ? static_cast<char>('0' + decimal) : static_cast<char>(c.value);
    const bool digit = letter >= '0' && letter <= '9';
    if ((letter == '_' && !(before >= '0' && before <= '9')) || (before == '_' && !digit)) return {};
    if (letter != '_') plain.push_back(static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter | 0x20 : letter));
    before = letter;
  }
  if (before == '_') return {};
  const char* begin = plain.data();
  const char* end = begin + plain.size();
  bool negative = false;
  if (begin != end && (*begin == '+' || *begin == '-')) negative = *begin++ == '-';
  if (begin == end || *begin == '+' || *begin == '-') return {};
  const std::string_view rest(begin, static_cast<size_t>(end - begin));
  if (rest.find_first_of("(np") != std::string_view::npos && rest != "nan" && rest != "inf" && rest != "infinity")
    return {};
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (stop != end || error == std::errc::invalid_argument) return {};
  if (error == std::errc::result_out_of_range) value = std::strtod(plain.c_str() + (begin - plain.data()), nullptr);
  return TemplateValue::Float(negative ? -value : value);
}

TemplateValue WholeOf(TemplateRun& run, double value) { return run.Big(BigInt::FromDouble(value)); }

TemplateValue Int(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("int", a, {"default", "base"}, 0, 1);
  const TemplateValue& value = Subject(a);
  const TemplateValue absent = p[0].Is(V::Missing) ? TemplateValue::Int(0) : p[0];
  const int64_t base = p[1].Is(V::Missing) ? 10 : AsIndex(run, p[1]);
  if (value.Is(V::Undefined)) run.FailUndefined(value);
  if (value.IsInteger()) return Positive(run, value);
  if (value.Is(V::Float)) {
    if (std::isinf(value.number)) run.Fail("OverflowError", "cannot convert float infinity to integer");
    return std::isnan(value.number) ? absent : WholeOf(run, value.number);
  }
  if (!value.Is(V::Str)) return absent;
  if (base == 0 || (base >= 2 && base <= 36)) {
    const TemplateValue parsed = ParseInt(run, value.str(), base);
    if (!parsed.Is(V::Missing)) return parsed;
  }
  const TemplateValue number = ParseFloat(run, value.str());
  return number.Is(V::Missing) || !std::isfinite(number.number) ? absent : WholeOf(run, number.number);
}

TemplateValue Float(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("float", a, {"default"}, 0, 1);
  const TemplateValue& value = Subject(a);
  if (value.Is(V::Undefined)) run.FailUndefined(value);
  if (value.IsNumber()) return TemplateValue::Float(AsDouble(run, value));
  const TemplateValue parsed = value.Is(V::Str) ? ParseFloat(run, value.str()) : TemplateValue();
  return !parsed.Is(V::Missing) ? parsed : p[0].Is(V::Missing) ? TemplateValue::Float(0) : p[0];
}

TemplateValue Abs(TemplateRun& run, const Arguments& a) {
  run.Bind("abs", a, {}, 0, 1);
  const TemplateValue& value = Subject(a);
  if (!value.IsNumber()) run.TypeError(std::string("bad operand type for abs(): '") + TypeName(value) + "'");
  if (value.Is(V::Float)) return TemplateValue::Float(std::fabs(value.number));
  return AsBig(value).negative() ? Negated(run, value) : Positive(run, value);
}

TemplateValue Round(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("round", a, {"precision", "method"}, 0, 1);
  const TemplateValue& value = Subject(a);
  const std::string method = p[1].Is(V::Missing) ? "common" : ToText(run, p[1]);
  if (method != "common" && method != "ceil" && method != "floor")
    run.Fail("FilterArgumentError", "method must be common, ceil or floor");
  if (value.Is(V::Undefined) && method != "common") run.FailUndefined(value);
  if (!value.IsNumber()) run.TypeError(std::string("type ") + TypeName(value) + " doesn't define __round__ method");
  const int64_t precision = p[0].Is(V::Missing) ? 0 : std::clamp<int64_t>(AsIndex(run, p[0]), -400, 400);
  if (method != "common") {
    const TemplateValue scale =
        BinaryOf(run, TemplateBinary::Pow, TemplateValue::Int(10), TemplateValue::Int(precision));
    const TemplateValue scaled = BinaryOf(run, TemplateBinary::Mul, value, scale);
    if (scaled.Is(V::Float) && !std::isfinite(scaled.number))
      run.Fail("OverflowError", "cannot convert float to integer");
    const TemplateValue whole =
        scaled.Is(V::Float) ? WholeOf(run, method == "ceil" ? std::ceil(scaled.number) : std::floor(scaled.number))
                            : scaled;
    return BinaryOf(run, TemplateBinary::Div, whole, scale);
  }
  if (value.IsInteger()) {
    if (precision >= 0) return Positive(run, value);
    // To a multiple of a power of ten, halves to the even one.
    const BigInt power = BigInt(10).Pow(static_cast<uint64_t>(-precision)), big = AsBig(value);
    BigInt quotient, remainder;
    big.DivMod(power, quotient, remainder);
    const int order = (remainder * BigInt(2)).Compare(power);
    BigInt half, odd;
    quotient.DivMod(BigInt(2), half, odd);
    if (order > 0 || (order == 0 && !odd.zero())) quotient = quotient + BigInt(1);
    return run.Big(quotient * power);
  }
  const double d = value.number;
  if (!std::isfinite(d) || precision > 323) return value;
  if (precision >= 0) {
    // printf rounds the exact value, halves to even, as Python does.
    char buffer[800];
    std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(precision), d);
    return TemplateValue::Float(std::strtod(buffer, nullptr));
  }
  Arguments whole;
  whole.positional = {WholeOf(run, d), TemplateValue::Int(precision)};
  if (d == std::floor(d)) return TemplateValue::Float(AsDouble(run, Round(run, whole)));
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  return TemplateValue::Float(std::copysign(std::nearbyint(d / scale) * scale, d));
}

TemplateValue FileSize(TemplateRun& run, const Arguments& a) {
  const std::vector<TemplateValue> p = run.Bind("filesizeformat", a, {"binary"}, 0, 1);
  const TemplateValue& value = Subject(a);
  if (value.Is(V::Undefined)) run.FailUndefined(value);
  const TemplateValue number = value.IsNumber()   ? TemplateValue::Float(AsDouble(run, value))
                               : value.Is(V::Str) ? ParseFloat(run, value.str())
                                                  : TemplateValue();
  if (number.Is(V::Missing)) run.ValueError("could not convert to float: " + Repr(run, value));
  const bool binary = Truth(p[0]);
  const double base = binary ? 1024 : 1000, bytes = number.number;
  if (bytes == 1) return run.Str("1 Byte");
  if (bytes < base) return run.Str(WholeOf(run, bytes).Is(V::Int) ? ToText(run, WholeOf(run, bytes)) + " Bytes" : "");
  double unit = base;
  for (size_t i = 0;; ++i) {
    unit *= base;
    if (bytes < unit || i == 7) {
      char buffer[400];
      std::snprintf(buffer, sizeof(buffer), "%.1f %c%s", base * bytes / unit, (binary ? "KMGTPEZY" : "kMGTPEZY")[i],
                    binary ? "iB" : "B");
      return run.Str(buffer);
    }
  }
}

struct Entry {
  const char* name;
  NativeFunction function;
};
constexpr Entry kFilters[] = {
    {"abs", Abs}, {"filesizeformat", FileSize}, {"float", Float}, {"int", Int}, {"round", Round},
};

}  // namespace

NativeFunction FindNumberFilter(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kFilters), std::end(kFilters), [&](const Entry& entry) { return name == entry.name; });
  return found == std::end(kFilters) ? nullptr : found->function;
}

}  // namespace llmc
