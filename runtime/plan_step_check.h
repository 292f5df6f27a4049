// The rules of step lists, a part of CheckManifest. Internal to the plan layer.
#pragma once
#include <cstdint>
#include <string_view>

#include "runtime/plan.h"

namespace llmc {

// Throws PlanError("WHERE: manifest: phase, step: rule, values"). The manifest's sizes are already known to be in
// bounds.
void CheckSteps(const Manifest& manifest, uint64_t weights_size, std::string_view where);

}  // namespace llmc
