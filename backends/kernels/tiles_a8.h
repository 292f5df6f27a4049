// Products of a8 rows with tiles of a block type. Per output one chain over the blocks of 32 k, ascending:
// acc = fma(m_w, s_a, acc) where the type has a minimum, then acc = fma(d_w * d_a, f32(dot), acc). A dot is an integer,
// so whatever goes on inside a block gives the same bits.
//
// Few rows (with AVX-512, any number: twelve at a time) meet the tile as it is packed: each group of codes is unpacked
// and multiplied with all rows, the weights being read once. More rows than the registers hold sums of go through a
// panel: the tile is unpacked to bytes once for all of them.
#pragma once
#include "backends/kernels/unpack.h"

namespace KERNELS_NAMESPACE {

constexpr int kFewRows = kWide ? 8 : kVnni ? 4 : 3;  // up to these, all meet a packed tile at once
constexpr int kManyRows = 12;                        // with AVX-512, so many at once
constexpr int kPanelRows = kVnni ? 5 : 4;            // else so many meet a panel at once
constexpr int64_t kStarts = 16;                      // blocks whose offsets are made ready at once

// Of n blocks of R rows from `block` on: -offset * sum, what their dots are short of; of a type with scales of 16 codes
// the sums of the first and of the last 16, as a pair of i16.
template <Type T, int R>
INLINE void MakeStarts(const uint8_t* const (&x)[R], int64_t k, int64_t block, int64_t n,
                       int32_t (&start)[R][kStarts]) {
  if constexpr (Block<T>::kHalves) {
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) {
      const I32x16 sums = LoadIntPart(A8Row(x[r], k).sums + block, n);
      const I32x16 first = HalfOf(sums, 1), last = SubInt(HalfOf(sums, 0), first);
      StoreInt(start[r], AddInt(And(first, 0xffff), ShiftLeft(last, 16)));
    }
  } else if constexpr (kDotOffset<T> != 0) {
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r)
      StoreInt(start[r], TimesLow16(LoadIntPart(A8Row(x[r], k).sums + block, n), -kDotOffset<T>));
  }
}

// f32(dot) of one block of R rows. codes(g): the block's codes, as Block<T> says; pair: its scales of 16 codes; at: the
// block's first activation.
template <Type T, int R, class F>
INLINE void BlockDots(F codes, I32x16 pair, const uint8_t* const (&x)[R], int64_t at,
                      const int32_t (&start)[R][kStarts], int64_t i, F32x16 (&out)[R]) {
  using B = Block<T>;
  constexpr int kOffset = kDotOffset<T>;
  const auto activations = [&](int r, int g) { return reinterpret_cast<const int8_t*>(x[r] + at) + 4 * g; };
  I32x16 sum[R];
#if LLMC_VNNI
  constexpr int kGroups = B::kHalves ? 4 : 8;
#pragma clang loop unroll(full)
  for (int first = 0; first < 8; first += kGroups) {
    Dot dot[R];
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) dot[r] = DotFrom(SplatInt(kOffset != 0 && !B::kHalves ? start[r][i] : 0));
#pragma clang loop unroll(full)
    for (int g = first; g < first + kGroups; ++g) {
      const Codes w = codes(g);
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) DotNext(dot[r], w, activations(r, g));
    }
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) {
      const I32x16 part = B::kHalves ? MulInt(DotSum(dot[r]), HalfOf(pair, first / 4)) : DotSum(dot[r]);
      sum[r] = first == 0 ? part : AddInt(sum[r], part);
    }
  }
#else
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
        const I32x16 next = B::kHalves ? DotSumTimes(part[r], pair, first / 4) : DotSum(part[r]);
        sum[r] = first == 0 ? next : AddInt(sum[r], next);
      }
    }
    if constexpr (kOffset != 0 && !B::kHalves) {
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) sum[r] = AddInt(sum[r], SplatInt(start[r][i]));
    }
  }
