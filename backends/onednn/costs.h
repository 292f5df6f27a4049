// What a phase costs on each backend: the table behind `--backend auto`.
#pragma once
#include <string>

#include "ir/module.h"

namespace llmc {

struct CostEstimate {
  bool onednn = false;  // the faster one
  std::string reason;   // both estimates, in words
};

// By the matrices of a function at its largest number of rows, on one core of a CPU of the best of `targets`
// (comma-separated names). tools/bench_backends.py measures whether the choice is right.
CostEstimate EstimateCosts(const Module& module, const Func& func, const std::string& targets);

}  // namespace llmc
