// Scheduled IR -> Program: one kernel call per op or fused group, operands as offsets, barriers where `step` grows.
// Decides nothing: what a schedule asks for and no kernel does is an error.
#pragma once
#include "backends/program.h"
#include "ir/module.h"

namespace llmc {

// Every function of a module that plan-memory left becomes a phase of its name. Throws InputError Unsupported naming
// op, types and backend.
Program LowerToProgram(const Module& module);

}  // namespace llmc
