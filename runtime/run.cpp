// RunMain: options, executable, session, and the command that the options name.
#include "runtime/run.h"

#include <cstdio>

#include "runtime/generate.h"
#include "runtime/report.h"

namespace llmc {
namespace {

void Run(const RunOptions& options, const ExecutableProvider& open, uint64_t start) {
  const Executable executable = open(options);
  SessionOptions session_options;
  session_options.threads = options.threads != 0 ? options.threads : UsableCores();
  session_options.context = options.context;
  session_options.chunk = options.chunk;
  Session session(executable, session_options);
  RunState run{executable, options, session, static_cast<double>(NowNanoseconds() - start) * 1e-6};
  if (options.bench) {
    RunBench(run);
  } else if (options.self_test) {
    RunSelfTest(run);
  } else if (options.perplexity) {
    RunPerplexity(run);
  } else if (options.logits) {
    RunLogits(run);
  } else {
    RunGenerate(run);
  }
}

}  // namespace

int RunMain(const std::vector<std::string>& arguments, const ExecutableProvider& open, const RunProgram& program) {
  const uint64_t start = NowNanoseconds();
  try {
    if (program.needs_plan && arguments.empty()) throw RunUsageError("no plan: give its file name, and -p TEXT");
    const RunOptions options = ParseRunOptions(arguments);
    if (options.help) {
      WriteOut("usage: " + program.name + (program.needs_plan ? " PLAN" : "") + " [options]\n" + RunOptionsHelp());
      return 0;
    }
    if (options.version) {
      WriteOut(program.name + " " LLMC_VERSION "\n");
      return 0;
    }
    if (program.needs_plan && options.plan.empty()) throw RunUsageError("no plan: give its file name");
    if (!program.needs_plan && !options.plan.empty()) throw RunUsageError("\"" + options.plan + "\" is too much");
    Run(options, open, start);
    return 0;
  } catch (const RunUsageError& error) {
    std::fprintf(stderr, "%s: %s (--help lists the options)\n", program.name.c_str(), error.what());
    return 2;
  } catch (const PlanError& error) {
    std::fprintf(stderr, "%s: %s\n", program.name.c_str(), error.what());
    return 1;
  }
}

}  // namespace llmc
