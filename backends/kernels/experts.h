// route, expert and combine: mixtures of experts. One row goes through the GEMV of each of its experts; of more rows
// those of one expert are gathered and go through the GEMM together, so that its weights are read once.
#pragma once
#include "backends/kernels/linear.h"

namespace KERNELS_NAMESPACE {

constexpr int64_t kMostUsed = 64;
constexpr int64_t kGathered = int64_t{1} << 17;  // bytes of rows that are gathered at once, in a thread's stack

struct ExpertCall {
  LinearCall product;  // of expert 0 and row 0
  const int32_t* ids;
  int64_t used, experts, each;
  int64_t expert_bytes;  // of an expert's weights, both parts
};

// The product of one expert with one row: row `at` of ids' rows * used.
INLINE LinearCall OfExpert(const ExpertCall& e, int64_t at) {
  LinearCall a = e.product;
  const int64_t expert = e.ids[at], n = a.n[0];
  a.f.x += (e.each ? at : at / e.used) * a.f.stride;
  a.w += expert * e.expert_bytes;
  if (a.bias) a.bias += expert * n, a.up_bias += expert * n;
  a.out[0] += at * (a.out_type == kA8 ? A8RowBytes(n) : 4 * n);
  a.out[1] += at * 4 * n;
  return a;
}

// Columns of a row's result, v being a tile of it, or the gate, and up the other part's.
INLINE void PutExpert(const LinearCall& a, int64_t column, F32x16 v, F32x16 up, float* pending) {
  if (a.bias) v = Add(v, Load(a.bias + column));
  if (a.bias && a.interleave) up = Add(up, Load(a.up_bias + column));
  if (a.pair) v = Apply(a.gate, v, up);
  if (a.interleave && !a.pair) Store(reinterpret_cast<float*>(a.out[1]) + column, up);
  if (a.out_type != kA8) {
    Store(reinterpret_cast<float*>(a.out[0]) + column, v);
  } else if (column % 32 == 0) {
    Store(pending, v);
  } else {
    QuantizeBlock(Load(pending), v, a.out[0], a.n[0], column / 32);
  }
}

// members[0 .. count) are rows of one expert; `gathered` has room for them.
template <Type T, bool kQuantized>
INLINE void ExpertRows(const ExpertCall& e, const int32_t* members, int64_t count, Range tiles, uint8_t* gathered) {
  const int64_t stride = e.product.f.stride, tile_bytes = BytesOfTile<T>(e.product.f.k);
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < count; ++i)
    __builtin_memcpy(gathered + i * stride, OfExpert(e, members[i]).f.x, static_cast<__SIZE_TYPE__>(stride));
  Factor f = e.product.f;
  f.x = gathered;
  const uint8_t* w = OfExpert(e, members[0]).w;
  alignas(64) float sums[kBlockRows * 16 * 2], half[kBlockRows * 16];  // of each row its one or two tiles
#pragma clang loop unroll(disable)
  for (int64_t t = tiles.begin; t < tiles.end; ++t) {
    const int64_t each = e.product.interleave ? 2 : 1;
    if (e.product.interleave) {
      RowsTimesTiles<T, kQuantized, 2>(f, 0, count, w + 2 * t * tile_bytes, tile_bytes, sums);
    } else {
      RowsTimesTiles<T, kQuantized, 1>(f, 0, count, w + t * tile_bytes, tile_bytes, sums);
    }
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < count; ++i) {
      const float* sum = sums + 16 * each * i;
      PutExpert(OfExpert(e, members[i]), 16 * t, Load(sum), Load(sum + 16), half + 16 * i);
    }
  }
}

#define STACK_OF(type, count) \
  static_cast<type*>(__builtin_alloca_with_align(static_cast<__SIZE_TYPE__>(count) * sizeof(type), 512))

