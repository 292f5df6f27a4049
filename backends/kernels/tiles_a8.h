// Products of a8 rows with tiles of a block type. Per output one chain over the blocks of 32 k, ascending:
// acc = fma(m_w, s_a, acc) where the type has a minimum, then acc = fma(d_w * d_a, f32(dot), acc). A dot is an integer,
// so whatever goes on inside a block gives the same bits.
//
// Rows meet the tile as it is packed: each group of codes is unpacked and multiplied with all of them, the weights being
// read once. panel_a8.h has what is better for many rows.
#pragma once
#include "backends/kernels/unpack.h"

namespace KERNELS_NAMESPACE {

constexpr int kFewRows = kWide ? 8 : kVnni ? 4 : 3;  // up to these, all meet a packed tile at once
constexpr int64_t kStarts = 16;                      // blocks whose offsets are made ready at once

// Of kStarts blocks of R rows: -offset * sum, what their dots are short of. Of a type with scales of 16 codes, of the
// first 16 and of the last; or, where dots add up in i16 or minima want them, their sums as a pair of i16.
template <Type T>
constexpr bool kTwoStarts = kVnni && Block<T>::kHalves && kDotOffset<T> != 0;
template <Type T, int R>
struct Starts {
  alignas(64) int32_t of[kTwoStarts<T> ? 2 : 1][R][kStarts];
};
template <Type T, int R>
INLINE void MakeStarts(const uint8_t* const (&x)[R], int64_t k, int64_t block, int64_t n, Starts<T, R>& start) {
  constexpr int kOffset = kDotOffset<T>;
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) {
    if constexpr (!Block<T>::kHalves && kOffset == 0) continue;
    const I32x16 sums = LoadIntPart(A8Row(x[r], k).sums + block, n);
    if constexpr (!Block<T>::kHalves) {
      StoreInt(start.of[0][r], TimesLow16(sums, -kOffset));
      continue;
    }
    const I32x16 first = HalfOf(sums, 1), last = SubInt(HalfOf(sums, 0), first);
    if constexpr (kTwoStarts<T>) {
      constexpr int kShift = kOffset == 32 ? 5 : 2;
      StoreInt(start.of[0][r], SubInt(SplatInt(0), ShiftLeft(first, kShift)));
      StoreInt(start.of[1][r], SubInt(SplatInt(0), ShiftLeft(last, kShift)));
    } else {
      StoreInt(start.of[0][r], AddInt(And(first, 0xffff), ShiftLeft(last, 16)));
    }
  }
}

// Integer scales of a block's first and last 16 codes: as pairs of i16, and with VNNI as floats.
struct Halves {
  I32x16 pair;
  F32x16 scale[2];
};
template <Type T>
INLINE Halves HalvesOf(const Head<T>& head, int64_t j) {
  Halves out{HalfScalesOf<T>(head, j), {Zero(), Zero()}};
  if constexpr (kVnni && Block<T>::kHalves) {
    out.scale[0] = ToFloat(HalfOf(out.pair, 0));
    out.scale[1] = ToFloat(HalfOf(out.pair, 1));
  }
  return out;
}

// f32(dot) of one block of R rows. codes(g): the block's codes, as Block<T> says; halves: its scales of 16 codes; at:
// the block's first activation.
template <Type T, int R, class F>
INLINE void BlockDots(F codes, const Halves& halves, const uint8_t* const (&x)[R], int64_t at,
                      const Starts<T, R>& start, int64_t i, F32x16 (&out)[R]) {
  using B = Block<T>;
  [[maybe_unused]] constexpr int kOffset = kDotOffset<T>;
  const auto activations = [&](int r, int g) { return reinterpret_cast<const int8_t*>(x[r] + at) + 4 * g; };
#if LLMC_VNNI
  // With scales of 16 codes each half's sum is multiplied as a float: |sum| < 2^17, both products and the result are
  // below 2^24, so all are exact.
  constexpr int kGroups = B::kHalves ? 4 : 8;
#pragma clang loop unroll(full)
  for (int first = 0; first < 8; first += kGroups) {
    Dot dot[R];
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) {
      if constexpr (kOffset == 0) {
        dot[r] = DotFrom(SplatInt(0));
      } else {
        dot[r] = DotFrom(SplatInt(start.of[kTwoStarts<T> ? first / 4 : 0][r][i]));
      }
    }
#pragma clang loop unroll(full)
    for (int g = first; g < first + kGroups; ++g) {
      const Codes w = codes(g);
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) DotNext(dot[r], w, activations(r, g));
    }
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) {
      const F32x16 sum = ToFloat(DotSum(dot[r]));
      if constexpr (B::kHalves) {
        out[r] = first == 0 ? Mul(sum, halves.scale[0]) : Fma(sum, halves.scale[1], out[r]);
      } else {
        out[r] = sum;
      }
    }
  }
