// From a scheduled model to what the backends need to make a plan of it.
#pragma once
#include "backends/compile_plan.h"
#include "tools/cli.h"
#include "tools/scheduled_model.h"

namespace llmc {

// The request borrows from `scheduled`, which must outlive it.
PlanRequest RequestOf(const CompileFlags& flags, const ScheduledModel& scheduled);

}  // namespace llmc
