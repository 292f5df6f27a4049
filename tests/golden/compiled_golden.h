// A golden model, compiled in memory.
#pragma once
#include <memory>
#include <string>

#include "tests/golden/golden_files.h"
#include "tests/support/from_memory.h"
#include "tools/pass_context.h"

namespace llmc {

inline Executable CompileModel(const ModelOptions& options, const std::string& backend, const std::string& target) {
  Model model = LoadModel(options);
  RunPipeline(model.module, ContextFor(backend));
  PlanRequest request;
  request.module = &model.module;
  request.weights = model.weights.get();
  request.backend = backend;
  request.targets = target;
  return FromMemory(std::make_shared<MemoryPlan>(request));
}

inline Executable Compile(const std::string& backend, const std::string& folder, const std::string& activations = "f32",
                          const std::string& target = "native") {
  ModelOptions options = OptionsFor(ModelIn(folder), "f32");
  options.activations = activations;
  return CompileModel(options, backend, target);
}

}  // namespace llmc
