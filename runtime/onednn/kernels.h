// The kernels of backends/kernels as a table of plain functions, and what a product needs besides oneDNN: weights
// unpacked, activations converted, rows set and multiplied.
//
// kernels.cpp is compiled by clang for x86-64-v3, whatever compiles the rest: nothing here may be called on a CPU
// without LlmcOnednnLibrary::features. Types are DType's values (ir/dtypes.def).
#pragma once
#include <cstdint>

#include "runtime/context.h"

namespace llmc::onednn {

struct NativeKernel {
  const char* name;
  const char* record;     // words, separated by spaces, as in kernels.def
  const char* constants;  // names, separated by spaces, as in kernels.def
  int arity;              // constants that `call` reads
  void (*call)(const LlmcContext* c, uint32_t thread, uint32_t threads, uint32_t rows, const uint64_t* record,
               const int64_t* constants);
};
// Ends with an entry without a name.
const NativeKernel* NativeKernels();

uint8_t* PlaceOf(const LlmcContext* c, uint32_t thread, uint32_t space, uint64_t offset);

// `tiles` tiles of a tiles16 matrix [*, k] of a weight type, `tile_stride` bytes apart, to out [k, 16 * tiles]: the
// values are those that the f32 kernels multiply by (w = d * q, or d * q + m rounded once). Columns of padding are 0.
void UnpackF32(uint32_t type, const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, float* out);
// The same for bf16 weights, bits as they are.
void UnpackBf16(const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, uint16_t* out);

// x a8[rows, k] to out f32[rows, k]: code * scale, rounded once.
void WidenA8(const uint8_t* x, uint64_t rows, uint64_t k, float* out);
// To bf16, as round_bf16 rounds.
void ConvertToBf16(const float* x, uint64_t count, uint16_t* out);

// out = from, plus bias f32[width] unless it is null: rows of `width`, `stride` floats apart in both. out may be from.
void SetRows(const float* from, const float* bias, uint64_t rows, uint64_t width, uint64_t stride, float* out);
// out *= factor: rows of `width`, `stride` floats apart, and `factor_stride`.
void MultiplyRows(const float* factor, uint64_t factor_stride, uint64_t rows, uint64_t width, uint64_t stride,
                  float* out);

}  // namespace llmc::onednn
