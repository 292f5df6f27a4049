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

TokenizerStep StripStep(bool left, bool right) {
  const std::array<CodeSet, 1> sets = {*FindProperty("White_Space")};
  const std::array<uint8_t, 1> values = {1};
  return {StepKind::Strip, (left ? kStepLeft : 0) | (right ? kStepRight : 0), CodePointTable(sets, values), {}};
}

CodeSet PunctuationSet() {
  return CodeSet({{0x21, 0x2F}, {0x3A, 0x40}, {0x5B, 0x60}, {0x7B, 0x7E}}) | *FindProperty("P");
}

TokenizerStep SetStep(const CodeSet& set, SplitBehavior behavior) {
  return SplitStep(CompilePattern(SetPattern(set)), behavior);
}

// ---- reading JSON ---------------------------------------------------------------------------------------------------

std::string_view TypeOf(const Json& stage) {
  const Json type = stage.Find("type");
  if (!type) Fail(DiagKind::MissingKey, stage.place(), "tokenizer: \"type\" is missing");
  return type.AsString();
}

bool BoolOf(const Json& stage, std::string_view key, bool otherwise) {
  const Json value = FindValue(stage, key);
  return value ? value.AsBool() : otherwise;
}

Json Member(const Json& stage, std::string_view key) {
  const Json value = FindValue(stage, key);
  if (!value) Fail(DiagKind::MissingKey, stage.place(), "tokenizer: \"" + std::string(key) + "\" is missing");
  return value;
}

// {"String": text} or {"Regex": pattern}, compiled.
std::string PatternTable(const Json& pattern, PatternInput input) {
  try {
    if (const Json text = FindValue(pattern, "String")) {
      if (text.AsString().empty()) FailUnsupportedTokenizer(text.place(), "an empty pattern");
      return CompilePattern(TextPattern(text.AsString()), input);
    }
    return CompilePattern(Member(pattern, "Regex").AsString(), input);
  } catch (const PatternError& e) {
    FailUnsupportedTokenizer(pattern.place(), fmt::format("the pattern {} {}, which", pattern.source(), e.reason));
  }
}

std::string Base64(const Json& text) {
  std::string out;
  uint32_t bits = 0, have = 0;
  for (const char c : text.AsString()) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (c == '=') break;
    if (value < 0) Fail(DiagKind::BadValue, text.place(), "tokenizer: the charsmap is not base64");
    bits = bits << 6 | static_cast<uint32_t>(value);
    have += 6;
    if (have >= 8) {
      have -= 8;
      out.push_back(static_cast<char>(static_cast<uint8_t>(bits >> have)));
      bits &= (1U << have) - 1;
    }
  }
  return out;
}

void CheckSteps(const Json& stage, const std::vector<TokenizerStep>& steps) {
  if (steps.size() <= kMaxTokenizerSteps) return;
  FailUnsupportedTokenizer(stage.place(), fmt::format("a stage of more than {} steps", kMaxTokenizerSteps));
}

void AddNormalizer(const Json& stage, std::vector<TokenizerStep>& steps) {
  CheckSteps(stage, steps);
  const std::string_view type = TypeOf(stage);
  if (type == "Sequence") {
    for (const Json& part : Member(stage, "normalizers").items()) AddNormalizer(part, steps);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    steps.push_back(FormStep(type));
  } else if (type == "Lowercase") {
    steps.push_back(LowercaseStep());
  } else if (type == "StripAccents") {
    steps.push_back(RemoveStep(*FindProperty("M")));
  } else if (type == "Nmt") {
    steps.push_back(NmtStep());
  } else if (type == "Strip") {
    steps.push_back(StripStep(BoolOf(stage, "strip_left", true), BoolOf(stage, "strip_right", true)));
  } else if (type == "Prepend") {
    steps.push_back({StepKind::Prepend, 0, {}, std::string(Member(stage, "prepend").AsString())});
  } else if (type == "Replace") {
    steps.push_back({StepKind::Replace, 0, PatternTable(Member(stage, "pattern"), PatternInput::Characters),
                     std::string(Member(stage, "content").AsString())});
  } else if (type == "Precompiled") {
    const Json map = Member(stage, "precompiled_charsmap");
    if (!map.AsString().empty()) steps.push_back(CharsmapStep(Base64(map)));
  } else if (type == "BertNormalizer") {
    const bool lowercase = BoolOf(stage, "lowercase", true);
    for (TokenizerStep& step :
         BertNormalizerSteps(BoolOf(stage, "clean_text", true), BoolOf(stage, "handle_chinese_chars", true),
                             BoolOf(stage, "strip_accents", lowercase), lowercase)) {
      steps.push_back(std::move(step));
    }
  } else {
    FailUnsupportedTokenizer(stage.place(), "the normalizer " + std::string(type));
  }
}

