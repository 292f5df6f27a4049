// The lexer: no lookahead beyond a token, no memory but the token.
#include "ir/lexer.h"

#include <charconv>
#include <utility>

namespace llmc {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsWord(char c) { return IsLetter(c) || IsDigit(c); }

}  // namespace

std::string Printable(char c) {
  if (c >= ' ' && c <= '~') return std::string("'") + c + "'";
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return std::string("byte 0x") + kHex[byte >> 4] + kHex[byte & 15];
}

void Lexer::FailAt(const Token& token, DiagKind kind, const std::string& message) const {
  Fail(kind, {file_, std::to_string(token.line) + ":" + std::to_string(token.column)}, message);
}

void Lexer::FailHere(const std::string& message) const {
  Fail(DiagKind::SyntaxError, {file_, std::to_string(line_) + ":" + std::to_string(offset_ - line_start_ + 1)},
       message);
}

void Lexer::Rewind(const Mark& mark) {
  offset_ = mark.offset;
  line_start_ = mark.line_start;
  line_ = mark.line;
}

void Lexer::SkipSpace() {
  while (offset_ < text_.size()) {
    const char c = text_[offset_];
    if (c == '#') {
      while (offset_ < text_.size() && text_[offset_] != '\n') ++offset_;
    } else if (c == '\n') {
      ++offset_;
      ++line_;
      line_start_ = offset_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++offset_;
    } else {
      return;
    }
  }
}

Token Lexer::Next() {
  SkipSpace();
  Token token;
  token.line = line_;
  token.column = static_cast<int>(offset_ - line_start_ + 1);
  const size_t begin = offset_;
  const char c = Peek();
  if (offset_ == text_.size()) return token;
  if (IsLetter(c)) {
    token.kind = TokenKind::Ident;
    while (IsWord(Peek())) ++offset_;
  } else if (IsDigit(c) || (c == '-' && (IsDigit(Peek(1)) || Peek(1) == 'i'))) {
    LexNumber(token);
  } else if (c == '%' || c == '$') {
    token.kind = c == '%' ? TokenKind::Local : TokenKind::Global;
    ++offset_;
    LexName(token);
  } else if (c == '{' && in_repeat() && (IsDigit(Peek(1)) || Peek(1) == '-')) {
    LexAffine(token);
  } else if (std::string_view(":,={}[]()@+.").find(c) != std::string_view::npos) {
    token.kind = TokenKind::Punct;
    offset_ += c == '.' && Peek(1) == '.' ? 2 : 1;
  } else {
    FailHere(Printable(c) + " starts no token");
  }
  token.text = text_.substr(begin, offset_ - begin);
  return token;
}

Token Lexer::Extend(Token token) {
  const size_t begin = offset_ - token.text.size();
  while ((Peek() == '-' || Peek() == '.') && IsWord(Peek(1))) {
    ++offset_;
    while (IsWord(Peek())) ++offset_;
  }
  token.text = text_.substr(begin, offset_ - begin);
  return token;
}

void Lexer::LexNumber(Token& token) {
  const size_t begin = offset_;
  if (Peek() == '-') ++offset_;
  if (text_.substr(offset_, 3) == "inf") {
    offset_ += 3;
    token.kind = TokenKind::Float;
    return;
  }
  const auto digits = [&] {
    while (IsDigit(Peek())) ++offset_;
  };
  token.kind = TokenKind::Int;
  digits();
  // "0..28" is a range, not a float.
  if (Peek() == '.' && IsDigit(Peek(1))) {
    token.kind = TokenKind::Float;
    ++offset_;
    digits();
  }
  if (Peek() == 'e' && (IsDigit(Peek(1)) || ((Peek(1) == '-' || Peek(1) == '+') && IsDigit(Peek(2))))) {
    token.kind = TokenKind::Float;
    offset_ += 2;
    digits();
  }
  if (IsWord(Peek())) FailHere(Printable(Peek()) + " in a number");
  if (token.kind != TokenKind::Int) return;
  const std::string_view text = text_.substr(begin, offset_ - begin);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), token.number);
  if (error != std::errc{}) FailAt(token, DiagKind::SyntaxError, "integer " + std::string(text) + " is out of range");
}

int64_t Lexer::Digits(const Token& token) {
  const size_t begin = offset_;
  while (IsDigit(Peek())) ++offset_;
  int64_t value = 0;
  const std::string_view text = text_.substr(begin, offset_ - begin);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value > (int64_t{1} << 62)) {
    FailAt(token, DiagKind::SyntaxError, "'" + std::string(text) + "' is not an integer in range");
  }
  return value;
}

void Lexer::LexName(Token& token) {
  const size_t begin = offset_;
  std::string text;
  for (;;) {
    if (IsWord(Peek()) || Peek() == '.') {
      text += Peek();
      ++offset_;
    } else if (in_repeat() && text == "b" && Peek() == '{' && Peek(1) == 'i') {
      offset_ += 2;
      int64_t layer = *i_;
      if (Peek() == '+' || Peek() == '-') {
        const int64_t sign = Peek() == '+' ? 1 : -1;
        ++offset_;
        layer += sign * (Digits(token) % (int64_t{1} << 40));
      }
      if (Peek() != '}') FailHere("a layer in a name is {i}, {i+n} or {i-n}");
      ++offset_;
      if (layer < 0) FailAt(token, DiagKind::SyntaxError, "layer " + std::to_string(layer) + " is negative");
      text += std::to_string(layer);
    } else {
      break;
    }
  }
  const std::optional<Name> name = NameFromText(text);
  if (!name) {
    FailAt(token, DiagKind::SyntaxError,
           "'" + std::string(text_.substr(begin, offset_ - begin)) + "' is not a name ([b<layer>.]base[.<suffix>])");
  }
  token.name = *name;
}

// {c + s*i}, {c - s*i}, {c + s*i/p}: c plus floor(s * i / p).
void Lexer::LexAffine(Token& token) {
  token.kind = TokenKind::Int;
  ++offset_;
  const auto space = [&] {
    while (Peek() == ' ') ++offset_;
  };
  const auto expect = [&](char c) {
    if (Peek() != c) FailHere("an integer in terms of i is {c + s*i} or {c + s*i/p}");
    ++offset_;
  };
  const bool negative = Peek() == '-';
  if (negative) ++offset_;
  int64_t base = Digits(token);
  if (negative) base = -base;
  space();
  if (Peek() != '+' && Peek() != '-') expect('+');
  int64_t slope = Peek() == '-' ? -1 : 1;
  ++offset_;
  space();
  slope *= Digits(token);
  expect('*');
  expect('i');
  int64_t divisor = 1;
  if (Peek() == '/') {
    ++offset_;
    divisor = Digits(token);
  }
  expect('}');
  int64_t product = 0;
  if (divisor == 0 || __builtin_mul_overflow(slope, *i_, &product) ||
      __builtin_add_overflow(product / divisor - (product % divisor < 0 ? 1 : 0), base, &token.number)) {
    FailAt(token, DiagKind::SyntaxError, "integer in terms of i is out of range");
  }
}

}  // namespace llmc
