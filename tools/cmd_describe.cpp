// llmc describe: the flat description on stdout, the report on stderr.
#include <fmt/format.h>

#include "tools/cli.h"
#include "tools/note.h"
#include "tools/text_file.h"

namespace llmc {

int CommandDescribe(const DescribeFlags& flags) {
  ModelOptions options = flags.model;
  options.sink = PrintDiag;
  WriteText("-", DescribeModel(options));
  if (flags.report) Note(ReportModel(options, flags.prefill));
  return 0;
}

}  // namespace llmc
