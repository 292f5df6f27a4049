// Products of many a8 rows with a tile: with AVX-512 twelve at a time as the tile is packed, since unpacking runs beside
// the dots; where registers are few, or unpacking takes as long as dots do (scales of 16 codes), through a panel: the
// tile is unpacked to bytes once for all rows.
#pragma once
#include "backends/kernels/tiles_a8.h"

namespace KERNELS_NAMESPACE {

constexpr int kManyRows = kWide ? 12 : kVnni ? 5 : 4;  // so many at once
template <Type T>
constexpr bool kUnpackOnce = Block<T>::kHalves;  // with AVX-512; else all are

// Blocks of a tile, unpacked: one byte a code, f32 scales and minima.
constexpr int64_t kPanelBlocks = 32;
struct alignas(64) PanelA8 {
  uint8_t codes[kPanelBlocks * 512];
  float d[kPanelBlocks * 16], m[kPanelBlocks * 16];
  int32_t pairs[kPanelBlocks * 16], mins[kPanelBlocks * 16];  // scales and minima of 16 codes
  float first[kPanelBlocks * 16], last[kPanelBlocks * 16];    // with VNNI the scales, as floats
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
      if constexpr (B::kHalves && kVnni) {
        const Halves halves = HalvesOf<T>(head, j);
        Store(panel.first + 16 * (b + j), halves.scale[0]);
        Store(panel.last + 16 * (b + j), halves.scale[1]);
      } else if constexpr (B::kHalves) {
        StoreInt(panel.pairs + 16 * (b + j), HalfScalesOf<T>(head, j));
      }
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
  Starts<T, R> start;
#pragma clang loop unroll(disable)
  for (int64_t done = 0; done < blocks; done += kStarts) {
    const int64_t n = blocks - done < kStarts ? blocks - done : kStarts;
    MakeStarts(x, k, first + done, n, start);
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n; ++i) {
      const int64_t in_panel = done + i, b = first + in_panel;
      F32x16 dot[R];
      const auto words = [&](const int32_t* p) {
        return LoadInt(reinterpret_cast<const uint32_t*>(p) + 16 * in_panel);
      };
      Halves halves{SplatInt(0), {Zero(), Zero()}};
      if constexpr (B::kHalves && kVnni) {
        halves.scale[0] = Load(panel.first + 16 * in_panel);
        halves.scale[1] = Load(panel.last + 16 * in_panel);
      } else if constexpr (B::kHalves) {
        halves.pair = words(panel.pairs);
      }
      BlockDots<T, R>([&](int g) { return LoadCodes(panel.codes + 512 * in_panel + 64 * g); }, halves, x, 32 * b, start,
                      i, dot);
      InOrder();  // the scales stay behind the dots: in front of them they'd be spilled
      const F32x16 d = Load(panel.d + 16 * in_panel);
      const F32x16 m = B::kMin || B::kHalfMins ? Load(panel.m + 16 * in_panel) : Zero();
      const I32x16 mins = B::kHalfMins ? words(panel.mins) : SplatInt(0);
#pragma clang loop unroll(full)
      for (int r = 0; r < R; ++r) {
        const F32x16 v = Load(acc + r * acc_stride);
        Store(acc + r * acc_stride, AddBlock<T>(v, d, m, mins, dot[r], x[r], k, b, start.of[0][r][i]));
      }
    }
  }
}

template <Type T>
INLINE void GemmPanelA8(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t n_rows, int64_t begin,
                        int64_t end, float* acc, int64_t acc_stride) {
  PanelA8 panel;
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < n_rows; i += kManyRows) {
#pragma clang loop unroll(full)
    for (int r = 0; r < kManyRows; ++r) Store(acc + (i + r) * acc_stride, Zero());
  }
#pragma clang loop unroll(disable)
  for (int64_t b = begin; b < end; b += kPanelBlocks) {
    const int64_t blocks = end - b < kPanelBlocks ? end - b : kPanelBlocks;
    UnpackA8<T>(tile + b / Block<T>::kBlocks * Block<T>::kBytes, blocks, panel);
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < n_rows; i += kManyRows) {
      const uint8_t* rows[kManyRows];
#pragma clang loop unroll(full)
      for (int r = 0; r < kManyRows; ++r) rows[r] = x + (i + r < n_rows ? i + r : n_rows - 1) * stride;
      PanelRowsA8<T, kManyRows>(panel, blocks, rows, k, b, acc + i * acc_stride, acc_stride);
    }
  }
}

// Rows of acc[n_rows rounded up to kManyRows], acc_stride floats apart: blocks [begin, end) of a tile times a8 rows,
// `stride` bytes apart.
template <Type T>
CHOICE void GemmA8(const uint8_t* tile, const uint8_t* x, int64_t stride, int64_t k, int64_t n_rows, int64_t begin,
                   int64_t end, float* acc, int64_t acc_stride) {
  if (n_rows <= kFewRows) {
    FewRowsA8<T>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  } else if constexpr (!kWide) {
    GemmPanelA8<T>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  } else if (kUnpackOnce<T> ? n_rows < 2 * kManyRows : n_rows > kManyRows && n_rows <= 2 * kFewRows) {
    GemmPackedA8<T, kFewRows>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  } else if constexpr (kUnpackOnce<T>) {
    GemmPanelA8<T>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  } else {
    GemmPackedA8<T, kManyRows>(tile, x, stride, k, n_rows, begin, end, acc, acc_stride);
  }
}

}  // namespace KERNELS_NAMESPACE
