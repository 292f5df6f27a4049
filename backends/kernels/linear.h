// linear and linear_gated: tiles of 16 columns, divided among threads; one row goes through the GEMV, more through the
// GEMM in blocks of rows.
#pragma once
#include "backends/kernels/rows.h"
#include "backends/kernels/tiles_f32.h"

namespace KERNELS_NAMESPACE {

constexpr int64_t kBlockRows = 240;  // rows summed at once against one tile: a multiple of 4, 5, 6 and 12

// What a linear multiplies: rows of x, a8 (x_a8) or f32.
struct Factor {
  const uint8_t* x;
  int64_t k, stride;  // bytes from row to row
  int64_t k_split;
};

// Sums of one row with N tiles (k_split partial sums added ascending).
template <Type T, bool kQuantized, int N>
INLINE void RowTimesTiles(const Factor& f, const uint8_t* tile, int64_t tile_bytes, F32x16 (&out)[N]) {
  constexpr int64_t kUnit = kQuantized ? 32 : 1;
  const int64_t part = f.k / kUnit / f.k_split;
#pragma clang loop unroll(disable)
  for (int64_t s = 0; s < f.k_split; ++s) {
    F32x16 acc[N];
    if constexpr (kQuantized) {
#pragma clang loop unroll(full)
      for (int t = 0; t < N; ++t) acc[t] = GemvA8<T>(tile + t * tile_bytes, f.x, f.k, s * part, (s + 1) * part);
    } else {
      GemvF32<T, N>(tile, tile_bytes, reinterpret_cast<const float*>(f.x), s * part, (s + 1) * part, acc);
    }
#pragma clang loop unroll(full)
    for (int t = 0; t < N; ++t) out[t] = s == 0 ? acc[t] : Add(out[t], acc[t]);
  }
}

// Tiles that many rows meet at once.
template <Type T, bool kQuantized>
constexpr int kTilesAtOnce = kQuantized ? 1 : kTileVectors;

// The same for rows [first, first + n_rows), n_rows <= kBlockRows: out[n_rows][16 N].
template <Type T, bool kQuantized, int N>
INLINE void RowsTimesTiles(const Factor& f, int64_t first, int64_t n_rows, const uint8_t* tile, int64_t tile_bytes,
                           float* out) {
  alignas(64) float next[kBlockRows * 16 * N];
  constexpr int64_t kUnit = kQuantized ? 32 : 1;
  const int64_t part = f.k / kUnit / f.k_split;
  const uint8_t* x = f.x + first * f.stride;
#pragma clang loop unroll(disable)
  for (int64_t s = 0; s < f.k_split; ++s) {
    constexpr int kTogether = N % kTilesAtOnce<T, kQuantized> == 0 ? kTilesAtOnce<T, kQuantized> : 1;
#pragma clang loop unroll(disable)
    for (int64_t t = 0; t < N; t += kTogether) {
      float* acc = (s == 0 ? out : next) + 16 * t;
      const uint8_t* from = tile + t * tile_bytes;
      if constexpr (kQuantized) {
        GemmA8<T>(from, x, f.stride, f.k, n_rows, s * part, (s + 1) * part, acc, 16 * N);
      } else {
        GemmF32<T, kTogether>(from, tile_bytes, reinterpret_cast<const float*>(x), f.k, n_rows, s * part,
                              (s + 1) * part, acc, 16 * N);
      }
    }
    if (s == 0) continue;
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n_rows * N; ++i) Store(out + 16 * i, Add(Load(out + 16 * i), Load(next + 16 * i)));
  }
}

template <Type T>
INLINE int64_t BytesOfTile(int64_t k) {
  return (k + StepK<T>() - 1) / StepK<T>() * StepBytes<T>();
}

// Where a tile's columns go.
struct Part {
  float* out;
  const float* bias;  // nullptr: none
  int64_t n, column;  // columns of the part, and the tile's first
};
INLINE void StoreTileRow(const Part& p, int64_t row, F32x16 v) {
  const int64_t n = p.n - p.column;
  float* out = p.out + row * p.n + p.column;
  if (n >= 16) {
    Store(out, p.bias ? Add(v, Load(p.bias + p.column)) : v);
  } else {
    StorePart(out, p.bias ? Add(v, LoadPart(p.bias + p.column, n)) : v, n);
  }
}

