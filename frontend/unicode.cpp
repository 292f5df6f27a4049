// Sets, maps and tables of code points out of the arrays of unicode_data.h.
#include "frontend/unicode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "frontend/unicode_data.h"

namespace llmc {
namespace {

template <typename T>
void Append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}
template <typename T>
void AppendAll(std::string& out, std::span<const T> values) {
  out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

std::map<uint32_t, std::span<const uint32_t>> ListMap(const UnicodeLists& lists) {
  std::map<uint32_t, std::span<const uint32_t>> out;
  for (size_t row = 0; row < lists.rows.size(); row += 3)
    out[lists.rows[row]] = lists.pool.subspan(lists.rows[row + 1], lists.rows[row + 2]);
  return out;
}

}  // namespace

CodeSet::CodeSet(std::vector<CodeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  for (const CodeRange& r : ranges) {
    if (r.first > r.last) continue;
    if (!ranges_.empty() && r.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, r.last);
    } else {
      ranges_.push_back(r);
    }
  }
}

bool CodeSet::Contains(uint32_t code_point) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), code_point,
                                      [](uint32_t c, const CodeRange& r) { return c < r.first; });
  return after != ranges_.begin() && code_point <= (after - 1)->last;
}

CodeSet CodeSet::operator|(const CodeSet& other) const {
  std::vector<CodeRange> all = ranges_;
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  return CodeSet(std::move(all));
}

CodeSet CodeSet::operator&(const CodeSet& other) const { return ~(~*this | ~other); }

CodeSet CodeSet::operator~() const {
  CodeSet out;
  uint32_t next = 0;
  for (const CodeRange& r : ranges_) {
    if (r.first > next) out.ranges_.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kMaxCodePoint) out.ranges_.push_back({next, kMaxCodePoint});
  return out;
}

const CodeSet* FindProperty(std::string_view name) {
  static const std::map<std::string, CodeSet, std::less<>> sets = [] {
    std::map<std::string, CodeSet, std::less<>> out;
    for (const UnicodeProperty& property : BuiltinUnicode().properties) {
      std::vector<CodeRange> ranges;
      for (size_t i = 0; i < property.ranges.size(); i += 2)
        ranges.push_back({property.ranges[i], property.ranges[i + 1]});
      out.emplace(property.name, CodeSet(std::move(ranges)));
    }
    return out;
  }();
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    plain.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  const auto found = sets.find(plain);
  return found == sets.end() ? nullptr : &found->second;
}

CodeSet CaseClosure(const CodeSet& set) {
  static const std::map<uint32_t, std::vector<uint32_t>> unfold = [] {
    std::map<uint32_t, std::vector<uint32_t>> out;  // folded -> all that fold to it
    const std::span<const uint32_t> folds = BuiltinUnicode().folds;
    for (size_t i = 0; i < folds.size(); i += 2) out[folds[i + 1]].push_back(folds[i]);
    return out;
  }();
  std::vector<CodeRange> more = set.ranges();
  for (const auto& [folded, sources] : unfold) {
    bool any = set.Contains(folded);
    for (const uint32_t c : sources) any = any || set.Contains(c);
    if (!any) continue;
    more.push_back({folded, folded});
    for (const uint32_t c : sources) more.push_back({c, c});
  }
  return CodeSet(std::move(more));
}

std::vector<LowerCase> LowerCases() {
  std::vector<LowerCase> out;
  for (const auto& [c, lower] : ListMap(BuiltinUnicode().lower)) {
    static_assert(sizeof(char32_t) == sizeof(uint32_t));
    out.push_back({c, {reinterpret_cast<const char32_t*>(lower.data()), lower.size()}});
  }
  return out;
}

std::string NormalFormTable(NormalForm form) {
  const UnicodeData data = BuiltinUnicode();
  const bool compose = form == NormalForm::Nfc || form == NormalForm::Nfkc;
  const bool compatible = form == NormalForm::Nfkc || form == NormalForm::Nfkd;
  std::map<uint32_t, std::span<const uint32_t>> steps = ListMap(data.canonical);
  if (compatible) steps.merge(ListMap(data.compatible));
  std::vector<uint32_t> rows, pool;
  std::vector<CodeRange> decomposed = {{0xAC00, 0xD7A3}};
  for (const auto& [c, first_step] : steps) {
    const auto begin = static_cast<uint32_t>(pool.size());
    std::vector<uint32_t> pending(first_step.rbegin(), first_step.rend());
    while (!pending.empty()) {
      const uint32_t next = pending.back();
      pending.pop_back();
      if (const auto found = steps.find(next); found != steps.end()) {
        pending.insert(pending.end(), found->second.rbegin(), found->second.rend());
      } else {
        pool.push_back(next);
      }
    }
    rows.insert(rows.end(), {c, begin, static_cast<uint32_t>(pool.size()) - begin});
    decomposed.push_back({c, c});
  }
  std::vector<CodeRange> marks;
  for (size_t i = 0; i < data.combining.size(); i += 2) marks.push_back({data.combining[i], data.combining[i]});
  const CodeSet check = compose ? *FindProperty(compatible ? "NFKC_Check" : "NFC_Check")
                                : CodeSet(std::move(decomposed)) | CodeSet(std::move(marks));
  const std::array<CodeSet, 1> sets = {check};
  const std::array<uint8_t, 1> values = {1};
  const std::string check_table = CodePointTable(sets, values);
  NormalFormHeader h{};
  h.compose = compose ? 1 : 0;
  h.check_bytes = static_cast<uint32_t>(check_table.size());
  h.decompositions = static_cast<uint32_t>(rows.size() / 3);
  h.pool = static_cast<uint32_t>(pool.size());
  h.combining = static_cast<uint32_t>(data.combining.size() / 2);
  h.compositions = compose ? static_cast<uint32_t>(data.compositions.size() / 3) : 0;
  std::string out;
  Append(out, h);
  out += check_table;
  AppendAll<uint32_t>(out, rows);
  AppendAll<uint32_t>(out, pool);
  AppendAll(out, data.combining);
  if (compose) AppendAll(out, data.compositions);
  return out;
}

std::string CodePointTable(std::span<const CodeSet> sets, std::span<const uint8_t> values) {
  std::vector<uint8_t> all(kMaxCodePoint + 1);
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const CodeRange& r : sets[i].ranges()) std::memset(&all[r.first], values[i], r.last - r.first + 1);
  }
  std::map<std::string_view, uint16_t> numbers;
  std::string index, pages;
  for (size_t block = 0; block < kCodeBlocks; ++block) {
    const std::string_view page(reinterpret_cast<const char*>(all.data()) + block * 256, 256);
    const auto [it, fresh] = numbers.emplace(page, static_cast<uint16_t>(numbers.size()));
    if (fresh) pages += page;
    Append(index, it->second);
  }
  return index + pages;
}

std::string WordClassTable() {
  CodeSet word = *FindProperty("Alphabetic");
  for (const char* name : {"M", "Nd", "Pc", "Join_Control"}) word = word | *FindProperty(name);
  const CodeSet& space = *FindProperty("White_Space");
  const std::array<CodeSet, 3> sets = {word, space, word & space};
  const std::array<uint8_t, 3> values = {kClassWord, kClassSpace, kClassWord | kClassSpace};
  return CodePointTable(sets, values);
}

}  // namespace llmc
