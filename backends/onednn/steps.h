// From a phase of a program to the step list of a plan.
#pragma once
#include <vector>

#include "backends/program.h"

namespace llmc {

// Products become `dnnl` steps, the other calls `kernel` steps, barriers steps of their own.
std::vector<PlanStep> StepsOf(const Phase& phase);

}  // namespace llmc
