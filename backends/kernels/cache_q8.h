// Caches of q8_0 (ir/README.md, Layouts): rows go in as quantize makes them, with d in f16; a group of keys and values
// is widened to f32 before it is used. And kv_append, for every type.
#pragma once
#include "backends/kernels/cache.h"

namespace KERNELS_NAMESPACE {

// The element type of such a cache where others have float and uint16_t.
struct Q8 {
  int8_t code;
};
template <class E>
constexpr bool kIsQ8 = false;
template <>
inline constexpr bool kIsQ8<Q8> = true;

// Block b of a slot and head: where its d is, its first code, and the bytes from code to code.
struct CacheBlock {
  uint8_t* d;
  int8_t* codes;
  int64_t stride;
};
INLINE uint8_t* KeyBlocks(const Cache& cache, int64_t head, int64_t tile, int64_t b) {  // of 16 slots
  return cache.data + ((head * ((cache.slots + 15) / 16) + tile) * (cache.dim / 32) + b) * 544;
}
INLINE CacheBlock BlockOf(const Cache& cache, int64_t head, int64_t slot, int64_t b) {
  if (cache.layout == kKeys16) {
    uint8_t* at = KeyBlocks(cache, head, slot / 16, b);
    return {at + 2 * (slot % 16), reinterpret_cast<int8_t*>(at + 32 + slot % 16), 16};
  }
  const int64_t row = cache.layout == kLayoutHeads ? head * cache.slots + slot : slot * cache.heads + head;
  uint8_t* at = cache.data + (row * (cache.dim / 32) + b) * 34;
  return {at, reinterpret_cast<int8_t*>(at + 2), 1};
}

INLINE void AppendBlocks(const float* x, const Cache& cache, int64_t head, int64_t slot) {
#pragma clang loop unroll(disable)
  for (int64_t b = 0; b < cache.dim / 32; ++b) {
    const CacheBlock block = BlockOf(cache, head, slot, b);
    I32x16 lo, hi;
    const uint16_t d = FloatToHalf(BlockCodes(Load(x + 32 * b), Load(x + 32 * b + 16), lo, hi) * 0x1.020408p-7f);
    __builtin_memcpy(block.d, &d, 2);
    if (block.stride == 1) {
      StoreCodes(block.codes, lo, hi);
      continue;
    }
    int8_t codes[32];
    StoreCodes(codes, lo, hi);
#pragma clang loop unroll(disable)
    for (int i = 0; i < 32; ++i) block.codes[i * block.stride] = codes[i];
  }
}

INLINE float ScaleOfBlock(const CacheBlock& block) {
  uint16_t d;
  __builtin_memcpy(&d, block.d, 2);
  return HalfToFloat(d);
}

// Keys and values [keys.begin, keys.end) of the group that begins at `position`, as f32 [tile][d][16] and [key][wide];
// keys from `end` on are absent.
INLINE void WidenBlocks(const Cache& k, const Cache& v, int64_t head, int64_t position, Range keys, int64_t end,
                        int64_t wide, float* to_keys, float* to_values) {
  const int64_t dim = k.dim;
#pragma clang loop unroll(disable)
  for (int64_t tile = keys.begin / 16; tile < (keys.end + 15) / 16; ++tile) {
    const int64_t p16 = position + 16 * tile;
    float* to = to_keys + tile * 16 * dim;
    // A ring whose length is no multiple of 16 breaks tiles once it has wrapped.
    if (k.layout == kKeys16 && (k.slots % 16 == 0 || end <= k.slots)) {
#pragma clang loop unroll(disable)
      for (int64_t b = 0; b < dim / 32; ++b) {
        const uint8_t* block = KeyBlocks(k, head, p16 % k.slots / 16, b);
        const F32x16 d = LoadHalf(reinterpret_cast<const uint16_t*>(block));
#pragma clang loop unroll_count(8)
        for (int64_t i = 0; i < 32; ++i)
          Store(to + 16 * (32 * b + i), Mul(d, ToFloat(WidenSigned(block + 32 + 16 * i))));
      }
      continue;
    }
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < 16; ++i) {
#pragma clang loop unroll(disable)
      for (int64_t b = 0; b < dim / 32; ++b) {
        const CacheBlock block = BlockOf(k, head, (p16 + i) % k.slots, b);
        const float d = p16 + i < end ? ScaleOfBlock(block) : 0.0f;
#pragma clang loop unroll(disable)
        for (int64_t c = 0; c < 32; ++c)
          to[16 * (32 * b + c) + i] = p16 + i < end ? d * static_cast<float>(block.codes[c * block.stride]) : 0.0f;
      }
    }
  }
#pragma clang loop unroll(disable)
  for (int64_t i = keys.begin; i < keys.end; ++i) {
#pragma clang loop unroll(disable)
    for (int64_t b = 0; b < v.width / 32; ++b) {
      const CacheBlock block = BlockOf(v, head, (position + i) % v.slots, b);
      const F32x16 d = Splat(ScaleOfBlock(block));
      const uint8_t* codes = reinterpret_cast<const uint8_t*>(block.codes);
      float* to = to_values + i * wide + 32 * b;
      Store(to, Mul(d, ToFloat(WidenSigned(codes))));
      Store(to + 16, Mul(d, ToFloat(WidenSigned(codes + 16))));
    }
  }
}

KERNEL void kv_append(KERNEL_CALL, int64_t heads, int64_t dim, int64_t slots, int64_t type, int64_t layout,
                      int64_t x_space, int64_t over, int64_t grain, int64_t by_row) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const Cache cache{At(c, thread, kStates, rec[1]), heads, dim, slots, layout, dim};
  const Range row = Share(rows, grain, over, kRows, thread, threads);
  const Range head = Share(heads, grain, over, kHeads, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t h = head.begin; h < head.end; ++h) {
#pragma clang loop unroll(disable)
    for (int64_t s = row.begin; s < row.end; ++s) {
      const Cache own = CacheOf(c, cache, s, by_row);
      const int64_t slot = PositionOf(c, s, by_row) % slots;
      const float* from = x + (s * heads + h) * dim;
      type == kQ8_0 ? AppendBlocks(from, own, h, slot) : AppendHead(from, own, type, h, slot);
    }
  }
}

}  // namespace KERNELS_NAMESPACE
