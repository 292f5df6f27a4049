// Step lists.
#include "backends/onednn/steps.h"

#include "ir/diag.h"

namespace llmc {
namespace {

PlanStep StepOf(const KernelCall& call) {
  if (call.product) return {static_cast<uint32_t>(PlanStepKind::Dnnl), EncodeStep(*call.product)};
  KernelStep step;
  step.kernel = call.kernel;
  step.one_row = call.one_row;
  for (const std::optional<int64_t>& constant : call.constants) {
    LLMC_CHECK(constant.has_value(), call.kernel + ": a constant is open");
    step.constants.push_back(*constant);
  }
  step.words = call.record;
  return {static_cast<uint32_t>(PlanStepKind::Kernel), EncodeStep(step)};
}

}  // namespace

std::vector<PlanStep> StepsOf(const Phase& phase) {
  std::vector<PlanStep> steps;
  for (const KernelCall& call : phase.calls) {
    if (call.barrier_before) steps.push_back({static_cast<uint32_t>(PlanStepKind::Barrier), ""});
    steps.push_back(StepOf(call));
  }
  return steps;
}

}  // namespace llmc
