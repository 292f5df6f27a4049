// The Unicode Character Database of the version that llmc was built with (unicode_version of the tables), as sets and
// maps of code points. Made by tools/unicode_tables.cpp, so that a plan's bytes don't depend on the machine that
// compiles it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan_unicode.h"

namespace llmc {

struct CodeRange {
  uint32_t first, last;
  bool operator==(const CodeRange&) const = default;
};

// A set of code points: ascending ranges that neither overlap nor touch.
class CodeSet {
 public:
  CodeSet() = default;
  explicit CodeSet(std::vector<CodeRange> ranges);  // in any order, may overlap
  static CodeSet Of(uint32_t code_point) { return CodeSet({{code_point, code_point}}); }

  const std::vector<CodeRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool Contains(uint32_t code_point) const;
  CodeSet operator|(const CodeSet& other) const;
  CodeSet operator&(const CodeSet& other) const;
  CodeSet operator~() const;
  bool operator==(const CodeSet&) const = default;

 private:
  std::vector<CodeRange> ranges_;
};

// The code points of a general category ("Lu", "L", "Uppercase_Letter"), a script ("Han", "Hani") or one of the
// properties Alphabetic, White_Space, Join_Control, Extended_Pictographic, GCB=NAME (grapheme cluster break) and
// NFC_Check, NFKC_Check (the form's quick check is not Yes). Case, spaces, - and _ don't count. Null when there is
// none.
const CodeSet* FindProperty(std::string_view name);

// Adds every code point that is equal to one of the set under simple case folding (CaseFolding.txt, C and S).
CodeSet CaseClosure(const CodeSet& set);

// Full lower case without context, where it differs from the code point (UnicodeData.txt, SpecialCasing.txt).
struct LowerCase {
  uint32_t code_point;
  std::u32string_view lower;
};
std::vector<LowerCase> LowerCases();

// The tables of a normal form, as plan_unicode.h lays them out.
enum class NormalForm : uint8_t { Nfc, Nfd, Nfkc, Nfkd };
std::string NormalFormTable(NormalForm form);

// A byte a code point as a table of pages (CodePointBytes of plan_unicode.h): values[i] for those in sets[i], 0
// elsewhere; of sets that overlap the last counts.
std::string CodePointTable(std::span<const CodeSet> sets, std::span<const uint8_t> values);
// kClassSpace and kClassWord of every code point.
std::string WordClassTable();

}  // namespace llmc
