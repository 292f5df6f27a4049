// Normalizers and pre-tokenizers as steps: patterns become automata, what happens to single characters becomes maps.
#include "frontend/tokenizer_steps.h"

#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "frontend/pattern.h"
#include "frontend/unicode.h"

namespace llmc {
namespace {

// What becomes of single characters; nothing: the character with a space on each side.
using CharacterMap = std::map<uint32_t, std::optional<std::string>>;

void MapSet(CharacterMap& map, const CodeSet& set, const std::optional<std::string>& text) {
  for (const CodeRange& r : set.ranges()) {
    for (uint32_t c = r.first; c <= r.last; ++c) map[c] = text;
  }
}

TokenizerStep MapStep(const CharacterMap& map) {
  std::string texts;
  std::map<std::string, uint32_t> places;
  std::map<std::vector<uint32_t>, uint16_t> numbers;
  std::vector<uint16_t> index;
  std::vector<uint32_t> pages;
  auto entry = map.begin();
  for (uint32_t block = 0; block < kCodeBlocks; ++block) {
    std::vector<uint32_t> page(256);
    for (; entry != map.end() && entry->first >> 8 == block; ++entry) {
      uint32_t& value = page[entry->first & 0xFF];
      if (!entry->second) {
        value = kMapSpaced;
        continue;
      }
      const auto [place, fresh] = places.emplace(*entry->second, static_cast<uint32_t>(texts.size() + 1));
      if (fresh) texts += *entry->second + '\0';
      value = place->second;
    }
    const auto [number, fresh] = numbers.emplace(page, static_cast<uint16_t>(numbers.size()));
    if (fresh) pages.insert(pages.end(), page.begin(), page.end());
    index.push_back(number->second);
  }
  const CodePointMapHeader h = {static_cast<uint32_t>(numbers.size()), static_cast<uint32_t>(texts.size())};
  std::string table(reinterpret_cast<const char*>(&h), sizeof h);
  table.append(reinterpret_cast<const char*>(index.data()), index.size() * 2);
  table.append(reinterpret_cast<const char*>(pages.data()), pages.size() * 4);
  return {StepKind::Map, 0, table + texts, {}};
}

TokenizerStep SetStep(const CodeSet& set, SplitBehavior behavior) {
  return SplitStep(CompilePattern(SetPattern(set)), behavior);
}

}  // namespace

TokenizerStep LowercaseStep() {
  CharacterMap map;
  for (const LowerCase& c : LowerCases()) {
    std::string lower;
    for (const char32_t l : c.lower) AppendUtf8(lower, l);
    map[c.code_point] = lower;
  }
  return MapStep(map);
}

TokenizerStep RemoveStep(const CodeSet& set) {
  CharacterMap map;
  MapSet(map, set, "");
  return MapStep(map);
}

TokenizerStep NmtStep() {
  CharacterMap map;
  MapSet(map, CodeSet({{0x01, 0x08}, {0x0B, 0x0B}, {0x0E, 0x1F}, {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}}), "");
  MapSet(map,
         CodeSet({{0x09, 0x0A},
                  {0x0C, 0x0D},
                  {0x1680, 0x1680},
                  {0x200B, 0x200F},
                  {0x2028, 0x2029},
                  {0x2581, 0x2581},
                  {0xFEFF, 0xFEFF},
                  {0xFFFD, 0xFFFD}}),
         " ");
  return MapStep(map);
}

TokenizerStep StripStep(const CodeSet& set, bool left, bool right) {
  const std::array<CodeSet, 1> sets = {set};
  const std::array<uint8_t, 1> values = {1};
  return {StepKind::Strip, (left ? kStepLeft : 0) | (right ? kStepRight : 0), CodePointTable(sets, values), {}};
}

CodeSet PunctuationSet() {
  return CodeSet({{0x21, 0x2F}, {0x3A, 0x40}, {0x5B, 0x60}, {0x7B, 0x7E}}) | *FindProperty("P");
}

TokenizerStep PatternStep(std::string_view pattern, SplitBehavior behavior, bool invert) {
  return SplitStep(CompilePattern(pattern), behavior, invert);
}

TokenizerStep BytePatternStep(std::string_view pattern, SplitBehavior behavior) {
  return SplitStep(CompilePattern(pattern, PatternInput::ByteLetters), behavior);
}

TokenizerStep ReplaceStep(std::string_view text, std::string_view by) {
  return {StepKind::Replace, 0, CompilePattern(TextPattern(text)), std::string(by)};
}

TokenizerStep ReplacePatternStep(std::string_view pattern, std::string_view by) {
  return {StepKind::Replace, 0, CompilePattern(pattern), std::string(by)};
}

TokenizerStep FormStep(std::string_view form) {
  constexpr std::array<std::string_view, 4> kNames = {"NFC", "NFD", "NFKC", "NFKD"};
  constexpr std::array kForms = {NormalForm::Nfc, NormalForm::Nfd, NormalForm::Nfkc, NormalForm::Nfkd};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (form == kNames[i]) return {StepKind::Form, 0, NormalFormTable(kForms[i]), {}};
  }
  return {StepKind::Form, 0, {}, {}};
}

