// Tables of the backends, in the passes' terms.
#include "tools/pass_context.h"

#include "backends/kernel_table.h"
#include "backends/onednn/costs.h"
#include "backends/onednn/product.h"

namespace llmc {

PassContext ContextFor(const std::string& backend, const std::string& targets) {
  PassContext context;
  context.backend = backend;
  context.targets = targets;
  context.kernels.computes = LlvmComputes;
  context.onednn.computes = OnednnComputes;
  context.onednn.slice = [](const Module& module, const Func& func, const Op& product, const Op* gate) {
    const DnnlStep step = ProductOf(module, func, product, gate);
    return SlicePlan{step.slice_tiles, static_cast<int64_t>(step.scratch_bytes)};
  };
  context.choose = [targets](const Module& module, const Func& func) {
    const CostEstimate cost = EstimateCosts(module, func, targets);
    return BackendChoice{cost.onednn, cost.reason};
  };
  return context;
}

std::string TargetsOf(const Module& module) {
  const AttrValue* option = module.options.Find("target");
  const auto* names = option == nullptr ? nullptr : std::get_if<std::vector<Dim>>(option);
  std::string targets;
  for (size_t i = 0; names != nullptr && i < names->size(); ++i) targets += (i == 0 ? "" : ",") + (*names)[i].symbol;
  return targets;
}

}  // namespace llmc
