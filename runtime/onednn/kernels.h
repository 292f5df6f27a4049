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
  const char* divisions;  // names, as in kernels.def
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

// The same for the codes of a block type, signed and times the integer scale of their 16 where the type has those: as
// f32, or as bytes if CodesFitBytes.
void UnpackCodes(uint32_t type, const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, float* out);
void UnpackCodes(uint32_t type, const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, int8_t* out);
bool CodesFitBytes(uint32_t type);
// And for its scales: d f32[k / 32, 16 * tiles], and where the type has a minimum m likewise; q2_k's m is multiplied by
// integers of 16 codes: mins, pairs of i16. What the type doesn't have is not written.
enum class BlockMinima : uint8_t { None, One, Halves };
BlockMinima UnpackScales(uint32_t type, const uint8_t* w, uint64_t tile_stride, uint64_t tiles, uint64_t k, float* d,
                         float* m, int32_t* mins);

uint64_t A8Stride(uint64_t k);  // bytes of a row of a8; its codes come first
// Codes of x a8[rows, k] to out f32[rows, k].
void WidenA8(const uint8_t* x, uint64_t rows, uint64_t k, float* out);

// sums f32[rows, width] go on over the blocks first .. first + blocks - 1, from 0 when first is 0, in the order and
// with the roundings of linear_a8. width: a multiple of 16, the stride of all rows; dots[blocks, rows, width], i32 or
// f32, batch_stride numbers from block to block; d, m, mins as UnpackScales gives them; x: all of the a8
// rows.
struct BlockSums {
  const void* dots;
  bool ints;
  uint64_t batch_stride, first, blocks, rows, width;
  const uint8_t* x;
  uint64_t k;
  BlockMinima minima;
  const float *d, *m;
  const int32_t* mins;
  float* sums;
};
void AddBlocks(const BlockSums& s);

// out[rows, width] = sums + bias (null: none), as linear ends; plus residual (null: none), as add does. sum_stride,
// out_stride (residual's too): floats from row to row.
void FinishSums(const float* sums, uint64_t sum_stride, const float* bias, const float* residual, uint64_t rows,
                uint64_t width, uint64_t out_stride, float* out);
// out = act(gate + gate_bias) * (up + up_bias), as a gated linear ends; act: a number of ir/activations.def.
void FinishGated(int64_t act, const float* gate, const float* up, uint64_t sum_stride, const float* gate_bias,
                 const float* up_bias, uint64_t rows, uint64_t width, uint64_t out_stride, float* out);

// To bf16, as round rounds.
void ConvertToBf16(const float* x, uint64_t count, uint16_t* out);

// out = from, plus bias f32[width] unless it is null: rows of `width`, `stride` floats apart in both. out may be from.
void SetRows(const float* from, const float* bias, uint64_t rows, uint64_t width, uint64_t stride, float* out);
// out *= act(gate): rows as MultiplyRows' are.
void GateRows(int64_t act, const float* gate, uint64_t gate_stride, uint64_t rows, uint64_t width, uint64_t stride,
              float* out);
// out *= factor: rows of `width`, `stride` floats apart, and `factor_stride`.
void MultiplyRows(const float* factor, uint64_t factor_stride, uint64_t rows, uint64_t width, uint64_t stride,
                  float* out);

}  // namespace llmc::onednn
