// llmc opt: IR text in, passes, IR text out. Without passes: parse, verify, print.
#include <fmt/format.h>
#include <unistd.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "tools/cli.h"
#include "tools/note.h"
#include "tools/pass_context.h"
#include "tools/progress.h"
#include "tools/remarks.h"
#include "tools/text_file.h"
#include "tools/workbench/report.h"

namespace llmc {
namespace {

Report ListOfPasses() {
  ReportTable table{"passes", {"pass", "need", "numbers", "summary"}};
  for (const PassInfo& pass : AllPasses())
    table.rows.push_back({std::string(pass.name), std::string(pass.optional ? "optional" : "required"),
                          std::string(ExactnessText(pass.exactness)), std::string(pass.summary)});
  return {{}, {std::move(table)}};
}

// Sizes of a module. Bytes are of what the module's options count, once plan-memory has run.
class Stats {
 public:
  void Add(const std::string& after, const Module& module) {
    size_t ops = 0, values = 0, weights = 0, consts = 0, states = 0;
    for (const Func& func : module.funcs) ops += func.ops.size(), values += func.values.size();
    for (const Global& global : module.globals) {
      weights += global.kind == GlobalKind::Weight ? 1 : 0;
      consts += global.kind == GlobalKind::Const ? 1 : 0;
      states += global.kind == GlobalKind::State ? 1 : 0;
    }
    const std::string text = Print(module);
    const auto count = [](size_t n) { return static_cast<int64_t>(n); };
    table_.rows.push_back({after, count(module.funcs.size()), count(ops), count(values), count(weights), count(consts),
                           count(states), count(text.size())});
  }
  Report Take() { return {{}, {std::move(table_)}}; }

 private:
  ReportTable table_{"stats", {"behind", "functions", "ops", "values", "weights", "consts", "states", "bytes of text"}};
};

// That a module is what its text says. Verify has passed.
void CheckText(const Module& module, const std::string& file) {
  for (const bool flat : {false, true}) {
    const std::string text = Print(module, {.flat = flat});
    const Module read = Parse(text, file);
    Verify(read, file);
    LLMC_CHECK(Print(read, {.flat = flat}) == text, file + ": the module doesn't read back as it prints");
  }
}

}  // namespace

int CommandOpt(const OptFlags& flags) {
  if (flags.json && !flags.list_passes && !flags.stats) throw UsageError("--json goes with --list-passes or --stats");
  if (flags.list_passes) {
    PrintReport(ListOfPasses(), flags.json);
    return 0;
  }
  if (flags.file.empty() && isatty(STDIN_FILENO) != 0)
    throw UsageError("opt needs FILE.ir (\"-\" for stdin), or --list-passes");
  const bool standard_input = flags.file.empty() || flags.file == "-";
  const std::string file = standard_input ? "<stdin>" : flags.file;
  Module module = Parse(ReadText(standard_input ? "-" : flags.file), file);
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
  Stats stats;
  if (flags.stats) stats.Add("input", module);
  if (flags.verify_each) CheckText(module, file);
  pipeline.after = [&](const PassInfo& pass, const Module& now, bool changed, double seconds) {
    remarks.Flush();
    if (flags.time_passes) Note(PassTimeText(pass.name, seconds, changed));
    if (flags.stats) stats.Add(std::string(pass.name), now);
    if (!flags.verify_each) return;
    CheckText(now, fmt::format("{} (after {})", file, pass.name));
    Note(fmt::format("{}: {}, verifies and reads back\n", pass.name, changed ? "changed" : "no change"));
  };
  if (!pipeline.passes.empty()) RunPipeline(module, context, pipeline);
  if (flags.stats) {
    WriteText(flags.output, flags.json ? ReportJson(stats.Take()) : ReportText(stats.Take()));
  } else {
    WriteText(flags.output, IrText(module, !flags.no_schedule, flags.flat));
  }
  return 0;
}

}  // namespace llmc
