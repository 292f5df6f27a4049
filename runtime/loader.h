// From a plan file to an Executable: picks the target that this CPU can run, seals its code, maps the weights.
#pragma once
#include <span>
#include <string>

#include "runtime/executor.h"

namespace llmc {

struct LoadOptions {
  // Map the weights' pages now rather than one by one at first use; worth it when the file is in the page cache.
  bool populate = true;
};

// Throws PlanError: what PlanFile refuses; a plan of backend reference; what MakeSteps refuses; no target for this CPU
// (with what is missing); no memory. While the executable lives, reading weights of a file that was cut ends the
// process with status 1 and a message rather than with SIGBUS.
Executable LoadPlan(const std::string& path, const LoadOptions& options = {});
// The same of a plan that is open. One in memory (fd() is -1) gives its bytes, which the caller keeps, in `memory`: the
// weights are used where they lie, if they are at a multiple of 64 bytes there, else copied.
Executable LoadPlan(PlanFile plan, const LoadOptions& options = {}, std::span<const uint8_t> memory = {});

}  // namespace llmc
