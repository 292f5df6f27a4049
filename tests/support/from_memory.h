// What `llmc run` runs: a plan in memory as an Executable.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backends/backend.h"
#include "backends/compile_plan.h"
#include "runtime/executor.h"
#include "runtime/step_library.h"

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

// No product of a plan fell to one of oneDNN's reference implementations, which are a thousand times slower.
inline void ExpectNoReference(const Executable& executable) {
  if (executable.program == nullptr) return;
  EXPECT_GT(executable.program->primitives(), 0U);
  for (uint64_t i = 0; i < executable.program->primitives(); ++i)
    EXPECT_EQ(executable.program->Describe(i).find("ref"), std::string::npos) << executable.program->Describe(i);
}

// The backends of this build that make plans which can run; not auto, which is one of them for each phase.
inline std::vector<std::string> CompiledBackends() {
  std::vector<std::string> names;
  for (const std::string& name : BackendNames())
    if (name != "reference" && name != "auto") names.push_back(name);
  return names;
}

}  // namespace llmc
