// From a lowered model to what the backends need to make a plan of it.
#pragma once
#include "backends/compile_plan.h"
#include "tools/cli.h"
#include "tools/lowering.h"

namespace llmc {

// The request borrows from `lowered`, which must outlive it.
PlanRequest RequestOf(const CompileFlags& flags, const Lowered& lowered);

}  // namespace llmc
