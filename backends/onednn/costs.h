// What a phase costs on each backend: the table behind `--backend auto`.
#pragma once
#include <string>

#include "ir/module.h"

namespace llmc {

struct CostEstimate {
  bool onednn = false;  // the faster one
  std::string reason;   // both estimates, in words
};

// By the matrices of a function at its largest number of rows, for `targets` (comma-separated names, as on the command
// line). "native" is this machine's CPU; any other name promises what its code needs and no more, and oneDNN is chosen
// only where it loses nothing on any of them and wins on some CPU. tools/bench_backends.py measures whether the choice
// is right.
CostEstimate EstimateCosts(const Module& module, const Func& func, const std::string& targets);

}  // namespace llmc
