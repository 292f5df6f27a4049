// Makes the tables of runtime/plan_text_tables.h from the Unicode Character Database, as a C++ source for the front
// end. Runs when llmc is built:
//   text_tables DIR OUT.cpp     DIR: /usr/share/unicode of Debian's package unicode-data
#include <array>
#include <cstdio>
#include <exception>
#include <iostream>

#include "runtime/plan_text_tables.h"
#include "tools/ucd.h"

namespace {

using namespace llmc;
using namespace llmc::ucd;

TextTables Read(const std::string& dir) {
  std::vector<uint32_t> bits(kCodePoints);
  std::vector<std::array<uint32_t, 3>> cases(kCodePoints);  // what is added: upper, lower, title
  TextTables tables;
  uint32_t range_first = 0;
  ForLines(dir + "/UnicodeData.txt", [&](const std::vector<std::string_view>& fields) {
    const uint32_t c = Hex(fields.at(0));
    if (fields[1].ends_with(", First>")) {
      range_first = c;
      return;
    }
    const uint32_t first = fields[1].ends_with(", Last>") ? range_first : c;
    const std::string_view category = fields.at(2);
    const bool hidden = category == "Cc" || category == "Cf" || category == "Cs" || category == "Co" ||
                        category == "Zl" || category == "Zp" || category == "Zs";
    for (uint32_t i = first; i <= c; ++i) {
      bits[i] |= category[0] == 'L' ? kTextAlpha : 0;
      bits[i] |= category == "Lt" ? kTextTitle : 0;
      bits[i] |= !fields.at(6).empty() ? kTextDecimal : 0;
      bits[i] |= !fields.at(7).empty() ? kTextDigit : 0;
      bits[i] |= !fields.at(8).empty() ? kTextNumeric : 0;
      bits[i] |= !hidden || i == ' ' ? kTextPrintable : 0;
    }
    if (fields[6] == "0") tables.digits.push_back(c);
    const auto mapping = [&](size_t field, uint32_t otherwise) {
      return fields.at(field).empty() ? otherwise : Hex(fields[field]);
    };
    const uint32_t upper = mapping(12, c);
    cases[c] = {upper - c, mapping(13, c) - c, mapping(14, upper) - c};
  });
  const auto add = [&](uint32_t bit) { return [&bits, bit](uint32_t c) { bits[c] |= bit; }; };
  ForProperty(dir + "/DerivedCoreProperties.txt", {"Uppercase"}, add(kTextUpper));
  ForProperty(dir + "/DerivedCoreProperties.txt", {"Lowercase"}, add(kTextLower));
  ForProperty(dir + "/DerivedCoreProperties.txt", {"Cased"}, add(kTextCased));
  ForProperty(dir + "/DerivedCoreProperties.txt", {"Case_Ignorable"}, add(kTextIgnorable));
  for (uint32_t c = 0; c < kCodePoints; ++c) {
    if (c == 0 || bits[c] != bits[c - 1]) tables.properties.push_back({c, bits[c]});
  }
  // Runs of one distance, of every code point or of every second one.
  for (uint32_t c = 0; c < kCodePoints; ++c) {
    if (cases[c] == std::array<uint32_t, 3>{}) continue;
    const auto same = [&](uint32_t other) { return other < kCodePoints && cases[other] == cases[c]; };
    const uint32_t step = !same(c + 1) && same(c + 2) && c + 1 < kCodePoints ? 2 : 1;
    uint32_t last = c;
    // Code points between those of a run of step 2 have mappings of their own: such a run is one entry only if not.
    while (same(last + step) && (step == 1 || cases[last + 1] == std::array<uint32_t, 3>{})) last += step;
    tables.cases.push_back({c, last, step, cases[c][0], cases[c][1], cases[c][2]});
    c = last;
  }
  ForLines(dir + "/SpecialCasing.txt", [&](const std::vector<std::string_view>& fields) {
    if (fields.size() > 5 && !fields[4].empty()) return;  // with conditions: languages, and the final sigma
    std::array<uint32_t, 10> entry{};
    entry[0] = Hex(fields.at(0));
    const std::array<size_t, 3> columns = {3, 1, 2};  // of upper, lower, title
    for (size_t which = 0; which < 3; ++which) {
      size_t place = 1 + which * 3;
      for (const std::string_view part : Split(fields.at(columns[which]), ' ')) entry.at(place++) = Hex(part);
    }
    tables.special.push_back(entry);
  });
  std::sort(tables.special.begin(), tables.special.end());
  return tables;
}

template <typename T>
void PrintRows(std::ostream& out, const std::string& name, const std::vector<T>& rows) {
  std::vector<uint32_t> flat;
  for (const T& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  PrintArray(out, "uint32_t", name, flat);
}

void Print(std::ostream& out, const TextTables& tables) {
  out << "// Written by tools/text_tables.cpp.\n#include \"frontend/text_tables.h\"\n\n#include <algorithm>\n\n"
         "namespace llmc {\nnamespace {\n";
  PrintRows(out, "kProperties", tables.properties);
  PrintRows(out, "kCases", tables.cases);
  PrintRows(out, "kSpecial", tables.special);
  PrintArray(out, "uint32_t", "kDigits", tables.digits);
  out << "template <typename Row, size_t n>\nstd::vector<Row> Rows(const uint32_t (&values)[n]) {\n"
         "  std::vector<Row> rows(n / std::tuple_size_v<Row>);\n"
         "  for (size_t i = 0; i < n; ++i) rows[i / std::tuple_size_v<Row>][i % std::tuple_size_v<Row>] = values[i];\n"
         "  return rows;\n}\n}  // namespace\n\n"
         "TextTables BuiltinTextTables() {\n"
         "  return {Rows<std::array<uint32_t, 2>>(kProperties), Rows<std::array<uint32_t, 6>>(kCases),\n"
         "          Rows<std::array<uint32_t, 10>>(kSpecial), {std::begin(kDigits), std::end(kDigits)}};\n}\n\n"
         "}  // namespace llmc\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::runtime_error("usage: text_tables DIR OUT.cpp");
    const TextTables tables = Read(argv[1]);
    std::ofstream out(argv[2]);
    Print(out, tables);
    out.close();
    if (!out) throw std::runtime_error(std::string(argv[2]) + ": can't be written");
  } catch (const std::exception& e) {
    std::cerr << "text_tables: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
