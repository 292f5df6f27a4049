// Case and classes of characters as Python's str methods know them, for chat templates: tables in the plan's section.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// Properties of a code point.
inline constexpr uint32_t kTextAlpha = 1;        // general category L*
inline constexpr uint32_t kTextDecimal = 2;      // has a decimal value
inline constexpr uint32_t kTextDigit = 4;        // has a digit value
inline constexpr uint32_t kTextNumeric = 8;      // has a numeric value in UnicodeData.txt
inline constexpr uint32_t kTextPrintable = 16;   // not Cc, Cf, Cs, Co, Cn, Zl, Zp, Zs, but U+0020
inline constexpr uint32_t kTextUpper = 32;       // Uppercase
inline constexpr uint32_t kTextLower = 64;       // Lowercase
inline constexpr uint32_t kTextTitle = 128;      // Lt
inline constexpr uint32_t kTextCased = 256;      // Cased
inline constexpr uint32_t kTextIgnorable = 512;  // Case_Ignorable

struct TextTables {
  // {first code point, properties} of runs, ascending; a run ends where the next one begins.
  std::vector<std::array<uint32_t, 2>> properties;
  // {first, last, step, to upper, to lower, to title}: simple mappings as what is added to a code point (mod 2^32), of
  // every step-th code point from first to last; ascending, apart.
  std::vector<std::array<uint32_t, 6>> cases;
  // {code point, upper 3, lower 3, title 3}: mappings to more than one code point, 0 behind the last; ascending.
  std::vector<std::array<uint32_t, 10>> special;
  // First code points of runs of ten decimal digits, ascending.
  std::vector<uint32_t> digits;

  uint32_t Properties(uint32_t code_point) const;
  int DecimalValue(uint32_t code_point) const;  // -1: none
  enum class Case : uint8_t { Upper, Lower, Title };
  // Appends the full mapping (SpecialCasing.txt without conditions).
  void AppendCase(std::string& out, uint32_t code_point, Case to) const;
};

}  // namespace llmc
