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
// line). "native" is this machine's CPU; any other name promises AVX2 and no more, so there oneDNN is chosen only where
// it loses nothing without AVX-512 and wins with it. tools/bench_backends.py measures whether the choice is right.
CostEstimate EstimateCosts(const Module& module, const Func& func, const std::string& targets);

}  // namespace llmc
