// UTF-8 and NFC over a plan's tables.
//
// NFC follows Unicode Standard Annex 15: full canonical decomposition, stable sort of each run of marks by combining
// class, then composition of each mark with the last starter unless a mark of the same or a higher class stands
// between. Hangul syllables are computed (Unicode Standard 3.12).
#include "runtime/plan_unicode.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/plan_load.h"

namespace llmc {
namespace {

constexpr uint32_t kHangulBase = 0xAC00, kLeadBase = 0x1100, kVowelBase = 0x1161, kTailBase = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;
// Canonical decompositions nest at most 4 deep in Unicode; deeper ones (damaged tables) are cut off.
constexpr int kMaxNesting = 8;

// The second byte of a lead byte's sequence lies in [low, high]; length 0 is no lead byte.
struct LeadByte {
  uint32_t length;
  uint8_t low, high;
};
LeadByte Lead(uint8_t b) {
  if (b < 0x80) return {1, 0, 0};
  if (b < 0xC2) return {0, 0, 0};
  if (b < 0xE0) return {2, 0x80, 0xBF};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b < 0xF0) return {3, 0x80, 0xBF};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b < 0xF4) return {4, 0x80, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Index of the first row of `columns` u32 whose first `keys` columns equal key, or -1.
int64_t FindRow(std::string_view table, uint32_t columns, uint64_t key, uint32_t keys) {
  const size_t row_bytes = size_t{columns} * 4;
  auto row_key = [&](size_t row) {
    const std::string_view at = table.substr(row * row_bytes, row_bytes);
    const uint64_t first = LoadAt<uint32_t>(at, 0);
    return keys == 1 ? first : first << 32 | LoadAt<uint32_t>(at, 1);
  };
  size_t low = 0;
  size_t high = table.size() / row_bytes;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const uint64_t found = row_key(middle);
    if (found == key) return static_cast<int64_t>(middle);
    if (found < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return -1;
}

struct Marked {
  uint32_t code_point;
  uint32_t combining;
  uint32_t order = 0;  // in its run of marks
};

uint32_t CombiningClass(const UnicodeTables& tables, uint32_t code_point) {
  const int64_t row = FindRow(tables.combining, 2, code_point, 1);
  return row < 0 ? 0 : LoadAt<uint32_t>(tables.combining, static_cast<size_t>(row) * 2 + 1);
}

void Decompose(const UnicodeTables& tables, uint32_t code_point, std::vector<Marked>& out) {
  const uint32_t syllable = code_point - kHangulBase;
  if (syllable < kSyllables) {
    out.push_back({kLeadBase + syllable / (kVowels * kTails), 0});
    out.push_back({kVowelBase + syllable % (kVowels * kTails) / kTails, 0});
    if (syllable % kTails != 0) out.push_back({kTailBase + syllable % kTails, 0});
    return;
  }
  std::array<uint32_t, kMaxNesting> seconds;
  size_t pending = 0;
  while (pending < seconds.size()) {
    const int64_t row = FindRow(tables.decompositions, 3, code_point, 1);
    if (row < 0) break;
    code_point = LoadAt<uint32_t>(tables.decompositions, static_cast<size_t>(row) * 3 + 1);
    const uint32_t second = LoadAt<uint32_t>(tables.decompositions, static_cast<size_t>(row) * 3 + 2);
    seconds[pending++] = second;  // a singleton's 0 counts as a level too, so that a cycle in damaged tables ends
  }
  out.push_back({code_point, CombiningClass(tables, code_point)});
  while (pending > 0) {
    if (const uint32_t second = seconds[--pending]; second != 0)
      out.push_back({second, CombiningClass(tables, second)});
  }
}

// The primary composite of a pair, or 0.
uint32_t Compose(const UnicodeTables& tables, uint32_t first, uint32_t second) {
  if (first - kLeadBase < kLeads && second - kVowelBase < kVowels) {
    return kHangulBase + ((first - kLeadBase) * kVowels + (second - kVowelBase)) * kTails;
  }
  if (first - kHangulBase < kSyllables && (first - kHangulBase) % kTails == 0 && second - kTailBase - 1 < kTails - 1) {
    return first + (second - kTailBase);
  }
  const int64_t row = FindRow(tables.compositions, 3, uint64_t{first} << 32 | second, 2);
  return row < 0 ? 0 : LoadAt<uint32_t>(tables.compositions, static_cast<size_t>(row) * 3 + 2);
}

void SortMarks(std::vector<Marked>& text) {
  for (size_t begin = 0; begin < text.size();) {
    if (text[begin].combining == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < text.size() && text[end].combining != 0) ++end;
    const auto first = text.begin() + static_cast<ptrdiff_t>(begin);
    for (size_t i = begin; i < end; ++i) text[i].order = static_cast<uint32_t>(i - begin);
    std::sort(first, text.begin() + static_cast<ptrdiff_t>(end), [](const Marked& a, const Marked& b) {
      return a.combining != b.combining ? a.combining < b.combining : a.order < b.order;
    });
    begin = end;
  }
}

// Composes in place; returns the new length.
size_t ComposeAll(const UnicodeTables& tables, std::vector<Marked>& text) {
  size_t kept = 0;
  size_t starter = SIZE_MAX;
  uint32_t last_class = 0;  // of the last kept code point since the starter
  for (const Marked& next : std::as_const(text)) {
    const bool adjacent = starter != SIZE_MAX && kept == starter + 1;
    if (starter != SIZE_MAX && (adjacent || last_class < next.combining)) {
      if (const uint32_t composed = Compose(tables, text[starter].code_point, next.code_point); composed != 0) {
        text[starter].code_point = composed;
        continue;
      }
    }
    if (next.combining == 0) starter = kept;
    last_class = next.combining;
    text[kept++] = next;
  }
  return kept;
}

}  // namespace

Utf8Prefix ClassifyUtf8(std::string_view text) {
  const LeadByte lead = Lead(static_cast<uint8_t>(text[0]));
  if (lead.length == 0) return {Utf8State::Invalid, 1};
  for (uint32_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8State::Incomplete, i};
    const auto b = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (b < low || b > high) return {Utf8State::Invalid, i};
  }
  return {Utf8State::Complete, lead.length};
}

CodePoint DecodeUtf8(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return {first, 1};
  const Utf8Prefix prefix = ClassifyUtf8(text.substr(at));
  if (prefix.state != Utf8State::Complete) return {kBadByte + first, 1};
  uint32_t value = first & (0xFFU >> (prefix.bytes + 1));
  for (uint32_t i = 1; i < prefix.bytes; ++i) value = value << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3FU);
  return {value, prefix.bytes};
}

