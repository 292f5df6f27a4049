// The plan's self-test: known logits of a few ids, as hashes, or as numbers where the plan isn't exact.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/weights.h"
#include "runtime/plan.h"

namespace llmc {

// Throws InputError when a logit isn't finite, or with allow_nonfinite returns an empty test.
//
// By the code of every target that this machine runs, which must agree, when every phase is code; else by the
// interpreter. code[i]: of manifest.targets[i].
PlanSelfTest MakeSelfTest(const Manifest& manifest, const std::vector<std::string>& code, const Module& module,
                          const WeightSource& source, const uint8_t* weights, bool allow_nonfinite = false);

}  // namespace llmc
