// "..." % x, as Python's str has it.
#include <algorithm>
#include <cmath>

#include "runtime/plan_unicode.h"
#include "runtime/template_run.h"
#include "runtime/template_text.h"

namespace llmc {
namespace {

// A number between its sign and its padding.
struct NumberText {
  bool negative = false;
  std::string prefix, digits;
};

// The integral part of a number, for %d; TypeError for what is none.
BigInt Whole(TemplateRun& run, const TemplateValue& value, char conversion, bool floats) {
  if (value.IsInteger()) return AsBig(value);
  if (floats && value.Is(ValueKind::Float)) {
    if (!std::isfinite(value.number))
      run.Fail(std::isnan(value.number) ? "ValueError" : "OverflowError", "cannot convert float to integer");
    return BigInt::FromDouble(value.number);
  }
  run.TypeError(std::string("%") + conversion + " format: " + (floats ? "a real number" : "an integer") +
                " is required, not " + TypeName(value));
}

class Percent {
 public:
  Percent(TemplateRun& run, const TemplateValue& format, const TemplateValue& arguments)
      : run_(run), text_(format.str()), markup_(format.markup()), arguments_(arguments) {
    mapping_ = arguments.Is(ValueKind::Dict) || arguments.Is(ValueKind::List) || arguments.Is(ValueKind::Range) ||
               arguments.Is(ValueKind::Undefined);
  }
  std::string Format() {
    std::string out;
    while (at_ < text_.size()) {
      const size_t percent = std::min(text_.find('%', at_), text_.size());
      out.append(text_, at_, percent - at_);
      at_ = percent;
      if (at_ < text_.size()) {
        ++at_;
        out += One();
        run_.Step();
        run_.CheckSize(out.size());
      }
    }
    if (!mapping_ && next_ < (arguments_.Is(ValueKind::Tuple) ? arguments_.items().size() : 1))
      run_.TypeError("not all arguments converted during string formatting");
    return out;
  }

 private:
  char Take() {
    if (at_ >= text_.size()) run_.ValueError("incomplete format");
    return text_[at_++];
  }
  const TemplateValue& Argument() {
    if (!arguments_.Is(ValueKind::Tuple)) {
      if (next_++ > 0) run_.TypeError("not enough arguments for format string");
      return arguments_;
    }
    if (next_ >= arguments_.items().size()) run_.TypeError("not enough arguments for format string");
    return arguments_.items()[next_++];
  }
  int64_t Number(char& c, const char* what) {
    if (c == '*') {
      const TemplateValue& value = Argument();
      if (!value.IsInteger()) run_.TypeError("* wants int");
      c = Take();
      return std::clamp(AsIndex(run_, value), -kMostFormatWidth, kMostFormatWidth);
    }
    int64_t number = 0;
    for (; c >= '0' && c <= '9'; c = Take()) {
      number = number * 10 + (c - '0');
      if (number > kMostFormatWidth) run_.ValueError(std::string(what) + " too big");
    }
    return number;
  }
  std::string Shown(const std::string& text) const { return markup_ ? EscapeHtml(text) : text; }

