// The verifier: structure, every op's constraints (Infer again, compared with the stated types), states, schedule and
// memory plan.
#pragma once
#include <string>

#include "ir/module.h"

namespace llmc {

// Throws InputError. `file` names the text the module came from (or the pass that left it).
//  names unique; definitions before uses; every operand and result present and typed as its record says; attributes
//  known, present and typed; recipes well formed; at most one append per state and function, never dead, and no read of
//  a state's older value after it; with a schedule: an operand read in another division than it was made in comes from
//  an earlier step; with offsets: values that live in one step share no byte.
void Verify(const Module& module, const std::string& file);

}  // namespace llmc
