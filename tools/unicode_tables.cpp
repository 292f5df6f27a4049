// Makes the data of frontend/unicode.h from the Unicode Character Database, as a C++ source for the front end. Runs
// when llmc is built:
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

#include "tools/ucd.h"

namespace {

using namespace llmc::ucd;
using Set = std::vector<bool>;

std::vector<uint32_t> HexList(std::string_view s) {
  std::vector<uint32_t> out;
  for (const std::string_view part : Split(s, ' ')) {
    if (!part.empty() && part[0] != '<') out.push_back(Hex(part));
  }
  return out;
}

// Property names compare without case, spaces, - and _.
std::string Plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return out;
}

struct Database {
  std::map<std::string, Set> properties;  // by plain name
  std::map<std::string, std::string> aliases;
  std::map<uint32_t, uint32_t> folds;                               // simple case folding
  std::map<uint32_t, std::vector<uint32_t>> lower;                  // full lower case
  std::map<uint32_t, std::vector<uint32_t>> canonical, compatible;  // one step of decomposition
  std::map<uint32_t, uint32_t> combining;
  std::vector<uint32_t> compositions;  // rows of first, second, composite

  Set& Property(std::string_view name) {
    Set& set = properties[Plain(name)];
    if (set.empty()) set.resize(kCodePoints);
    return set;
  }
  // Adds code points to the properties that name(fields) gives for lines "range; ...".
  template <typename Name>
  void AddFile(const std::string& path, const Name& name) {
    ForLines(path, [&](const std::vector<std::string_view>& fields) {
      const std::string to = name(fields);
      if (to.empty()) return;
      const size_t dots = fields[0].find("..");
      const uint32_t first = Hex(fields[0].substr(0, dots));
      const uint32_t last = dots == std::string_view::npos ? first : Hex(fields[0].substr(dots + 2));
      Set& set = Property(to);
      std::fill(set.begin() + first, set.begin() + last + 1, true);
    });
  }
};

void ReadCharacters(const std::string& dir, Database& d) {
  std::set<uint32_t> excluded;
  d.AddFile(dir + "/DerivedNormalizationProps.txt", [](const auto& f) -> std::string {
    if (f[1] == "Full_Composition_Exclusion") return "excluded";
    if (f.size() > 2 && (f[1] == "NFC_QC" || f[1] == "NFKC_QC")) return f[1] == "NFC_QC" ? "NFC_Check" : "NFKC_Check";
    return "";
  });
  const Set exclusion = d.Property("excluded");
  d.properties.erase("excluded");
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> composites;
  Set assigned(kCodePoints);
  uint32_t range_first = 0;
  ForLines(dir + "/UnicodeData.txt", [&](const std::vector<std::string_view>& fields) {
    const uint32_t c = Hex(fields.at(0));
    const std::string_view category = fields.at(2);
    if (fields[1].ends_with(", First>")) {
      range_first = c;
      return;
    }
    const uint32_t first = fields[1].ends_with(", Last>") ? range_first : c;
    for (const std::string_view name : {category, category.substr(0, 1)}) {
      Set& set = d.Property(name);
      std::fill(set.begin() + first, set.begin() + c + 1, true);
    }
    std::fill(assigned.begin() + first, assigned.begin() + c + 1, true);
    if (fields.at(3) != "0") {
      uint32_t combining = 0;
      std::from_chars(fields[3].data(), fields[3].data() + fields[3].size(), combining);
      d.combining[c] = combining;
      d.Property("NFC_Check")[c] = d.Property("NFKC_Check")[c] = true;
    }
    if (!fields.at(5).empty()) {
      const std::vector<uint32_t> parts = HexList(fields[5]);
      const bool compatible = fields[5][0] == '<';
      (compatible ? d.compatible : d.canonical)[c] = parts;
      if (!compatible && parts.size() == 2 && !exclusion[c]) composites[{parts[0], parts[1]}] = c;
    }
    if (!fields.at(13).empty()) d.lower[c] = {Hex(fields[13])};
  });
  for (const auto& [pair, c] : composites) d.compositions.insert(d.compositions.end(), {pair.first, pair.second, c});
  for (uint32_t c = 0; c < kCodePoints; ++c) {
    if (!assigned[c]) d.Property("Cn")[c] = d.Property("C")[c] = true;
    d.Property("LC")[c] = d.Property("Lu")[c] || d.Property("Ll")[c] || d.Property("Lt")[c];
  }
}