template <Type T, bool kQuantized>
CHOICE void Experts(ExpertCall e, int64_t rows, int64_t over, int64_t grain, uint32_t thread, uint32_t threads) {
  const int64_t tile_bytes = BytesOfTile<T>(e.product.f.k), all = rows * e.used;
  e.expert_bytes = e.product.n[0] / 16 * tile_bytes * (e.product.interleave ? 2 : 1);
  const Range tiles = Share(e.product.n[0] / 16, grain, over, kTiles, thread, threads);
  if (rows == 1) {
#pragma clang loop unroll(disable)
    for (int64_t at = 0; at < all; ++at) {
      const LinearCall a = OfExpert(e, at);
      alignas(64) float half[16];
#pragma clang loop unroll(disable)
      for (int64_t t = tiles.begin; t < tiles.end; ++t) {
        F32x16 v[2];
        if (a.interleave) {
          RowTimesTiles<T, kQuantized, 2>(a.f, a.w + 2 * t * tile_bytes, tile_bytes, v);
        } else {
          F32x16 one[1];
          RowTimesTiles<T, kQuantized, 1>(a.f, a.w + t * tile_bytes, tile_bytes, one);
          v[0] = v[1] = one[0];
        }
        PutExpert(a, 16 * t, v[0], v[1], half);
      }
    }
    return;
  }
  const int64_t fit = kGathered / e.product.f.stride, most = fit < 1 ? 1 : fit < kBlockRows ? fit : kBlockRows;
  uint8_t* gathered = STACK_OF(uint8_t, most* e.product.f.stride);
  int32_t* members = STACK_OF(int32_t, most);
#pragma clang loop unroll(disable)
  for (int64_t expert = 0; expert < e.experts; ++expert) {
    int64_t count = 0;
#pragma clang loop unroll(disable)
    for (int64_t at = 0; at < all; ++at) {
      if (e.ids[at] != expert) continue;
      members[count++] = static_cast<int32_t>(at);
      if (count < most) continue;
      ExpertRows<T, kQuantized>(e, members, count, tiles, gathered);
      count = 0;
    }
    if (count > 0) ExpertRows<T, kQuantized>(e, members, count, tiles, gathered);
  }
}

#define EXPERT_CONSTANTS                                                                                            \
  int64_t k, int64_t n0, int64_t used, int64_t experts, int64_t each, int64_t weight_type, int64_t interleave,      \
      int64_t has_bias, int64_t pair, int64_t act, int64_t alpha, int64_t limit, int64_t out_type, int64_t x_space, \
      int64_t ids_space, int64_t out0_space, int64_t out1_space, int64_t over, int64_t grain
#define EXPERT_CALL(stride)                                                                                 \
  const float* bias = has_bias ? reinterpret_cast<const float*>(At(c, thread, kWeights, rec[3])) : nullptr; \
  const ExpertCall e{{{At(c, thread, x_space, rec[0]), k, stride, 1},                                       \
                      At(c, thread, kWeights, rec[1]),                                                      \
                      bias,                                                                                 \
                      bias ? bias + experts * n0 : nullptr,                                                 \
                      {n0, n0, 0},                                                                          \
                      {At(c, thread, out0_space, rec[4]), At(c, thread, out1_space, rec[5]), nullptr},      \
                      interleave,                                                                           \
                      pair,                                                                                 \
                      out_type,                                                                             \
                      {act, alpha, limit},                                                                  \
                      {}},                                                                                  \
                     reinterpret_cast<const int32_t*>(At(c, thread, ids_space, rec[2])),                    \
                     used,                                                                                  \
                     experts,                                                                               \
                     each,                                                                                  \
                     0}
#define EXPERT_OF(T, quantized) Experts<T, quantized>(e, rows, over, grain, thread, threads)
KERNEL void expert_a8(KERNEL_CALL, EXPERT_CONSTANTS) {
  EXPERT_CALL(A8RowBytes(k));
#define CASE(T) \
  case T: EXPERT_OF(T, true); break;
  switch (TileType(weight_type)) { BLOCK_TYPES(CASE) }
#undef CASE
}
KERNEL void expert_f32(KERNEL_CALL, EXPERT_CONSTANTS) {
  EXPERT_CALL(4 * k);
#define CASE(T) \
  case T: EXPERT_OF(T, false); break;
  switch (TileType(weight_type)) { WEIGHT_TYPES(CASE) }
#undef CASE
}
#undef EXPERT_OF
#undef EXPERT_CALL
#undef EXPERT_CONSTANTS

// The index of the largest of c[0 .. n) that isn't taken, of equals the first; a NaN is never larger.
INLINE int64_t Largest(const float* c, const uint8_t* taken, int64_t n) {
  int64_t best = -1;
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < n; ++i) {
    if (!taken[i] && (best < 0 || c[i] > c[best])) best = i;
  }
  return best;
}
// e^(x - largest) over their sum.
INLINE void Softmax(float* x, int64_t n) {
  float most = x[0], sum = 0;
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < n; ++i) most = x[i] > most ? x[i] : most;
  ForColumns({0, n},
             [&](int64_t i, int64_t m) { StoreColumns(x + i, Exp(Sub(LoadColumns(x + i, m), Splat(most))), m); });
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < n; ++i) sum = sum + x[i];
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] / sum;
}

