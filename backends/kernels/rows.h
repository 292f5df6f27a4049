// Kernels over rows of activations: norm, map, gated, xielu, last_rows.
#pragma once
#include "backends/kernels/epilogue.h"

namespace KERNELS_NAMESPACE {

// The part of rows x columns that a thread computes: rows divided (over = kRows), or columns in tiles of 16, or all of
// it.
struct Box {
  Range row, column;
};
INLINE Box ShareBox(int64_t n_rows, int64_t dim, int64_t over, int64_t grain, uint32_t thread, uint32_t threads) {
  return {Share(n_rows, grain, over, kRows, thread, threads), Share(dim, 16 * grain, over, kTiles, thread, threads)};
}

INLINE void AddRow(const float* a, const float* b, float* out, int64_t dim) {
  ForColumns({0, dim}, [&](int64_t i, int64_t n) {
    StoreColumns(out + i, Add(LoadColumns(a + i, n), LoadColumns(b + i, n)), n);
  });
}

// What a norm multiplies and adds: vectors of a head, or null.
struct Affine {
  const float *gain, *bias;
};
INLINE F32x16 Apply(const Affine& affine, F32x16 v, int64_t i, int64_t n) {
  if (affine.gain) v = Mul(v, LoadColumns(affine.gain + i, n));
  return affine.bias ? Add(v, LoadColumns(affine.bias + i, n)) : v;
}

// Columns first .. first + dim - 1 of a row, x f32[dim].
INLINE void NormHead(const float* x, int64_t dim, float eps, bool center, const Affine& affine, const Rows& out,
                     const Epilogue& e, int64_t row, int64_t first) {
  if (center) {
    const float sum = RowSum(x, dim, [](F32x16 lanes, F32x16 v) { return Add(lanes, v); });
    const F32x16 mean = Splat(sum / static_cast<float>(dim));
    F32x16 lanes = Zero();
    ForColumns({0, dim}, [&](int64_t i, int64_t n) {
      F32x16 d = Sub(LoadColumns(x + i, n), mean);
      if (n < 16) d = KeepLanes(d, 0, n, 0);
      lanes = Fma(d, d, lanes);
    });
    const float r = InverseRoot(TreeSum(lanes), dim, eps);
    StoreRow(out, e, row, {first, first + dim}, [&](int64_t i, int64_t n) {
      return Apply(affine, Mul(Sub(LoadColumns(x + i - first, n), mean), Splat(r)), i - first, n);
    });
    return;
  }
  const F32x16 scale = Splat(RowScale(x, dim, eps));
  StoreRow(out, e, row, {first, first + dim}, [&](int64_t i, int64_t n) {
    return Apply(affine, Mul(LoadColumns(x + i - first, n), scale), i - first, n);
  });
}

KERNEL void norm(KERNEL_CALL, int64_t heads, int64_t dim, int64_t eps, int64_t is_layer_norm, int64_t has_delta,
                 int64_t has_gain, int64_t has_bias, int64_t gain_heads, int64_t then0, int64_t then1, int64_t then2,
                 int64_t other_row, int64_t out_type, int64_t record, int64_t x_space, int64_t delta_space,
                 int64_t sum_space, int64_t other_space, int64_t out_space, int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* delta = reinterpret_cast<const float*>(At(c, thread, delta_space, rec[1]));
  const float* gain = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[2]));
  const float* bias = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[3]));
  float* sum = reinterpret_cast<float*>(At(c, thread, sum_space, rec[4]));
  const int64_t width = heads * dim;
  const Epilogue e = EpilogueOf(then0, then1, then2, other_row, At(c, thread, other_space, rec[5]), width);
  const Rows out{At(c, thread, out_space, rec[6]), width, out_type, record};
  const Range row = Share(rows, grain, over, kRows, thread, threads);
  const Range head = Share(heads, grain, over, kHeads, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s) {
#pragma clang loop unroll(disable)
    for (int64_t h = head.begin; h < head.end; ++h) {
      const int64_t first = h * dim, at = s * width + first, of_head = gain_heads > 1 ? first : 0;
      const float* from = x + at;
      if (has_delta) {
        AddRow(from, delta + at, sum + at, dim);
        from = sum + at;
      }
      const Affine affine{has_gain ? gain + of_head : nullptr, has_bias ? bias + of_head : nullptr};
      NormHead(from, dim, FloatOfBits(eps), is_layer_norm, affine, out, e, s, first);
    }
  }
}

KERNEL void map(KERNEL_CALL, int64_t dim, int64_t then0, int64_t then1, int64_t then2, int64_t other_row,
                int64_t out_type, int64_t record, int64_t x_space, int64_t other_space, int64_t out_space, int64_t over,
                int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const Epilogue e = EpilogueOf(then0, then1, then2, other_row, At(c, thread, other_space, rec[1]), dim);
  const Rows out{At(c, thread, out_space, rec[2]), dim, out_type, record};
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s)
    StoreRow(out, e, s, box.column, [&](int64_t i, int64_t n) { return LoadColumns(x + s * dim + i, n); });
}

KERNEL void gated(KERNEL_CALL, int64_t dim, int64_t act, int64_t alpha, int64_t limit, int64_t then0, int64_t then1,
                  int64_t then2, int64_t other_row, int64_t out_type, int64_t record, int64_t gate_space,
                  int64_t up_space, int64_t other_space, int64_t out_space, int64_t over, int64_t grain) {
  const float* gate = reinterpret_cast<const float*>(At(c, thread, gate_space, rec[0]));
  const float* up = reinterpret_cast<const float*>(At(c, thread, up_space, rec[1]));
  const Epilogue e = EpilogueOf(then0, then1, then2, other_row, At(c, thread, other_space, rec[2]), dim);
  const Rows out{At(c, thread, out_space, rec[3]), dim, out_type, record};
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    StoreRow(out, e, s, box.column, [&](int64_t i, int64_t n) {
      const int64_t at = s * dim + i;
      return Apply(Gate{act, alpha, limit}, LoadColumns(gate + at, n), LoadColumns(up + at, n));
    });
  }
}

KERNEL void xielu(KERNEL_CALL, int64_t dim, int64_t then0, int64_t then1, int64_t then2, int64_t other_row,
                  int64_t out_type, int64_t record, int64_t x_space, int64_t other_space, int64_t out_space,
                  int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* numbers = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[1]));
  const Epilogue e = EpilogueOf(then0, then1, then2, other_row, At(c, thread, other_space, rec[2]), dim);
  const Rows out{At(c, thread, out_space, rec[3]), dim, out_type, record};
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    StoreRow(out, e, s, box.column, [&](int64_t i, int64_t n) {
      return Xielu(LoadColumns(x + s * dim + i, n), numbers[0], numbers[1], numbers[2], numbers[3]);
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
