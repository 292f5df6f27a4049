// "...".format(x) and its format specifications.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/plan_unicode.h"
#include "runtime/template_run.h"
#include "runtime/template_text.h"

namespace llmc {
namespace {

// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = 0, sign = '-', grouping = 0, type = 0;
  bool alternate = false, zero = false;
  int64_t width = 0, precision = -1;
};

Spec ParseSpec(TemplateRun& run, std::string_view text) {
  Spec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  const size_t first = text.empty() ? 0 : DecodeUtf8(text, 0).bytes;
  bool filled = false;
  if (first > 0 && first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    text.remove_prefix(first + 1);
    filled = true;
  } else if (first == 1 && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  const auto take = [&](char c) {
    if (text.empty() || text[0] != c) return false;
    text.remove_prefix(1);
    return true;
  };
  for (const char c : {'+', '-', ' '}) {
    if (take(c)) {
      spec.sign = c;
      break;
    }
  }
  if (take('z')) run.Fail("", "format option z is not supported");
  spec.alternate = take('#');
  if (!filled && take('0')) {
    spec.fill = "0";
    spec.zero = true;
    if (spec.align == 0) spec.align = '=';
  } else {
    take('0');
  }
  const auto number = [&](int64_t absent) {
    int64_t value = absent;
    for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1)) {
      value = std::max<int64_t>(value, 0) * 10 + (text[0] - '0');
      if (value > kMostFormatWidth) run.ValueError("Too many decimal digits in format string");
    }
    return value;
  };
  spec.width = number(0);
  for (const char c : {',', '_'}) {
    if (take(c)) spec.grouping = c;
  }
  if (take('.')) {
    spec.precision = number(-1);
    if (spec.precision < 0) run.ValueError("Format specifier missing precision");
  }
  if (text.size() > 1) run.ValueError("Invalid format specifier");
  if (!text.empty()) spec.type = text[0];
  return spec;
}

std::string Aligned(const Spec& spec, const std::string& sign, const std::string& body, char absent) {
  const int64_t missing = spec.width - CountPoints(body) - static_cast<int64_t>(sign.size());
  if (missing <= 0) return sign + body;
  const char align = spec.align == 0 ? absent : spec.align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string before, after;
  for (int64_t i = 0; i < missing; ++i) (i < left ? before : after) += spec.fill;
  return align == '=' ? sign + before + body : before + sign + body + after;
}

// Groups of digits, from the right; with zero padding the separators count into the width.
std::string Grouped(const Spec& spec, const std::string& digits, size_t sign) {
  if (spec.grouping == 0) return digits;
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  const size_t group = spec.type == 'b' || spec.type == 'o' || spec.type == 'x' || spec.type == 'X' ? 4 : 3;
  std::string padded = digits;
  const auto grouped = [&](const std::string& text, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0 && (count - i) % group == 0) out.push_back(spec.grouping);
      out.push_back(text[i]);
    }
    return out + text.substr(count);
  };
  size_t count = whole;
  if (spec.fill == "0" && spec.align == '=') {
    while (static_cast<int64_t>(grouped(padded, count).size() + sign) < spec.width) {
      padded.insert(padded.begin(), '0');
      ++count;
    }
    // A separator never leads: one digit more than fits is what Python gives as well.
  }
  return grouped(padded, count);
}

[[noreturn]] void UnknownCode(TemplateRun& run, char type, const TemplateValue& value) {
  run.ValueError(std::string("Unknown format code '") + type + "' for object of type '" + TypeName(value) + "'");
}

