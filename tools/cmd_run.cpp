// llmc run: a model compiled in memory (the plan's own object through ORC, or the interpreter), or a plan, run by
// llmc-run's very code.
#include <fmt/format.h>

#include "runtime/loader.h"
#include "runtime/run.h"
#include "tools/in_memory.h"
#include "tools/text_file.h"

namespace llmc {
namespace {

Executable Compile(const CompileFlags& given, const RunOptions& run) {
  // What is compiled here runs here.
  CompileFlags flags = given;
  if (!flags.target_given) flags.target_cpu = "native";
  flags.model.hidden = run.hidden.has_value() || run.embed;
  ScheduledModel scheduled = ScheduleModel(flags);
  if (scheduled.stopped) throw UsageError("run does not go with --stop-after");
  return CompileInMemory(std::move(scheduled), flags, run.threads);
}

}  // namespace

int CommandRun(const CompileFlags& flags, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  if (IsPlanFile(flags.model.model)) {
    if (!flags.compiling.empty())
      throw UsageError(fmt::format("{} is for compiling, and {} is a plan", flags.compiling, flags.model.model));
    all.push_back(flags.model.model);
    if (flags.context_given) all.insert(all.end(), {"--context", std::to_string(flags.model.context)});
    if (flags.chunk_given) all.insert(all.end(), {"--chunk", std::to_string(flags.model.chunk)});
    return RunMain(all, [](const RunOptions& options) { return LoadPlan(options.plan); }, {"llmc run", true});
  }
  return RunMain(all, [&](const RunOptions& options) { return Compile(flags, options); }, {"llmc run", false});
}

}  // namespace llmc