  std::string One() {
    const TemplateValue* keyed = nullptr;
    TemplateValue found;
    char c = Take();
    if (c == '(') {
      if (!arguments_.Is(ValueKind::Dict)) run_.TypeError("format requires a mapping");
      std::string key;
      for (int depth = 1; (c = Take()) != ')' || --depth > 0;) {
        depth += c == '(' ? 1 : 0;
        key.push_back(c);
      }
      const TemplateValue* value = arguments_.As<DictObject>().Find(key);
      if (value == nullptr) run_.Fail("KeyError", Repr(run_, run_.Str(key)));
      found = *value;
      keyed = &found;
      c = Take();
    }
    bool left = false, plus = false, blank = false, alternate = false, zero = false;
    for (;; c = Take()) {
      if (c == '-')
        left = true;
      else if (c == '+')
        plus = true;
      else if (c == ' ')
        blank = true;
      else if (c == '#')
        alternate = true;
      else if (c == '0')
        zero = true;
      else
        break;
    }
    int64_t width = Number(c, "width"), precision = -1;
    if (width < 0) {
      left = true;
      width = -width;
    }
    if (c == '.') {
      c = Take();
      precision = std::max<int64_t>(Number(c, "precision"), 0);
    }
    if (c == 'h' || c == 'l' || c == 'L') c = Take();
    if (c == '%') return "%";
    const TemplateValue value = keyed != nullptr ? *keyed : Argument();
    NumberText number;
    std::string body;
    bool numeric = true;
    switch (c) {
      case 's':
      case 'r':
      case 'a':
        body = c == 's' ? (markup_ ? EscapedOf(run_, value).str() : ToText(run_, value))
                        : Shown(c == 'r' ? Repr(run_, value) : AsciiText(Repr(run_, value)));
        if (precision >= 0) body = SlicePoints(body, 0, 1, std::min(precision, CountPoints(body)), CountPoints(body));
        numeric = false;
        break;
      case 'c':
        numeric = false;
        if (value.IsInteger()) {
          const int64_t point = AsIndex(run_, value);
          if (point < 0 || point > kMaxCodePoint || (point >= 0xD800 && point < 0xE000))
            run_.Fail("OverflowError", "%c arg not in range(0x110000)");
          AppendUtf8(body, static_cast<uint32_t>(point));
        } else if (value.Is(ValueKind::Str) && TextLength(value) == 1) {
          body = value.str();
        } else {
          run_.TypeError(std::string("%c requires int or char, not ") + TypeName(value));
        }
        break;
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X': {
        const bool decimal = c == 'd' || c == 'i' || c == 'u';
        const BigInt whole = Whole(run_, value, c, decimal);
        number.negative = whole.negative();
        number.digits = (whole.negative() ? -whole : whole).ToString(decimal ? 10 : c == 'o' ? 8 : 16);
        if (number.digits.size() > 4300)
          run_.ValueError("Exceeds the limit (4300 digits) for integer string conversion");
        if (precision > static_cast<int64_t>(number.digits.size()))
          number.digits.insert(0, static_cast<size_t>(precision) - number.digits.size(), '0');
        if (alternate && !decimal) number.prefix = c == 'o' ? "0o" : c == 'x' ? "0x" : "0X";
        if (c == 'X') std::transform(number.digits.begin(), number.digits.end(), number.digits.begin(), ::toupper);
        break;
      }
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        if (!value.IsNumber()) run_.TypeError(std::string("must be real number, not ") + TypeName(value));
        const double d = AsDouble(run_, value);
        number.negative = std::signbit(d) && !std::isnan(d);
        number.digits = FloatDigits(d, c, precision < 0 ? 6 : static_cast<int>(precision), alternate);
        break;
      }
      default: run_.ValueError(std::string("unsupported format character '") + c + "'");
    }
    if (numeric) {
      const std::string sign = number.negative ? "-" : plus ? "+" : blank ? " " : "";
      const int64_t used = static_cast<int64_t>(sign.size() + number.prefix.size() + number.digits.size());
      if (zero && !left && width > used) number.digits.insert(0, static_cast<size_t>(width - used), '0');
      body = sign + number.prefix + number.digits;
    }
    const int64_t missing = width - CountPoints(body);
    if (missing > 0) body.insert(left ? body.size() : 0, static_cast<size_t>(missing), ' ');
    return body;
  }

  TemplateRun& run_;
  const std::string& text_;
  bool markup_;
  const TemplateValue& arguments_;
  bool mapping_;
  size_t at_ = 0, next_ = 0;
};

}  // namespace

std::string FormatPercent(TemplateRun& run, const TemplateValue& format, const TemplateValue& arguments) {
  return Percent(run, format, arguments).Format();
}

}  // namespace llmc
