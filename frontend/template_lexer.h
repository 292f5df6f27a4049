// Tokens of a chat template: jinja2's lexer with trim_blocks and lstrip_blocks on.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

enum class TemplateTokenKind : uint8_t {
  Data,  // text between tags, white space already cut
  BlockBegin,
  BlockEnd,
  VariableBegin,
  VariableEnd,
  Name,
  String,    // text: the value
  Integer,   // text: decimal digits
  Float,     // text: as from_chars reads it
  Operator,  // text: "+", "//", "==", ..
  End,
};

struct TemplateToken {
  TemplateTokenKind kind{};
  uint32_t line = 0;
  std::string text;
  bool Is(TemplateTokenKind k, std::string_view t) const { return kind == k && text == t; }
};

// file: for messages, "file:line: ...". Throws InputError.
std::vector<TemplateToken> LexTemplate(std::string_view source, const std::string& file);
// A syntax error; with `unsupported`, something that jinja2 has and this compiler doesn't.
[[noreturn]] void FailTemplate(const std::string& file, uint32_t line, const std::string& message,
                               bool unsupported = false);

}  // namespace llmc
