// str(), repr() and json.dumps() of values.
#include <charconv>
#include <cmath>
#include <cstdio>

#include "runtime/plan_unicode.h"
#include "runtime/template_run.h"
#include "runtime/template_text.h"

namespace llmc {
namespace {

constexpr size_t kMostDigits = 4300;  // of an integer that becomes text, as in CPython

std::string IntText(TemplateRun& run, const TemplateValue& value) {
  if (value.Is(ValueKind::Int)) return std::to_string(value.integer);
  if (value.Is(ValueKind::Bool)) return value.boolean ? "True" : "False";
  const BigInt& big = value.As<BigObject>().value;
  std::string text = big.ToString();
  if (text.size() - (big.negative() ? 1 : 0) > kMostDigits)
    run.ValueError(
        "Exceeds the limit (4300 digits) for integer string conversion; use sys.set_int_max_str_digits() "
        "to increase the limit");
  return text;
}

// Python's quoted form: double quotes only around text with single ones and no double ones.
std::string QuotedText(const TextTables& tables, std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    const std::string_view bytes = text.substr(at, c.bytes);
    at += c.bytes;
    if (c.value == static_cast<uint8_t>(quote) || c.value == '\\') {
      out.push_back('\\');
      out.append(bytes);
    } else if (c.value == '\n') {
      out += "\\n";
    } else if (c.value == '\r') {
      out += "\\r";
    } else if (c.value == '\t') {
      out += "\\t";
    } else if ((c.value >= 0x20 && c.value < 0x7F) ||
               (c.value >= 0x80 && (tables.Properties(c.value) & kTextPrintable) != 0)) {
      out.append(bytes);
    } else {
      out += EscapedPoint(c.value);
    }
  }
  return out + quote;
}

class Printer {
 public:
  explicit Printer(TemplateRun& run) : run_(run) {}
  std::string Take() { return std::move(out_); }

  void Print(const TemplateValue& value) {
    const TemplateRun::Deeper deeper(run_);
    run_.Step();
    run_.CheckSize(out_.size());
    switch (value.kind) {
      case ValueKind::Missing:
      case ValueKind::Undefined: out_ += "Undefined"; break;
      case ValueKind::None: out_ += "None"; break;
      case ValueKind::Bool:
      case ValueKind::Int:
      case ValueKind::BigInt: out_ += IntText(run_, value); break;
      case ValueKind::Float: out_ += FloatRepr(value.number); break;
      case ValueKind::Str:
        run_.Step(value.str().size() / 64);
        out_ += value.markup() ? "Markup(" : "";
        out_ += QuotedText(run_.tables(), value.str());
        out_ += value.markup() ? ")" : "";
        break;
      case ValueKind::List: Items("[", value.items(), "]"); break;
      case ValueKind::Tuple: Items("(", value.items(), value.items().size() == 1 ? ",)" : ")"); break;
      case ValueKind::Dict: Dict(value.As<DictObject>()); break;
      case ValueKind::View: {
        const ViewObject& view = value.As<ViewObject>();
        out_ += TypeName(value);
        Items("([", DictItems(run_, *view.dict, view.part), "])");
        break;
      }
      case ValueKind::Range: {
        const RangeObject& range = value.As<RangeObject>();
        out_ += "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
        if (range.step != 1) out_ += ", " + std::to_string(range.step);
        out_ += ")";
        break;
      }
      case ValueKind::Namespace:
        out_ += "<Namespace ";
        Dict(value.As<NamespaceObject>().attributes);
        out_ += ">";
        break;
      case ValueKind::Macro: {
        const std::string& name = value.As<MacroObject>().function->name;
        out_ += name.empty() ? "<Macro anonymous>" : "<Macro " + QuotedText(run_.tables(), name) + ">";
        break;
      }
      case ValueKind::Loop: {
        LoopObject& loop = value.As<LoopObject>();
        out_ += "<LoopContext " + std::to_string(loop.index0 + 1) + "/" + std::to_string(run_.LoopLength(loop)) + ">";
        break;
      }
      default:
        run_.Fail("", std::string("the text of a ") + TypeName(value) + " is an address in memory: not supported");
    }
  }

 private:
  void Items(const char* open, const std::vector<TemplateValue>& items, const char* close) {
    out_ += open;
    const char* separator = "";
    for (const TemplateValue& item : items) {
      out_ += separator;
      Print(item);
      separator = ", ";
    }
    out_ += close;
  }
  void Dict(const DictObject& dict) {
    out_ += "{";
    const char* separator = "";
    for (const auto& [key, value] : dict.items) {
      out_ += separator;
      Print(key);
      out_ += ": ";
      Print(value);
      separator = ", ";
    }
    out_ += "}";
  }

  TemplateRun& run_;
  std::string out_;
};

class JsonPrinter {
 public:
  JsonPrinter(TemplateRun& run, const JsonStyle& style) : run_(run), style_(style) {}
  std::string Take() { return std::move(out_); }

