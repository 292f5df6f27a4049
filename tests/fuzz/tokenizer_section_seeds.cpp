// Writes the seeds of tokenizer_section_fuzz (its input: a u16 length of the text, the text, the section):
//   tokenizer_section_seeds DIR
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "tests/support/word_classes.h"

using namespace llmc;

namespace {

constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kText = "the  th\xC3\xA9 <e> \xFFthe\n";

int32_t Add(TokenizerTables& t, const std::string& text, uint8_t flags, double score = 0) {
  t.tokens.push_back(text);
  t.token_flags.push_back(flags);
  if (t.model == TokenizerModel::Unigram) t.scores.push_back(score);
  return static_cast<int32_t>(t.tokens.size() - 1);
}

void AddEnds(TokenizerTables& t) {
  t.bos = Add(t, "<b>", kTokenAdded | kTokenSpecial);
  t.eos = Add(t, "<e>", kTokenAdded | kTokenSpecial);
  t.added_raw = {{"<b>", t.bos, kAddedSpecial}, {"<e>", t.eos, kAddedSpecial | kAddedStripLeft | kAddedStripRight}};
  t.added_normalized = {{"th\xC3\xA9", Add(t, "th\xC3\xA9", kTokenAdded), kAddedSingleWord}};
  t.single = {{t.bos, 0}, {kTemplateFirst, 0}};
  t.pair = {{t.bos, 0}, {kTemplateFirst, 0}, {t.eos, 0}, {kTemplateSecond, 1}};
  t.word_classes = AsciiWordClasses();
}

TokenizerTables ByteLevel() {
  TokenizerTables t;
  for (int b = 0; b < 256; ++b)
    t.byte_ids[static_cast<size_t>(b)] = Add(t, std::string(1, static_cast<char>(b)), kTokenInModel);
  const int32_t th = Add(t, "th", kTokenInModel);
  t.merges = {{'t', 'h', th}, {th, 'e', Add(t, "the", kTokenInModel)}};
  t.cuts = {{StepKind::Prepend, kStepUnlessThere, {}, " "}, SplitStep(WordsAutomaton())};
  AddEnds(t);
  return t;
}

// Over characters: a space is a mark; bytes stand for what has no token.
TokenizerTables Characters(TokenizerModel model) {
  TokenizerTables t;
  t.model = model;
  t.byte_ids.fill(-1);
  t.unk = Add(t, "<unk>", kTokenInModel, -20);
  std::map<std::string, int32_t> ids;
  double score = 0;
  for (const std::string& text : {std::string(kMark), std::string("t"), std::string("h"), std::string("e"),
                                  std::string("th"), std::string(kMark) + "th"})
    ids[text] = Add(t, text, kTokenInModel, score -= 1);
  t.continuing_prefix = model == TokenizerModel::WordPiece ? "t" : "";
  t.max_word_chars = 10;
  if (model == TokenizerModel::CharBpe) {
    t.merges = {{ids["t"], ids["h"], ids["th"]}, {ids[std::string(kMark)], ids["th"], ids[std::string(kMark) + "th"]}};
    t.byte_ids[0xC3] = Add(t, "\xC3", kTokenInModel | kTokenByte);
    t.byte_ids[0xA9] = Add(t, "\xA9", kTokenInModel | kTokenByte);
    t.byte_fallback = true;
  }
  t.fuse_unk = true;
  t.strip_first = 1;
  t.normalizers = {{StepKind::Replace, 0, WordsAutomaton(), "t"}, {StepKind::Prepend, 0, {}, std::string(kMark)}};
  AddEnds(t);
  return t;
}

bool Write(const std::string& path, const TokenizerTables& tables) {
  const auto size = static_cast<uint16_t>(kText.size());
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof size);
  out << kText << BuildTokenizerSection(tables);
  return static_cast<bool>(out.flush());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tokenizer_section_seeds DIR\n");
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/";
  const bool written = Write(folder + "bytes", ByteLevel()) &&
                       Write(folder + "characters", Characters(TokenizerModel::CharBpe)) &&
                       Write(folder + "unigram", Characters(TokenizerModel::Unigram)) &&
                       Write(folder + "wordpiece", Characters(TokenizerModel::WordPiece));
  if (!written) std::fprintf(stderr, "tokenizer_section_seeds: %s: can't write\n", argv[1]);
  return written ? 0 : 1;
}