#else
  I32x16 sum[R];
  if constexpr (B::kSigned) {
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) sum[r] = SplatInt(0);
#pragma clang loop unroll(full)
    for (int g = 0; g < 8; ++g) {
      const Codes w = codes(g), magnitudes = Magnitudes(w);
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) DotSigned(sum[r], w, magnitudes, activations(r, g));
    }
  } else {
    // Groups that an i16 sum holds: 8 * 2 * 15 * 127, 4 * 2 * 31 * 127 and 2 * 2 * 63 * 127 are below 2^15.
    constexpr int kGroups = B::kMaxCode > 31 ? 2 : B::kMaxCode > 15 || B::kHalves ? 4 : 8;
#pragma clang loop unroll(full)
    for (int first = 0; first < 8; first += kGroups) {
      Dot part[R];
#pragma clang loop unroll(full)
      for (int g = first; g < first + kGroups; ++g) {
        const Codes w = codes(g);
#pragma clang loop unroll(full)
        for (int r = 0; r < R; ++r) {
          if (g == first) {
            DotFirst(part[r], w, activations(r, g));
          } else {
            DotNext(part[r], w, activations(r, g));
          }
        }
      }
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) {
        const I32x16 next = B::kHalves ? DotSumTimes(part[r], halves.pair, first / 4) : DotSum(part[r]);
        sum[r] = first == 0 ? next : AddInt(sum[r], next);
      }
    }
    if constexpr (kOffset != 0 && !B::kHalves) {
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) sum[r] = AddInt(sum[r], SplatInt(start.of[0][r][i]));
    }
  }
  if constexpr (kOffset != 0 && B::kHalves) {
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r)
      sum[r] = SubInt(sum[r], ShiftLeft(MulPairs(halves.pair, SplatInt(start.of[0][r][i])), kOffset == 32 ? 5 : 2));
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) out[r] = ToFloat(sum[r]);
#endif
}

// What a block adds to the chain of one row: its minimum m (of 16 codes: times the integers of `mins`), then its dot.
template <Type T>
INLINE F32x16 AddBlock(F32x16 acc, F32x16 d, F32x16 m, I32x16 mins, F32x16 dot, const uint8_t* x, int64_t k, int64_t b,
                       int32_t sums) {
  const F32x16 own = Splat(A8Row(x, k).d[b]);
  if constexpr (Block<T>::kMin) acc = Fma(m, Splat(A8Row(x, k).s[b]), acc);
  if constexpr (Block<T>::kHalfMins) acc = Fma(Mul(m, own), ToFloat(MulPairs(mins, SplatInt(sums))), acc);
  return Fma(Mul(d, own), dot, acc);
}

// R rows, blocks [begin, end) of a packed tile: whole steps.
template <Type T, int R>
INLINE void PackedRowsA8(const uint8_t* tile, const uint8_t* const (&x)[R], int64_t k, int64_t begin, int64_t end,
                         F32x16 (&acc)[R]) {
  using B = Block<T>;
  Starts<T, R> start;
  const uint8_t* step = tile + begin / B::kBlocks * B::kBytes;
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) acc[r] = Zero();
#pragma clang loop unroll(disable)
  for (int64_t first = begin; first < end; first += kStarts) {
    const int64_t n = end - first < kStarts ? end - first : kStarts;
    MakeStarts(x, k, first, n, start);
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n; i += B::kBlocks, step += B::kBytes) {
      const Head<T> head = HeadOf<T>(step);
      // Never unrolled: loads a step apart mislead the CPU's prefetchers.
#pragma clang loop unroll(disable)
      for (int64_t j = 0; j < B::kBlocks; ++j) {
        PrefetchBlock<T>(step, j);
        const int64_t b = first + i + j;
        F32x16 dot[R];
        BlockDots<T, R>([&](int g) { return DotCodesOf<T>(head, j, g); }, HalvesOf<T>(head, j), x, 32 * b, start, i + j,
                        dot);
        const F32x16 d = ScaleOf<T>(head, j), m = MinimumOf<T>(head, j);
        const I32x16 mins = HalfMinsOf<T>(head, j);
#pragma clang loop unroll(full)
        for (int r = 0; r < R; ++r) acc[r] = AddBlock<T>(acc[r], d, m, mins, dot[r], x[r], k, b, start.of[0][r][i + j]);
      }
    }
  }
}

// Rows [first, first + R) of x, `stride` bytes apart, into acc, acc_stride floats apart. In place of those from n_rows on the
// last row comes again.
template <Type T, int R>
INLINE void PackedRows(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t first, int64_t n_rows,
                       int64_t begin, int64_t end, float* acc, int64_t acc_stride) {
  const uint8_t* rows[R];
  F32x16 sum[R];
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) rows[r] = x + (first + r < n_rows ? first + r : n_rows - 1) * stride;
  PackedRowsA8<T, R>(tile, rows, k, begin, end, sum);
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) Store(acc + (first + r) * acc_stride, sum[r]);
}

// One row: blocks [begin, end) of a tile.
template <Type T>
CHOICE F32x16 GemvA8(const uint8_t* tile, const uint8_t* x, int64_t k, int64_t begin, int64_t end) {
  const uint8_t* const row[1] = {x};
  F32x16 acc[1];
  PackedRowsA8<T, 1>(tile, row, k, begin, end, acc);
  return acc[0];
}

// All rows, R at a time, into acc[n_rows rounded up to R].
template <Type T, int R>
INLINE void GemmPackedA8(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t n_rows,
                         int64_t begin, int64_t end, float* acc, int64_t acc_stride) {
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < n_rows; i += R) PackedRows<T, R>(tile, x, stride, k, i, n_rows, begin, end, acc, acc_stride);
}
// Up to kFewRows of them.
template <Type T, int R = 1>
INLINE void FewRowsA8(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t n_rows, int64_t begin,
                      int64_t end, float* acc, int64_t acc_stride) {
  if constexpr (Block<T>::kSuper || kWide) {
    // One, two, four, eight at once: each shape is a lot of code. A row too many costs less than another reading.
    if constexpr (2 * R <= kFewRows) {
      if (n_rows > R) return FewRowsA8<T, 2 * R>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
    }
    GemmPackedA8<T, R>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  } else if (n_rows == R) {
    PackedRows<T, R>(tile, x, stride, k, 0, R, begin, end, acc, acc_stride);
  } else if constexpr (R < kFewRows) {
    FewRowsA8<T, R + 1>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  }
}

}  // namespace KERNELS_NAMESPACE