enum Score : int64_t { kSoftmax, kSigmoid, kSoftmaxOfChosen };
enum Norm : int64_t { kNormNone, kNormAdd, kNormLeast };

KERNEL void route(KERNEL_CALL, int64_t columns, int64_t used, int64_t score, int64_t groups, int64_t keep, int64_t by,
                  int64_t norm, int64_t norm_by, int64_t scale, int64_t has_bias, int64_t logits_space,
                  int64_t ids_space, int64_t weights_space, int64_t over, int64_t grain) {
  const float* logits = reinterpret_cast<const float*>(At(c, thread, logits_space, rec[0]));
  const float* bias = has_bias ? reinterpret_cast<const float*>(At(c, thread, kWeights, rec[1])) : nullptr;
  int32_t* ids = reinterpret_cast<int32_t*>(At(c, thread, ids_space, rec[2]));
  float* weights = reinterpret_cast<float*>(At(c, thread, weights_space, rec[3]));
  float *p = STACK_OF(float, columns), *choice = STACK_OF(float, columns), *of_group = STACK_OF(float, groups);
  uint8_t *taken = STACK_OF(uint8_t, columns), *kept = STACK_OF(uint8_t, groups);
  const Range row = Share(rows, grain, over, kRows, thread, threads);
  const int64_t size = columns / groups;
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s) {
    ForColumns({0, columns}, [&](int64_t i, int64_t n) {
      const F32x16 v = LoadColumns(logits + s * columns + i, n);
      StoreColumns(p + i, score == kSigmoid ? Sigmoid(v) : v, n);
    });
    if (score == kSoftmax) Softmax(p, columns);
    float all = 0;
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < columns; ++i) {
      choice[i] = bias ? p[i] + bias[i] : p[i];
      all = all + choice[i];
      taken[i] = 0;
    }
    if (groups > 1) {
#pragma clang loop unroll(disable)
      for (int64_t g = 0; g < groups; ++g) {
        const float* part = choice + g * size;
        uint8_t* in_part = taken + g * size;
        const int64_t first = Largest(part, in_part, size);
        of_group[g] = part[first];
        kept[g] = 0;
        if (by == 0) continue;
        in_part[first] = 1;
        of_group[g] = of_group[g] + part[Largest(part, in_part, size)];
        in_part[first] = 0;
      }
#pragma clang loop unroll(disable)
      for (int64_t i = 0; i < keep; ++i) kept[Largest(of_group, kept, groups)] = 1;
#pragma clang loop unroll(disable)
      for (int64_t i = 0; i < columns; ++i) taken[i] = !kept[i / size];
    }
    float w[kMostUsed], sum = 0;
#pragma clang loop unroll(disable)
    for (int64_t j = 0; j < used; ++j) {
      const int64_t best = Largest(choice, taken, columns);
      taken[best] = 1;
      ids[s * used + j] = static_cast<int32_t>(best);
      w[j] = p[best];
    }
    if (score == kSoftmaxOfChosen) Softmax(w, used);
#pragma clang loop unroll(disable)
    for (int64_t j = 0; j < used; ++j) sum = sum + w[j];
    const float by_value = FloatOfBits(norm_by);
    if (norm == kNormAdd) sum = sum + by_value;
    if (norm == kNormLeast) sum = sum > by_value ? sum : by_value;
#pragma clang loop unroll(disable)
    for (int64_t j = 0; j < used; ++j) {
      const float v = norm == kNormNone ? w[j] : w[j] / sum;
      weights[s * used + j] = __builtin_fmaf(all, 0.0f, v * FloatOfBits(scale));
    }
  }
}

KERNEL void combine(KERNEL_CALL, int64_t dim, int64_t parts, int64_t x_space, int64_t weights_space, int64_t out_space,
                    int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* weights = reinterpret_cast<const float*>(At(c, thread, weights_space, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    ForColumns(box.column, [&](int64_t i, int64_t n) {
      F32x16 y = Zero();
#pragma clang loop unroll(disable)
      for (int64_t j = 0; j < parts; ++j)
        y = Fma(Splat(weights[s * parts + j]), LoadColumns(x + (s * parts + j) * dim + i, n), y);
      StoreColumns(out + s * dim + i, y, n);
    });
  }
}
#undef STACK_OF

}  // namespace KERNELS_NAMESPACE
