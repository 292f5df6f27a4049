// What `llmc run` runs: a plan in memory as an Executable.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/compile_plan.h"
#include "runtime/executor.h"

namespace llmc {

inline Executable FromMemory(std::shared_ptr<MemoryPlan> plan) {
  Executable executable;
  executable.manifest = std::shared_ptr<const Manifest>(plan, &plan->manifest());
  MakeSteps(executable, [&](const std::string& name) { return plan->Entry(name); }, "memory");
  executable.weights = plan->weights();
  executable.weights_size = plan->weights_size();
  executable.owner = std::move(plan);
  return executable;
}

// The backends of this build that make plans which can run; not auto, which is one of them for each phase.
inline std::vector<std::string> CompiledBackends() {
  std::vector<std::string> names;
  for (const std::string& name : BackendNames())
    if (name != "reference" && name != "auto") names.push_back(name);
  return names;
}

}  // namespace llmc
