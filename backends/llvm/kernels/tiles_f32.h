// Products of f32 rows with tiles of any weight type: per output one chain acc = fma(x[k], f32(w[k]), acc), k ascending
// from +0. One row: two tiles at a time, so that two chains hide the latency. Many rows: six at a time against a tile
// unpacked to f32.
#pragma once
#include "backends/llvm/kernels/tiles_a8.h"

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

// Dequantised weights of a step of a block type: out[32][16].
template <Type T>
INLINE void DequantizeStep(const uint8_t* step, float* out) {
  using B = Block<T>;
  const F32x16 d = LoadHalfAt(step);
  ForCodes<T>(step, [&](int g, Codes w) {
#pragma clang loop unroll(full)
    for (int i = 0; i < 4; ++i) {
      I32x16 code = B::kSigned ? SignedCodeOf(w, i) : CodeOf(w, i);
      if constexpr (B::kOffset != 0) code = SubInt(code, SplatInt(B::kOffset));
      F32x16 v = Mul(d, ToFloat(code));
      if constexpr (B::kMin) v = Add(v, LoadHalfAt(step + 32));
      Store(out + 16 * (4 * g + i), v);
    }
  });
}

INLINE void LoadPairs(const uint8_t* p, Type type, F32x16& even, F32x16& odd) {
  type == kF16 ? LoadHalfPairs(p, even, odd) : LoadBf16Pairs(p, even, odd);
}

// How far ahead of byte `at` of each of N tiles read together to prefetch: at a tile's end the stream goes on N - 1
// tiles later.
template <int N>
INLINE int64_t AheadInTiles(int64_t at, int64_t tile_bytes) {
  return N == 1 || at + kPrefetchAhead < tile_bytes ? kPrefetchAhead : kPrefetchAhead + (N - 1) * tile_bytes;
}

// One row: k in [begin, end) of N tiles, tile_bytes apart. begin is even for 16-bit types, a multiple of 32 for block
// types.
template <Type T, int N>
INLINE void GemvF32(const uint8_t* tile, int64_t tile_bytes, const float* x, int64_t begin, int64_t end,
                    F32x16 (&acc)[N]) {
#pragma clang loop unroll(full)
  for (int t = 0; t < N; ++t) acc[t] = Zero();
  if constexpr (T == kF32) {
#pragma clang loop unroll_count(4)
    for (int64_t k = begin; k < end; ++k) {
      const int64_t ahead = AheadInTiles<N>(64 * k, tile_bytes);
#pragma clang loop unroll(full)
      for (int t = 0; t < N; ++t) {
        const uint8_t* step = tile + t * tile_bytes + 64 * k;
        Prefetch(step + ahead);
        acc[t] = Fma(Splat(x[k]), Load(reinterpret_cast<const float*>(step)), acc[t]);
      }
    }
  } else if constexpr (kIsFloat<T>) {
    F32x16 even, odd;
    int64_t k = begin;
#pragma clang loop unroll_count(2)
    for (; k + 2 <= end; k += 2) {
      const int64_t ahead = AheadInTiles<N>(32 * k, tile_bytes);
#pragma clang loop unroll(full)
      for (int t = 0; t < N; ++t) {
        const uint8_t* step = tile + t * tile_bytes + 32 * k;
        Prefetch(step + ahead);
        LoadPairs(step, T, even, odd);
        acc[t] = Fma(Splat(x[k]), even, acc[t]);
        acc[t] = Fma(Splat(x[k + 1]), odd, acc[t]);
      }
    }
    if (k < end) {
#pragma clang loop unroll(full)
      for (int t = 0; t < N; ++t) {
        LoadPairs(tile + t * tile_bytes + 32 * k, T, even, odd);
        acc[t] = Fma(Splat(x[k]), even, acc[t]);
      }
    }
#pragma clang loop unroll(full)
    for (int t = 0; t < N; ++t) acc[t] = InRowOrder<T>(acc[t]);
  } else {
    alignas(64) float w[N][32 * 16];
#pragma clang loop unroll(disable)
    for (int64_t k = begin; k < end; k += 32) {
#pragma clang loop unroll(full)
      for (int t = 0; t < N; ++t) {
        const uint8_t* step = tile + t * tile_bytes + k / 32 * StepBytes<T>();
        PrefetchStep(step, StepBytes<T>());
        DequantizeStep<T>(step, w[t]);
      }
#pragma clang loop unroll_count(4)
      for (int i = 0; i < 32; ++i) {
#pragma clang loop unroll(full)
        for (int t = 0; t < N; ++t) acc[t] = Fma(Splat(x[k + i]), Load(w[t] + 16 * i), acc[t]);
      }
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
    for (int64_t k = 0; k < count; k += 32) {
      const uint8_t* step = steps + k / 32 * StepBytes<T>();
      PrefetchStep(step, StepBytes<T>());
      DequantizeStep<T>(step, panel.w + 16 * k);
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
