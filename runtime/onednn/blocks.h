// Products of a8 activations with block weights: each block's dots by oneDNN, exact, and the sums over blocks by the
// kernels' arithmetic, so that the result is the interpreter's to the bit.
#pragma once
#include "runtime/onednn/program.h"

namespace llmc::onednn {

// Whether an int8 matmul (Factors::I8) gives exact sums on this CPU: a product of full-range codes against integers.
// oneDNN 2.6 saturates without VNNI, and then (or without such an implementation) dots are computed in f32, which holds
// them exactly too. Throws dnnl::error.
bool Int8IsExact(const Matmul& matmul);

// The matmul of a slice of `width` columns.
MatmulShape BlockShape(const DnnlStep& step, Factors factors, uint64_t width);

// Slices begin .. end - 1 of a product with compute Blocks, by one thread.
void RunBlocks(const Product& product, const LlmcContext& c, uint32_t thread, uint64_t begin, uint64_t end,
               uint8_t* dnnl_scratchpad);

}  // namespace llmc::onednn
