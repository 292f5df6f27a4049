// The register tile of f32 products: R rows by C vectors of 16 columns, one chain of FMAs an output.
#pragma once
#include "backends/kernels/primitives.h"

namespace KERNELS_NAMESPACE {

// Twelve rows and two vectors fill 24 of AVX-512's 32 registers; six rows of one vector, two registers each, 12 of 16.
constexpr int kTileRows = kWide ? 12 : 6;
constexpr int kTileVectors = kWide ? 2 : 1;

// A number of vectors, or tiles, as a type: what a generic lambda is called with.
template <int N>
struct Count {};

// acc[r][c] goes on over i in [0, count): fma(a[r][i], b[c][i * b_stride + lane], acc).
template <int R, int C>
INLINE void FmaTile(const float* const (&a)[R], const float* const (&b)[C], int64_t b_stride, int64_t count,
                    F32x16 (&acc)[R][C]) {
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < count; ++i) {
    F32x16 row[C];
#pragma clang loop unroll(full)
    for (int c = 0; c < C; ++c) row[c] = Load(b[c] + i * b_stride);
#pragma clang loop unroll(full)
    for (int r = 0; r < R; ++r) {
      if constexpr (C == 2) {
        FmaTwoInOrder(acc[r][0], acc[r][1], a[r] + i, row[0], row[1]);
      } else {
        FmaInOrder(acc[r][0], a[r] + i, row[0]);
      }
    }
  }
}

}  // namespace KERNELS_NAMESPACE
