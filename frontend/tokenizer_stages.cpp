// The stages of a tokenizer.json: its normalizer and pre-tokenizer as steps, its templates, its decoder.
#include "frontend/tokenizer_stages.h"

#include <array>

#include <fmt/format.h>

#include "frontend/pattern.h"
#include "frontend/tokenizer_steps.h"
#include "frontend/unicode.h"

namespace llmc {
namespace {

std::string_view TypeOf(const Json& stage) {
  const Json type = stage.Find("type");
  if (!type) Fail(DiagKind::MissingKey, stage.place(), "tokenizer: \"type\" is missing");
  return type.AsString();
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
    steps.push_back(
        StripStep(*FindProperty("White_Space"), FlagOf(stage, "strip_left", true), FlagOf(stage, "strip_right", true)));
  } else if (type == "Prepend") {
    steps.push_back({StepKind::Prepend, 0, {}, std::string(Member(stage, "prepend").AsString())});
  } else if (type == "Replace") {
    steps.push_back({StepKind::Replace, 0, PatternTable(Member(stage, "pattern"), PatternInput::Characters),
                     std::string(Member(stage, "content").AsString())});
  } else if (type == "Precompiled") {
    const Json map = Member(stage, "precompiled_charsmap");
    if (!map.AsString().empty()) steps.push_back(CharsmapStep(Base64(map)));
  } else if (type == "BertNormalizer") {
    const bool lowercase = FlagOf(stage, "lowercase", true);
    for (TokenizerStep& step :
         BertNormalizerSteps(FlagOf(stage, "clean_text", true), FlagOf(stage, "handle_chinese_chars", true),
                             FlagOf(stage, "strip_accents", lowercase), lowercase)) {
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
    if (FlagOf(stage, "use_regex", true)) steps.push_back(PatternStep(kGpt2Pattern));
    bytes = true;
  } else if (type == "Digits") {
    set_step(*FindProperty("N"),
             FlagOf(stage, "individual_digits", false) ? SplitBehavior::Isolated : SplitBehavior::Contiguous);
  } else if (type == "Split") {
    steps.push_back(SplitStep(PatternTable(Member(stage, "pattern"), input), BehaviorOf(stage, ""),
                              FlagOf(stage, "invert", false)));
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
    // A pattern of Rust's engine there, whose \w is the same in and outside brackets.
    steps.push_back(SplitStep(CompilePattern(R"([\w]+|[^\w\s]+)", input), SplitBehavior::Removed, true));
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
    add(MetaspaceSteps(replacement, name, FlagOf(stage, "split", true)));
  } else {
    FailUnsupportedTokenizer(stage.place(), "the pre-tokenizer " + std::string(type));
  }
}

}  // namespace

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
            .cleanup = FlagOf(stage, "cleanup", true)};
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
