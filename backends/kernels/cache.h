// The key and value caches: where an element lives in each layout, and rope, which comes before.
#pragma once
#include "backends/kernels/rows.h"

namespace KERNELS_NAMESPACE {

// A state [slots, heads, dim]; position p is in slot p mod slots. Of values the first `width` elements are read.
//   rows [slot][head][d]   keys16 [head][slot / 16][d][16 slots]   heads [head][slot][d]
struct Cache {
  uint8_t* data;
  int64_t heads, dim, slots, layout, width;
};
INLINE int64_t CacheElement(const Cache& cache, int64_t head, int64_t slot, int64_t d) {
  if (cache.layout == kKeys16) return ((head * ((cache.slots + 15) / 16) + slot / 16) * cache.dim + d) * 16 + slot % 16;
  if (cache.layout == kLayoutHeads) return (head * cache.slots + slot) * cache.dim + d;
  return (slot * cache.heads + head) * cache.dim + d;
}

INLINE F32x16 LoadLanes(const float* p) { return Load(p); }
INLINE F32x16 LoadLanes(const uint16_t* p) { return LoadHalf(p); }
INLINE F32x16 LoadLanesPart(const float* p, int64_t n) { return LoadPart(p, n); }
INLINE F32x16 LoadLanesPart(const uint16_t* p, int64_t n) {
  uint16_t lanes[16] = {};
  for (int64_t i = 0; i < n && i < 16; ++i) lanes[i] = p[i];
  return LoadHalf(lanes);
}

INLINE Cache CacheOf(const LlmcContext* c, const Cache& cache, int64_t s, int64_t by_row) {
  return {StateOf(c, cache.data, s, by_row), cache.heads, cache.dim, cache.slots, cache.layout, cache.width};
}

// One row and head into the cache, 16 elements at a time.
INLINE void AppendHead(const float* x, const Cache& cache, int64_t type, int64_t head, int64_t slot) {
  const int64_t step = cache.layout == kKeys16 ? 16 : 1;  // elements from d to d + 1
  const int64_t first = CacheElement(cache, head, slot, 0);
  ForColumns({0, cache.dim}, [&](int64_t d, int64_t n) {
    const F32x16 v = LoadColumns(x + d, n);
    if (type == kF32) {
      float* to = reinterpret_cast<float*>(cache.data) + first + d * step;
      if (step == 1) {
        StoreColumns(to, v, n);
        return;
      }
      float lanes[16];
      Store(lanes, v);
      for (int64_t i = 0; i < n; ++i) to[i * step] = lanes[i];
    } else {
      uint16_t* to = reinterpret_cast<uint16_t*>(cache.data) + first + d * step;
      if (step == 1 && n == 16) {
        StoreHalf(to, v);
        return;
      }
      uint16_t lanes[16];
      StoreHalf(lanes, v);
      for (int64_t i = 0; i < n; ++i) to[i * step] = lanes[i];
    }
  });
}

// a' = fma(b, -sin, a * cos), b' = fma(a, sin, b * cos) on pairs (i, i + rotary / 2), or (2i, 2i + 1); dims from
// `rotary` on pass through.
INLINE void RopeHead(const float* x, const float* table, int64_t dim, int64_t rotary, int64_t pairs, float* out) {
  const int64_t half = rotary / 2;
  const float *cosine = table, *sine = table + half;
  if (pairs == 0) {
    ForColumns({0, half}, [&](int64_t i, int64_t n) {
      const F32x16 a = LoadColumns(x + i, n), b = LoadColumns(x + half + i, n);
      const F32x16 cos = LoadColumns(cosine + i, n), sin = LoadColumns(sine + i, n);
      StoreColumns(out + i, Fma(b, Negate(sin), Mul(a, cos)), n);
      StoreColumns(out + half + i, Fma(a, sin, Mul(b, cos)), n);
    });
  } else {
    int64_t i = 0;
#pragma clang loop unroll(disable)
    for (; i + 8 <= half; i += 8) {
      const F32x16 v = Load(x + 2 * i);
      Store(out + 2 * i, Fma(SwapPairs(v), NegateEven(LoadTwice(sine + i)), Mul(v, LoadTwice(cosine + i))));
    }
#pragma clang loop unroll(disable)
    for (; i < half; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      out[2 * i] = __builtin_fmaf(b, -sine[i], a * cosine[i]);
      out[2 * i + 1] = __builtin_fmaf(a, sine[i], b * cosine[i]);
    }
  }
  ForColumns({rotary, dim}, [&](int64_t i, int64_t n) { StoreColumns(out + i, LoadColumns(x + i, n), n); });
}

KERNEL void rope(KERNEL_CALL, int64_t heads, int64_t dim, int64_t rotary, int64_t pairs, int64_t x_space,
                 int64_t out_space, int64_t over, int64_t grain, int64_t by_row) {
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[0]));
  const float* table = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[1]));
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[2]));
  const Range row = Share(rows, grain, over, kRows, thread, threads);
  const Range head = Share(heads, grain, over, kHeads, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s) {
#pragma clang loop unroll(disable)
    for (int64_t h = head.begin; h < head.end; ++h) {
      const int64_t at = (s * heads + h) * dim;
      RopeHead(x + at, table + PositionOf(c, s, by_row) * rotary, dim, rotary, pairs, out + at);
    }
  }
}

}  // namespace KERNELS_NAMESPACE
