// linear: tiles of 16 columns, divided among threads; one row goes through the GEMV, more through the GEMM in blocks of
// rows. What stands behind the product is done to a tile's sums: the bias, a gate over a pair of tiles, an epilogue.
#pragma once
#include "backends/kernels/panel_a8.h"
#include "backends/kernels/rows.h"
#include "backends/kernels/shares.h"
#include "backends/kernels/tiles_f32.h"

namespace KERNELS_NAMESPACE {

constexpr int64_t kClaimBytes = 65536;  // of weights times rows: what a claimed chunk is worth at least
constexpr int64_t kBlockRows = 240;     // rows summed at once against one tile: a multiple of 4, 5, 6, 8 and 12

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
        GemmF32<T, kTogether>(from, tile_bytes, reinterpret_cast<const float*>(x), f.stride / 4, n_rows, s * part,
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

// Constants and places of a call.
struct LinearCall {
  Factor f;
  const uint8_t* w;
  const float *bias, *up_bias;  // nullptr: none; a pair's second
  int64_t n[3];                 // columns of the parts
  uint8_t* out[3];
  int64_t interleave, pair, out_type;
  Gate gate;
  Epilogue then;  // with one result
};

// Tiles of a claimed chunk: whole grains.
INLINE int64_t ChunkOf(int64_t tile_bytes, int64_t rows, int64_t grain) {
  const int64_t units = kClaimBytes / (tile_bytes * rows * grain);
  return (units < 1 ? 1 : units) * grain;
}

// Where a tile's columns go.
struct Part {
  float* out;
  const float* bias;  // nullptr: none
  int64_t n, column;  // columns of the part, and the tile's first
};
INLINE void StoreTileRow(const Part& p, const Epilogue& then, int64_t row, F32x16 v) {
  const int64_t n = p.n - p.column;
  float* out = p.out + row * p.n + p.column;
  if (n >= 16) {
    Store(out, Finish(then, p.bias ? Add(v, Load(p.bias + p.column)) : v, row, p.column, 16));
  } else {
    StorePart(out, Finish(then, p.bias ? Add(v, LoadPart(p.bias + p.column, n)) : v, row, p.column, n), n);
  }
}

// Each tile is a result's columns.
template <Type T, bool kQuantized>
INLINE void LinearParts(const LinearCall& a, int64_t rows, int64_t over, int64_t grain, int64_t claimed,
                        const LlmcContext* c, uint32_t thread, uint32_t threads) {
  const Part parts[3] = {{reinterpret_cast<float*>(a.out[0]), a.bias, a.n[0], 0},
                         {reinterpret_cast<float*>(a.out[1]), a.bias ? a.bias + a.n[0] : nullptr, a.n[1], 0},
                         {reinterpret_cast<float*>(a.out[2]), a.bias ? a.bias + a.n[0] + a.n[1] : nullptr, a.n[2], 0}};
  const int64_t tiles0 = (a.n[0] + 15) / 16, tiles1 = (a.n[1] + 15) / 16, tiles2 = (a.n[2] + 15) / 16;
  const int64_t tile_bytes = BytesOfTile<T>(a.f.k);
  const auto part_of = [&](int64_t tile) {
    const int which = a.interleave ? static_cast<int>(tile & 1) : tile < tiles0 ? 0 : tile < tiles0 + tiles1 ? 1 : 2;
    Part p = parts[which];
    p.column = 16 * (a.interleave ? tile >> 1 : tile - (which > 0 ? tiles0 : 0) - (which > 1 ? tiles1 : 0));
    return p;
  };
  const int64_t unit = a.interleave ? 2 * grain : grain;
  Shares shares(c, tiles0 + tiles1 + tiles2, unit, over, claimed, ChunkOf(tile_bytes, rows, unit), thread, threads);
  Range range;
  if (rows == 1) {
    constexpr int kTogether = kQuantized || kIsFloat<T> ? 1 : 2;
#pragma clang loop unroll(disable)
    while (shares.Next(range)) {
      int64_t t = range.begin;
#pragma clang loop unroll(disable)
      for (; t + kTogether <= range.end; t += kTogether) {
        F32x16 v[kTogether];
        RowTimesTiles<T, kQuantized, kTogether>(a.f, a.w + t * tile_bytes, tile_bytes, v);
#pragma clang loop unroll(full)
        for (int i = 0; i < kTogether; ++i) StoreTileRow(part_of(t + i), a.then, 0, v[i]);
      }
      if (kTogether > 1 && t < range.end) {
        F32x16 v[1];
        RowTimesTiles<T, kQuantized, 1>(a.f, a.w + t * tile_bytes, tile_bytes, v);
        StoreTileRow(part_of(t), a.then, 0, v[0]);
      }
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
      RowsTimesTiles<T, kQuantized, N>(a.f, first, n_rows, a.w + t * tile_bytes, tile_bytes, acc);
#pragma clang loop unroll(full)
      for (int i = 0; i < N; ++i) {
#pragma clang loop unroll(disable)
        for (int64_t r = 0; r < n_rows; ++r) StoreTileRow(parts_of[i], a.then, first + r, Load(acc + 16 * (N * r + i)));
      }
    }
  };
#pragma clang loop unroll(disable)
  while (shares.Next(range)) {
    int64_t t = range.begin;
#pragma clang loop unroll(disable)
    for (; t + kTogether <= range.end; t += kTogether) tiles_at(t, Count<kTogether>{});
    if constexpr (kTogether > 1) {
#pragma clang loop unroll(disable)
      for (; t < range.end; ++t) tiles_at(t, Count<1>{});
    }
  }
}

// One result whose blocks of 32 columns may be quantised: of each tile, or of each pair of tiles (gate and up).
template <Type T, bool kQuantized>
INLINE void LinearColumns(const LinearCall& a, int64_t rows, int64_t over, int64_t grain, int64_t claimed,
                          const LlmcContext* c, uint32_t thread, uint32_t threads) {
  const int64_t n = a.n[0], tile_bytes = BytesOfTile<T>(a.f.k), each = a.pair ? 2 : 1;
  const auto biased = [&](F32x16 v, const float* bias, int64_t column) {
    return bias ? Add(v, LoadColumns(bias + column, n - column < 16 ? n - column : 16)) : v;
  };
  const auto value = [&](int64_t row, F32x16 gate, F32x16 up, int64_t column) {
    F32x16 v = biased(gate, a.bias, column);
    if (a.pair) v = Apply(a.gate, v, biased(up, a.up_bias, column));
    return Finish(a.then, v, row, column, n - column < 16 ? n - column : 16);
  };
  // The pending first half of each row's block of 32 columns, for a8.
  alignas(64) float half[kBlockRows * 16];
  const auto put = [&](int64_t row, float* pending, int64_t column, F32x16 v) {
    if (a.out_type != kA8) {
      StorePart(reinterpret_cast<float*>(a.out[0]) + row * n + column, v, n - column);
    } else if (column % 32 == 0) {
      Store(pending, v);
    } else {
      QuantizeBlock(Load(pending), v, a.out[0] + row * A8RowBytes(n), n, column / 32);
    }
  };
  Shares shares(c, (n + 15) / 16, grain, over, claimed, ChunkOf(each * tile_bytes, rows, grain), thread, threads);
  Range range;
  if (rows == 1) {
#pragma clang loop unroll(disable)
    while (shares.Next(range)) {
#pragma clang loop unroll(disable)
      for (int64_t t = range.begin; t < range.end; ++t) {
        F32x16 v[2];
        if (a.pair) {
          RowTimesTiles<T, kQuantized, 2>(a.f, a.w + 2 * t * tile_bytes, tile_bytes, v);
        } else {
          F32x16 one[1];
          RowTimesTiles<T, kQuantized, 1>(a.f, a.w + t * tile_bytes, tile_bytes, one);
          v[0] = v[1] = one[0];
        }
        put(0, half, 16 * t, value(0, v[0], v[1], 16 * t));
      }
    }
    return;
  }
  alignas(64) float sums[kBlockRows * 16 * 2];  // gate and up of each row
  const auto tile_at = [&](int64_t t, int64_t first, int64_t n_rows) {
    if (a.pair) {
      RowsTimesTiles<T, kQuantized, 2>(a.f, first, n_rows, a.w + 2 * t * tile_bytes, tile_bytes, sums);
    } else {
      RowsTimesTiles<T, kQuantized, 1>(a.f, first, n_rows, a.w + t * tile_bytes, tile_bytes, sums);
    }
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n_rows; ++i) {
      const float* sum = sums + 16 * each * i;
      put(first + i, half + 16 * i, 16 * t, value(first + i, Load(sum), Load(sum + 16), 16 * t));
    }
  };
#pragma clang loop unroll(disable)
  while (shares.Next(range)) {
#pragma clang loop unroll(disable)
    for (int64_t first = 0; first < rows; first += kBlockRows) {
#pragma clang loop unroll(disable)
      for (int64_t t = range.begin; t < range.end; ++t)
        tile_at(t, first, rows - first < kBlockRows ? rows - first : kBlockRows);
    }
  }
}

template <Type T, bool kQuantized>
CHOICE void Linear(const LinearCall& a, int64_t rows, int64_t over, int64_t grain, int64_t claimed,
                   const LlmcContext* c, uint32_t thread, uint32_t threads) {
  if (a.pair || a.out_type == kA8) {
    LinearColumns<T, kQuantized>(a, rows, over, grain, claimed, c, thread, threads);
  } else {
    LinearParts<T, kQuantized>(a, rows, over, grain, claimed, c, thread, threads);
  }
}

#define LINEAR_CONSTANTS                                                                                            \
  int64_t k, int64_t n0, int64_t n1, int64_t n2, int64_t weight_type, int64_t k_split, int64_t interleave,          \
      int64_t has_bias, int64_t pair, int64_t act, int64_t alpha, int64_t limit, int64_t then0, int64_t then1,      \
      int64_t then2, int64_t other_row, int64_t out_type, int64_t x_space, int64_t other_space, int64_t out0_space, \
      int64_t out1_space, int64_t out2_space, int64_t over, int64_t grain, int64_t claimed
#define LINEAR_CALL(stride)                                                                                        \
  const float* bias = has_bias ? reinterpret_cast<const float*>(At(c, thread, kWeights, rec[2])) : nullptr;        \
  const LinearCall a {                                                                                             \
    {At(c, thread, x_space, rec[0]), k, stride, k_split}, At(c, thread, kWeights, rec[1]), bias,                   \
        bias ? bias + n0 : nullptr, {n0, n1, n2},                                                                  \
        {At(c, thread, out0_space, rec[4]), At(c, thread, out1_space, rec[5]), At(c, thread, out2_space, rec[6])}, \
        interleave, pair, out_type, {act, alpha, limit},                                                           \
        EpilogueOf(then0, then1, then2, other_row, At(c, thread, other_space, rec[3]), n0)                         \
  }
#define LINEAR_OF(T, quantized) Linear<T, quantized>(a, rows, over, grain, claimed, c, thread, threads)
KERNEL void linear_a8(KERNEL_CALL, LINEAR_CONSTANTS) {
  LINEAR_CALL(A8RowBytes(k));
#define CASE(T) \
  case T: LINEAR_OF(T, true); break;
  switch (TileType(weight_type)) { BLOCK_TYPES(CASE) }
#undef CASE
}
KERNEL void linear_f32(KERNEL_CALL, LINEAR_CONSTANTS) {
  LINEAR_CALL(4 * k);
#define CASE(T) \
  case T: LINEAR_OF(T, false); break;
  switch (TileType(weight_type)) { WEIGHT_TYPES(CASE) }
#undef CASE
}
#undef LINEAR_OF
#undef LINEAR_CALL
#undef LINEAR_CONSTANTS

}  // namespace KERNELS_NAMESPACE
