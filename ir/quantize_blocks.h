// f32 to the block types whose scales are searched, and to those of 256 codes (ir/README.md, Recipes: quantize).
#pragma once
#include <cstddef>

#include "ir/type.h"

namespace llmc {

// One block (InfoOf(dtype).block elements). dtype: q2_k .. q6_k, iq4_nl, iq4_xs, mxfp4, tq1_0, tq2_0. Finite or not,
// nothing breaks; what is not finite gives any codes.
void QuantizeBlock(DType dtype, const float* in, std::byte* block);

}  // namespace llmc
