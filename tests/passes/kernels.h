// The fused functions that the tests of passes assume a backend to have (the layer links no backend).
#pragma once
#include "passes/pass.h"

namespace llmc::test {

inline KernelTable TestKernels() {
  return {{{OpKind::RmsNorm, OpKind::Quantize},
           {OpKind::AddRmsNorm, OpKind::Quantize},
           {OpKind::Linear, OpKind::Gated},
           {OpKind::Linear, OpKind::Gated, OpKind::Quantize},
           {OpKind::Attention, OpKind::Quantize},
           {OpKind::AttentionMerge, OpKind::Quantize}}};
}

// A backend that cuts every matrix into slices of two tiles, in f32 scratch, twice that when gated.
inline KernelTable TestOnednn() {
  KernelTable table;
  table.fused = {{OpKind::RmsNorm, OpKind::Quantize}, {OpKind::Linear, OpKind::Gated}, {OpKind::Linear, OpKind::Add}};
  table.slice = [](const Module& module, const Func& func, const Op& linear, bool gated) {
    const int64_t k = TypeOf(module, func, linear.operands[0]).dims[1].value;
    return SlicePlan{2, k * 32 * 4 * (gated ? 2 : 1)};
  };
  return table;
}

// Decode stays with llvm.
inline BackendChoice TestChoice(const Module&, const Func& func) {
  return {func.name != "decode", func.name == "decode" ? "one row" : "many rows"};
}

}  // namespace llmc::test