void AppendUtf8(std::string& out, uint32_t code_point) {
  auto put = [&](uint32_t b) { out.push_back(static_cast<char>(static_cast<uint8_t>(b))); };
  if (code_point > kMaxCodePoint) {
    put(code_point - kBadByte);
  } else if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

uint8_t UnicodeTables::Class(uint32_t code_point) const {
  const size_t block = code_point >> 8;
  if (block >= class_index.size() / 2) return 0;
  const size_t at = size_t{LoadAt<uint16_t>(class_index, block)} * 256 + (code_point & 0xFF);
  return at < class_pages.size() ? static_cast<uint8_t>(class_pages[at]) : uint8_t{0};
}

bool UnicodeTables::NeedsNfc(std::string_view text) const {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    if (c.value >= 0x80 && (Class(c.value) & kClassNfcCheck) != 0) return true;
    at += c.bytes;
  }
  return false;
}

std::string UnicodeTables::Nfc(std::string_view text) const {
  std::vector<Marked> points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    if (c.value < 0x80 || c.value > kMaxCodePoint) {
      points.push_back({c.value, 0});
    } else {
      Decompose(*this, c.value, points);
    }
    at += c.bytes;
  }
  SortMarks(points);
  const size_t count = ComposeAll(*this, points);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < count; ++i) AppendUtf8(out, points[i].code_point);
  return out;
}

}  // namespace llmc
