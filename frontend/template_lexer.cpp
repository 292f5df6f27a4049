// The rules of jinja2's lexer.py, for its default delimiters.
#include "frontend/template_lexer.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ir/diag.h"
#include "runtime/plan_bigint.h"
#include "runtime/plan_unicode.h"

namespace llmc {

void FailTemplate(const std::string& file, uint32_t line, const std::string& message, bool unsupported) {
  Fail(unsupported ? DiagKind::Unsupported : DiagKind::SyntaxError, {file, std::to_string(line)}, message);
}

namespace {

using K = TemplateTokenKind;

// Longest first.
constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                           "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

// White space of regular expressions and str.rstrip.
bool IsSpace(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWord(char c) { return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// \r\n and \r become \n, and one line end at the end goes.
std::string Normalized(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& file) : source_(Normalized(source)), file_(file) {
    if (source_.ends_with('\n')) source_.pop_back();
  }

  std::vector<TemplateToken> Lex() {
    CheckUtf8();
    while (at_ < source_.size()) Text();
    tokens_.push_back({K::End, line_, ""});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Error(const std::string& message) const { FailTemplate(file_, line_, message); }
  [[noreturn]] void NotSupported(const std::string& what) const {
    FailTemplate(file_, line_, what + " not supported", true);
  }
  bool Sees(std::string_view text, size_t at) const { return std::string_view(source_).substr(at).starts_with(text); }
  void Add(K kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }
  // Passes over the bytes up to `end`.
  void Go(size_t end) {
    line_ += static_cast<uint32_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                              source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    line_starting_ = end > at_ && source_[end - 1] == '\n';
    at_ = end;
  }
  size_t SkipSpace(size_t at) const {
    while (at < source_.size()) {
      const CodePoint c = DecodeUtf8(source_, at);
      if (!IsSpace(c.value)) break;
      at += c.bytes;
    }
    return at;
  }
  void CheckUtf8() const {
    uint32_t line = 1;
    for (size_t at = 0; at < source_.size();) {
      const CodePoint c = DecodeUtf8(source_, at);
      if (!c.valid) FailTemplate(file_, line, "not UTF-8");
      line += c.value == '\n' ? 1 : 0;
      at += c.bytes;
    }
  }
  // Where `{%- WORD -%}` beginning at `at` ends, its sign and the end's; nothing if something else stands there.
  struct WordTag {
    size_t end;
    char sign;
  };
  std::optional<WordTag> MatchWordTag(size_t at, std::string_view word, bool trims) const {
    if (!Sees("{%", at)) return std::nullopt;
    // The sign is optional: `{%-raw` could also be read as no sign and "-raw", which matches nothing.
    size_t i = at + 2;
    const char sign = i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i++] : '\0';
    i = SkipSpace(i);
    if (!Sees(word, i)) return std::nullopt;
    i = SkipSpace(i + word.size());
    if (trims && Sees("+%}", i)) return WordTag{i + 3, sign};
    if (Sees("-%}", i)) return WordTag{SkipSpace(i + 3), sign};
    if (!Sees("%}", i)) return std::nullopt;
    i += 2;
    return WordTag{trims && Sees("\n", i) ? i + 1 : i, sign};
  }
  // The text in front of a tag that cuts white space.
  std::string_view Cut(std::string_view text, char sign, bool variable) const {
    if (sign == '-') {
      while (!text.empty()) {
        size_t last = text.size() - 1;
        while (last > 0 && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
        if (!IsSpace(DecodeUtf8(text, last).value)) break;
        text.remove_suffix(text.size() - last);
      }
    } else if (sign != '+' && !variable) {
      const size_t line_end = text.rfind('\n');
      const size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
      if (begin > 0 || line_starting_) {
        size_t at = begin;
        while (at < text.size()) {
          const CodePoint c = DecodeUtf8(text, at);
          if (!IsSpace(c.value)) break;
          at += c.bytes;
        }
        if (at == text.size() && begin < text.size()) text = text.substr(0, begin);
      }
    }
    return text;
  }

  // Text up to the next tag, and that tag.
  void Text() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || Sees("{%", tag) || Sees("{#", tag) || Sees("{{", tag)) break;
      ++tag;
    }
    const std::string_view text = std::string_view(source_).substr(at_, std::min(tag, source_.size()) - at_);
    if (tag == std::string::npos) {
      Add(K::Data, std::string(text));
      Go(source_.size());
      return;
    }
    const std::optional<WordTag> raw = MatchWordTag(tag, "raw", false);
    const size_t sign_at = tag + 2;
    char sign =
        sign_at < source_.size() && (source_[sign_at] == '-' || source_[sign_at] == '+') ? source_[sign_at] : '\0';
    if (raw) sign = raw->sign;
    const std::string_view cut = Cut(text, sign, source_[tag + 1] == '{');
    if (!cut.empty()) Add(K::Data, std::string(cut));
    const char kind = source_[tag + 1];
    Go(raw ? raw->end : sign_at + (sign != '\0' ? 1 : 0));
    if (raw)
      Raw();
    else if (kind == '#')
      Comment();
    else
      Tag(kind == '{');
  }