template <Type T, bool kQuantized>
INLINE void Linear(const LlmcContext* c, uint32_t thread, uint32_t threads, int64_t rows, const uint64_t* rec,
                   int64_t k, int64_t n0, int64_t n1, int64_t n2, int64_t k_split, int64_t interleave, int64_t has_bias,
                   int64_t x_space, int64_t out0_space, int64_t out1_space, int64_t out2_space, int64_t over,
                   int64_t grain) {
  const Factor f{At(c, thread, x_space, rec[0]), k, kQuantized ? A8RowBytes(k) : 4 * k, k_split};
  const uint8_t* w = At(c, thread, kWeights, rec[1]);
  const float* bias = has_bias ? reinterpret_cast<const float*>(At(c, thread, kWeights, rec[2])) : nullptr;
  const Part parts[3] = {
      {reinterpret_cast<float*>(At(c, thread, out0_space, rec[3])), bias, n0, 0},
      {reinterpret_cast<float*>(At(c, thread, out1_space, rec[4])), bias ? bias + n0 : nullptr, n1, 0},
      {reinterpret_cast<float*>(At(c, thread, out2_space, rec[5])), bias ? bias + n0 + n1 : nullptr, n2, 0}};
  const int64_t tiles0 = (n0 + 15) / 16, tiles1 = (n1 + 15) / 16, tiles2 = (n2 + 15) / 16;
  const int64_t tile_bytes = BytesOfTile<T>(k);
  const auto part_of = [&](int64_t tile) {
    const int which = interleave ? static_cast<int>(tile & 1) : tile < tiles0 ? 0 : tile < tiles0 + tiles1 ? 1 : 2;
    Part p = parts[which];
    p.column = 16 * (interleave ? tile >> 1 : tile - (which > 0 ? tiles0 : 0) - (which > 1 ? tiles1 : 0));
    return p;
  };
  const Range range = Share(tiles0 + tiles1 + tiles2, interleave ? 2 * grain : grain, over, kTiles, thread, threads);
  if (rows == 1) {
    constexpr int kTogether = kQuantized || kIsFloat<T> ? 1 : 2;
    int64_t t = range.begin;
#pragma clang loop unroll(disable)
    for (; t + kTogether <= range.end; t += kTogether) {
      F32x16 v[kTogether];
      RowTimesTiles<T, kQuantized, kTogether>(f, w + t * tile_bytes, tile_bytes, v);
#pragma clang loop unroll(full)
      for (int i = 0; i < kTogether; ++i) StoreTileRow(part_of(t + i), 0, v[i]);
    }
    if (kTogether > 1 && t < range.end) {
      F32x16 v[1];
      RowTimesTiles<T, kQuantized, 1>(f, w + t * tile_bytes, tile_bytes, v);
      StoreTileRow(part_of(t), 0, v[0]);
    }
    return;
  }
  constexpr int kTogether = kTilesAtOnce<T, kQuantized>;
  alignas(64) float acc[kBlockRows * 16 * kTogether];
  const auto tiles_at = [&]<int N>(int64_t t, Count<N>) {
    Part parts_of[N];
#pragma clang loop unroll(full)
    for (int i = 0; i < N; ++i) parts_of[i] = part_of(t + i);
#pragma clang loop unroll(disable)
    for (int64_t first = 0; first < rows; first += kBlockRows) {
      const int64_t n_rows = rows - first < kBlockRows ? rows - first : kBlockRows;
      RowsTimesTiles<T, kQuantized, N>(f, first, n_rows, w + t * tile_bytes, tile_bytes, acc);
#pragma clang loop unroll(full)
      for (int i = 0; i < N; ++i) {
#pragma clang loop unroll(disable)
        for (int64_t r = 0; r < n_rows; ++r) StoreTileRow(parts_of[i], first + r, Load(acc + 16 * (N * r + i)));
      }
    }
  };
  int64_t t = range.begin;
#pragma clang loop unroll(disable)
  for (; t + kTogether <= range.end; t += kTogether) tiles_at(t, Count<kTogether>{});
  if constexpr (kTogether > 1) {
#pragma clang loop unroll(disable)
    for (; t < range.end; ++t) tiles_at(t, Count<1>{});
  }
}

