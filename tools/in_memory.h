// A model compiled in memory, ready for a Session: what run and verify share.
#pragma once
#include "runtime/executable.h"
#include "tools/cli.h"
#include "tools/lowering.h"

namespace llmc {

// Code through ORC, or the interpreter for backend reference (`threads` of it). The executable owns `lowered`. Throws
// UsageError for a model without weights.
Executable CompileInMemory(Lowered lowered, const CompileFlags& flags, uint32_t threads);

}  // namespace llmc
