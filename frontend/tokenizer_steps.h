// Steps of normalisation and of cutting, as every source of a tokenizer makes them. Internal to the front end's tokenizer files.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "frontend/tokenizer_source.h"
#include "frontend/unicode.h"

namespace llmc {

// Patterns are known to compile.
TokenizerStep PatternStep(std::string_view pattern, SplitBehavior behavior = SplitBehavior::Isolated,
                          bool invert = false);
TokenizerStep BytePatternStep(std::string_view pattern, SplitBehavior behavior = SplitBehavior::Isolated);
TokenizerStep ReplaceStep(std::string_view text, std::string_view by);
TokenizerStep ReplacePatternStep(std::string_view pattern, std::string_view by);
TokenizerStep RemoveStep(const CodeSet& set);
TokenizerStep StripStep(const CodeSet& set, bool left, bool right);
TokenizerStep LowercaseStep();
TokenizerStep NmtStep();
TokenizerStep FormStep(std::string_view form);  // "NFC", "NFD", "NFKC", "NFKD"; no table: unknown
TokenizerStep CharsmapStep(std::string charsmap);
std::vector<TokenizerStep> BertNormalizerSteps(bool clean_text, bool handle_chinese_chars, bool strip_accents,
                                               bool lowercase);
std::vector<TokenizerStep> BertPreTokenizerSteps();
std::vector<TokenizerStep> MetaspaceSteps(std::string_view replacement, std::string_view prepend_scheme, bool split);
CodeSet PunctuationSet();  // of ASCII, and \p{P}
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace llmc
