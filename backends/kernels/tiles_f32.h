// Products of f32 rows with tiles of any weight type: per output one chain acc = fma(x[k], f32(w[k]), acc), k ascending
// from +0. One row: a tile of a float type, or two tiles of a block type, whose chains hide each other's latency. Many
// rows: register tiles (fma_tile.h) against tiles as they are where they are f32, else unpacked to f32.
#pragma once
#include "backends/kernels/fma_tile.h"
#include "backends/kernels/tiles_a8.h"

namespace KERNELS_NAMESPACE {

template <Type T>
constexpr bool kIsFloat = T == kF32 || T == kF16 || T == kBF16;
// K elements per step of a tile, and bytes per step.
template <Type T>
INLINE constexpr int64_t StepK() {
  if constexpr (kIsFloat<T>) return T == kF32 ? 1 : 2;
  return 32 * Block<T>::kBlocks;
}
template <Type T>
INLINE constexpr int64_t StepBytes() {
  if constexpr (kIsFloat<T>)
    return 64;
  else
    return Block<T>::kBytes;
}
// Weights of one tile are in pair order while they're summed: primitives.h, LoadHalfPairs.
template <Type T>
INLINE F32x16 InRowOrder(F32x16 v) {
  return T == kF16 ? FromPairOrder(v) : v;
}

INLINE void LoadPairs(const uint8_t* p, Type type, F32x16& even, F32x16& odd) {
  type == kF16 ? LoadHalfPairs(p, even, odd) : LoadBf16Pairs(p, even, odd);
}

// One row: k in [begin, end) of a tile of a float type; begin is even for 16-bit types. Its one chain keeps up with
// memory, and one linear stream is read faster than two.
template <Type T>
INLINE F32x16 GemvFloat(const uint8_t* tile, const float* x, int64_t begin, int64_t end) {
  F32x16 acc = Zero();
  if constexpr (T == kF32) {
#pragma clang loop unroll_count(4)
    for (int64_t k = begin; k < end; ++k) {
      const uint8_t* step = tile + 64 * k;
      Prefetch(step + kPrefetchAhead);
      acc = Fma(Splat(x[k]), Load(reinterpret_cast<const float*>(step)), acc);
    }
    return acc;
  } else {
    F32x16 even, odd;
    int64_t k = begin;
#pragma clang loop unroll_count(4)
    for (; k + 2 <= end; k += 2) {
      const uint8_t* step = tile + 32 * k;
      Prefetch(step + kPrefetchAhead);
      LoadPairs(step, T, even, odd);
      acc = Fma(Splat(x[k]), even, acc);
      acc = Fma(Splat(x[k + 1]), odd, acc);
    }
    if (k < end) {
      LoadPairs(tile + 32 * k, T, even, odd);
      acc = Fma(Splat(x[k]), even, acc);
    }
    return InRowOrder<T>(acc);
  }
}

// The same for N tiles of a block type, tile_bytes apart; begin and end are at steps.
template <Type T, int N>
INLINE void GemvBlocks(const uint8_t* tile, int64_t tile_bytes, const float* x, int64_t begin, int64_t end,
                       F32x16 (&acc)[N]) {
#pragma clang loop unroll(full)
  for (int t = 0; t < N; ++t) acc[t] = Zero();
#pragma clang loop unroll(disable)
  for (int64_t step = begin / StepK<T>(); step < end / StepK<T>(); ++step) {
    Head<T> head[N];
#pragma clang loop unroll(full)
    for (int t = 0; t < N; ++t) head[t] = HeadOf<T>(tile + t * tile_bytes + step * StepBytes<T>());
#pragma clang loop unroll(disable)
    for (int64_t j = 0; j < Block<T>::kBlocks; ++j) {
      const float* from = x + step * StepK<T>() + 32 * j;
      Values values[N];
#pragma clang loop unroll(full)
      for (int t = 0; t < N; ++t) {
        PrefetchBlock<T>(head[t].step, j);
        values[t] = ValuesOf<T>(head[t], j);
      }
#pragma clang loop unroll(full)
      for (int g = 0; g < 8; ++g) {
#pragma clang loop unroll(full)
        for (int i = 0; i < 4; ++i) {
#pragma clang loop unroll(full)
          for (int t = 0; t < N; ++t) {
            const F32x16 w = Dequantize<T>(values[t], CodesOf<T>(head[t], j, g), g, i);
            acc[t] = Fma(Splat(from[4 * g + i]), w, acc[t]);
          }
        }
      }
    }
  }
}

// N tiles, whatever their type.
template <Type T, int N>
CHOICE void GemvF32(const uint8_t* tile, int64_t tile_bytes, const float* x, int64_t begin, int64_t end,
                    F32x16 (&acc)[N]) {
  if constexpr (kIsFloat<T>) {
#pragma clang loop unroll(full)
    for (int t = 0; t < N; ++t) acc[t] = GemvFloat<T>(tile + t * tile_bytes, x, begin, end);
  } else {
    GemvBlocks<T, N>(tile, tile_bytes, x, begin, end, acc);
  }
}

// A step's values: k's 16 at out + k * stride.
template <Type T>
INLINE void UnpackStep(const uint8_t* step, float* out, int64_t stride) {
  const Head<T> head = HeadOf<T>(step);
#pragma clang loop unroll(disable)
  for (int64_t j = 0; j < Block<T>::kBlocks; ++j) {
    PrefetchBlock<T>(step, j);
    const Values values = ValuesOf<T>(head, j);
#pragma clang loop unroll(full)
    for (int g = 0; g < 8; ++g) {
      const Codes w = CodesOf<T>(head, j, g);
#pragma clang loop unroll(full)
      for (int i = 0; i < 4; ++i) Store(out + (32 * j + 4 * g + i) * stride, Dequantize<T>(values, w, g, i));
    }
  }
}

constexpr int64_t kPanelK = 256;
struct alignas(64) PanelF32 {
  float w[kPanelK * 16];
};
// k in [0, count) of a tile's steps.
template <Type T>
INLINE void UnpackF32(const uint8_t* steps, int64_t count, PanelF32& panel) {
  if constexpr (T == kF32) {
#pragma clang loop unroll_count(4)
    for (int64_t k = 0; k < count; ++k) {
      Prefetch(steps + 64 * k + kPrefetchAhead);
      Store(panel.w + 16 * k, Load(reinterpret_cast<const float*>(steps) + 16 * k));
    }
  } else if constexpr (kIsFloat<T>) {
#pragma clang loop unroll_count(2)
    for (int64_t k = 0; k < count; k += 2) {  // an odd count writes one row of padding, inside the panel
      F32x16 even, odd;
      Prefetch(steps + 32 * k + kPrefetchAhead);
      LoadPairs(steps + 32 * k, T, even, odd);
      Store(panel.w + 16 * k, InRowOrder<T>(even));
      Store(panel.w + 16 * k + 16, InRowOrder<T>(odd));
    }
  } else {
#pragma clang loop unroll(disable)
    for (int64_t k = 0; k < count; k += StepK<T>(), steps += StepBytes<T>()) UnpackStep<T>(steps, panel.w + 16 * k, 16);
  }
}

// R rows of x from `first` on, the last of n_rows standing in for what is beyond, `stride` floats apart: acc[r][16 c],
// acc_stride floats from row to row, goes on over k in [0, count); from zero where `fresh`.
template <int R, int C>
INLINE void GemmTile(const float* x, int64_t stride, int64_t first, int64_t n_rows, const float* const (&w)[C],
                     int64_t count, bool fresh, float* acc, int64_t acc_stride) {
  const float* rows[R];
  F32x16 sum[R][C];
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) {
    rows[r] = x + (first + r < n_rows ? first + r : n_rows - 1) * stride;
#pragma clang loop unroll(full)
    for (int c = 0; c < C; ++c) sum[r][c] = fresh ? Zero() : Load(acc + (first + r) * acc_stride + 16 * c);
  }
  FmaTile<R, C>(rows, w, 16, count, sum);
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) {
#pragma clang loop unroll(full)
    for (int c = 0; c < C; ++c) Store(acc + (first + r) * acc_stride + 16 * c, sum[r][c]);
  }
}

