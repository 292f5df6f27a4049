// embed: rows of a table of any weight type, as the file has them or from tiles.
#pragma once
#include "backends/kernels/rows.h"
#include "backends/kernels/unpack.h"

namespace KERNELS_NAMESPACE {

// Bytes of a block in the file.
template <Type T>
constexpr int64_t kFileBytes = 0;
#define DTYPE(name, number, text, gguf, block, bytes, cls) \
  template <>                                              \
  inline constexpr int64_t kFileBytes<k##name> = bytes;
#include "ir/dtypes.def"
#undef DTYPE

// The values of 32 codes of one row: w = d[k / 16] * code + m[k / 16].
struct RowValues {
  float d[2], m[2];
};

template <uint64_t kFirst, uint64_t kLast>
INLINE int32_t ByteOf(int32_t index) {
  return static_cast<int8_t>((index < 8 ? kFirst : kLast) >> 8 * (index % 8) & 255);
}
// The code that w is a multiple of, from the bits that the file has.
template <Type T>
INLINE int32_t CodeOfBits(int32_t bits) {
  if constexpr (T == kQ8_0) return static_cast<int8_t>(bits);
  if constexpr (Block<T>::kTable) return ByteOf<kIq4First, kIq4Last>(bits);
  if constexpr (T == kMXFP4) return ByteOf<kMxfp4First, kMxfp4Last>(bits) - Block<T>::kOffset;
  return bits - Block<T>::kOffset;
}

// Row r of block j of a step of a tile.
template <Type T>
INLINE RowValues TileRowValues(const uint8_t* step, int64_t j, int64_t r) {
  const Values all = ValuesOf<T>(HeadOf<T>(step), j);
  RowValues v;
#pragma clang loop unroll(full)
  for (int h = 0; h < 2; ++h) {
    float d[16], m[16];
    Store(d, all.d[h]);
    Store(m, all.m[h]);
    v.d[h] = d[r];
    v.m[h] = m[r];
  }
  return v;
}
template <Type T>
INLINE int32_t TileRowBits(const uint8_t* step, int64_t j, int64_t r, int k) {
  using B = Block<T>;
  const uint8_t* extra = step + B::kHeadBytes + j * B::kBlockBytes + 4 * r + k % 4;
  const uint8_t* codes = extra + B::kExtraBytes;
  const int group = k / 4;
  if constexpr (T == kQ8_0) return codes[64 * group];
  const int32_t low =
      B::kTwoBits ? codes[64 * (group / 4)] >> 2 * (group % 4) & 3 : codes[64 * (group / 2)] >> 4 * (group % 2) & 15;
  if constexpr (B::kFifth) return low | (extra[0] >> group & 1) << 4;
  if constexpr (T == kQ3_K) return low | (extra[0] >> group & 1) << 2;
  if constexpr (T == kQ6_K) return low | (extra[64 * (group / 4)] >> 2 * (group % 4) & 3) << 4;
  return low;
}

INLINE float HalfAt(const uint8_t* p) {
  uint16_t half;
  __builtin_memcpy(&half, p, 2);
  return HalfToFloat(half);
}

// Part j of a block as the file has it (ir/dtypes.def).
template <Type T>
INLINE RowValues FileRowValues(const uint8_t* block, int64_t j) {
  RowValues v{};
  const auto both = [&](float d, float m) { v = {{d, d}, {m, m}}; };
  if constexpr (T == kQ4_1 || T == kQ5_1) {
    both(HalfAt(block), HalfAt(block + 2));
  } else if constexpr (T == kQ2_K) {
#pragma clang loop unroll(full)
    for (int h = 0; h < 2; ++h) {
      const int byte = block[2 * j + h];
      v.d[h] = HalfAt(block + 80) * static_cast<float>(byte & 15);
      v.m[h] = -(HalfAt(block + 82) * static_cast<float>(byte >> 4));
    }
  } else if constexpr (T == kQ3_K) {
    const uint8_t* scales = block + 96;
#pragma clang loop unroll(full)
    for (int h = 0; h < 2; ++h) {
      const int64_t i = 2 * j + h;
      const int low = scales[i % 8] >> 4 * (i / 8) & 15, high = scales[8 + i % 4] >> 2 * (i / 4) & 3;
      v.d[h] = HalfAt(block + 108) * static_cast<float>((low | high << 4) - 32);
    }
  } else if constexpr (T == kQ4_K || T == kQ5_K) {
    const uint8_t* p = block + 4 + j % 4;
    const int scale = j < 4 ? p[0] & 63 : (p[8] & 15) | (p[0] >> 6) << 4;
    const int min = j < 4 ? p[4] & 63 : p[8] >> 4 | (p[4] >> 6) << 4;
    both(HalfAt(block) * static_cast<float>(scale), -(HalfAt(block + 2) * static_cast<float>(min)));
  } else if constexpr (T == kQ6_K) {
#pragma clang loop unroll(full)
    for (int h = 0; h < 2; ++h)
      v.d[h] = HalfAt(block + 208) * static_cast<float>(static_cast<int8_t>(block[192 + 2 * j + h]));
  } else if constexpr (T == kIQ4_XS) {
    const int low = block[4 + j / 2] >> 4 * (j % 2) & 15, high = block[2 + j / 4] >> 2 * (j % 4) & 3;
    both(HalfAt(block) * static_cast<float>((low | high << 4) - 32), 0);
  } else if constexpr (T == kMXFP4) {
    const int e = block[0], half = e >> 1;  // 2^(e - 128) as a product of two powers
    both(FloatOfBits((half + 64) << 23) * FloatOfBits((e - half + 62) << 23), 0);
  } else {
    both(HalfAt(block + (T == kTQ2_0 ? 64 : T == kTQ1_0 ? 52 : 0)), 0);
  }
  return v;
}
template <Type T>
INLINE int32_t FileRowBits(const uint8_t* block, int64_t j, int k) {
  const auto nibble = [&](const uint8_t* p) { return k < 16 ? p[k] & 15 : p[k - 16] >> 4; };
  const auto fifth = [&](const uint8_t* p) { return (p[k / 8] >> k % 8 & 1) << 4; };
  if constexpr (T == kQ8_0) return block[2 + k];
  if constexpr (T == kQ4_0 || T == kIQ4_NL) return nibble(block + 2);
  if constexpr (T == kQ4_1) return nibble(block + 4);
  if constexpr (T == kQ5_0) return nibble(block + 6) | fifth(block + 2);
  if constexpr (T == kQ5_1) return nibble(block + 8) | fifth(block + 4);
  if constexpr (T == kMXFP4) return nibble(block + 1);
  if constexpr (T == kIQ4_XS) return nibble(block + 8 + 16 * j);
  const auto two = [&](const uint8_t* p) { return p[32 * (j / 4) + k] >> 2 * (j % 4) & 3; };
  const auto four = [&](const uint8_t* p) { return p[32 * (j / 2) + k] >> 4 * (j % 2) & 15; };
  if constexpr (T == kQ2_K) return two(block + 16);
  if constexpr (T == kTQ2_0) return two(block);
  if constexpr (T == kQ3_K) return two(block + 32) | (block[k] >> j & 1) << 2;
  if constexpr (T == kQ4_K) return four(block + 16);
  if constexpr (T == kQ5_K) return four(block + 48) | (block[16 + k] >> j & 1) << 4;
  if constexpr (T == kQ6_K) {
    const int low = block[64 * (j / 4) + 32 * (j % 2) + k] >> 4 * (j % 4 / 2) & 15;
    return low | two(block + 128) << 4;
  }
  if constexpr (T == kTQ1_0) {  // digits in base 3 of a fraction of 256
    const int64_t i = 32 * j + k;
    const int64_t at = i < 160 ? i % 32 : i < 240 ? 32 + i % 16 : 48 + i % 4;
    const int64_t digit = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
    int32_t rest = block[at];
    for (int64_t n = 0; n < digit; ++n) rest = rest * 3 & 255;
    return rest * 3 >> 8;
  }
  return 0;
}

// Columns of row `token` of a table of blocks; `layout` is a constant of the call.
template <Type T>
CHOICE void EmbedBlocks(const uint8_t* table, int64_t token, int64_t dim, int64_t layout, float* out, Range column) {
  constexpr Type kTile = T == kTQ1_0 ? kTQ2_0 : T;
  constexpr int64_t kStep = 32 * Block<kTile>::kBlocks;
  const int64_t steps = dim / kStep;
  const uint8_t* base =
      layout == kTiles16 ? table + token / 16 * steps * Block<kTile>::kBytes : table + token * steps * kFileBytes<T>;
#pragma clang loop unroll(disable)
  for (int64_t first = column.begin / 32 * 32; first < column.end; first += 32) {
    const int64_t j = first % kStep / 32;
    const uint8_t* at = base + first / kStep * (layout == kTiles16 ? Block<kTile>::kBytes : kFileBytes<T>);
    const RowValues v = layout == kTiles16 ? TileRowValues<kTile>(at, j, token % 16) : FileRowValues<T>(at, j);
    const int64_t begin = column.begin > first ? column.begin - first : 0;
    const int64_t end = column.end - first < 32 ? column.end - first : 32;
#pragma clang loop unroll(disable)
    for (int64_t k = begin; k < end; ++k) {
      const int in_block = static_cast<int>(k);
      const int32_t bits =
          layout == kTiles16 ? TileRowBits<kTile>(at, j, token % 16, in_block) : FileRowBits<T>(at, j, in_block);
      const float product = v.d[k / 16] * static_cast<float>(CodeOfBits<kTile>(bits));
      out[first + k] = Block<kTile>::kMin || Block<kTile>::kHalfMins ? product + v.m[k / 16] : product;
    }
  }
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
CHOICE void EmbedFloats(const uint8_t* table, int64_t token, int64_t dim, int64_t layout, float* out, Range column) {
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
}

KERNEL void embed(KERNEL_CALL, int64_t dim, int64_t type, int64_t layout, int64_t is_position_embed, int64_t offset,
                  int64_t tokens_space, int64_t out_space, int64_t over, int64_t grain, int64_t by_row) {
  const uint8_t* table = At(c, thread, kWeights, rec[0]);
  const int32_t* tokens = reinterpret_cast<const int32_t*>(At(c, thread, tokens_space, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    const int64_t token = is_position_embed ? PositionOf(c, s, by_row) + offset : tokens[s];
    float* row = out + s * dim;
    switch (type) {
      case kF32: EmbedFloats<kF32>(table, token, dim, layout, row, box.column); break;
      case kF16: EmbedFloats<kF16>(table, token, dim, layout, row, box.column); break;
      case kBF16: EmbedFloats<kBF16>(table, token, dim, layout, row, box.column); break;
#define CASE(T) \
  case T: EmbedBlocks<T>(table, token, dim, layout, row, box.column); break;
        BLOCK_TYPES(CASE)
        CASE(kTQ1_0)
#undef CASE
      default: break;
    }
  }
}

}  // namespace KERNELS_NAMESPACE
