// Reading the files of the Unicode Character Database, for the programs that make tables of it when llmc is built.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan_unicode.h"

namespace llmc::ucd {

inline constexpr uint32_t kCodePoints = kMaxCodePoint + 1;

inline std::string_view Trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

inline std::vector<std::string_view> Split(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  for (size_t end; (end = line.find(separator)) != std::string_view::npos; line.remove_prefix(end + 1)) {
    fields.push_back(Trim(line.substr(0, end)));
  }
  fields.push_back(Trim(line));
  return fields;
}

inline uint32_t Hex(std::string_view s) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, 16);
  if (error != std::errc() || end != s.data() + s.size() || value >= kCodePoints) {
    throw std::runtime_error("not a code point: \"" + std::string(s) + "\"");
  }
  return value;
}

// Calls each(fields) for the lines of a file, without comments.
template <typename Each>
void ForLines(const std::string& path, const Each& each) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": can't be read");
  for (std::string line; std::getline(in, line);) {
    const std::string_view text = Trim(std::string_view(line).substr(0, line.find('#')));
    if (!text.empty()) each(Split(text, ';'));
  }
}

// Calls each(code point) for the lines whose fields after the range are `property...`.
template <typename Each>
void ForProperty(const std::string& path, const std::vector<std::string_view>& property, const Each& each) {
  size_t lines = 0;
  ForLines(path, [&](const std::vector<std::string_view>& fields) {
    if (fields.size() < property.size() + 1 || !std::equal(property.begin(), property.end(), fields.begin() + 1))
      return;
    ++lines;
    const size_t dots = fields[0].find("..");
    const uint32_t first = Hex(fields[0].substr(0, dots));
    const uint32_t last = dots == std::string_view::npos ? first : Hex(fields[0].substr(dots + 2));
    for (uint32_t c = first; c <= last; ++c) each(c);
  });
  if (lines == 0) throw std::runtime_error(path + ": has no " + std::string(property[0]));
}

template <typename T>
void PrintArray(std::ostream& out, const std::string& type, const std::string& name, const std::vector<T>& values) {
  out << "const " << type << " " << name << "[] = {";
  for (size_t i = 0; i < values.size(); ++i)
    out << (i % 32 == 0 ? "\n" : "") << static_cast<uint64_t>(values[i]) << ",";
  out << "\n};\n";
}

}  // namespace llmc::ucd