// Rows of acc[n_rows rounded up to kTileRows][16 C] from zero: k in [begin, end) of C tiles, tile_bytes apart, times
// rows of x, `stride` floats apart.
template <Type T, int C>
CHOICE void GemmF32(const uint8_t* tile, int64_t tile_bytes, const float* x, int64_t stride, int64_t n_rows,
                    int64_t begin, int64_t end, float* acc, int64_t acc_stride) {
  constexpr bool kAsItIs = T == kF32 && kWide;  // no panel
  PanelF32 panel[kAsItIs ? 1 : C];
  const int64_t chunk = kAsItIs ? end - begin : kPanelK;
#pragma clang loop unroll(disable)
  for (int64_t k = begin; k < end; k += chunk) {
    const int64_t count = end - k < chunk ? end - k : chunk;
    const float* w[C];
#pragma clang loop unroll(full)
    for (int c = 0; c < C; ++c) {
      const uint8_t* steps = tile + c * tile_bytes + k / StepK<T>() * StepBytes<T>();
      if constexpr (kAsItIs) {
        w[c] = reinterpret_cast<const float*>(steps);
      } else {
        UnpackF32<T>(steps, count, panel[c]);
        w[c] = panel[c].w;
      }
    }
    // Whole tiles of rows have constant distances, which need no register each; few rows are clamped, six at a time.
    int64_t i = 0;
#pragma clang loop unroll(disable)
    for (; i + kTileRows <= n_rows; i += kTileRows)
      GemmTile<kTileRows, C>(x + i * stride + k, stride, 0, kTileRows, w, count, k == begin, acc + i * acc_stride,
                             acc_stride);
#pragma clang loop unroll(disable)
    for (; i < n_rows; i += 6) GemmTile<6, C>(x + k, stride, i, n_rows, w, count, k == begin, acc, acc_stride);
  }
}

}  // namespace KERNELS_NAMESPACE
