// The kernels that tests of passes schedule for: the backends' own table (backends/kernel_table.cpp, which needs no
// backend).
#pragma once
#include "backends/kernel_table.h"
#include "passes/pass.h"

namespace llmc::test {

inline KernelTable TestKernels() {
  KernelTable table;
  table.computes = LlvmComputes;
  return table;
}

// A backend that cuts every matrix into slices of two tiles, in f32 scratch, twice that when gated.
inline KernelTable TestOnednn() {
  KernelTable table;
  table.computes = OnednnComputes;
  table.slice = [](const Module& module, const Func& func, const Op& product, const Op* gate) {
    const int64_t k = TypeOf(module, func, product.operands[0]).dims[1].value;
    return SlicePlan{2, k * 32 * 4 * (gate != nullptr ? 2 : 1)};
  };
  return table;
}

// Decode stays with llvm.
inline BackendChoice TestChoice(const Module&, const Func& func) {
  return {func.name != "decode", func.name == "decode" ? "one row" : "many rows"};
}

}  // namespace llmc::test
