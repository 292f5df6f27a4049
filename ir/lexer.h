// Tokens of the text form (ir/README.md, Text). Inside a repeat the lexer substitutes: names and integers in terms of i
// come out as plain ones.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/diag.h"
#include "ir/type.h"

namespace llmc {

enum class TokenKind : uint8_t { End, Ident, Int, Float, Local, Global, Punct };

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;  // as written; Punct: one of : , = { } [ ] ( ) @ + . or ".."
  int64_t number = 0;     // Int
  Name name;              // Local (%), Global ($)
  int line = 1;
  int column = 1;
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  Token Next();
  // The identifier `token`, just read, with the '-' and '.' parts that follow it at once ("fuse-qkv"): attribute values
  // and names of modules have them.
  Token Extend(Token token);

  // The value of i, inside a repeat.
  void SetIteration(std::optional<int64_t> i) { i_ = i; }
  bool in_repeat() const { return i_.has_value(); }

  struct Mark {
    size_t offset = 0;
    size_t line_start = 0;
    int line = 1;
  };
  Mark mark() const { return {offset_, line_start_, line_}; }
  void Rewind(const Mark& mark);

  [[noreturn]] void FailAt(const Token& token, DiagKind kind, const std::string& message) const;

 private:
  char Peek(size_t ahead = 0) const { return ahead < text_.size() - offset_ ? text_[offset_ + ahead] : '\0'; }
  void SkipSpace();
  void LexNumber(Token& token);
  void LexName(Token& token);
  void LexAffine(Token& token);
  int64_t Digits(const Token& token);
  [[noreturn]] void FailHere(const std::string& message) const;

  std::string_view text_;
  std::string file_;
  size_t offset_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  std::optional<int64_t> i_;
};

// A character in a message: itself, or its code.
std::string Printable(char c);

}  // namespace llmc
