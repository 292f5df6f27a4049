// llmc opt: IR text in, passes, IR text out. Without passes: parse, verify, print.
#include <fmt/format.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "tools/cli.h"
#include "tools/pass_context.h"
#include "tools/remarks.h"
#include "tools/text_file.h"

namespace llmc {

int CommandOpt(const OptFlags& flags) {
  if (flags.list_passes) {
    for (const PassInfo& pass : AllPasses())
      fmt::print("{:<22} {:<9} {:<7} {}\n", pass.name, pass.optional ? "optional" : "required",
                 pass.exact ? "exact" : "rounds", pass.summary);
    return 0;
  }
  if (flags.file.empty()) throw UsageError("opt needs FILE.ir (\"-\" for stdin), or --list-passes");
  const std::string file = flags.file == "-" ? "<stdin>" : flags.file;
  Module module = Parse(ReadText(flags.file), file);
  Verify(module, file);
  PipelineOptions pipeline;
  pipeline.file = file;
  for (size_t begin = 0; begin < flags.passes.size();) {
    const size_t end = std::min(flags.passes.find(',', begin), flags.passes.size());
    pipeline.passes.push_back(flags.passes.substr(begin, end - begin));
    begin = end + 1;
  }
  PassContext context = ContextFor("llvm");
  Remarks remarks(PrintDiag);
  if (flags.remarks) context.remark = [&](const Diag& diag) { remarks.Add(diag); };
  if (!pipeline.passes.empty()) RunPipeline(module, context, pipeline);
  remarks.Flush();
  WriteText(flags.output, Print(module, {.flat = flags.flat}));
  return 0;
}

}  // namespace llmc
