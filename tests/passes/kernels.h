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

}  // namespace llmc::test
