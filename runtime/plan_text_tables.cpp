// Lookups in the tables of characters.
#include "runtime/plan_text_tables.h"

#include <algorithm>

#include "runtime/plan_unicode.h"

namespace llmc {

uint32_t TextTables::Properties(uint32_t code_point) const {
  if (code_point > kMaxCodePoint) return 0;
  const auto after = std::upper_bound(properties.begin(), properties.end(), code_point,
                                      [](uint32_t c, const auto& run) { return c < run[0]; });
  return after == properties.begin() ? 0 : (*(after - 1))[1];
}

int TextTables::DecimalValue(uint32_t code_point) const {
  const auto after = std::upper_bound(digits.begin(), digits.end(), code_point);
  if (after == digits.begin()) return -1;
  const uint32_t value = code_point - *(after - 1);
  return value < 10 ? static_cast<int>(value) : -1;
}

void TextTables::AppendCase(std::string& out, uint32_t code_point, Case to) const {
  const size_t which = static_cast<size_t>(to);
  const auto special_at = std::lower_bound(special.begin(), special.end(), code_point,
                                           [](const auto& entry, uint32_t c) { return entry[0] < c; });
  if (special_at != special.end() && (*special_at)[0] == code_point) {
    for (size_t i = 0; i < 3; ++i) {
      const uint32_t c = (*special_at)[1 + which * 3 + i];
      if (c != 0) AppendUtf8(out, c);
    }
    return;
  }
  const auto after =
      std::upper_bound(cases.begin(), cases.end(), code_point, [](uint32_t c, const auto& run) { return c < run[0]; });
  if (after != cases.begin()) {
    const auto& run = *(after - 1);
    if (code_point <= run[1] && run[2] != 0 && (code_point - run[0]) % run[2] == 0) {
      const uint32_t mapped = code_point + run[3 + which];
      AppendUtf8(out, mapped <= kMaxCodePoint ? mapped : code_point);
      return;
    }
  }
  AppendUtf8(out, code_point);
}

}  // namespace llmc
