// The patterns are those of the tokenizer.json files that the families publish, not the spellings of other readers.
#include "frontend/tokenizer_families.h"

#include <algorithm>
#include <array>

#include "frontend/pattern.h"
#include "frontend/tokenizer_steps.h"
#include "frontend/unicode.h"

namespace llmc {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kKimiPattern =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseek3Pattern =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters of many scripts in DeepSeek's first tokenizers: a list of ranges of cased letters.
constexpr std::string_view kDeepseekLlmLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C})"
    R"(\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5})"
    R"(\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"
    R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})"
    R"(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})"
    R"(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2})"
    R"(\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepseekLlmPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepseekHan = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

std::vector<TokenizerStep> Pattern(std::string_view pattern) { return {PatternStep(pattern)}; }

TokenizerStep Number(SplitBehavior behavior) {
  return SplitStep(CompilePattern(SetPattern(*FindProperty("N"))), behavior);
}

std::vector<TokenizerStep> DigitsThenGpt2() { return {Number(SplitBehavior::Isolated), PatternStep(kGpt2Pattern)}; }

std::vector<TokenizerStep> Falcon() {
  return {PatternStep(R"([!-/:-@\[-`{-~\p{P}])", SplitBehavior::Contiguous), PatternStep(kGpt2Pattern),
          BytePatternStep(R"(\p{N})", SplitBehavior::Contiguous), BytePatternStep("[0-9][0-9][0-9]")};
}

std::vector<TokenizerStep> DeepseekLlm() {
  return {PatternStep("[\r\n]"),  PatternStep(kDeepseekLlmLetters), PatternStep(kDeepseekLlmPunctuation),
          PatternStep(R"(\s+$)"), PatternStep(kDeepseekHan),        Number(SplitBehavior::Isolated)};
}

std::vector<TokenizerStep> DeepseekCoder() {
  return {PatternStep("[\r\n]"), PatternStep(R"(\s?\p{L}+)"), PatternStep(R"(\s?\p{P}+)"), PatternStep(kDeepseekHan),
          Number(SplitBehavior::Isolated)};
}

std::vector<TokenizerStep> Deepseek3() {
  return {PatternStep(R"(\p{N}{1,3})"), PatternStep(R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"),
          PatternStep(kDeepseek3Pattern)};
}

struct Named {
  std::string_view name;
  std::vector<TokenizerStep> (*cuts)();
  bool nfc = false, ignore_merges = false, add_bos = false;
};
constexpr auto kGpt2 = [] { return Pattern(kGpt2Pattern); };
constexpr auto kLlama3 = [] { return Pattern(kLlama3Pattern); };
constexpr auto kQwen2 = [] { return Pattern(kQwen2Pattern); };
constexpr auto kQwen35 = [] { return Pattern(kQwen35Pattern); };
constexpr auto kTekken = [] { return Pattern(kTekkenPattern); };
constexpr auto kO200k = [] { return Pattern(kO200kPattern); };
constexpr auto kKimi = [] { return Pattern(kKimiPattern); };

const std::array kFamilies = {
    Named{"gpt-2", kGpt2},
    Named{"phi-2", kGpt2},
    Named{"mpt", kGpt2, true},
    Named{"olmo", kGpt2, true},
    Named{"llama-bpe", kLlama3, false, true, true},
    Named{"llama3", kLlama3, false, true, true},
    Named{"llama-v3", kLlama3, false, true, true},
    Named{"qwen2", kQwen2, true},
    Named{"qwen35", kQwen35, true},
    Named{"smollm", DigitsThenGpt2},
    Named{"starcoder", DigitsThenGpt2},
    Named{"refact", DigitsThenGpt2},
    Named{"command-r", DigitsThenGpt2, true, false, true},
    Named{"tekken", kTekken, false, true, true},
    Named{"gpt-4o", kO200k},
    Named{"llama4", kO200k, false, false, true},
    Named{"kimi-k2", kKimi},
    Named{"falcon", Falcon},
    Named{"deepseek-llm", DeepseekLlm},
    Named{"deepseek-coder", DeepseekCoder},
    Named{"deepseek-v3", Deepseek3},
    Named{"deepseek-r1-qwen", kQwen2},
};

}  // namespace

bool FindGgufFamily(std::string_view pre, GgufFamily& out) {
  const auto* found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Named& f) { return f.name == pre; });
  if (found == kFamilies.end()) return false;
  out = {};
  if (found->nfc) out.normalizers.push_back(FormStep("NFC"));
  out.cuts = found->cuts();
  out.ignore_merges = found->ignore_merges;
  out.add_bos = found->add_bos;
  return true;
}

}  // namespace llmc
