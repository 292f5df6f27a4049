// Products of a8 rows with tiles of a block type: one row (GEMV), and four rows at a time against a tile unpacked to
// bytes (GEMM). Per block, in this order: acc = fma(m_w, s_a, acc) where the type has a minimum; acc = fma(d_w * d_a,
// f32(dot), acc).
#pragma once
#include "backends/kernels/math.h"

namespace KERNELS_NAMESPACE {

// Bytes of a step of 32 k of a tile (ir/layout.h).
template <Type T>
struct Block {
  static constexpr bool kSigned = T == kQ8_0;
  static constexpr bool kMin = T == kQ4_1 || T == kQ5_1;
  static constexpr bool kFifth = T == kQ5_0 || T == kQ5_1;
  static constexpr int kOffset = T == kQ4_0 ? 8 : T == kQ5_0 ? 16 : 0;  // w = d * (code - kOffset)
  static constexpr int64_t kFifthAt = kMin ? 64 : 32;
  static constexpr int64_t kCodesAt = kFifthAt + (kFifth ? 64 : 0);
  static constexpr int64_t kBytes = kCodesAt + (kSigned ? 512 : 256);
};

INLINE F32x16 LoadHalfAt(const uint8_t* p) { return LoadHalf(reinterpret_cast<const uint16_t*>(p)); }

// Codes of k = 4g .. 4g + 3, g = 0..7, of a step.
template <Type T>
INLINE Codes CodesAt(const uint8_t* step, int g) {
  using B = Block<T>;
  const uint8_t* codes = step + B::kCodesAt;
  if constexpr (B::kSigned) {
    return LoadCodes(codes + 64 * g);
  } else {
    const Codes pair = LoadCodes(codes + 64 * (g / 2));
    const Codes four = g % 2 == 0 ? LowNibbles(pair) : HighNibbles(pair);
    if constexpr (B::kFifth) {
      return OrFifthBits(four, LoadCodes(step + B::kFifthAt), g);
    }
    return four;
  }
}
template <Type T, class F>
INLINE void ForCodes(const uint8_t* step, F f) {
#pragma clang loop unroll(full)
  for (int g = 0; g < 8; ++g) f(g, CodesAt<T>(step, g));
}

// Signed dot of one step with one block of activations.
template <Type T>
INLINE I32x16 StepDot(const uint8_t* step, const int8_t* a, int32_t sum) {
  using B = Block<T>;
  I32x16 dot = SplatInt(0);
  if constexpr (B::kSigned) {
    ForCodes<T>(step, [&](int g, Codes w) { dot = DotSigned(dot, w, a + 4 * g); });
  } else {
    constexpr int kGroups =
        B::kFifth ? 4 : 8;  // groups that an i16 sum holds: 8 * 2 * 15 * 127, 4 * 2 * 31 * 127 < 2^15
    Dot part{};
    ForCodes<T>(step, [&](int g, Codes w) {
      part = g % kGroups == 0 ? DotFirst(w, a + 4 * g) : DotNext(part, w, a + 4 * g);
      if (g % kGroups == kGroups - 1) dot = g < kGroups ? DotSum(part) : AddInt(dot, DotSum(part));
    });
    if constexpr (B::kOffset != 0) dot = SubInt(dot, SplatInt(B::kOffset * sum));
  }
  return dot;
}

// Of a linear stream of weights, in bytes; multiples of 4096 are slower, their lines meet in one set of the first
// cache.
constexpr int64_t kPrefetchAhead = 5120;
INLINE void PrefetchStep(const uint8_t* step, int64_t bytes) {
#pragma clang loop unroll(full)
  for (int64_t i = 0; i < bytes; i += 64) Prefetch(step + kPrefetchAhead + i);
}

// One row: blocks [begin, end) of a tile.
template <Type T>
INLINE F32x16 GemvA8(const uint8_t* tile, A8 x, int64_t begin, int64_t end) {
  using B = Block<T>;
  F32x16 acc = Zero();
#pragma clang loop unroll(disable)
  for (int64_t b = begin; b < end; ++b) {
    const uint8_t* step = tile + b * B::kBytes;
    PrefetchStep(step, B::kBytes);
    const I32x16 dot = StepDot<T>(step, x.codes + 32 * b, SumOf(x, b));
    if constexpr (B::kMin) acc = Fma(LoadHalfAt(step + 32), Splat(x.s[b]), acc);
    acc = Fma(Mul(LoadHalfAt(step), Splat(x.d[b])), ToFloat(dot), acc);
  }
  return acc;
}

// Blocks of a tile, unpacked: one byte a code, f32 scales and minima.
constexpr int64_t kPanelBlocks = 32;
struct alignas(64) PanelA8 {
  uint8_t codes[kPanelBlocks * 512];
  float d[kPanelBlocks * 16], m[kPanelBlocks * 16];
};
template <Type T>
INLINE void UnpackA8(const uint8_t* steps, int64_t blocks, PanelA8& panel) {
  using B = Block<T>;
#pragma clang loop unroll(disable)
  for (int64_t b = 0; b < blocks; ++b, steps += B::kBytes) {
    PrefetchStep(steps, B::kBytes);
    Store(panel.d + 16 * b, LoadHalfAt(steps));
    if constexpr (B::kMin) Store(panel.m + 16 * b, LoadHalfAt(steps + 32));
    ForCodes<T>(steps, [&](int g, Codes w) { StoreBytes(panel.codes + 512 * b + 64 * g, w); });
  }
}

// Four rows: acc[4][16] goes on over `blocks` unpacked blocks; x holds each row from its first of these blocks on.
template <Type T>
INLINE void Gemm4A8(const PanelA8& panel, int64_t blocks, const A8 (&x)[4], float* acc) {
  using B = Block<T>;
#pragma clang loop unroll(disable)
  for (int64_t b = 0; b < blocks; ++b) {
    const uint8_t* codes = panel.codes + 512 * b;
    I32x16 dot[4];
    if constexpr (B::kSigned) {
#pragma clang loop unroll(full)
      for (int r = 0; r < 4; ++r) dot[r] = SplatInt(0);
#pragma clang loop unroll(full)
      for (int g = 0; g < 8; ++g) {
        const Codes w = LoadCodes(codes + 64 * g);
#pragma clang loop unroll(full)
        for (int r = 0; r < 4; ++r) dot[r] = DotSigned(dot[r], w, x[r].codes + 32 * b + 4 * g);
      }
    } else {
      constexpr int kGroups = B::kFifth ? 4 : 8;
#pragma clang loop unroll(full)
      for (int half = 0; half < 8; half += kGroups) {
        Dot part[4];
#pragma clang loop unroll(full)
        for (int g = 0; g < kGroups; ++g) {
          const Codes w = LoadCodes(codes + 64 * (half + g));
#pragma clang loop unroll(full)
          for (int r = 0; r < 4; ++r) {
            const int8_t* a = x[r].codes + 32 * b + 4 * (half + g);
            if (g == 0) {
              DotFirstInOrder(part[r], w, a);
            } else {
              DotNextInOrder(part[r], w, a);
            }
          }
        }
#pragma clang loop unroll(full)
        for (int r = 0; r < 4; ++r) dot[r] = half == 0 ? DotSum(part[r]) : AddInt(dot[r], DotSum(part[r]));
      }
      if constexpr (B::kOffset != 0) {
#pragma clang loop unroll(full)
        for (int r = 0; r < 4; ++r) dot[r] = SubInt(dot[r], SplatInt(B::kOffset * SumOf(x[r], b)));
      }
    }
    InOrder();  // the scales stay behind the dots: in front of them they'd be spilled
    const F32x16 d = Load(panel.d + 16 * b);
#pragma clang loop unroll(full)
    for (int r = 0; r < 4; ++r) {
      F32x16 v = Load(acc + 16 * r);
      if constexpr (B::kMin) v = Fma(Load(panel.m + 16 * b), Splat(x[r].s[b]), v);
      Store(acc + 16 * r, Fma(Mul(d, Splat(x[r].d[b])), ToFloat(dot[r]), v));
    }
  }
}

// Rows of acc[n_rows rounded up to 4][16] from zero: blocks [begin, end) of a tile times a8 rows, `stride` bytes apart.
template <Type T>
INLINE void GemmA8(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t n_rows, int64_t begin,
                   int64_t end, float* acc) {
  PanelA8 panel;
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < n_rows; i += 4) {
#pragma clang loop unroll(full)
    for (int r = 0; r < 4; ++r) Store(acc + 16 * (i + r), Zero());
  }
#pragma clang loop unroll(disable)
  for (int64_t b = begin; b < end; b += kPanelBlocks) {
    const int64_t blocks = end - b < kPanelBlocks ? end - b : kPanelBlocks;
    UnpackA8<T>(tile + b * Block<T>::kBytes, blocks, panel);
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n_rows; i += 4) {
      A8 four[4];
#pragma clang loop unroll(full)
      for (int r = 0; r < 4; ++r) {
        const A8 row = A8Row(x + (i + r < n_rows ? i + r : n_rows - 1) * stride, k);
        four[r] = {row.codes + 32 * b, row.d + b, row.s + b, row.sums + 2 * b};
      }
      Gemm4A8<T>(panel, blocks, four, acc + 16 * i);
    }
  }
}

}  // namespace KERNELS_NAMESPACE