#endif
  if constexpr (kOffset != 0 && B::kHalves) {
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r)
      sum[r] = SubInt(sum[r], ShiftLeft(MulPairs(pair, SplatInt(start[r][i])), kOffset == 32 ? 5 : 2));
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) out[r] = ToFloat(sum[r]);
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
  alignas(64) int32_t start[R][kStarts];
  const uint8_t* step = tile + begin / B::kBlocks * B::kBytes;
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) acc[r] = Zero();
#pragma clang loop unroll(disable)
  for (int64_t first = begin; first < end; first += kStarts) {
    const int64_t n = end - first < kStarts ? end - first : kStarts;
    MakeStarts<T, R>(x, k, first, n, start);
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n; i += B::kBlocks, step += B::kBytes) {
      const Head<T> head = HeadOf<T>(step);
      // Never unrolled: loads a step apart mislead the CPU's prefetchers.
#pragma clang loop unroll(disable)
      for (int64_t j = 0; j < B::kBlocks; ++j) {
        PrefetchBlock<T>(step, j);
        const int64_t b = first + i + j;
        F32x16 dot[R];
        BlockDots<T, R>([&](int g) { return DotCodesOf<T>(head, j, g); }, HalfScalesOf<T>(head, j), x, 32 * b, start,
                        i + j, dot);
        const F32x16 d = ScaleOf<T>(head, j), m = MinimumOf<T>(head, j);
        const I32x16 mins = HalfMinsOf<T>(head, j);
#pragma clang loop unroll(full)
        for (int r = 0; r < R; ++r) acc[r] = AddBlock<T>(acc[r], d, m, mins, dot[r], x[r], k, b, start[r][i + j]);
      }
    }
  }
}

// Rows [first, first + R) of x, `stride` bytes apart, into acc, acc_stride floats apart.
template <Type T, int R>
INLINE void PackedRows(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t first, int64_t begin,
                       int64_t end, float* acc, int64_t acc_stride) {
  const uint8_t* rows[R];
  F32x16 sum[R];
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) rows[r] = x + (first + r) * stride;
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

// Blocks of a tile, unpacked: one byte a code, f32 scales and minima.
constexpr int64_t kPanelBlocks = 32;
struct alignas(64) PanelA8 {
  uint8_t codes[kPanelBlocks * 512];
  float d[kPanelBlocks * 16], m[kPanelBlocks * 16];
  int32_t pairs[kPanelBlocks * 16], mins[kPanelBlocks * 16];  // scales and minima of 16 codes
};
template <Type T>
INLINE void UnpackA8(const uint8_t* step, int64_t blocks, PanelA8& panel) {
  using B = Block<T>;
#pragma clang loop unroll(disable)
  for (int64_t b = 0; b < blocks; b += B::kBlocks, step += B::kBytes) {
    PrefetchStep(step, B::kBytes);
    const Head<T> head = HeadOf<T>(step);
#pragma clang loop unroll(disable)
    for (int64_t j = 0; j < B::kBlocks; ++j) {
      Store(panel.d + 16 * (b + j), ScaleOf<T>(head, j));
      if constexpr (B::kMin || B::kHalfMins) Store(panel.m + 16 * (b + j), MinimumOf<T>(head, j));
      if constexpr (B::kHalves) StoreInt(panel.pairs + 16 * (b + j), HalfScalesOf<T>(head, j));
      if constexpr (B::kHalfMins) StoreInt(panel.mins + 16 * (b + j), HalfMinsOf<T>(head, j));
#pragma clang loop unroll(full)
      for (int g = 0; g < 8; ++g) StoreBytes(panel.codes + 512 * (b + j) + 64 * g, DotCodesOf<T>(head, j, g));
    }
  }
}