Database Read(const std::string& dir) {
  Database d;
  ReadCharacters(dir, d);
  d.AddFile(dir + "/PropList.txt", [](const auto& f) {
    return f[1] == "White_Space" || f[1] == "Join_Control" ? std::string(f[1]) : std::string();
  });
  d.AddFile(dir + "/DerivedCoreProperties.txt",
            [](const auto& f) { return f[1] == "Alphabetic" ? std::string(f[1]) : std::string(); });
  d.AddFile(dir + "/Scripts.txt", [](const auto& f) { return std::string(f[1]); });
  d.AddFile(dir + "/emoji/emoji-data.txt",
            [](const auto& f) { return f[1] == "Extended_Pictographic" ? std::string(f[1]) : std::string(); });
  d.AddFile(dir + "/auxiliary/GraphemeBreakProperty.txt", [](const auto& f) { return "GCB=" + std::string(f[1]); });
  ForLines(dir + "/PropertyValueAliases.txt", [&](const std::vector<std::string_view>& f) {
    if (f[0] != "gc" && f[0] != "sc") return;
    const std::string name = Plain(f[0] == "gc" ? f[1] : f[2]);
    for (size_t i = 1; i < f.size(); ++i) d.aliases.emplace(Plain(f[i]), name);
  });
  ForLines(dir + "/CaseFolding.txt", [&](const std::vector<std::string_view>& f) {
    if (f[1] == "C" || f[1] == "S") d.folds[Hex(f[0])] = Hex(f[2]);
  });
  ForLines(dir + "/SpecialCasing.txt", [&](const std::vector<std::string_view>& f) {
    if (f.size() > 4 && f[4].empty() && HexList(f[1]) != std::vector<uint32_t>{Hex(f[0])})
      d.lower[Hex(f[0])] = HexList(f[1]);
  });
  return d;
}

// Rows {key, first, count} into a pool.
void PrintLists(std::ostream& out, const std::string& name, const std::map<uint32_t, std::vector<uint32_t>>& lists) {
  std::vector<uint32_t> rows, pool;
  for (const auto& [key, list] : lists) {
    rows.insert(rows.end(), {key, static_cast<uint32_t>(pool.size()), static_cast<uint32_t>(list.size())});
    pool.insert(pool.end(), list.begin(), list.end());
  }
  PrintArray(out, "uint32_t", name, rows);
  PrintArray(out, "uint32_t", name + "Pool", pool);
}

void Print(std::ostream& out, const Database& d) {
  out << "// Written by tools/unicode_tables.cpp.\n#include \"frontend/unicode_data.h\"\n\nnamespace llmc {\nnamespace "
         "{\n";
  std::vector<uint32_t> ranges;
  std::map<std::string, std::pair<size_t, size_t>> places;  // in ranges
  for (const auto& [name, set] : d.properties) {
    const size_t begin = ranges.size();
    for (uint32_t c = 0; c < kCodePoints; ++c) {
      if (!set[c] || (c > 0 && set[c - 1])) continue;
      uint32_t last = c;
      while (last + 1 < kCodePoints && set[last + 1]) ++last;
      ranges.insert(ranges.end(), {c, last});
    }
    places[name] = {begin, ranges.size()};
  }
  PrintArray(out, "uint32_t", "kRanges", ranges);
  std::map<std::string, std::pair<size_t, size_t>> names = places;
  for (const auto& [alias, name] : d.aliases) {
    if (const auto found = places.find(name); found != places.end()) names.emplace(alias, found->second);
  }
  out << "const UnicodeProperty kProperties[] = {\n";
  for (const auto& [name, place] : names)
    out << "{\"" << name << "\", {kRanges + " << place.first << ", " << place.second - place.first << "}},\n";
  out << "};\n";
  std::vector<uint32_t> folds, combining;
  for (const auto& [from, to] : d.folds) folds.insert(folds.end(), {from, to});
  for (const auto& [c, value] : d.combining) combining.insert(combining.end(), {c, value});
  PrintArray(out, "uint32_t", "kFolds", folds);
  PrintArray(out, "uint32_t", "kCombining", combining);
  PrintArray(out, "uint32_t", "kCompositions", d.compositions);
  PrintLists(out, "kLower", d.lower);
  PrintLists(out, "kCanonical", d.canonical);
  PrintLists(out, "kCompatible", d.compatible);
  out << "}  // namespace\n\nUnicodeData BuiltinUnicode() {\n"
         "  return {kProperties, kFolds, kCombining, kCompositions, {kLower, kLowerPool}, {kCanonical, "
         "kCanonicalPool},\n"
         "          {kCompatible, kCompatiblePool}};\n}\n\n}  // namespace llmc\n";
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