SplitBehavior BehaviorOf(const Json& stage, std::string_view otherwise) {
  constexpr std::array<std::string_view, 5> kNames = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                                      "Contiguous"};
  const Json value = FindValue(stage, "behavior");
  const std::string_view name = value ? value.AsString() : otherwise;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<SplitBehavior>(i);
  }
  Fail(DiagKind::BadValue, (value ? value : stage).place(), "tokenizer: unknown behavior " + JsonQuote(name));
}

// Adds a pre-tokenizer's steps. `bytes`: the text is in the byte alphabet by now.
void AddPreTokenizer(const Json& stage, bool& bytes, std::vector<TokenizerStep>& steps) {
  CheckSteps(stage, steps);
  const std::string_view type = TypeOf(stage);
  const PatternInput input = bytes ? PatternInput::ByteLetters : PatternInput::Characters;
  auto set_step = [&](const CodeSet& set, SplitBehavior behavior) {
    steps.push_back(SplitStep(CompilePattern(SetPattern(set), input), behavior));
  };
  auto add = [&](std::vector<TokenizerStep> more) {
    if (bytes) FailUnsupportedTokenizer(stage.place(), std::string(type) + " behind ByteLevel");
    for (TokenizerStep& step : more) steps.push_back(std::move(step));
  };
  if (type == "Sequence") {
    for (const Json& part : Member(stage, "pretokenizers").items()) AddPreTokenizer(part, bytes, steps);
  } else if (type == "ByteLevel") {
    if (bytes) FailUnsupportedTokenizer(stage.place(), "ByteLevel behind ByteLevel");
    if (Member(stage, "add_prefix_space").AsBool()) steps.push_back({StepKind::Prepend, kStepUnlessThere, {}, " "});
    if (BoolOf(stage, "use_regex", true)) steps.push_back(PatternStep(kGpt2Pattern));
    bytes = true;
  } else if (type == "Digits") {
    set_step(*FindProperty("N"),
             BoolOf(stage, "individual_digits", false) ? SplitBehavior::Isolated : SplitBehavior::Contiguous);
  } else if (type == "Split") {
    steps.push_back(SplitStep(PatternTable(Member(stage, "pattern"), input), BehaviorOf(stage, ""),
                              BoolOf(stage, "invert", false)));
  } else if (type == "Punctuation") {
    set_step(PunctuationSet(), BehaviorOf(stage, "Isolated"));
  } else if (type == "CharDelimiterSplit") {
    const std::string_view delimiter = Member(stage, "delimiter").AsString();
    if (delimiter.empty() || DecodeUtf8(delimiter, 0).bytes != delimiter.size())
      Fail(DiagKind::BadValue, stage.place(), "tokenizer: a delimiter is one character");
    set_step(CodeSet::Of(DecodeUtf8(delimiter, 0).value), SplitBehavior::Removed);
  } else if (type == "WhitespaceSplit") {
    set_step(*FindProperty("White_Space"), SplitBehavior::Removed);
  } else if (type == "Whitespace") {
    steps.push_back(SplitStep(CompilePattern(R"(\w+|[^\w\s]+)", input), SplitBehavior::Removed, true));
  } else if (type == "BertPreTokenizer") {
    add(BertPreTokenizerSteps());
  } else if (type == "Metaspace") {
    const std::string_view replacement = Member(stage, "replacement").AsString();
    const Json scheme = FindValue(stage, "prepend_scheme");
    const Json prefix = FindValue(stage, "add_prefix_space");
    std::string_view name = scheme ? scheme.AsString() : "always";
    if (prefix && !prefix.AsBool() && name != "never") {
      Fail(DiagKind::BadValue, prefix.place(),
           "tokenizer: Metaspace's add_prefix_space is false, its prepend_scheme " + JsonQuote(name));
    }
    if (name != "always" && name != "first" && name != "never")
      Fail(DiagKind::BadValue, scheme.place(), "tokenizer: unknown prepend_scheme " + JsonQuote(name));
    if (replacement.empty() || DecodeUtf8(replacement, 0).bytes != replacement.size())
      Fail(DiagKind::BadValue, stage.place(), "tokenizer: Metaspace's replacement is one character");
    add(MetaspaceSteps(replacement, name, BoolOf(stage, "split", true)));
  } else {
    FailUnsupportedTokenizer(stage.place(), "the pre-tokenizer " + std::string(type));
  }
}

}  // namespace

