// Kernels over rows of activations: embed, norms, quantize, round, add, gated, last_rows.
#pragma once
#include "backends/kernels/math.h"

namespace KERNELS_NAMESPACE {

// The part of rows x columns that a thread computes: rows divided (over = kRows), or columns in tiles of 16, or all of
// it.
struct Box {
  Range row, column;
};
INLINE Box ShareBox(int64_t n_rows, int64_t dim, int64_t over, int64_t grain, uint32_t thread, uint32_t threads) {
  return {Share(n_rows, grain, over, kRows, thread, threads), Share(dim, 16 * grain, over, kTiles, thread, threads)};
}

// f(column, n) for each run of n <= 16 columns.
template <class F>
INLINE void ForColumns(Range column, F f) {
  int64_t i = column.begin;
#pragma clang loop unroll(disable)
  for (; i + 16 <= column.end; i += 16) f(i, 16);
  if (i < column.end) f(i, column.end - i);
}
INLINE F32x16 LoadColumns(const float* p, int64_t n) { return n == 16 ? Load(p) : LoadPart(p, n); }
INLINE void StoreColumns(float* p, F32x16 v, int64_t n) { n == 16 ? Store(p, v) : StorePart(p, v, n); }

// Element k of a block of a rows-layout table.
template <Type T>
INLINE float BlockElement(const uint8_t* block, int k) {
  uint16_t d, m = 0;
  __builtin_memcpy(&d, block, 2);
  const float scale = HalfToFloat(d);
  if constexpr (T == kQ8_0) return scale * static_cast<float>(static_cast<int8_t>(block[2 + k]));
  constexpr bool kMin = T == kQ4_1 || T == kQ5_1, kFifth = T == kQ5_0 || T == kQ5_1;
  if (kMin) __builtin_memcpy(&m, block + 2, 2);
  const uint8_t* nibbles = block + (kMin ? 4 : 2) + (kFifth ? 4 : 0);
  int32_t code = k < 16 ? nibbles[k] & 15 : nibbles[k - 16] >> 4;
  if (kFifth) {
    uint32_t bits;
    __builtin_memcpy(&bits, nibbles - 4, 4);
    code |= static_cast<int32_t>(bits >> k & 1u) << 4;
  }
  if (kMin) return scale * static_cast<float>(code) + HalfToFloat(m);
  return scale * static_cast<float>(code - (kFifth ? 16 : 8));
}
// Element k of row r of a step of a tile.
template <Type T>
INLINE float TileElement(const uint8_t* step, int64_t r, int k) {
  uint16_t d, m = 0;
  __builtin_memcpy(&d, step + 2 * r, 2);
  const float scale = HalfToFloat(d);
  if constexpr (T == kQ8_0)
    return scale * static_cast<float>(static_cast<int8_t>(step[32 + 64 * (k / 4) + 4 * r + k % 4]));
  constexpr bool kMin = T == kQ4_1 || T == kQ5_1, kFifth = T == kQ5_0 || T == kQ5_1;
  const uint8_t* p = step + 32;
  if (kMin) {
    __builtin_memcpy(&m, p + 2 * r, 2);
    p += 32;
  }
  int32_t fifth = 0;
  if (kFifth) {
    fifth = (p[4 * r + k % 4] >> (k / 4) & 1) << 4;
    p += 64;
  }
  const int byte = p[64 * (k / 8) + 4 * r + k % 4];
  const int32_t code = ((k & 4) != 0 ? byte >> 4 : byte & 15) | fifth;
  if (kMin) return scale * static_cast<float>(code) + HalfToFloat(m);
  return scale * static_cast<float>(code - (kFifth ? 16 : 8));
}

INLINE float FloatElement(const uint8_t* p, Type type) {
  float out;
  uint16_t half;
  switch (type) {
    case kF32: __builtin_memcpy(&out, p, 4); return out;
    case kF16: __builtin_memcpy(&half, p, 2); return HalfToFloat(half);
    default: __builtin_memcpy(&half, p, 2); return FloatOfBits(static_cast<int64_t>(half) << 16);
  }
}

template <Type T>
INLINE void EmbedRow(const uint8_t* table, int64_t token, int64_t dim, int64_t layout, float* out, Range column) {
  if constexpr (T == kF32 || T == kF16 || T == kBF16) {
    constexpr int64_t kBytes = T == kF32 ? 4 : 2, kStep = T == kF32 ? 1 : 2;
    if (layout == kTiles16) {
      const uint8_t* tile = table + token / 16 * ((dim + kStep - 1) / kStep * 64);
      const int64_t lane = token % 16 * 4;
#pragma clang loop unroll(disable)
      for (int64_t k = column.begin; k < column.end; ++k)
        out[k] = FloatElement(tile + k / kStep * 64 + lane + k % kStep * kBytes, T);
    } else {
      const uint8_t* row = table + token * dim * kBytes;
#pragma clang loop unroll(disable)
      for (int64_t k = column.begin; k < column.end; ++k) out[k] = FloatElement(row + k * kBytes, T);
    }
  } else {
    constexpr int64_t kRowBlock = T == kQ4_0 ? 18 : T == kQ4_1 ? 20 : T == kQ5_0 ? 22 : T == kQ5_1 ? 24 : 34;
    const int64_t blocks = dim / 32;
    const uint8_t* base =
        layout == kTiles16 ? table + token / 16 * (blocks * 16 * kRowBlock) : table + token * blocks * kRowBlock;
#pragma clang loop unroll(disable)
    for (int64_t k = column.begin; k < column.end; ++k) {
      const int in_block = static_cast<int>(k % 32);
      out[k] = layout == kTiles16 ? TileElement<T>(base + k / 32 * (16 * kRowBlock), token % 16, in_block)
                                  : BlockElement<T>(base + k / 32 * kRowBlock, in_block);
    }
  }
}

KERNEL void embed(KERNEL_CALL, int64_t dim, int64_t type, int64_t layout, int64_t out_space, int64_t over,
                  int64_t grain) {
  const uint8_t* table = At(c, thread, kWeights, rec[0]);
  const int32_t* tokens = reinterpret_cast<const int32_t*>(At(c, thread, kTokens, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    const int64_t token = tokens[s];
    float* row = out + s * dim;
    switch (type) {
      case kF32: EmbedRow<kF32>(table, token, dim, layout, row, box.column); break;
      case kF16: EmbedRow<kF16>(table, token, dim, layout, row, box.column); break;
      case kBF16: EmbedRow<kBF16>(table, token, dim, layout, row, box.column); break;
      case kQ4_0: EmbedRow<kQ4_0>(table, token, dim, layout, row, box.column); break;
      case kQ4_1: EmbedRow<kQ4_1>(table, token, dim, layout, row, box.column); break;
      case kQ5_0: EmbedRow<kQ5_0>(table, token, dim, layout, row, box.column); break;
      case kQ5_1: EmbedRow<kQ5_1>(table, token, dim, layout, row, box.column); break;
      default: EmbedRow<kQ8_0>(table, token, dim, layout, row, box.column); break;
    }
  }
}

INLINE void NormRow(const float* x, const float* gain, int64_t dim, float eps, float* out) {
  const F32x16 scale = Splat(RowScale(x, dim, eps));
  ForColumns({0, dim}, [&](int64_t i, int64_t n) {
    StoreColumns(out + i, Mul(Mul(LoadColumns(x + i, n), scale), LoadColumns(gain + i, n)), n);
  });
}
INLINE void NormQuantizeRow(const float* x, const float* gain, int64_t dim, float eps, uint8_t* out) {
  const F32x16 scale = Splat(RowScale(x, dim, eps));
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < dim; i += 32) {
    const F32x16 lo = Mul(Mul(Load(x + i), scale), Load(gain + i));
    const F32x16 hi = Mul(Mul(Load(x + i + 16), scale), Load(gain + i + 16));
    QuantizeBlock(lo, hi, out, dim, i / 32);
  }
}
INLINE void AddRow(const float* a, const float* b, float* out, Range column) {
  ForColumns(column, [&](int64_t i, int64_t n) {
    StoreColumns(out + i, Add(LoadColumns(a + i, n), LoadColumns(b + i, n)), n);
  });
}

KERNEL void rms_norm(KERNEL_CALL, int64_t heads, int64_t dim, int64_t eps, int64_t x_space, int64_t out_space,
                     int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* gain = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const Range row = Share(rows, grain, over, kRows, thread, threads);
  const Range head = Share(heads, grain, over, kHeads, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s) {
#pragma clang loop unroll(disable)
    for (int64_t h = head.begin; h < head.end; ++h) {
      const int64_t at = (s * heads + h) * dim;
      NormRow(x + at, gain, dim, FloatOfBits(eps), out + at);
    }
  }
}

KERNEL void rms_norm_quantize(KERNEL_CALL, int64_t dim, int64_t eps, int64_t x_space, int64_t out_space, int64_t over,
                              int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* gain = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[1]));
  uint8_t* out = At(c, thread, out_space, rec[2]);
  const Range row = Share(rows, grain, over, kRows, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s)
    NormQuantizeRow(x + s * dim, gain, dim, FloatOfBits(eps), out + s * A8RowBytes(dim));
}

