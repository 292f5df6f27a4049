// Values of the plan's text form: quoting, hex, numbers.
#include <algorithm>
#include <cstring>

#include "runtime/plan_text.h"

namespace llmc {
namespace {

const char* const kHexDigits = "0123456789abcdef";

}  // namespace

int HexDigit(char c) {
  const char* at = c == 0 ? nullptr : std::strchr(kHexDigits, c);
  return at == nullptr ? -1 : static_cast<int>(at - kHexDigits);
}

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += kHexDigits[static_cast<uint8_t>(c) >> 4];
    out += kHexDigits[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

std::string Hex64(uint64_t value) {
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += kHexDigits[(value >> shift) & 15];
  return out;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      out += "\\x" + Hex({&c, 1});
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string FloatText(float value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr};
}

void PlanTextReader::Fail(const std::string& rule) const {
  throw PlanError("plan text:" + std::to_string(number_) + ": " + rule);
}

bool PlanTextReader::NextLine() {
  if (next_ >= text_.size()) return false;
  const size_t end = std::min(text_.find('\n', next_), text_.size());
  line_ = text_.substr(next_, end - next_);
  next_ = end + 1;
  ++number_;
  Blank();
  return true;
}

void PlanTextReader::Blank() {
  while (!line_.empty() && (line_[0] == ' ' || line_[0] == '\t' || line_[0] == '\r')) line_.remove_prefix(1);
  if (!line_.empty() && line_[0] == '#') line_ = {};
}

std::string PlanTextReader::Word() {
  const size_t size = std::min(line_.find_first_of(" \t\r#\""), line_.size());
  std::string word(line_.substr(0, size));
  line_.remove_prefix(size);
  Blank();
  return word;
}

void PlanTextReader::End() const {
  if (!line_.empty()) Fail("\"" + std::string(line_) + "\" is too much");
}

bool PlanTextReader::Take(std::string_view word) {
  if (line_.substr(0, line_.find_first_of(" \t\r#\"")) != word) return false;
  Word();
  return true;
}

float PlanTextReader::Float32() {
  const std::string word = Word();
  float value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) Fail("\"" + word + "\" isn't a number");
  return value;
}

std::string PlanTextReader::String() {
  if (line_.empty() || line_[0] != '"') Fail("a quoted string is missing");
  std::string out;
  size_t at = 1;
  const auto take = [&] {
    if (at >= line_.size()) Fail("a string has no end");
    return line_[at++];
  };
  for (char c = take(); c != '"'; c = take()) {
    if (c != '\\') {
      out += c;
      continue;
    }
    c = take();
    if (c == 'n') {
      out += '\n';
    } else if (c == 'x') {
      const int high = HexDigit(take()), low = HexDigit(take());
      if (high < 0 || low < 0) Fail("\\x needs two hex digits");
      out += static_cast<char>(high * 16 + low);
    } else if (c == '"' || c == '\\') {
      out += c;
    } else {
      Fail(std::string("\\") + c + " isn't known");
    }
  }
  line_.remove_prefix(at);
  Blank();
  return out;
}

Sha256Digest PlanTextReader::Digest() {
  const std::string word = Word();
  Sha256Digest digest{};
  if (word.size() != 2 * digest.size()) Fail("a SHA-256 has 64 hex digits");
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = HexDigit(word[2 * i]), low = HexDigit(word[2 * i + 1]);
    if (high < 0 || low < 0) Fail("a SHA-256 has 64 hex digits");
    digest[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return digest;
}

}  // namespace llmc