// Extended grapheme clusters, Unicode Standard Annex 29 without rule GB9c (it concerns clusters of 7 bytes and more,
// and clusters matter up to 5).
TokenizerStep CharsmapStep(std::string charsmap) {
  using Kind = PatternNode::Kind;
  auto property = [](const char* name) { return *FindProperty(std::string("GCB=") + name); };
  auto node = [](Kind kind, std::vector<PatternNode> parts, uint32_t min = 0, uint32_t max = kUnlimited) {
    PatternNode out{.kind = kind};
    out.parts = std::move(parts);
    out.min = min;
    out.max = max;
    return out;
  };
  auto any = [&](const PatternNode& part) { return node(Kind::Repeat, {part}); };
  auto some = [&](const PatternNode& part) { return node(Kind::Repeat, {part}, 1); };
  auto optional = [&](const PatternNode& part) { return node(Kind::Repeat, {part}, 0, 1); };
  const CodeSet control = property("Control") | CodeSet::Of('\r') | CodeSet::Of('\n');
  const PatternNode l = SetPattern(property("L")), v = SetPattern(property("V")), t = SetPattern(property("T"));
  const PatternNode lv = SetPattern(property("LV")), lvt = SetPattern(property("LVT"));
  const PatternNode extend = SetPattern(property("Extend")), zwj = SetPattern(property("ZWJ"));
  const PatternNode region = SetPattern(property("Regional_Indicator"));
  const PatternNode picture = SetPattern(*FindProperty("Extended_Pictographic"));
  const PatternNode behind = any(SetPattern(property("Extend") | property("ZWJ") | property("SpacingMark")));
  const PatternNode hangul =
      node(Kind::Choice, {node(Kind::Sequence, {any(l), node(Kind::Choice, {node(Kind::Sequence, {some(v), any(t)}),
                                                                            node(Kind::Sequence, {lv, any(v), any(t)}),
                                                                            node(Kind::Sequence, {lvt, any(t)})})}),
                          some(l), some(t)});
  const PatternNode core =
      node(Kind::Choice, {hangul, node(Kind::Sequence, {region, region}),
                          node(Kind::Sequence, {picture, any(node(Kind::Sequence, {any(extend), zwj, picture}))}),
                          SetPattern(~control)});
  const PatternNode cluster =
      node(Kind::Choice, {TextPattern("\r\n"), SetPattern(control),
                          node(Kind::Sequence, {any(SetPattern(property("Prepend"))), core, behind}),
                          node(Kind::Sequence, {some(SetPattern(property("Prepend"))), optional(core), behind})});
  return {StepKind::Charsmap, 0, CompilePattern(cluster), std::move(charsmap)};
}

std::vector<TokenizerStep> BertNormalizerSteps(bool clean_text, bool handle_chinese_chars, bool strip_accents,
                                               bool lowercase) {
  std::vector<TokenizerStep> steps;
  CharacterMap map;
  if (handle_chinese_chars) {
    MapSet(map,
           CodeSet({{0x4E00, 0x9FFF},
                    {0x3400, 0x4DBF},
                    {0x20000, 0x2A6DF},
                    {0x2A700, 0x2B73F},
                    {0x2B740, 0x2B81F},
                    {0x2B920, 0x2CEAF},
                    {0xF900, 0xFAFF},
                    {0x2F800, 0x2FA1F}}),
           std::nullopt);
  }
  if (clean_text) {
    const CodeSet space = *FindProperty("White_Space");
    MapSet(map, (*FindProperty("Cc") | *FindProperty("Cf") | *FindProperty("Co") | CodeSet::Of(kReplacement)) & ~space,
           "");
    MapSet(map, *FindProperty("Cc") & space & ~CodeSet({{'\t', '\n'}, {'\r', '\r'}}), "");
    MapSet(map, space & ~*FindProperty("Cc"), " ");
    MapSet(map, CodeSet({{'\t', '\n'}, {'\r', '\r'}}), " ");
  }
  if (!map.empty()) steps.push_back(MapStep(map));
  if (strip_accents) {
    steps.push_back(FormStep("NFD"));
    steps.push_back(RemoveStep(*FindProperty("Mn")));
  }
  if (lowercase) steps.push_back(LowercaseStep());
  return steps;
}

std::vector<TokenizerStep> BertPreTokenizerSteps() {
  return {SetStep(*FindProperty("White_Space"), SplitBehavior::Removed),
          SetStep(PunctuationSet(), SplitBehavior::Isolated)};
}

std::vector<TokenizerStep> MetaspaceSteps(std::string_view replacement, std::string_view prepend_scheme, bool split) {
  std::vector<TokenizerStep> steps = {ReplaceStep(" ", replacement)};
  if (prepend_scheme != "never") {
    steps.push_back({StepKind::Prepend,
                     kStepUnlessThere | (prepend_scheme == "first" ? kStepFirstOnly : 0),
                     {},
                     std::string(replacement)});
  }
  if (split) steps.push_back(SplitStep(CompilePattern(TextPattern(replacement)), SplitBehavior::MergedWithNext));
  return steps;
}

}  // namespace llmc
