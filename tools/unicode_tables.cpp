// Makes the tables of runtime/plan_unicode.h from the Unicode Character Database, as a C++ source for the front end.
// Runs when llmc is built:
//   unicode_tables DIR OUT.cpp     DIR: /usr/share/unicode of Debian's package unicode-data
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/plan_unicode.h"

namespace {

constexpr uint32_t kCodePoints = llmc::kMaxCodePoint + 1;

std::string_view Trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::vector<std::string_view> Split(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  for (size_t end; (end = line.find(separator)) != std::string_view::npos; line.remove_prefix(end + 1)) {
    fields.push_back(Trim(line.substr(0, end)));
  }
  fields.push_back(Trim(line));
  return fields;
}

uint32_t Hex(std::string_view s) {
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

struct Database {
  std::vector<uint8_t> classes = std::vector<uint8_t>(kCodePoints);
  std::vector<uint32_t> decompositions, compositions, combining;  // as in UnicodeTables
};

Database Read(const std::string& dir) {
  Database d;
  auto add = [&](uint8_t bit) { return [&d, bit](uint32_t c) { d.classes[c] |= bit; }; };
  std::set<uint32_t> excluded;
  ForProperty(dir + "/DerivedNormalizationProps.txt", {"Full_Composition_Exclusion"},
              [&](uint32_t c) { excluded.insert(c); });
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> composites;
  uint32_t range_first = 0;
  ForLines(dir + "/UnicodeData.txt", [&](const std::vector<std::string_view>& fields) {
    const uint32_t c = Hex(fields.at(0));
    const std::string_view category = fields.at(2);
    if (fields[1].ends_with(", First>")) {
      range_first = c;
      return;
    }
    const uint32_t first = fields[1].ends_with(", Last>") ? range_first : c;
    uint8_t bits = 0;
    if (category[0] == 'L') bits |= llmc::kClassLetter;
    if (category[0] == 'N') bits |= llmc::kClassNumber;
    if (category[0] == 'M') bits |= llmc::kClassMark | llmc::kClassWord;
    if (category == "Nd" || category == "Pc") bits |= llmc::kClassWord;
    for (uint32_t i = first; i <= c; ++i) d.classes[i] |= bits;
    if (fields.at(3) != "0") {
      uint32_t combining = 0;
      std::from_chars(fields[3].data(), fields[3].data() + fields[3].size(), combining);
      d.combining.insert(d.combining.end(), {c, combining});
      d.classes[c] |= llmc::kClassNfcCheck;
    }
    const std::string_view mapping = fields.at(5);
    if (!mapping.empty() && mapping[0] != '<') {  // '<': a compatibility mapping
      const std::vector<std::string_view> parts = Split(mapping, ' ');
      const uint32_t second = parts.size() > 1 ? Hex(parts[1]) : 0;
      d.decompositions.insert(d.decompositions.end(), {c, Hex(parts[0]), second});
      if (second != 0 && !excluded.contains(c)) composites[{Hex(parts[0]), second}] = c;
    }
  });
  for (const auto& [pair, c] : composites) d.compositions.insert(d.compositions.end(), {pair.first, pair.second, c});
  ForProperty(dir + "/PropList.txt", {"White_Space"}, add(llmc::kClassSpace));
  ForProperty(dir + "/PropList.txt", {"Join_Control"}, add(llmc::kClassWord));
  ForProperty(dir + "/DerivedCoreProperties.txt", {"Alphabetic"}, add(llmc::kClassWord));
  ForProperty(dir + "/DerivedNormalizationProps.txt", {"NFC_QC", "N"}, add(llmc::kClassNfcCheck));
  ForProperty(dir + "/DerivedNormalizationProps.txt", {"NFC_QC", "M"}, add(llmc::kClassNfcCheck));
  return d;
}

template <typename T>
void PrintArray(std::ostream& out, const std::string& type, const std::string& name, const std::vector<T>& values) {
  out << "const " << type << " " << name << "[] = {";
  for (size_t i = 0; i < values.size(); ++i)
    out << (i % 32 == 0 ? "\n" : "") << static_cast<uint64_t>(values[i]) << ",";
  out << "\n};\n";
}

void Print(std::ostream& out, const Database& d) {
  std::map<std::vector<uint8_t>, uint16_t> numbers;
  std::vector<uint16_t> index;
  std::vector<uint8_t> pages;
  for (uint32_t block = 0; block < kCodePoints / 256; ++block) {
    const auto begin = d.classes.begin() + block * 256;
    const auto [it, fresh] =
        numbers.emplace(std::vector<uint8_t>(begin, begin + 256), static_cast<uint16_t>(numbers.size()));
    if (fresh) pages.insert(pages.end(), begin, begin + 256);
    index.push_back(it->second);
  }
  out << "// Written by tools/unicode_tables.cpp.\n#include \"frontend/unicode.h\"\n\n#include <cstdint>\n\nnamespace "
         "llmc {\nnamespace {\n";
  PrintArray(out, "uint16_t", "kIndex", index);
  PrintArray(out, "uint8_t", "kPages", pages);
  PrintArray(out, "uint32_t", "kDecompositions", d.decompositions);
  PrintArray(out, "uint32_t", "kCompositions", d.compositions);
  PrintArray(out, "uint32_t", "kCombining", d.combining);
  out << "template <typename T, size_t n>\nstd::string_view Bytes(const T (&values)[n]) {\n"
         "  return {reinterpret_cast<const char*>(values), sizeof(values)};\n}\n}  // namespace\n\n"
         "UnicodeTables BuiltinUnicode() {\n"
         "  return {Bytes(kIndex), Bytes(kPages), Bytes(kDecompositions), Bytes(kCompositions), "
         "Bytes(kCombining)};\n}\n\n}  // namespace llmc\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::runtime_error("usage: unicode_tables DIR OUT.cpp");
    const Database database = Read(argv[1]);
    std::ofstream out(argv[2]);
    Print(out, database);
    out.close();
    if (!out) throw std::runtime_error(std::string(argv[2]) + ": can't be written");
  } catch (const std::exception& e) {
    std::cerr << "unicode_tables: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
