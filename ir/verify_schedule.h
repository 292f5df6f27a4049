// The verifier's part for schedules and memory plans (rules S1..S6 and M1..M3 of ir/README.md).
#pragma once
#include "ir/module.h"

namespace llmc {

// The function is well formed otherwise. Throws InputError BadSchedule or BadPlan; the place is the op's line.
void VerifySchedule(const Module& module, const Func& func);
// Offsets of weights and states.
void VerifyGlobalOffsets(const Module& module);

}  // namespace llmc
