// Products of a8 rows with tiles of a block type. Per output one chain over the blocks of 32 k, ascending:
// acc = fma(m_w, s_a, acc) where the type has a minimum, then acc = fma(d_w * d_a, f32(dot), acc). A dot is an integer,
// so whatever goes on inside a block gives the same bits.
//
// Few rows (with AVX-512, any number: twelve at a time) meet the tile as it is packed: each group of codes is unpacked
// and multiplied with all rows, the weights being read once. More rows than the registers hold sums of go through a
// panel: the tile is unpacked to bytes once for all of them.
#pragma once
#include "backends/kernels/unpack_a8.h"

namespace KERNELS_NAMESPACE {

constexpr int kFewRows = kWide ? 8 : kVnni ? 4 : 3;  // up to these, all meet a packed tile at once
constexpr int kManyRows = 12;                        // with AVX-512, so many at once
constexpr int kPanelRows = kVnni ? 5 : 4;            // else so many meet a panel at once
constexpr int64_t kStarts = 16;                      // blocks whose offsets are made ready at once

// -offset * sum of n blocks of R rows from `block` on: what their dots are short of.
template <int kOffset, int R>
INLINE void MakeStarts(const uint8_t* const (&x)[R], int64_t k, int64_t block, int64_t n,
                       int32_t (&start)[R][kStarts]) {
  if constexpr (kOffset != 0) {
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) StoreInt(start[r], TimesLow16(LoadIntPart(A8Row(x[r], k).sums + block, n), -kOffset));
  }
}

// f32(dot) of one block of R rows. codes(g): the block's codes, which are Block<T>'s; at: the block's first activation.
template <Type T, int R, class F>
INLINE void BlockDots(F codes, const uint8_t* const (&x)[R], int64_t at, const int32_t (&start)[R][kStarts], int64_t i,
                      F32x16 (&out)[R]) {
  constexpr int kOffset = kDotOffset<T>;
  const auto activations = [&](int r, int g) { return reinterpret_cast<const int8_t*>(x[r] + at) + 4 * g; };
#if LLMC_VNNI
  Dot dot[R];
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) dot[r] = DotFrom(SplatInt(kOffset != 0 ? start[r][i] : 0));
#pragma clang loop unroll(full)
  for (int g = 0; g < 8; ++g) {
    const Codes w = codes(g);
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) DotNext(dot[r], w, activations(r, g));
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) out[r] = ToFloat(DotSum(dot[r]));
#else
  using B = Block<T>;
  I32x16 dot[R];
  if constexpr (B::kSigned) {
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) dot[r] = SplatInt(0);
#pragma clang loop unroll(full)
    for (int g = 0; g < 8; ++g) {
      const Codes w = codes(g);
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) dot[r] = DotSigned(dot[r], w, activations(r, g));
    }
  } else {
    constexpr int kGroups =
        B::kMaxCode > 15 ? 4 : 8;  // that an i16 sum holds: 8 * 2 * 15 * 127, 4 * 2 * 31 * 127 < 2^15
#pragma clang loop unroll(full)
    for (int half = 0; half < 8; half += kGroups) {
      Dot part[R];
#pragma clang loop unroll(full)
      for (int g = half; g < half + kGroups; ++g) {
        const Codes w = codes(g);
#pragma clang loop unroll(full)
        for (int r = 0; r < R; ++r) {
          if (g == half) {
            DotFirst(part[r], w, activations(r, g));
          } else {
            DotNext(part[r], w, activations(r, g));
          }
        }
      }
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) dot[r] = half == 0 ? DotSum(part[r]) : AddInt(dot[r], DotSum(part[r]));
    }
    if constexpr (kOffset != 0) {
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) dot[r] = AddInt(dot[r], SplatInt(start[r][i]));
    }
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < R; ++r) out[r] = ToFloat(dot[r]);
#endif
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
    MakeStarts<kDotOffset<T>, R>(x, k, first, n, start);
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n; i += B::kBlocks, step += B::kBytes) {
      PrefetchStep(step, B::kBytes);
      const Head<T> head = HeadOf<T>(step);
#pragma clang loop unroll(disable)
      for (int64_t j = 0; j < B::kBlocks; ++j) {
        const int64_t b = first + i + j;
        F32x16 dot[R];
        BlockDots<T, R>([&](int g) { return DotCodesOf<T>(head, j, g); }, x, 32 * b, start, i + j, dot);
        const F32x16 d = ScaleOf<T>(head, j);
#pragma clang loop unroll(full)
        for (int r = 0; r < R; ++r) {
          if constexpr (B::kMin) acc[r] = Fma(MinimumOf<T>(head, j), Splat(A8Row(x[r], k).s[b]), acc[r]);
          acc[r] = Fma(Mul(d, Splat(A8Row(x[r], k).d[b])), dot[r], acc[r]);
        }
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
INLINE F32x16 GemvA8(const uint8_t* tile, const uint8_t* x, int64_t k, int64_t begin, int64_t end) {
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
      if constexpr (B::kMin) Store(panel.m + 16 * (b + j), MinimumOf<T>(head, j));
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
    MakeStarts<kDotOffset<T>, R>(x, k, first + done, n, start);
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n; ++i) {
      const int64_t in_panel = done + i, b = first + in_panel;
      F32x16 dot[R];
      BlockDots<T, R>([&](int g) { return LoadCodes(panel.codes + 512 * in_panel + 64 * g); }, x, 32 * b, start, i,
                      dot);
      InOrder();  // the scales stay behind the dots: in front of them they'd be spilled
      const F32x16 d = Load(panel.d + 16 * in_panel);
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) {
        F32x16 v = Load(acc + r * acc_stride);
        if constexpr (B::kMin) v = Fma(Load(panel.m + 16 * in_panel), Splat(A8Row(x[r], k).s[b]), v);
        Store(acc + r * acc_stride, Fma(Mul(d, Splat(A8Row(x[r], k).d[b])), dot[r], v));
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
  if (n_rows == R) {
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
INLINE void GemmA8(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t n_rows, int64_t begin,
                   int64_t end, float* acc, int64_t acc_stride) {
  if (n_rows <= kFewRows) {
    FewRowsA8<T>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  } else if constexpr (kWide) {
    if (n_rows < kManyRows) {
      GemmPackedA8<T, kFewRows>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
    } else {
      GemmPackedA8<T, kManyRows>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
    }
  } else {
    GemmPanelA8<T>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  }
}

}  // namespace KERNELS_NAMESPACE