TokenizerStep PatternStep(std::string_view pattern, SplitBehavior behavior, bool invert) {
  return SplitStep(CompilePattern(pattern), behavior, invert);
}

TokenizerStep BytePatternStep(std::string_view pattern, SplitBehavior behavior) {
  return SplitStep(CompilePattern(pattern, PatternInput::ByteLetters), behavior);
}

TokenizerStep ReplaceStep(std::string_view text, std::string_view by) {
  return {StepKind::Replace, 0, CompilePattern(TextPattern(text)), std::string(by)};
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

void ReadHfNormalizer(const Json& root, TokenizerSource& out) {
  if (const Json stage = FindValue(root, "normalizer")) AddNormalizer(stage, out.normalizers);
  CheckSteps(root, out.normalizers);
}

bool ReadHfPreTokenizer(const Json& root, TokenizerSource& out) {
  bool bytes = false;
  if (const Json stage = FindValue(root, "pre_tokenizer")) AddPreTokenizer(stage, bytes, out.cuts);
  CheckSteps(root, out.cuts);
  return bytes;
}

// ---- post-processors ------------------------------------------------------------------------------------------------

namespace {

std::vector<TemplatePiece> ReadTemplate(const Json& list, const Json& special) {
  std::vector<TemplatePiece> out;
  auto type = [](const Json& piece) {
    const Json id = FindValue(piece, "type_id");
    return id ? static_cast<uint32_t>(id.AsInt()) : 0U;
  };
  for (const Json& item : list.items()) {
    if (const Json sequence = item.Find("Sequence")) {
      const std::string_view which = Member(sequence, "id").AsString();
      if (which != "A" && which != "B")
        Fail(DiagKind::BadValue, sequence.place(),
             "tokenizer: a template's sequence is A or B, found " + JsonQuote(which));
      out.push_back({which == "A" ? kTemplateFirst : kTemplateSecond, type(sequence)});
      continue;
    }
    const Json token = Member(item, "SpecialToken");
    for (const Json& id : Member(Member(special, Member(token, "id").AsString()), "ids").items()) {
      if (id.AsInt() < 0 || id.AsInt() >= kMaxTokens)
        Fail(DiagKind::BadValue, id.place(), fmt::format("tokenizer: {} is no token id", id.AsInt()));
      out.push_back({static_cast<int32_t>(id.AsInt()), type(token)});
    }
  }
  return out;
}

// ["text", id] of BertProcessing and RobertaProcessing.
int32_t NamedId(const Json& stage, std::string_view key) {
  const Json token = Member(stage, key);
  const std::vector<Json> parts = token.items();
  if (parts.size() != 2 || parts[1].AsInt() < 0 || parts[1].AsInt() >= kMaxTokens)
    Fail(DiagKind::BadValue, token.place(), "tokenizer: a token and its id are wanted");
  return static_cast<int32_t>(parts[1].AsInt());
}

void AddPostProcessor(const Json& stage, bool& there, TokenizerSource& out) {
  const std::string_view type = TypeOf(stage);
  if (type == "ByteLevel") return;  // changes offsets alone
  if (type == "Sequence") {
    for (const Json& part : Member(stage, "processors").items()) AddPostProcessor(part, there, out);
    return;
  }
  if (there) FailUnsupportedTokenizer(stage.place(), "a second post-processor that adds tokens");
  there = true;
  if (type == "TemplateProcessing") {
    const Json special = Member(stage, "special_tokens");
    out.single = ReadTemplate(Member(stage, "single"), special);
    if (const Json pair = FindValue(stage, "pair")) out.pair = ReadTemplate(pair, special);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    const int32_t cls = NamedId(stage, "cls"), sep = NamedId(stage, "sep");
    out.single = {{cls, 0}, {kTemplateFirst, 0}, {sep, 0}};
    out.pair = out.single;
    if (type == "BertProcessing") {
      out.pair.insert(out.pair.end(), {{kTemplateSecond, 1}, {sep, 1}});
    } else {
      out.pair.insert(out.pair.end(), {{sep, 0}, {kTemplateSecond, 0}, {sep, 0}});
    }
  } else {
    FailUnsupportedTokenizer(stage.place(), "the post-processor " + std::string(type));
  }
}

// ---- decoders -------------------------------------------------------------------------------------------------------

// `fused`: all tokens are one text by now.
void AddDecoder(const Json& stage, bool& fused, DecodePlan& plan) {
  const std::string_view type = TypeOf(stage);
  if (type == "Sequence") {
    for (const Json& part : Member(stage, "decoders").items()) AddDecoder(part, fused, plan);
    return;
  }
  if (type == "Fuse") {
    fused = true;
    return;
  }
  if (type == "Strip" && (fused || plan.byte_fallback || plan.bytes)) {
    const bool spaces = Member(stage, "content").AsString() == " ";
    const int64_t start = Member(stage, "start").AsInt(), stop = Member(stage, "stop").AsInt();
    if (!fused || !spaces || stop != 0 || start < 0 || start > 1 << 20)
      FailUnsupportedTokenizer(stage.place(), "the decoder " + std::string(stage.source()) + " here");
    plan.strip_first += static_cast<uint32_t>(start);
    return;
  }
  if (fused || plan.byte_fallback || plan.bytes)
    FailUnsupportedTokenizer(stage.place(), "the decoder " + std::string(type) + " behind bytes or Fuse");
  DecodeStep step;
  if (type == "ByteLevel") {
    plan.bytes = fused = true;
    return;
  }
  if (type == "ByteFallback") {
    plan.byte_fallback = true;
    return;
  }
  if (type == "Replace") {
    step = {.kind = DecodeStep::Kind::Replace,
            .table = PatternTable(Member(stage, "pattern"), PatternInput::Characters),
            .text = std::string(Member(stage, "content").AsString())};
  } else if (type == "Metaspace") {
    const Json scheme = FindValue(stage, "prepend_scheme");
    const Json prefix = FindValue(stage, "add_prefix_space");
    step = {.kind = DecodeStep::Kind::Metaspace,
            .from = std::string(Member(stage, "replacement").AsString()),
            .drop_first = scheme ? scheme.AsString() != "never" : !prefix || prefix.AsBool()};
  } else if (type == "WordPiece") {
    const Json prefix = FindValue(stage, "prefix");
    step = {.kind = DecodeStep::Kind::WordPiece,
            .from = std::string(prefix ? prefix.AsString() : "##"),
            .cleanup = BoolOf(stage, "cleanup", true)};
  } else if (type == "Strip") {
    step = {.kind = DecodeStep::Kind::Strip,
            .from = std::string(Member(stage, "content").AsString()),
            .start = static_cast<uint32_t>(Member(stage, "start").AsInt()),
            .stop = static_cast<uint32_t>(Member(stage, "stop").AsInt())};
  } else {
    FailUnsupportedTokenizer(stage.place(), "the decoder " + std::string(type));
  }
  if (step.kind != DecodeStep::Kind::Replace && step.kind != DecodeStep::Kind::WordPiece && step.from.empty())
    Fail(DiagKind::BadValue, stage.place(), "tokenizer: a decoder for an empty text");
  plan.steps.push_back(std::move(step));
}

}  // namespace

void ReadHfPostProcessor(const Json& root, TokenizerSource& out) {
  bool there = false;
  if (const Json stage = FindValue(root, "post_processor")) AddPostProcessor(stage, there, out);
}

void ReadHfDecoder(const Json& root, TokenizerSource& out) {
  bool fused = false;
  if (const Json stage = FindValue(root, "decoder")) {
    AddDecoder(stage, fused, out.decode);
  } else {
    out.decode.steps.push_back({.kind = DecodeStep::Kind::Join});
  }
}

}  // namespace llmc