std::string FormatFloat(TemplateRun& run, const TemplateValue& value, const Spec& spec) {
  const double d = AsDouble(run, value);
  const bool negative = std::signbit(d) && !std::isnan(d);
  std::string digits;
  const int precision = static_cast<int>(spec.precision);
  switch (spec.type) {
    case 0:
      if (precision < 0) {
        digits = FloatRepr(std::fabs(d));
      } else {
        // As g, but with a digit behind the point, and an exponent from `precision` digits on.
        digits = FloatDigits(d, 'g', std::max(precision, 1), spec.alternate);
        if (std::isfinite(d) && digits.find('e') == std::string::npos && digits.find('.') == std::string::npos) {
          if (static_cast<int>(digits.size()) >= std::max(precision, 1)) {
            digits = FloatDigits(d, 'e', std::max(precision, 1) - 1, spec.alternate);
            const size_t e = digits.find('e');
            if (digits.find('.') != std::string::npos) {  // trailing zeros go, as under g
              size_t last = e;
              while (digits[last - 1] == '0') --last;
              if (digits[last - 1] == '.') --last;
              digits.erase(last, e - last);
            }
          } else {
            digits += ".0";
          }
        }
      }
      break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      digits = FloatDigits(d, spec.type,
                           precision < 0                          ? 6
                           : spec.type == 'g' || spec.type == 'G' ? std::max(precision, 1)
                                                                  : precision,
                           spec.alternate);
      break;
    case 'n': digits = FloatDigits(d, 'g', precision < 0 ? 6 : std::max(precision, 1), spec.alternate); break;
    case '%': digits = FloatDigits(d * 100, 'f', precision < 0 ? 6 : precision, spec.alternate) + "%"; break;
    default: UnknownCode(run, spec.type, value);
  }
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return Aligned(spec, sign, std::isfinite(d) ? Grouped(spec, digits, sign.size()) : digits, '>');
}

std::string FormatInteger(TemplateRun& run, const TemplateValue& value, const Spec& spec) {
  if (std::string_view("eEfFgG%").find(spec.type == 0 ? ' ' : spec.type) != std::string_view::npos)
    return FormatFloat(run, value, spec);
  if (spec.precision >= 0) run.ValueError("Precision not allowed in integer format specifier");
  const BigInt big = AsBig(value);
  uint32_t base = 10;
  std::string prefix;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'n': break;
    case 'b':
      base = 2;
      prefix = "0b";
      break;
    case 'o':
      base = 8;
      prefix = "0o";
      break;
    case 'x':
    case 'X':
      base = 16;
      prefix = spec.type == 'x' ? "0x" : "0X";
      break;
    case 'c': {
      const int64_t point = AsIndex(run, value);
      if (point < 0 || point > kMaxCodePoint || (point >= 0xD800 && point < 0xE000))
        run.Fail("OverflowError", "%c arg not in range(0x110000)");
      std::string text;
      AppendUtf8(text, static_cast<uint32_t>(point));
      return Aligned(spec, "", text, '<');
    }
    default: UnknownCode(run, spec.type, value);
  }
  std::string digits = (big.negative() ? -big : big).ToString(base);
  if (digits.size() > 4300 && base == 10)
    run.ValueError("Exceeds the limit (4300 digits) for integer string conversion");
  if (spec.type == 'X') std::transform(digits.begin(), digits.end(), digits.begin(), ::toupper);
  std::string sign = big.negative() ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.alternate) sign += prefix;
  return Aligned(spec, sign, Grouped(spec, digits, sign.size()), '>');
}

// The fields of str.format.
class Braces {
 public:
  Braces(TemplateRun& run, bool markup, const Arguments& arguments)
      : run_(run), markup_(markup), arguments_(arguments) {}

