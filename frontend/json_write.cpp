// The JSON writer.
#include <array>
#include <charconv>

#include "frontend/json.h"

namespace llmc {

std::string JsonQuote(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 0x20) {
      out += "\\u00";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

void JsonWriter::Indent() {
  out_ += '\n';
  out_.append(2 * levels_.size(), ' ');
}

void JsonWriter::BeforeValue() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  if (!levels_.back().empty) out_ += ',';
  levels_.back().empty = false;
  Indent();
}

JsonWriter& JsonWriter::BeginObject() {
  BeforeValue();
  out_ += '{';
  levels_.push_back({true, true});
  return *this;
}
JsonWriter& JsonWriter::BeginArray() {
  BeforeValue();
  out_ += '[';
  levels_.push_back({false, true});
  return *this;
}
JsonWriter& JsonWriter::End() {
  LLMC_CHECK(!levels_.empty(), "JsonWriter: nothing to end");
  Level level = levels_.back();
  levels_.pop_back();
  if (!level.empty) Indent();
  out_ += level.object ? '}' : ']';
  return *this;
}
JsonWriter& JsonWriter::Key(std::string_view key) {
  BeforeValue();
  out_ += JsonQuote(key);
  out_ += ": ";
  after_key_ = true;
  return *this;
}
JsonWriter& JsonWriter::Null() {
  BeforeValue();
  out_ += "null";
  return *this;
}
JsonWriter& JsonWriter::Bool(bool v) {
  BeforeValue();
  out_ += v ? "true" : "false";
  return *this;
}
JsonWriter& JsonWriter::Int(int64_t v) {
  BeforeValue();
  out_ += std::to_string(v);
  return *this;
}
JsonWriter& JsonWriter::Double(double v) {
  BeforeValue();
  std::array<char, 32> buffer{};
  auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), v).ptr;
  std::string_view text(buffer.data(), static_cast<size_t>(end - buffer.data()));
  out_ += text;
  if (text.find_first_of(".en") == std::string_view::npos) out_ += ".0";
  return *this;
}
JsonWriter& JsonWriter::String(std::string_view v) {
  BeforeValue();
  out_ += JsonQuote(v);
  return *this;
}
std::string JsonWriter::Finish() {
  LLMC_CHECK(levels_.empty(), "JsonWriter: an object or array is still open");
  return out_ + '\n';
}

}  // namespace llmc