template <Type T, bool kQuantized>
INLINE void LinearGated(const LlmcContext* c, uint32_t thread, uint32_t threads, int64_t rows, const uint64_t* rec,
                        int64_t k, int64_t n, int64_t k_split, int64_t has_bias, int64_t out_type, int64_t x_space,
                        int64_t out_space, int64_t over, int64_t grain) {
  const Factor f{At(c, thread, x_space, rec[0]), k, kQuantized ? A8RowBytes(k) : 4 * k, k_split};
  const uint8_t* w = At(c, thread, kWeights, rec[1]);
  const float* bias = has_bias ? reinterpret_cast<const float*>(At(c, thread, kWeights, rec[2])) : nullptr;
  uint8_t* out = At(c, thread, out_space, rec[3]);
  const int64_t tile_bytes = BytesOfTile<T>(k);
  const auto biased = [&](F32x16 v, int64_t offset, int64_t column) {
    return bias ? Add(v, LoadColumns(bias + offset + column, n - column < 16 ? n - column : 16)) : v;
  };
  const auto value = [&](F32x16 gate, F32x16 up, int64_t column) {
    return Mul(Silu(biased(gate, 0, column)), biased(up, n, column));
  };
  // The pending first half of each row's block of 32 columns, for a8.
  alignas(64) float half[kBlockRows * 16];
  const auto put = [&](int64_t row, float* pending, int64_t column, F32x16 v) {
    if (out_type != kA8) {
      StorePart(reinterpret_cast<float*>(out) + row * n + column, v, n - column);
    } else if (column % 32 == 0) {
      Store(pending, v);
    } else {
      QuantizeBlock(Load(pending), v, out + row * A8RowBytes(n), n, column / 32);
    }
  };
  const Range range = Share((n + 15) / 16, grain, over, kTiles, thread, threads);
  if (rows == 1) {
#pragma clang loop unroll(disable)
    for (int64_t t = range.begin; t < range.end; ++t) {
      F32x16 v[2];
      RowTimesTiles<T, kQuantized, 2>(f, w + 2 * t * tile_bytes, tile_bytes, v);
      put(0, half, 16 * t, value(v[0], v[1], 16 * t));
    }
    return;
  }
  alignas(64) float sums[kBlockRows * 16 * 2];  // gate and up of each row
#pragma clang loop unroll(disable)
  for (int64_t first = 0; first < rows; first += kBlockRows) {
    const int64_t n_rows = rows - first < kBlockRows ? rows - first : kBlockRows;
#pragma clang loop unroll(disable)
    for (int64_t t = range.begin; t < range.end; ++t) {
      RowsTimesTiles<T, kQuantized, 2>(f, first, n_rows, w + 2 * t * tile_bytes, tile_bytes, sums);
#pragma clang loop unroll(disable)
      for (int64_t i = 0; i < n_rows; ++i) {
        put(first + i, half + 16 * i, 16 * t, value(Load(sums + 32 * i), Load(sums + 32 * i + 16), 16 * t));
      }
    }
  }
}

#define LINEAR_ARGS                                                                                             \
  c, thread, threads, rows, rec, k, n0, n1, n2, k_split, interleave, has_bias, x_space, out0_space, out1_space, \
      out2_space, over, grain
KERNEL void linear_a8(KERNEL_CALL, int64_t k, int64_t n0, int64_t n1, int64_t n2, int64_t type, int64_t k_split,
                      int64_t interleave, int64_t has_bias, int64_t x_space, int64_t out0_space, int64_t out1_space,
                      int64_t out2_space, int64_t over, int64_t grain) {
#define CASE(T) \
  case T: Linear<T, true>(LINEAR_ARGS); break;
  switch (TileType(type)) { BLOCK_TYPES(CASE) }
#undef CASE
}
KERNEL void linear_f32(KERNEL_CALL, int64_t k, int64_t n0, int64_t n1, int64_t n2, int64_t type, int64_t k_split,
                       int64_t interleave, int64_t has_bias, int64_t x_space, int64_t out0_space, int64_t out1_space,
                       int64_t out2_space, int64_t over, int64_t grain) {
#define CASE(T) \
  case T: Linear<T, false>(LINEAR_ARGS); break;
  switch (TileType(type)) { WEIGHT_TYPES(CASE) }
#undef CASE
}
#undef LINEAR_ARGS

#define GATED_ARGS c, thread, threads, rows, rec, k, n, k_split, has_bias, out_type, x_space, out_space, over, grain
KERNEL void linear_gated_a8(KERNEL_CALL, int64_t k, int64_t n, int64_t type, int64_t k_split, int64_t has_bias,
                            int64_t out_type, int64_t x_space, int64_t out_space, int64_t over, int64_t grain) {
#define CASE(T) \
  case T: LinearGated<T, true>(GATED_ARGS); break;
  switch (TileType(type)) { BLOCK_TYPES(CASE) }
#undef CASE
}
KERNEL void linear_gated_f32(KERNEL_CALL, int64_t k, int64_t n, int64_t type, int64_t k_split, int64_t has_bias,
                             int64_t out_type, int64_t x_space, int64_t out_space, int64_t over, int64_t grain) {
#define CASE(T) \
  case T: LinearGated<T, false>(GATED_ARGS); break;
  switch (TileType(type)) { WEIGHT_TYPES(CASE) }
#undef CASE
}
#undef GATED_ARGS

}  // namespace KERNELS_NAMESPACE