// R rows: acc, acc_stride floats apart, goes on over `blocks` unpacked blocks, the first of which is block `first` of
// the rows.
template <Type T, int R>
INLINE void PanelRowsA8(const PanelA8& panel, int64_t blocks, const uint8_t* const (&x)[R], int64_t k, int64_t first,
                        float* acc, int64_t acc_stride) {
  using B = Block<T>;
  alignas(64) int32_t start[R][kStarts];
#pragma clang loop unroll(disable)
  for (int64_t done = 0; done < blocks; done += kStarts) {
    const int64_t n = blocks - done < kStarts ? blocks - done : kStarts;
    MakeStarts<T, R>(x, k, first + done, n, start);
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n; ++i) {
      const int64_t in_panel = done + i, b = first + in_panel;
      F32x16 dot[R];
      const auto words = [&](const int32_t* p) {
        return LoadInt(reinterpret_cast<const uint32_t*>(p) + 16 * in_panel);
      };
      BlockDots<T, R>([&](int g) { return LoadCodes(panel.codes + 512 * in_panel + 64 * g); },
                      B::kHalves ? words(panel.pairs) : SplatInt(0), x, 32 * b, start, i, dot);
      InOrder();  // the scales stay behind the dots: in front of them they'd be spilled
      const F32x16 d = Load(panel.d + 16 * in_panel);
      const F32x16 m = B::kMin || B::kHalfMins ? Load(panel.m + 16 * in_panel) : Zero();
      const I32x16 mins = B::kHalfMins ? words(panel.mins) : SplatInt(0);
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) {
        const F32x16 v = Load(acc + r * acc_stride);
        Store(acc + r * acc_stride, AddBlock<T>(v, d, m, mins, dot[r], x[r], k, b, start[r][i]));
      }
    }
  }
}

// All rows, R at a time; n_rows >= R. The last R may have some of those before among them: they come out the same
// again.
template <Type T, int R>
INLINE void GemmPackedA8(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t n_rows,
                         int64_t begin, int64_t end, float* acc, int64_t acc_stride) {
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < n_rows; i += R) {
    const int64_t first = i + R <= n_rows ? i : n_rows - R;
    PackedRows<T, R>(tile, x, stride, k, first, begin, end, acc, acc_stride);
  }
}
template <Type T, int R = 1>
INLINE void FewRowsA8(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t n_rows, int64_t begin,
                      int64_t end, float* acc, int64_t acc_stride) {
  if constexpr (Block<T>::kSuper || kWide) {
    // One, two, four, eight at once: each shape is a lot of code.
    if constexpr (2 * R <= kFewRows) {
      if (n_rows >= 2 * R) return FewRowsA8<T, 2 * R>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
    }
    GemmPackedA8<T, R>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  } else if (n_rows == R) {
    PackedRows<T, R>(tile, x, stride, k, 0, begin, end, acc, acc_stride);
  } else if constexpr (R < kFewRows) {
    FewRowsA8<T, R + 1>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  }
}

template <Type T>
INLINE void GemmPanelA8(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t n_rows, int64_t begin,
                        int64_t end, float* acc, int64_t acc_stride) {
  PanelA8 panel;
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < n_rows; i += kPanelRows) {
#pragma clang loop unroll(full)
    for (int r = 0; r < kPanelRows; ++r) Store(acc + (i + r) * acc_stride, Zero());
  }
#pragma clang loop unroll(disable)
  for (int64_t b = begin; b < end; b += kPanelBlocks) {
    const int64_t blocks = end - b < kPanelBlocks ? end - b : kPanelBlocks;
    UnpackA8<T>(tile + b / Block<T>::kBlocks * Block<T>::kBytes, blocks, panel);
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n_rows; i += kPanelRows) {
      const uint8_t* rows[kPanelRows];
#pragma clang loop unroll(full)
      for (int r = 0; r < kPanelRows; ++r) rows[r] = x + (i + r < n_rows ? i + r : n_rows - 1) * stride;
      PanelRowsA8<T, kPanelRows>(panel, blocks, rows, k, b, acc + i * acc_stride, acc_stride);
    }
  }
}

// Rows of acc[n_rows rounded up to kPanelRows], acc_stride floats apart: blocks [begin, end) of a tile times a8 rows,
// `stride` bytes apart.
template <Type T>
CHOICE void GemmA8(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t n_rows, int64_t begin,
                   int64_t end, float* acc, int64_t acc_stride) {
  if (n_rows <= kFewRows) {
    FewRowsA8<T>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  } else if constexpr (kWide) {
    // Scales of 16 codes need more registers.
    if (n_rows < kManyRows || Block<T>::kHalves) {
      GemmPackedA8<T, kFewRows>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
    } else if constexpr (!Block<T>::kHalves) {
      GemmPackedA8<T, kManyRows>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
    }
  } else {
    GemmPanelA8<T>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  }
}

}  // namespace KERNELS_NAMESPACE
