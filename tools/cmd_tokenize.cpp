// llmc tokenize: the ids of a text, comma-separated, by the tokenizer of a plan or of a model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/plan.h"
#include "runtime/tokenizer.h"
#include "tools/cli.h"
#include "tools/text_file.h"

namespace llmc {
int CommandTokenize(const TokenizeFlags& flags) {
  std::string section;
  if (IsPlanFile(flags.path)) {
    section = PlanFile(flags.path).Read(SectionKind::Tokenizer);
  } else {
    ModelOptions options;
    options.model = flags.path;
    options.no_weights = true;
    options.sink = PrintDiag;
    section = LoadModel(options).tokenizer;
  }
  if (section.empty()) Fail(DiagKind::Unsupported, {flags.path, ""}, "has no tokenizer");
  fmt::print("{}\n", fmt::join(Tokenizer(section).Encode(flags.text), ","));
  return 0;
}

}  // namespace llmc
