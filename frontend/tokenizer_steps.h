// The stages of a tokenizer.json around its vocabulary. Internal to the front end's tokenizer files.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "frontend/json.h"
#include "frontend/tokenizer_source.h"

namespace llmc {

// Each reads one key of a tokenizer.json's root object, and refuses what it can't honour with InputError Unsupported.
void ReadHfNormalizer(const Json& root, TokenizerSource& out);     // normalizers
bool ReadHfPreTokenizer(const Json& root, TokenizerSource& out);   // cuts; whether it makes text bytes (ByteLevel)
void ReadHfPostProcessor(const Json& root, TokenizerSource& out);  // single, pair
void ReadHfDecoder(const Json& root, TokenizerSource& out);        // decode

// Steps that several sources use. Patterns are known to compile.
TokenizerStep PatternStep(std::string_view pattern, SplitBehavior behavior = SplitBehavior::Isolated,
                          bool invert = false);
TokenizerStep BytePatternStep(std::string_view pattern, SplitBehavior behavior = SplitBehavior::Isolated);
TokenizerStep ReplaceStep(std::string_view text, std::string_view by);
TokenizerStep FormStep(std::string_view form);  // "NFC", "NFD", "NFKC", "NFKD"; no table: unknown
TokenizerStep CharsmapStep(std::string charsmap);
std::vector<TokenizerStep> BertNormalizerSteps(bool clean_text, bool handle_chinese_chars, bool strip_accents,
                                               bool lowercase);
std::vector<TokenizerStep> BertPreTokenizerSteps();
std::vector<TokenizerStep> MetaspaceSteps(std::string_view replacement, std::string_view prepend_scheme, bool split);
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace llmc
