// head_linear and concat: what each head does by itself.
#pragma once
#include "backends/kernels/linear.h"

namespace KERNELS_NAMESPACE {

// f: the rows of head 0, `record` bytes from head to head. Tile t of the weight makes columns 16 t of all heads' results.
template <Type T, bool kQuantized>
CHOICE void HeadProducts(const Factor& f, int64_t record, const uint8_t* w, int64_t heads, int64_t n, float* out,
                         int64_t rows, int64_t over, int64_t grain, uint32_t thread, uint32_t threads) {
  const int64_t tile_bytes = BytesOfTile<T>(f.k), width = heads * n;
  const Range tiles = Share(width / 16, grain, over, kTiles, thread, threads);
  alignas(64) float sums[kBlockRows * 16];
#pragma clang loop unroll(disable)
  for (int64_t t = tiles.begin; t < tiles.end; ++t) {
    Factor of_head = f;
    of_head.x += 16 * t / n * record;
    if (rows == 1) {
      F32x16 v[1];
      RowTimesTiles<T, kQuantized, 1>(of_head, w + t * tile_bytes, tile_bytes, v);
      Store(out + 16 * t, v[0]);
      continue;
    }
#pragma clang loop unroll(disable)
    for (int64_t first = 0; first < rows; first += kBlockRows) {
      const int64_t n_rows = rows - first < kBlockRows ? rows - first : kBlockRows;
      RowsTimesTiles<T, kQuantized, 1>(of_head, first, n_rows, w + t * tile_bytes, tile_bytes, sums);
#pragma clang loop unroll(disable)
      for (int64_t r = 0; r < n_rows; ++r) Store(out + (first + r) * width + 16 * t, Load(sums + 16 * r));
    }
  }
}

#define HEAD_CONSTANTS                                                                                          \
  int64_t k, int64_t n0, int64_t heads, int64_t weight_type, int64_t x_space, int64_t out0_space, int64_t over, \
      int64_t grain
#define HEADS_OF(T, quantized, record)                                                                              \
  HeadProducts<T, quantized>(                                                                                       \
      {At(c, thread, x_space, rec[0]), k, heads * (record), 1}, record, At(c, thread, kWeights, rec[1]), heads, n0, \
      reinterpret_cast<float*>(At(c, thread, out0_space, rec[2])), rows, over, grain, thread, threads)
KERNEL void head_a8(KERNEL_CALL, HEAD_CONSTANTS) {
#define CASE(T) \
  case T: HEADS_OF(T, true, A8RowBytes(k)); break;
  switch (TileType(weight_type)) { BLOCK_TYPES(CASE) }
#undef CASE
}
KERNEL void head_f32(KERNEL_CALL, HEAD_CONSTANTS) {
#define CASE(T) \
  case T: HEADS_OF(T, false, 4 * k); break;
  switch (TileType(weight_type)) { WEIGHT_TYPES(CASE) }
#undef CASE
}
#undef HEADS_OF
#undef HEAD_CONSTANTS

KERNEL void concat(KERNEL_CALL, int64_t heads, int64_t dim, int64_t x_dim, int64_t tail_heads, int64_t x_space,
                   int64_t tail_space, int64_t out_space, int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* tail = reinterpret_cast<const float*>(At(c, thread, tail_space, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const int64_t tail_dim = dim - x_dim, per_tail = heads / tail_heads;
  const Range row = Share(rows, grain, over, kRows, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t at = row.begin * heads; at < row.end * heads; ++at) {
    float* to = out + at * dim;
    ForColumns({0, x_dim}, [&](int64_t i, int64_t n) { StoreColumns(to + i, LoadColumns(x + at * x_dim + i, n), n); });
    const float* from = tail + at / per_tail * tail_dim;
    ForColumns({0, tail_dim}, [&](int64_t i, int64_t n) { StoreColumns(to + x_dim + i, LoadColumns(from + i, n), n); });
  }
}

}  // namespace KERNELS_NAMESPACE
