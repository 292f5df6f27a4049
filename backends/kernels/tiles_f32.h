// Products of f32 rows with tiles of any weight type: per output one chain acc = fma(x[k], f32(w[k]), acc), k ascending
// from +0. One row: a tile of a float type, or two tiles of a block type, whose chains hide each other's latency. Many
// rows: six at a time against a tile unpacked to f32.
#pragma once
#include "backends/kernels/tiles_a8.h"

namespace KERNELS_NAMESPACE {

template <Type T>
constexpr bool kIsFloat = T == kF32 || T == kF16 || T == kBF16;
// K elements per step of a tile, and bytes per step.
template <Type T>
INLINE constexpr int64_t StepK() {
  return T == kF32 ? 1 : kIsFloat<T> ? 2 : 32;
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

// Dequantised weights k = 4g + i of a step of a block type. Products of an f16 and a code are exact, so one FMA rounds
// as a product and a sum do.
template <Type T>
INLINE F32x16 Dequantize(const uint8_t* step, Codes w, int i) {
  using B = Block<T>;
  I32x16 code = B::kSigned ? SignedCodeOf(w, i) : CodeOf(w, i);
  if constexpr (B::kOffset != 0) code = SubInt(code, SplatInt(B::kOffset));
  if constexpr (B::kMin) return Fma(LoadHalfAt(step), ToFloat(code), LoadHalfAt(step + 32));
  return Mul(LoadHalfAt(step), ToFloat(code));
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

// The same for N tiles of a block type, tile_bytes apart; begin and end are multiples of 32.
template <Type T, int N>
INLINE void GemvBlocks(const uint8_t* tile, int64_t tile_bytes, const float* x, int64_t begin, int64_t end,
                       F32x16 (&acc)[N]) {
#pragma clang loop unroll(full)
  for (int t = 0; t < N; ++t) acc[t] = Zero();
#pragma clang loop unroll(disable)
  for (int64_t k = begin; k < end; k += 32) {
    const uint8_t* step = tile + k / 32 * StepBytes<T>();
#pragma clang loop unroll(full)
    for (int t = 0; t < N; ++t) PrefetchStep(step + t * tile_bytes, StepBytes<T>());
#pragma clang loop unroll(full)
    for (int g = 0; g < 8; ++g) {
#pragma clang loop unroll(full)
      for (int i = 0; i < 4; ++i) {
#pragma clang loop unroll(full)
        for (int t = 0; t < N; ++t) {
          const uint8_t* own = step + t * tile_bytes;
          acc[t] = Fma(Splat(x[k + 4 * g + i]), Dequantize<T>(own, CodesAt<T>(own, g), i), acc[t]);
        }
      }
    }
  }
}

// N tiles, whatever their type.
template <Type T, int N>
INLINE void GemvF32(const uint8_t* tile, int64_t tile_bytes, const float* x, int64_t begin, int64_t end,
                    F32x16 (&acc)[N]) {
  if constexpr (kIsFloat<T>) {
#pragma clang loop unroll(full)
    for (int t = 0; t < N; ++t) acc[t] = GemvFloat<T>(tile + t * tile_bytes, x, begin, end);
  } else {
    GemvBlocks<T, N>(tile, tile_bytes, x, begin, end, acc);
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
    for (int64_t k = 0; k < count; k += 32) {
      const uint8_t* step = steps + k / 32 * StepBytes<T>();
      PrefetchStep(step, StepBytes<T>());
      ForCodes<T>(step, [&](int g, Codes w) {
#pragma clang loop unroll(full)
        for (int i = 0; i < 4; ++i) Store(panel.w + 16 * (k + 4 * g + i), Dequantize<T>(step, w, i));
      });
    }
  }
}

// Six rows x 16 columns: acc[6][16] goes on over k in [0, count).
INLINE void Gemm6F32(const float* panel, int64_t count, const float* const (&x)[6], float* acc) {
  F32x16 sum[6];
#pragma clang loop unroll(full)
  for (int r = 0; r < 6; ++r) sum[r] = Load(acc + 16 * r);
#pragma clang loop unroll(disable)
  for (int64_t k = 0; k < count; ++k) {
    const F32x16 w = Load(panel + 16 * k);
#pragma clang loop unroll(full)
    for (int r = 0; r < 6; ++r) FmaInOrder(sum[r], x[r] + k, w);
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < 6; ++r) Store(acc + 16 * r, sum[r]);
}

// Rows of acc[n_rows rounded up to 6][16] from zero: k in [begin, end) of a tile times rows of x, `stride` floats
// apart.
template <Type T>
INLINE void GemmF32(const uint8_t* tile, const float* x, int64_t stride, int64_t n_rows, int64_t begin, int64_t end,
                    float* acc) {
  PanelF32 panel;
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < n_rows; i += 6) {
#pragma clang loop unroll(full)
    for (int r = 0; r < 6; ++r) Store(acc + 16 * (i + r), Zero());
  }
#pragma clang loop unroll(disable)
  for (int64_t k = begin; k < end; k += kPanelK) {
    const int64_t count = end - k < kPanelK ? end - k : kPanelK;
    UnpackF32<T>(tile + k / StepK<T>() * StepBytes<T>(), count, panel);
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n_rows; i += 6) {
      const float* six[6];
#pragma clang loop unroll(full)
      for (int r = 0; r < 6; ++r) six[r] = x + (i + r < n_rows ? i + r : n_rows - 1) * stride + k;
      Gemm6F32(panel.w, count, six, acc + 16 * i);
    }
  }
}

}  // namespace KERNELS_NAMESPACE
