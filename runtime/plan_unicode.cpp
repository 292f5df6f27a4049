// UTF-8 and normal forms over a plan's tables.
//
// Normal forms follow Unicode Standard Annex 15: full decomposition, stable sort of each run of marks by combining
// class, then, for NFC and NFKC, composition of each mark with the last starter unless a mark of the same or a higher
// class stands between. Hangul syllables are computed (Unicode Standard 3.12).
#include "runtime/plan_unicode.h"

#include <algorithm>

#include "runtime/plan_error.h"
#include "runtime/plan_load.h"

namespace llmc {
namespace {

constexpr uint32_t kHangulBase = 0xAC00, kLeadBase = 0x1100, kVowelBase = 0x1161, kTailBase = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;
// A byte that is not UTF-8, inside a normal form.
constexpr uint32_t kRawByte = kMaxCodePoint + 1;

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
  if (first > 0xE0 && first < 0xF0 && first != 0xED && text.size() - at >= 3) {  // any two bytes 80 to BF may follow
    const auto second = static_cast<uint8_t>(text[at + 1]), third = static_cast<uint8_t>(text[at + 2]);
    if ((second & 0xC0) == 0x80 && (third & 0xC0) == 0x80)
      return {(first & 0xFU) << 12 | (second & 0x3FU) << 6 | (third & 0x3FU), 3};
  }
  const Utf8Prefix prefix = ClassifyUtf8(text.substr(at));
  if (prefix.state != Utf8State::Complete) return {kReplacement, prefix.bytes, false};
  uint32_t value = first & (0xFFU >> (prefix.bytes + 1));
  for (uint32_t i = 1; i < prefix.bytes; ++i) value = value << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3FU);
  return {value, prefix.bytes};
}

CodePoint DecodeUtf8Before(std::string_view text, size_t end) {
  for (size_t bytes = std::min<size_t>(end, 4); bytes > 1; --bytes) {
    const CodePoint c = DecodeUtf8(text.substr(0, end), end - bytes);
    if (c.bytes == bytes) return c;
  }
  return DecodeUtf8(text.substr(0, end), end - 1);
}

void AppendUtf8(std::string& out, uint32_t code_point) {
  auto put = [&](uint32_t b) { out.push_back(static_cast<char>(static_cast<uint8_t>(b))); };
  if (code_point < 0x80) {
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

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Prefix prefix = ClassifyUtf8(text.substr(at));
    if (prefix.state != Utf8State::Complete) return false;
    at += prefix.bytes;
  }
  return true;
}

uint8_t CodePointBytes::At(uint32_t code_point) const {
  const size_t block = code_point >> 8;
  if (block >= kCodeBlocks || table_.size() < kCodeBlocks * 2) return 0;
  const size_t at = kCodeBlocks * 2 + size_t{LoadAt<uint16_t>(table_, block)} * 256 + (code_point & 0xFF);
  return at < table_.size() ? static_cast<uint8_t>(table_[at]) : uint8_t{0};
}

struct NormalFormTables::Marked {
  uint32_t code_point;
  uint32_t combining;
  SourceSpan span;
  uint32_t order = 0;  // in its run of marks
};

NormalFormTables::NormalFormTables(std::string_view table) {
  NormalFormHeader h{};
  if (table.size() < sizeof h) throw PlanError("tokenizer section: a normal form without its header");
  std::memcpy(&h, table.data(), sizeof h);
  table.remove_prefix(sizeof h);
  auto take = [&](uint64_t bytes) {
    if (bytes > table.size()) throw PlanError("tokenizer section: a normal form's tables are cut off");
    const std::string_view part = table.substr(0, bytes);
    table.remove_prefix(bytes);
    return part;
  };
  compose_ = h.compose != 0;
  check_ = CodePointBytes(take(h.check_bytes));
  decompositions_ = take(uint64_t{h.decompositions} * 12);
  pool_ = take(uint64_t{h.pool} * 4);
  combining_ = take(uint64_t{h.combining} * 8);
  compositions_ = take(uint64_t{h.compositions} * 12);
}

bool NormalFormTables::MayChange(std::string_view text) const {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const CodePoint c = DecodeUtf8(text, at);
    if (check_.At(c.value) != 0) return true;
    at += c.bytes;
  }
  return false;
}

uint32_t NormalFormTables::CombiningClass(uint32_t code_point) const {
  const int64_t row = FindRow(combining_, 2, code_point, 1);
  return row < 0 ? 0 : LoadAt<uint32_t>(combining_, static_cast<size_t>(row) * 2 + 1);
}

