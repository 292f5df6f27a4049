// The module and the weights of a plan, for the interpreter: nothing of the plan is executed.
#pragma once
#include <memory>

#include "ir/module.h"
#include "ir/weights.h"
#include "runtime/plan.h"

namespace llmc {

// The plan's final IR, in which every const that the plan stores is a weight, in its packed layout.
Module ModuleOf(const PlanFile& plan);
// Reads them from the plan's weight section, by the offsets in that IR. `plan` outlives the source.
std::unique_ptr<WeightSource> WeightsOf(const PlanFile& plan);

}  // namespace llmc
