// llmc tokenize: ids of a text, or the text of ids, by the tokenizer of a plan or of a model.
#include <cstdio>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/json.h"
#include "frontend/tokenizer.h"
#include "runtime/plan.h"
#include "runtime/run_options.h"
#include "runtime/tokenizer.h"
#include "tools/cli.h"
#include "tools/text_file.h"

namespace llmc {
namespace {

std::string Section(const std::string& path) {
  if (!IsPlanFile(path)) return LoadTokenizer(path).section;
  std::string section = PlanFile(path).Read(SectionKind::Tokenizer);
  if (section.empty()) Fail(DiagKind::Unsupported, {path, ""}, "has no tokenizer");
  return section;
}

// A token's line of --pieces, --bytes or --offsets.
void PrintToken(const TokenizeFlags& flags, const Tokenizer& tokenizer, int32_t id, SourceSpan span) {
  const std::string_view text = tokenizer.TokenText(id);
  if (flags.bytes) {
    std::string hex;
    for (const char c : text) fmt::format_to(std::back_inserter(hex), "{:02x}", static_cast<unsigned char>(c));
    fmt::print("{} {}\n", id, hex);
  } else if (flags.offsets) {
    fmt::print("{} {} {} {}\n", id, span.begin, span.end, JsonQuote(text));
  } else {
    fmt::print("{} {}\n", id, JsonQuote(text));
  }
}

}  // namespace

int CommandTokenize(const TokenizeFlags& flags) {
  if (!flags.text && !flags.file && !flags.decode) throw UsageError("tokenize: -p, -f or --decode is wanted");
  const std::string section = Section(flags.path);
  const Tokenizer tokenizer(section);
  if (flags.decode) {
    const std::string text = tokenizer.Decode(ParseTokens(*flags.decode), flags.no_special);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  const std::string text = flags.text ? *flags.text : ReadText(*flags.file);
  const EncodeOptions options = {.add_special = !flags.no_special, .parse_special = !flags.no_parse_special};
  const bool lines = flags.pieces || flags.bytes || flags.offsets;
  if (!lines && !flags.pair) {
    fmt::print("{}\n", fmt::join(tokenizer.Encode(text, options), ","));
    return 0;
  }
  const Encoding encoding =
      flags.pair ? tokenizer.EncodePair(text, *flags.pair, options) : tokenizer.EncodeWithOffsets(text, options);
  if (!lines) {
    fmt::print("{}\n", fmt::join(encoding.ids, ","));
    return 0;
  }
  for (size_t i = 0; i < encoding.ids.size(); ++i) PrintToken(flags, tokenizer, encoding.ids[i], encoding.offsets[i]);
  return 0;
}

}  // namespace llmc
