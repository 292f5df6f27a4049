// The arrays that tools/unicode_tables.cpp writes. Internal to frontend/unicode.cpp.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace llmc {

struct UnicodeProperty {
  std::string_view name;             // lower case, without spaces, - and _; ascending
  std::span<const uint32_t> ranges;  // first, last of each
};
struct UnicodeLists {
  std::span<const uint32_t> rows;  // key, first in pool, count of each; keys ascend
  std::span<const uint32_t> pool;
};
struct UnicodeData {
  std::span<const UnicodeProperty> properties;
  std::span<const uint32_t> folds;         // code point, folded
  std::span<const uint32_t> combining;     // code point, class
  std::span<const uint32_t> compositions;  // first, second, composite
  UnicodeLists lower, canonical, compatible;
};
UnicodeData BuiltinUnicode();

}  // namespace llmc
