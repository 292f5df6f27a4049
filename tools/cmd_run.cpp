// llmc run: a model compiled in memory (the plan's own object through ORC, or the interpreter), or a plan, run by
// llmc-run's very code.
#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "ir/interpreter.h"
#include "runtime/loader.h"
#include "runtime/run.h"
#include "tools/note.h"
#include "tools/plan_request.h"

namespace llmc {
namespace {

// Everything that an Executable points into.
struct InMemory {
  Lowered lowered;
  std::unique_ptr<MemoryPlan> plan;
  std::unique_ptr<Interpreter> interpreter;
};

Executable Compile(const CompileFlags& given, const RunOptions& run) {
  auto memory = std::make_shared<InMemory>();
  // What is compiled here runs here.
  CompileFlags flags = given;
  if (!flags.target_given) flags.target_cpu = "native";
  memory->lowered = Lower(flags);
  if (memory->lowered.stopped) throw UsageError("run does not go with --stop-after");
  if (!memory->lowered.model.weights) throw UsageError("run needs weights");
  const PlanRequest request = RequestOf(flags, memory->lowered);
  memory->plan = std::make_unique<MemoryPlan>(request);
  if (isatty(STDERR_FILENO)) Note("\r");

  Executable executable;
  executable.manifest = std::shared_ptr<const Manifest>(memory, &memory->plan->manifest());
  executable.weights = memory->plan->weights();
  executable.weights_size = memory->plan->weights_size();
  executable.tokenizer = memory->lowered.model.tokenizer;
  if (memory->lowered.backend == "reference") {
    const Module& module = memory->lowered.model.module;
    memory->interpreter = std::make_unique<Interpreter>(
        module, *memory->lowered.model.weights,
        std::max(1, static_cast<int>(run.threads == 0 ? static_cast<uint32_t>(request.jobs) : run.threads)));
    executable.interpret = [interpreter = memory->interpreter.get()](const ForwardCall& call) {
      const std::vector<float> logits =
          interpreter->Run(PhaseKindName(call.phase->kind), call.tokens, call.pos, call.total);
      std::memcpy(call.logits, logits.data(), logits.size() * sizeof(float));
    };
  } else {
    MakeSteps(executable, [&](const std::string& name) { return memory->plan->Entry(name); }, flags.model.model);
  }
  executable.owner = memory;
  return executable;
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