  void Print(const TemplateValue& value, size_t level) {
    const TemplateRun::Deeper deeper(run_);
    run_.Step();
    run_.CheckSize(out_.size());
    switch (value.kind) {
      case ValueKind::None: out_ += "null"; break;
      case ValueKind::Bool: out_ += value.boolean ? "true" : "false"; break;
      case ValueKind::Int:
      case ValueKind::BigInt: out_ += IntText(run_, value); break;
      case ValueKind::Float: out_ += FloatText(value.number); break;
      case ValueKind::Str: Text(value.str()); break;
      case ValueKind::List:
      case ValueKind::Tuple:
        Open('[', value.items().size(), level);
        for (size_t i = 0; i < value.items().size(); ++i) {
          if (i > 0) Between(level);
          Print(value.items()[i], level + 1);
        }
        Close(']', value.items().size(), level);
        break;
      case ValueKind::Dict: Dict(value.As<DictObject>(), level); break;
      default: run_.TypeError(std::string("Object of type ") + TypeName(value) + " is not JSON serializable");
    }
  }

 private:
  static std::string FloatText(double number) {
    return std::isnan(number)   ? "NaN"
           : std::isinf(number) ? (number > 0 ? "Infinity" : "-Infinity")
                                : FloatRepr(number);
  }
  void NewLine(size_t level) {
    out_ += "\n";
    for (size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }
  void Open(char bracket, size_t count, size_t level) {
    out_ += bracket;
    if (style_.indent && count > 0) NewLine(level + 1);
  }
  void Between(size_t level) {
    out_ += style_.item;
    if (style_.indent) NewLine(level + 1);
  }
  void Close(char bracket, size_t count, size_t level) {
    if (style_.indent && count > 0) NewLine(level);
    out_ += bracket;
  }
  void Dict(const DictObject& dict, size_t level) {
    std::vector<TemplateValue> keys = DictItems(run_, dict, ViewObject::Part::Keys);
    if (style_.sort) SortBy(run_, keys, std::vector<TemplateValue>(keys), false);
    Open('{', keys.size(), level);
    for (size_t i = 0; i < keys.size(); ++i) {
      const TemplateValue& key = keys[i];
      if (i > 0) Between(level);
      switch (key.kind) {
        case ValueKind::Str: Text(key.str()); break;
        case ValueKind::Float: Text(FloatText(key.number)); break;
        case ValueKind::Bool: Text(key.boolean ? "true" : "false"); break;
        case ValueKind::None: Text("null"); break;
        case ValueKind::Int:
        case ValueKind::BigInt: Text(IntText(run_, key)); break;
        default: run_.TypeError(std::string("keys must be str, int, float, bool or None, not ") + TypeName(key));
      }
      out_ += style_.key;
      Print(*dict.Find(key), level + 1);
    }
    Close('}', keys.size(), level);
  }
  void Text(std::string_view text) {
    run_.Step(text.size() / 64);
    out_ += '"';
    char buffer[24];
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = DecodeUtf8(text, at);
      switch (c.value) {
        case '"': out_ += "\\\""; break;
        case '\\': out_ += "\\\\"; break;
        case '\n': out_ += "\\n"; break;
        case '\r': out_ += "\\r"; break;
        case '\t': out_ += "\\t"; break;
        case '\f': out_ += "\\f"; break;
        case '\b': out_ += "\\b"; break;
        default:
          if (c.value < 0x20 || (style_.ascii && c.value >= 0x7F && c.value < 0x10000)) {
            std::snprintf(buffer, sizeof(buffer), "\\u%04x", c.value);
            out_ += buffer;
          } else if (style_.ascii && c.value >= 0x10000) {
            const uint32_t rest = c.value - 0x10000;
            std::snprintf(buffer, sizeof(buffer), "\\u%04x\\u%04x", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
            out_ += buffer;
          } else {
            out_.append(text.substr(at, c.bytes));
          }
      }
      at += c.bytes;
    }
    out_ += '"';
  }

  TemplateRun& run_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

// The shortest digits that read back as the number; an exponent below 1e-4 and from 1e16 on.
std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const char* end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);  // 1e+16, 1.5e-05: two digits at least, as here
  end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed).ptr;
  std::string fixed(buffer, static_cast<size_t>(end - buffer));
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

std::string Repr(TemplateRun& run, const TemplateValue& value) {
  Printer printer(run);
  printer.Print(value);
  return printer.Take();
}

std::string ToText(TemplateRun& run, const TemplateValue& value) {
  if (value.Is(ValueKind::Str)) return value.str();
  if (value.Is(ValueKind::Undefined)) return "";
  return Repr(run, value);
}

TemplateValue SoftText(TemplateRun& run, const TemplateValue& value) {
  return value.Is(ValueKind::Str) ? value : run.Str(ToText(run, value));
}

std::string ToJson(TemplateRun& run, const TemplateValue& value, const JsonStyle& style) {
  JsonPrinter printer(run, style);
  printer.Print(value, 0);
  return printer.Take();
}

}  // namespace llmc
