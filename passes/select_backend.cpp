// select-backend: which functions oneDNN's products run in; the others are machine code of the llvm backend.
//
// The option `onednn` lists them; without it there are none. `--backend onednn` gives it all functions; `--backend
// auto` asks the backends' table of costs for each (backends/onednn/costs.cpp), and each choice is a remark.
//
// Needs:    specialize-phases (phases are chosen apart), pack-weights (types and shapes are final).
// Leaves:   options `backend` (as asked for: onednn or auto) and `onednn`. Nothing for llvm and reference.
// Why here: plan-schedule cuts matrices into slices and places scratch for oneDNN alone.
// Skips:    a module that says `backend` already.
#include <fmt/format.h>

#include "passes/pass.h"

namespace llmc {

bool SelectBackend(Module& module, const PassContext& context) {
  if (module.options.Find("backend") != nullptr) return false;
  const bool all = context.backend == "onednn";
  if (!all && context.backend != "auto") return false;
  if (!all && !context.choose) throw UsageError("backend auto: there is nothing to choose from");
  std::vector<Dim> chosen;
  for (const Func& func : module.funcs) {
    const BackendChoice choice = all ? BackendChoice{true, "asked for"} : context.choose(module, func);
    context.Remark("select-backend",
                   fmt::format("@{}: {} ({})", func.name, choice.onednn ? "onednn" : "llvm", choice.reason));
    if (choice.onednn) chosen.emplace_back(func.name);
  }
  module.options.Set("backend", context.backend);
  if (!chosen.empty()) module.options.Set("onednn", std::move(chosen));
  return true;
}

}  // namespace llmc