  std::string Format(std::string_view text, int depth) {
    if (depth < 0) run_.ValueError("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c != '{' && c != '}') {
        const size_t next = std::min(text.find_first_of("{}", at), text.size());
        out.append(text.substr(at, next - at));
        at = next;
        continue;
      }
      if (at + 1 < text.size() && text[at + 1] == c) {
        out.push_back(c);
        at += 2;
        continue;
      }
      if (c == '}') run_.ValueError("Single '}' encountered in format string");
      size_t end = at + 1;
      int open = 1;
      for (; end < text.size() && open > 0; ++end) open += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
      if (open > 0)
        run_.ValueError(at + 1 == text.size() ? "Single '{' encountered in format string"
                                              : "expected '}' before end of string");
      out += Field(text.substr(at + 1, end - at - 2), depth);
      run_.Step();
      run_.CheckSize(out.size());
      at = end;
    }
    return out;
  }

 private:
  std::string Field(std::string_view field, int depth) {
    size_t name_end = 0;
    for (bool in_index = false; name_end < field.size(); ++name_end) {
      const char c = field[name_end];
      if (c == '[')
        in_index = true;
      else if (c == ']')
        in_index = false;
      else if (!in_index && (c == '!' || c == ':'))
        break;
    }
    TemplateValue value = Get(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    if (rest.starts_with("!")) {
      if (rest.size() < 2) run_.ValueError("end of string while looking for conversion specifier");
      const char conversion = rest[1];
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') run_.ValueError("expected ':' after conversion specifier");
      if (conversion == 's')
        value = run_.Str(ToText(run_, value));
      else if (conversion == 'r')
        value = run_.Str(Repr(run_, value));
      else if (conversion == 'a')
        value = run_.Str(AsciiText(Repr(run_, value)));
      else
        run_.ValueError(std::string("Unknown conversion specifier ") + conversion);
    }
    const std::string spec = rest.empty() ? "" : Format(rest.substr(1), depth - 1);
    if (!markup_) return FormatSpec(run_, value, spec);
    if (value.markup()) {
      if (!spec.empty()) run_.ValueError("Unsupported format specification for Markup.");
      return value.str();
    }
    return EscapeHtml(FormatSpec(run_, value, spec));
  }

  TemplateValue Get(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, end);
    const auto is_number = [](std::string_view s) {
      return !s.empty() && s.size() < 10 && s.find_first_not_of("0123456789") == std::string_view::npos;
    };
    TemplateValue value;
    if (first.empty() || is_number(first)) {
      if (first.empty() ? manual_ : automatic_)
        run_.ValueError("cannot switch from manual field specification to automatic field numbering");
      (first.empty() ? automatic_ : manual_) = true;
      const size_t index = first.empty() ? next_++ : std::stoul(std::string(first));
      if (index >= arguments_.positional.size())
        run_.Fail("IndexError",
                  "Replacement index " + std::to_string(index) + " out of range for positional args tuple");
      value = arguments_.positional[index];
    } else {
      const auto found = std::find_if(arguments_.keywords.begin(), arguments_.keywords.end(),
                                      [&](const auto& keyword) { return keyword.first == first; });
      if (found == arguments_.keywords.end()) run_.Fail("KeyError", Repr(run_, run_.Str(std::string(first))));
      value = found->second;
    }
    for (std::string_view rest = name.substr(end); !rest.empty();) {
      if (rest[0] == '.') {
        const size_t stop = std::min(rest.find_first_of(".[", 1), rest.size());
        if (stop == 1) run_.ValueError("Empty attribute in format string");
        value = GetAttribute(run_, value, std::string(rest.substr(1, stop - 1)));
        rest.remove_prefix(stop);
      } else if (rest[0] == '[') {
        const size_t stop = rest.find(']');
        if (stop == std::string_view::npos) run_.ValueError("Missing ']' in format string");
        const std::string_view key = rest.substr(1, stop - 1);
        if (key.empty()) run_.ValueError("Empty attribute in format string");
        value = GetItem(run_, value,
                        is_number(key) ? TemplateValue::Int(std::stol(std::string(key))) : run_.Str(std::string(key)));
        rest.remove_prefix(stop + 1);
      } else {
        run_.ValueError("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  TemplateRun& run_;
  bool markup_;
  const Arguments& arguments_;
  bool manual_ = false, automatic_ = false;
  size_t next_ = 0;
};

}  // namespace

std::string FormatBraces(TemplateRun& run, const TemplateValue& format, const Arguments& arguments) {
  return Braces(run, format.markup(), arguments).Format(format.str(), 1);
}

std::string FormatSpec(TemplateRun& run, const TemplateValue& value, std::string_view spec) {
  if (spec.empty()) return ToText(run, value);
  if (value.Is(ValueKind::Str)) {
    const Spec parsed = ParseSpec(run, spec);
    if (parsed.type != 0 && parsed.type != 's') UnknownCode(run, parsed.type, value);
    if (parsed.sign != '-' || parsed.alternate || parsed.grouping != 0 || (parsed.align == '=' && !parsed.zero))
      run.ValueError("format option not allowed in string format specifier");
    std::string body = value.str();
    if (parsed.precision >= 0)
      body = SlicePoints(body, 0, 1, std::min(parsed.precision, TextLength(value)), TextLength(value));
    Spec aligned = parsed;
    if (parsed.align == '=') aligned.align = '<';  // from a leading 0
    return Aligned(aligned, "", body, '<');
  }
  if (value.IsInteger()) return FormatInteger(run, value, ParseSpec(run, spec));
  if (value.Is(ValueKind::Float)) return FormatFloat(run, value, ParseSpec(run, spec));
  run.TypeError(std::string("unsupported format string passed to ") + TypeName(value) + ".__format__");
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out.push_back(c);
    }
  }
  return out;
}

TemplateValue EscapedOf(TemplateRun& run, const TemplateValue& value) {
  if (value.markup()) return value;
  return run.Str(EscapeHtml(ToText(run, value)), true);
}

}  // namespace llmc
