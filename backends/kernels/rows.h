// Kernels over rows of activations: norms, quantize, round, add, gated, last_rows.
#pragma once
#include "backends/kernels/math.h"

namespace KERNELS_NAMESPACE {

// The part of rows x columns that a thread computes: rows divided (over = kRows), or columns in tiles of 16, or all of
// it.
struct Box {
  Range row, column;
};
INLINE Box ShareBox(int64_t n_rows, int64_t dim, int64_t over, int64_t grain, uint32_t thread, uint32_t threads) {
  return {Share(n_rows, grain, over, kRows, thread, threads), Share(dim, 16 * grain, over, kTiles, thread, threads)};
}

// f(column, n) for each run of n <= 16 columns.
template <class F>
INLINE void ForColumns(Range column, F f) {
  int64_t i = column.begin;
#pragma clang loop unroll(disable)
  for (; i + 16 <= column.end; i += 16) f(i, 16);
  if (i < column.end) f(i, column.end - i);
}
INLINE F32x16 LoadColumns(const float* p, int64_t n) { return n == 16 ? Load(p) : LoadPart(p, n); }
INLINE void StoreColumns(float* p, F32x16 v, int64_t n) { n == 16 ? Store(p, v) : StorePart(p, v, n); }

INLINE void NormRow(const float* x, const float* gain, int64_t dim, float eps, float* out) {
  const F32x16 scale = Splat(RowScale(x, dim, eps));
  ForColumns({0, dim}, [&](int64_t i, int64_t n) {
    StoreColumns(out + i, Mul(Mul(LoadColumns(x + i, n), scale), LoadColumns(gain + i, n)), n);
  });
}
INLINE void NormQuantizeRow(const float* x, const float* gain, int64_t dim, float eps, uint8_t* out) {
  const F32x16 scale = Splat(RowScale(x, dim, eps));
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < dim; i += 32) {
    const F32x16 lo = Mul(Mul(Load(x + i), scale), Load(gain + i));
    const F32x16 hi = Mul(Mul(Load(x + i + 16), scale), Load(gain + i + 16));
    QuantizeBlock(lo, hi, out, dim, i / 32);
  }
}
INLINE void AddRow(const float* a, const float* b, float* out, Range column) {
  ForColumns(column, [&](int64_t i, int64_t n) {
    StoreColumns(out + i, Add(LoadColumns(a + i, n), LoadColumns(b + i, n)), n);
  });
}

KERNEL void rms_norm(KERNEL_CALL, int64_t heads, int64_t dim, int64_t eps, int64_t x_space, int64_t out_space,
                     int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* gain = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const Range row = Share(rows, grain, over, kRows, thread, threads);
  const Range head = Share(heads, grain, over, kHeads, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s) {
#pragma clang loop unroll(disable)
    for (int64_t h = head.begin; h < head.end; ++h) {
      const int64_t at = (s * heads + h) * dim;
      NormRow(x + at, gain, dim, FloatOfBits(eps), out + at);
    }
  }
}

KERNEL void rms_norm_quantize(KERNEL_CALL, int64_t dim, int64_t eps, int64_t x_space, int64_t out_space, int64_t over,
                              int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* gain = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[1]));
  uint8_t* out = At(c, thread, out_space, rec[2]);
  const Range row = Share(rows, grain, over, kRows, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s)
    NormQuantizeRow(x + s * dim, gain, dim, FloatOfBits(eps), out + s * A8RowBytes(dim));
}

KERNEL void add_rms_norm(KERNEL_CALL, int64_t dim, int64_t eps, int64_t x_space, int64_t delta_space, int64_t sum_space,
                         int64_t out_space, int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* delta = reinterpret_cast<const float*>(At(c, thread, delta_space, rec[1]));
  const float* gain = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[2]));
  float* sum = reinterpret_cast<float*>(At(c, thread, sum_space, rec[3]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[4]));
  const Range row = Share(rows, grain, over, kRows, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s) {
    AddRow(x + s * dim, delta + s * dim, sum + s * dim, {0, dim});
    NormRow(sum + s * dim, gain, dim, FloatOfBits(eps), out + s * dim);
  }
}

KERNEL void add_rms_norm_quantize(KERNEL_CALL, int64_t dim, int64_t eps, int64_t x_space, int64_t delta_space,
                                  int64_t sum_space, int64_t out_space, int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* delta = reinterpret_cast<const float*>(At(c, thread, delta_space, rec[1]));
  const float* gain = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[2]));
  float* sum = reinterpret_cast<float*>(At(c, thread, sum_space, rec[3]));
  uint8_t* out = At(c, thread, out_space, rec[4]);
  const Range row = Share(rows, grain, over, kRows, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s) {
    AddRow(x + s * dim, delta + s * dim, sum + s * dim, {0, dim});
    NormQuantizeRow(sum + s * dim, gain, dim, FloatOfBits(eps), out + s * A8RowBytes(dim));
  }
}

KERNEL void quantize(KERNEL_CALL, int64_t dim, int64_t x_space, int64_t out_space, int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  uint8_t* out = At(c, thread, out_space, rec[1]);
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
#pragma clang loop unroll(disable)
    for (int64_t i = box.column.begin; i < box.column.end; i += 32) {
      const float* block = x + s * dim + i;
      QuantizeBlock(Load(block), Load(block + 16), out + s * A8RowBytes(dim), dim, i / 32);
    }
  }
}

KERNEL void round_bf16(KERNEL_CALL, int64_t dim, int64_t x_space, int64_t out_space, int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[1]));
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    const int64_t at = s * dim;
    ForColumns(box.column,
               [&](int64_t i, int64_t n) { StoreColumns(out + at + i, RoundToBf16(LoadColumns(x + at + i, n)), n); });
  }
}

KERNEL void add(KERNEL_CALL, int64_t dim, int64_t a_space, int64_t b_space, int64_t out_space, int64_t over,
                int64_t grain) {
  const float* a = reinterpret_cast<const float*>(At(c, thread, a_space, rec[0]));
  const float* b = reinterpret_cast<const float*>(At(c, thread, b_space, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) AddRow(a + s * dim, b + s * dim, out + s * dim, box.column);
}

KERNEL void gated(KERNEL_CALL, int64_t dim, int64_t gate_space, int64_t up_space, int64_t out_space, int64_t over,
                  int64_t grain) {
  const float* gate = reinterpret_cast<const float*>(At(c, thread, gate_space, rec[0]));
  const float* up = reinterpret_cast<const float*>(At(c, thread, up_space, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    const int64_t at = s * dim;
    ForColumns(box.column, [&](int64_t i, int64_t n) {
      StoreColumns(out + at + i, Mul(Silu(LoadColumns(gate + at + i, n)), LoadColumns(up + at + i, n)), n);
    });
  }
}

KERNEL void last_rows(KERNEL_CALL, int64_t dim, int64_t count, int64_t x_space, int64_t out_space, int64_t over,
                      int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0])) + (rows - count) * dim;
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[1]));
  const Box box = ShareBox(count, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    ForColumns(box.column,
               [&](int64_t i, int64_t n) { StoreColumns(out + s * dim + i, LoadColumns(x + s * dim + i, n), n); });
  }
}

}  // namespace KERNELS_NAMESPACE
