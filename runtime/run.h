// llmc-run's command line as a function, so that `llmc run` is the same program on a model in memory.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "runtime/run_options.h"

namespace llmc {

// Called once, after the options were found to be right. It may throw; PlanError is reported by RunMain, anything else
// goes through it.
using ExecutableProvider = std::function<Executable(const RunOptions& options)>;

struct RunProgram {
  std::string name = "llmc-run";  // in messages
  bool needs_plan = true;         // a positional PLAN; otherwise there must be none
};

// Parses `arguments` (without the program's name), opens, runs, reports. Returns the exit status: 0 done, 1 input at
// fault, 2 wrong usage.
int RunMain(const std::vector<std::string>& arguments, const ExecutableProvider& open, const RunProgram& program = {});

}  // namespace llmc