KERNEL void add_rms_norm(KERNEL_CALL, int64_t dim, int64_t eps, int64_t x_space, int64_t delta_space, int64_t sum_space,
                         int64_t out_space, int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* delta = reinterpret_cast<const float*>(At(c, thread, delta_space, rec[1]));
  const float* gain = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[2]));
  float* sum = reinterpret_cast<float*>(At(c, thread, sum_space, rec[3]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[4]));
  const Range row = Share(rows, grain, over, kRows, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s) {
    AddRow(x + s * dim, delta + s * dim, sum + s * dim, {0, dim});
    NormRow(sum + s * dim, gain, dim, FloatOfBits(eps), out + s * dim);
  }
}

KERNEL void add_rms_norm_quantize(KERNEL_CALL, int64_t dim, int64_t eps, int64_t x_space, int64_t delta_space,
                                  int64_t sum_space, int64_t out_space, int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* delta = reinterpret_cast<const float*>(At(c, thread, delta_space, rec[1]));
  const float* gain = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[2]));
  float* sum = reinterpret_cast<float*>(At(c, thread, sum_space, rec[3]));
  uint8_t* out = At(c, thread, out_space, rec[4]);
  const Range row = Share(rows, grain, over, kRows, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s) {
    AddRow(x + s * dim, delta + s * dim, sum + s * dim, {0, dim});
    NormQuantizeRow(sum + s * dim, gain, dim, FloatOfBits(eps), out + s * A8RowBytes(dim));
  }
}

