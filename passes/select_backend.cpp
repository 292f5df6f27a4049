// select-backend: which functions oneDNN's products run in; the others are machine code of the llvm backend.
//
// The option `onednn` lists them; without it there are none. `--backend onednn` gives it all functions; `--backend
// auto` asks the backends' table of costs for each (backends/onednn/costs.cpp), and each choice is a remark.
//
// Needs:    specialize-phases (phases are chosen apart), pack-weights (types and shapes are final).
// Leaves:   options `backend` (as asked for: onednn or auto), `onednn` and, for auto, `target`; nothing for llvm and
//           reference.
// Why here: plan-schedule cuts matrices into slices and places scratch for oneDNN alone.
// Skips:    a module that says `backend` already.
#include <algorithm>

#include <fmt/format.h>

#include "passes/pass.h"

namespace llmc {
namespace {

// "a,b" as a list.
std::vector<Dim> Names(const std::string& list) {
  std::vector<Dim> names;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    names.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace

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
  if (!all) module.options.Set("target", Names(context.targets));
  if (!chosen.empty()) module.options.Set("onednn", std::move(chosen));
  return true;
}

}  // namespace llmc
