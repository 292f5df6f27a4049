// mxfp4 as Hugging Face's checkpoints keep it: two tensors of bytes, of which one has the codes and the other an exponent
// for each 32 of them (OCP Microscaling Formats 1.0). Here they become one tensor of the block type that ir/dtypes.def
// has, which says the very same numbers.
#pragma once
#include <cstddef>

#include "frontend/tensor_file.h"

namespace llmc {

// Makes a tensor of mxfp4 [.., 32 n] of each "NAME_blocks" [.., n, 16] of bytes, with the exponents of "NAME_scales"
// [.., n], wherever in the set that one is; it keeps the name "NAME_blocks". Any other tensor of bytes is refused:
// InputError Unsupported, or ShapeMismatch for two that don't fit.
void PairMxfp4(TensorSet& set);

// `n` blocks from the first of `tensor`'s on, at `begin`, as ir/dtypes.def has them: 17 n bytes.
void ReadMxfp4(const TensorSet& set, const TensorInfo& tensor, size_t begin, size_t n, std::byte* out);

}  // namespace llmc