KERNEL void quantize(KERNEL_CALL, int64_t dim, int64_t x_space, int64_t out_space, int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  uint8_t* out = At(c, thread, out_space, rec[1]);
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
#pragma clang loop unroll(disable)
    for (int64_t i = box.column.begin; i < box.column.end; i += 32) {
      const float* block = x + s * dim + i;
      QuantizeBlock(Load(block), Load(block + 16), out + s * A8RowBytes(dim), dim, i / 32);
    }
  }
}

KERNEL void round_bf16(KERNEL_CALL, int64_t dim, int64_t x_space, int64_t out_space, int64_t over, int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[1]));
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    const int64_t at = s * dim;
    ForColumns(box.column,
               [&](int64_t i, int64_t n) { StoreColumns(out + at + i, RoundToBf16(LoadColumns(x + at + i, n)), n); });
  }
}

KERNEL void add(KERNEL_CALL, int64_t dim, int64_t a_space, int64_t b_space, int64_t out_space, int64_t over,
                int64_t grain) {
  const float* a = reinterpret_cast<const float*>(At(c, thread, a_space, rec[0]));
  const float* b = reinterpret_cast<const float*>(At(c, thread, b_space, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) AddRow(a + s * dim, b + s * dim, out + s * dim, box.column);
}

KERNEL void gated(KERNEL_CALL, int64_t dim, int64_t gate_space, int64_t up_space, int64_t out_space, int64_t over,
                  int64_t grain) {
  const float* gate = reinterpret_cast<const float*>(At(c, thread, gate_space, rec[0]));
  const float* up = reinterpret_cast<const float*>(At(c, thread, up_space, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    const int64_t at = s * dim;
    ForColumns(box.column, [&](int64_t i, int64_t n) {
      StoreColumns(out + at + i, Mul(Silu(LoadColumns(gate + at + i, n)), LoadColumns(up + at + i, n)), n);
    });
  }
}

KERNEL void last_rows(KERNEL_CALL, int64_t dim, int64_t count, int64_t x_space, int64_t out_space, int64_t over,
                      int64_t grain) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0])) + (rows - count) * dim;
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[1]));
  const Box box = ShareBox(count, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    ForColumns(box.column,
               [&](int64_t i, int64_t n) { StoreColumns(out + s * dim + i, LoadColumns(x + s * dim + i, n), n); });
  }
}

}  // namespace KERNELS_NAMESPACE
