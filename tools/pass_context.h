// What the passes may ask of the backends that are built in: the one place where the two layers meet. For the command
// line and for tests of everything together.
#pragma once
#include <string>

#include "backends/backend.h"
#include "passes/pass.h"

namespace llmc {

// `backend` and `targets` as on llmc's command line.
PassContext ContextFor(const std::string& backend, const std::string& targets = kDefaultTargets);

// The module's option `target` (auto chose for it), as on the command line; empty if there is none.
std::string TargetsOf(const Module& module);

}  // namespace llmc
