// llmc describe: the flat description on stdout, the report on stderr.
#include <fmt/format.h>

#include "passes/pass.h"
#include "tools/cli.h"
#include "tools/note.h"
#include "tools/text_file.h"

namespace llmc {

int CommandDescribe(const DescribeFlags& flags) {
  ModelOptions options = flags.model;
  options.sink = PrintDiag;
  WriteText("-", DescribeModel(options));
  if (!flags.report) return 0;
  // What a plan keeps, and so what decode reads, is that of attention over latents.
  Note(ReportModel(options, flags.prefill, [](Module& module) {
    PipelineOptions pipeline;
    pipeline.passes = {"absorb-mla"};
    RunPipeline(module, {}, pipeline);
  }));
  return 0;
}

}  // namespace llmc
