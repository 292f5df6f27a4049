// A model compiled in memory, ready for a Session: what run and verify share.
#pragma once
#include "runtime/executable.h"
#include "tools/cli.h"
#include "tools/scheduled_model.h"

namespace llmc {

// Code through ORC, or the interpreter for backend reference (`threads` of it). The executable owns `scheduled`. Throws
// UsageError for a model without weights.
Executable CompileInMemory(ScheduledModel scheduled, const CompileFlags& flags, uint32_t threads);

}  // namespace llmc