  void Raw() {
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string::npos; ++tag) {
      const std::optional<WordTag> end = MatchWordTag(tag, "endraw", true);
      if (!end) continue;
      const std::string_view text = Cut(std::string_view(source_).substr(at_, tag - at_), end->sign, false);
      if (!text.empty()) Add(K::Data, std::string(text));
      Go(end->end);
      return;
    }
    Error("Missing end of raw directive");
  }

  void Comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) Error("Missing end of comment tag");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    const size_t behind = end + 2;
    if (sign == '-')
      Go(SkipSpace(behind));
    else
      Go(sign != '+' && Sees("\n", behind) ? behind + 1 : behind);
  }

  // What stands inside {{ }} or {% %}.
  void Tag(bool variable) {
    Add(variable ? K::VariableBegin : K::BlockBegin, "");
    const std::string_view close = variable ? "}}" : "%}";
    while (at_ < source_.size()) {
      if (open_.empty()) {
        const size_t sign = source_[at_] == '-' || (source_[at_] == '+' && !variable) ? 1 : 0;
        if (Sees(close, at_ + sign)) {
          const size_t behind = at_ + sign + 2;
          Add(variable ? K::VariableEnd : K::BlockEnd, "");
          if (sign != 0 && source_[at_] == '-')
            Go(SkipSpace(behind));
          else
            Go(sign == 0 && !variable && Sees("\n", behind) ? behind + 1 : behind);
          return;
        }
      }
      const size_t blank = SkipSpace(at_);
      if (blank != at_) {
        Go(blank);
        continue;
      }
      Expression();
    }
  }

  void Expression() {
    const char c = source_[at_];
    if (static_cast<uint8_t>(c) >= 0x80) NotSupported("names with characters beyond ASCII are");
    if (IsDigit(c))
      Number();
    else if (IsWord(c))
      Word();
    else if (c == '"' || c == '\'')
      String(c);
    else
      Operator();
  }

  void Word() {
    size_t end = at_;
    while (end < source_.size() && IsWord(source_[end])) ++end;
    if (end < source_.size() && static_cast<uint8_t>(source_[end]) >= 0x80)
      NotSupported("names with characters beyond ASCII are");
    Add(K::Name, source_.substr(at_, end - at_));
    Go(end);
  }

  // (\d+_)*\d+ from `at`; its end, or `at` if nothing is there.
  size_t Digits(size_t at) const {
    size_t end = at;
    for (size_t i = at; i < source_.size(); ++i) {
      if (IsDigit(source_[i]))
        end = i + 1;
      else if (source_[i] != '_' || i == at || source_[i - 1] == '_')
        break;
    }
    return end;
  }

  void Number() {
    const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    const size_t whole = Digits(at_);
    size_t end = whole;
    if (!behind_dot) {
      size_t fraction = whole;
      if (whole < source_.size() && source_[whole] == '.' && Digits(whole + 1) > whole + 1)
        fraction = Digits(whole + 1);
      end = fraction;
      if (fraction < source_.size() && (source_[fraction] | 0x20) == 'e') {
        size_t digits = fraction + 1;
        if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) ++digits;
        if (Digits(digits) > digits) end = Digits(digits);
      }
    }
    const auto plain = [&](size_t begin, size_t stop) {
      std::string text = source_.substr(begin, stop - begin);
      std::erase(text, '_');
      return text;
    };
    if (end > whole) {
      Add(K::Float, plain(at_, end));
      Go(end);
      return;
    }
    // Integers: 0b.., 0o.., 0x.., decimal without leading zeros, or zeros.
    uint32_t base = 10;
    size_t begin = at_;
    if (source_[at_] == '0') {
      const char letter = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
      const uint32_t named = letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 0;
      const auto is_digit = [&](char c) {
        const char lower = static_cast<char>(c | 0x20);
        return named == 16 ? IsDigit(c) || (lower >= 'a' && lower <= 'f')
                           : c >= '0' && c < static_cast<char>('0' + named);
      };
      size_t stop = at_ + 2, i = at_ + 2;
      while (named != 0 && i < source_.size()) {
        const size_t digit = source_[i] == '_' ? i + 1 : i;
        if (digit >= source_.size() || !is_digit(source_[digit])) break;
        i = stop = digit + 1;
      }
      if (named != 0 && stop > at_ + 2) {
        base = named;
        begin = at_ + 2;
        end = stop;
      } else {
        end = at_ + 1;
        while (end < source_.size()) {
          const size_t digit = source_[end] == '_' ? end + 1 : end;
          if (digit >= source_.size() || source_[digit] != '0') break;
          end = digit + 1;
        }
      }
    }
    BigInt value;
    if (end - begin > 4300 || !BigInt::Parse(plain(begin, end), base, value)) Error("a number of too many digits");
    Add(K::Integer, value.ToString());
    Go(end);
  }

  void String(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) Error(fmt::format("unexpected char \"{}\": the string has no end", quote));
    Add(K::String, Unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    Go(end + 1);
  }

  // Python's unicode-escape codec, on text whose characters beyond ASCII were escaped first.
  std::string Unescaped(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out.push_back(text[i]);
        continue;
      }
      if (++i == text.size()) Error("\\ at end of string");
      const char c = text[i];
      const auto hex = [&](size_t count) {
        if (i + count >= text.size()) Error(fmt::format("truncated \\{} escape", c));
        uint32_t value = 0;
        for (size_t k = 1; k <= count; ++k) {
          const char d = text[i + k], lower = static_cast<char>(d | 0x20);
          if (!IsDigit(d) && !(lower >= 'a' && lower <= 'f')) Error(fmt::format("truncated \\{} escape", c));
          value = value * 16 + static_cast<uint32_t>(IsDigit(d) ? d - '0' : lower - 'a' + 10);
        }
        i += count;
        if (value > kMaxCodePoint) Error("illegal Unicode character");
        if (value >= 0xD800 && value < 0xE000)
          NotSupported(fmt::format("half of a surrogate pair, U+{:04X}, is", value));
        AppendUtf8(out, value);
      };
      switch (c) {
        case '\n': break;
        case '\\':
        case '\'':
        case '"': out.push_back(c); break;
        case 'a': out.push_back('\a'); break;
        case 'b': out.push_back('\b'); break;
        case 'f': out.push_back('\f'); break;
        case 'n': out.push_back('\n'); break;
        case 'r': out.push_back('\r'); break;
        case 't': out.push_back('\t'); break;
        case 'v': out.push_back('\v'); break;
        case 'x': hex(2); break;
        case 'u': hex(4); break;
        case 'U': hex(8); break;
        case 'N': NotSupported("\\N{...} is");
        default:
          if (c >= '0' && c <= '7') {
            uint32_t value = 0;
            size_t k = 0;
            for (; k < 3 && i + k < text.size() && text[i + k] >= '0' && text[i + k] <= '7'; ++k)
              value = value * 8 + static_cast<uint32_t>(text[i + k] - '0');
            i += k - 1;
            AppendUtf8(out, value);
          } else if (static_cast<uint8_t>(c) >= 0x80) {
            // The backslash pairs with that of the character's own escape.
            const CodePoint point = DecodeUtf8(text, i);
            out += point.value < 0x100     ? fmt::format("\\x{:02x}", point.value)
                   : point.value < 0x10000 ? fmt::format("\\u{:04x}", point.value)
                                           : fmt::format("\\U{:08x}", point.value);
            i += point.bytes - 1;
          } else {
            out.push_back('\\');
            out.push_back(c);
          }
      }
    }
    return out;
  }

  void Operator() {
    for (const std::string_view op : kOperators) {
      if (!Sees(op, at_)) continue;
      const char c = op.size() == 1 ? op[0] : '\0';
      if (c == '{' || c == '(' || c == '[') open_.push_back(c == '{' ? '}' : c == '(' ? ')' : ']');
      if (c == '}' || c == ')' || c == ']') {
        if (open_.empty()) Error(fmt::format("unexpected '{}'", c));
        if (open_.back() != c) Error(fmt::format("unexpected '{}', expected '{}'", c, open_.back()));
        open_.pop_back();
      }
      Add(K::Operator, std::string(op));
      Go(at_ + op.size());
      return;
    }
    Error(fmt::format("unexpected char '{}'", source_[at_]));
  }

  std::string source_;
  const std::string& file_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;
  std::string open_;  // brackets that must close
  std::vector<TemplateToken> tokens_;
};

}  // namespace

std::vector<TemplateToken> LexTemplate(std::string_view source, const std::string& file) {
  return Lexer(source, file).Lex();
}

}  // namespace llmc