void NormalFormTables::Decompose(uint32_t code_point, SourceSpan span, std::vector<Marked>& out) const {
  const uint32_t syllable = code_point - kHangulBase;
  if (syllable < kSyllables) {
    out.push_back({kLeadBase + syllable / (kVowels * kTails), 0, span});
    out.push_back({kVowelBase + syllable % (kVowels * kTails) / kTails, 0, span});
    if (syllable % kTails != 0) out.push_back({kTailBase + syllable % kTails, 0, span});
    return;
  }
  const int64_t row = FindRow(decompositions_, 3, code_point, 1);
  if (row < 0) {
    out.push_back({code_point, CombiningClass(code_point), span});
    return;
  }
  const auto first = LoadAt<uint32_t>(decompositions_, static_cast<size_t>(row) * 3 + 1);
  const auto count = LoadAt<uint32_t>(decompositions_, static_cast<size_t>(row) * 3 + 2);
  for (uint64_t i = first; i < std::min<uint64_t>(uint64_t{first} + count, pool_.size() / 4); ++i) {
    const auto part = LoadAt<uint32_t>(pool_, i);
    if (part <= kMaxCodePoint) out.push_back({part, CombiningClass(part), span});
  }
}

// The primary composite of a pair, or 0.
uint32_t NormalFormTables::Compose(uint32_t first, uint32_t second) const {
  if (first - kLeadBase < kLeads && second - kVowelBase < kVowels) {
    return kHangulBase + ((first - kLeadBase) * kVowels + (second - kVowelBase)) * kTails;
  }
  if (first - kHangulBase < kSyllables && (first - kHangulBase) % kTails == 0 && second - kTailBase - 1 < kTails - 1) {
    return first + (second - kTailBase);
  }
  const int64_t row = FindRow(compositions_, 3, uint64_t{first} << 32 | second, 2);
  const uint32_t composed = row < 0 ? 0 : LoadAt<uint32_t>(compositions_, static_cast<size_t>(row) * 3 + 2);
  return composed <= kMaxCodePoint ? composed : 0;
}

// Composes in place; returns the new length.
size_t NormalFormTables::ComposeAll(std::vector<Marked>& text) const {
  size_t kept = 0;
  size_t starter = SIZE_MAX;
  uint32_t last_class = 0;  // of the last kept code point since the starter
  for (size_t i = 0; i < text.size(); ++i) {
    const Marked next = text[i];
    const bool adjacent = starter != SIZE_MAX && kept == starter + 1;
    if (starter != SIZE_MAX && (adjacent || last_class < next.combining)) {
      if (const uint32_t composed = Compose(text[starter].code_point, next.code_point); composed != 0) {
        text[starter].code_point = composed;
        text[starter].span.end = std::max(text[starter].span.end, next.span.end);
        continue;
      }
    }
    if (next.combining == 0) starter = kept;
    last_class = next.combining;
    text[kept++] = next;
  }
  return kept;
}

void NormalFormTables::Apply(std::string_view text, std::string& out, SourceSpans* spans) const {
  std::vector<Marked> points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text, at);
    const auto begin = static_cast<uint32_t>(at);
    const SourceSpan span = {begin, begin + c.bytes};
    if (!c.valid) {
      for (uint32_t i = 0; i < c.bytes; ++i)
        points.push_back({kRawByte + static_cast<uint8_t>(text[at + i]), 0, {begin + i, begin + i + 1}});
    } else if (c.value < 0x80) {
      points.push_back({c.value, 0, span});
    } else {
      Decompose(c.value, span, points);
    }
    at += c.bytes;
  }
  for (size_t begin = 0; begin < points.size();) {
    if (points[begin].combining == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < points.size() && points[end].combining != 0) ++end;
    for (size_t i = begin; i < end; ++i) points[i].order = static_cast<uint32_t>(i - begin);
    std::sort(points.begin() + static_cast<ptrdiff_t>(begin), points.begin() + static_cast<ptrdiff_t>(end),
              [](const Marked& a, const Marked& b) {
                return a.combining != b.combining ? a.combining < b.combining : a.order < b.order;
              });
    begin = end;
  }
  const size_t count = compose_ ? ComposeAll(points) : points.size();
  out.reserve(out.size() + text.size());
  for (size_t i = 0; i < count; ++i) {
    if (points[i].code_point >= kRawByte) {
      out.push_back(static_cast<char>(static_cast<uint8_t>(points[i].code_point - kRawByte)));
    } else {
      AppendUtf8(out, points[i].code_point);
    }
    if (spans != nullptr) spans->resize(out.size(), points[i].span);
  }
}

}  // namespace llmc
