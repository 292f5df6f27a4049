// The tables of what is known: pre-tokenizers by exact pattern (tokenizer.json) or by name (GGUF), and the other stages
// of a tokenizer.json.
#include "frontend/tokenizer_choices.h"

#include <array>

#include "frontend/tokenizer_bpe.h"

namespace llmc {
namespace {

struct KnownPattern {
  std::string_view text;
  StepKind kind;
};
constexpr std::array kPatterns = {
    KnownPattern{R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", StepKind::Gpt2},
    KnownPattern{R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", StepKind::Gpt2},
    KnownPattern{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        StepKind::Llama3},
    KnownPattern{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        StepKind::Qwen2},
    KnownPattern{R"(\p{N})", StepKind::Digit},
    KnownPattern{R"(\p{N}+)", StepKind::Digits},
};

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

void AddSplit(const Json& split, std::vector<TokenizerStep>& steps) {
  const Json pattern = Member(split, "pattern");
  const Json regex = pattern.Find("Regex");
  if (!regex) FailUnsupportedTokenizer(pattern.place(), "a Split by the text " + std::string(pattern.source()));
  const Json behavior = Member(split, "behavior");
  // The family patterns match every character, so that nothing lies between matches; then "Removed" what doesn't match
  // keeps all pieces.
  const bool isolated = behavior.AsString() == "Isolated";
  const bool inverted = behavior.AsString() == "Removed" && BoolOf(split, "invert", false);
  for (const KnownPattern& known : kPatterns) {
    if (known.text != regex.AsString()) continue;
    const bool covers = known.kind != StepKind::Digit && known.kind != StepKind::Digits;
    if (!isolated && !(inverted && covers)) {
      FailUnsupportedTokenizer(behavior.place(), "the Split behavior " + JsonQuote(behavior.AsString()));
    }
    steps.push_back({known.kind});
    return;
  }
  FailUnsupportedTokenizer(regex.place(), "the pre-tokenizer pattern " + JsonQuote(regex.AsString()));
}

// Whether the stage was ByteLevel, behind which nothing may come: pieces are in the byte alphabet then.
bool AddSteps(const Json& stage, std::vector<TokenizerStep>& steps) {
  const std::string_view type = TypeOf(stage);
  bool byte_level = false;
  if (type == "Sequence") {
    for (const Json& part : Member(stage, "pretokenizers").items()) {
      if (byte_level) FailUnsupportedTokenizer(part.place(), "a pre-tokenizer behind ByteLevel");
      byte_level = AddSteps(part, steps);
    }
  } else if (type == "ByteLevel") {
    const TokenizerStep step = {BoolOf(stage, "use_regex", true) ? StepKind::Gpt2 : StepKind::Whole,
                                Member(stage, "add_prefix_space").AsBool()};
    if (step.kind != StepKind::Whole || step.prefix_space) steps.push_back(step);
    byte_level = true;
  } else if (type == "Digits") {
    steps.push_back({BoolOf(stage, "individual_digits", false) ? StepKind::Digit : StepKind::Digits});
  } else if (type == "Split") {
    AddSplit(stage, steps);
  } else if (type == "Metaspace") {
    FailUnsupportedTokenizer(stage.place(), "the pre-tokenizer Metaspace (SentencePiece)");
  } else {
    FailUnsupportedTokenizer(stage.place(), "the pre-tokenizer " + std::string(type));
  }
  return byte_level;
}

bool IsNfc(const Json& stage) {
  const std::string_view type = TypeOf(stage);
  if (type == "NFC") return true;
  if (type != "Sequence") FailUnsupportedTokenizer(stage.place(), "the normalizer " + std::string(type));
  bool nfc = false;
  for (const Json& part : Member(stage, "normalizers").items()) nfc = IsNfc(part) || nfc;
  return nfc;
}

void CheckDecoder(const Json& stage) {
  const std::string_view type = TypeOf(stage);
  if (type == "Sequence") {
    for (const Json& part : Member(stage, "decoders").items()) CheckDecoder(part);
  } else if (type != "ByteLevel") {
    FailUnsupportedTokenizer(stage.place(), "the decoder " + std::string(type));
  }
}

void AddTemplate(const Json& stage, std::optional<int64_t>& bos) {
  const std::string_view type = TypeOf(stage);
  if (type == "ByteLevel") return;  // changes offsets alone
  if (type == "Sequence") {
    for (const Json& part : Member(stage, "processors").items()) AddTemplate(part, bos);
    return;
  }
  if (type != "TemplateProcessing") FailUnsupportedTokenizer(stage.place(), "the post-processor " + std::string(type));
  bool behind = false;
  for (const Json& piece : Member(stage, "single").items()) {
    if (piece.Find("Sequence")) {
      behind = true;
      continue;
    }
    const std::string_view name = Member(Member(piece, "SpecialToken"), "id").AsString();
    if (behind)
      FailUnsupportedTokenizer(piece.place(), "a template with the token " + JsonQuote(name) + " behind the text");
    const std::vector<Json> ids = Member(Member(Member(stage, "special_tokens"), name), "ids").items();
    if (ids.size() != 1 || bos)
      FailUnsupportedTokenizer(piece.place(), "a template with more than one token in front of the text");
    bos = ids[0].AsInt();
  }
}

}  // namespace

bool HfIsNfc(const Json& root) {
  const Json stage = FindValue(root, "normalizer");
  return stage && IsNfc(stage);
}

std::vector<TokenizerStep> HfSteps(const Json& root) {
  std::vector<TokenizerStep> steps;
  const Json stage = FindValue(root, "pre_tokenizer");
  if (!stage) FailUnsupportedTokenizer(root.place(), "BPE without a ByteLevel pre-tokenizer");
  if (!AddSteps(stage, steps)) FailUnsupportedTokenizer(stage.place(), "BPE without a ByteLevel pre-tokenizer");
  if (steps.size() > kMaxTokenizerSteps) {
    FailUnsupportedTokenizer(stage.place(), "a pre-tokenizer of " + std::to_string(steps.size()) +
                                                " steps (the limit is " + std::to_string(kMaxTokenizerSteps) + ")");
  }
  return steps;
}

void CheckHfDecoder(const Json& root) {
  const Json stage = FindValue(root, "decoder");
  if (!stage) FailUnsupportedTokenizer(root.place(), "BPE without a ByteLevel decoder");
  CheckDecoder(stage);
}

std::optional<int64_t> HfTemplateBos(const Json& root) {
  std::optional<int64_t> bos;
  if (const Json stage = FindValue(root, "post_processor")) AddTemplate(stage, bos);
  return bos;
}

const GgufPre* FindGgufPre(std::string_view name) {
  static const std::vector<GgufPre> known = {
      {"gpt-2", {{StepKind::Gpt2}}},
      {"llama-bpe", {{StepKind::Llama3}}, false, true, true},
      {"llama3", {{StepKind::Llama3}}, false, true, true},
      {"llama-v3", {{StepKind::Llama3}}, false, true, true},
      {"qwen2", {{StepKind::Qwen2}}, true},
      {"smollm", {{StepKind::Digit}, {StepKind::Gpt2}}},
  };
  for (const GgufPre& pre : known) {
    if (pre.name == name) return &pre;
  }
  return nullptr;
}

}  // namespace llmc
