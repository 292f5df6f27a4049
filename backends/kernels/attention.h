// Attention over groups of 64 keys by absolute position. Per query and group with a visible key: scores (in log2
// units), the group's maximum rounded to an integer, weights, their sum and the weighted values; groups are merged
// ascending by exact powers of two.
//   few queries: one group at a time for the heads of a kv head together, the decode path (attention_groups,
//                attention_merge)
//   many queries: blocks of 48 against a group widened to f32 (attention_rows.h)
#pragma once
#include "backends/kernels/cache_q8.h"

namespace KERNELS_NAMESPACE {

constexpr int64_t kGroup = 64;
constexpr float kNoScore = -__builtin_inff();

// What queries see: keys up to their own position, or all up to position `last`; of a window those that are less than
// `window` positions away (0: none). And the cap of their scores (0: none).
struct Mask {
  int64_t window, all, last;
  float cap;
};
INLINE Mask MaskOf(const LlmcContext* c, int64_t rows, int64_t window, int64_t all, int64_t cap) {
  return {window, all, c->pos + rows - 1, FloatOfBits(cap)};
}
// Keys [begin, end) that the query at position p sees.
INLINE Range VisibleKeys(int64_t p, const Mask& mask) {
  const int64_t begin = mask.window > 0 && p >= mask.window ? p - mask.window + 1 : 0;
  if (!mask.all) return {begin, p + 1};
  return {begin, mask.window > 0 && p + mask.window <= mask.last ? p + mask.window : mask.last + 1};
}
// The keys of [begin, end) that lie in a group, relative to its first position.
INLINE Range InGroup(Range keys, int64_t group) {
  const int64_t begin = keys.begin - group * kGroup, end = keys.end - group * kGroup;
  return {begin > 0 ? begin : 0, end < kGroup ? end : kGroup};
}

// 16 keys from position p16 (a multiple of 16) on as [d][16]: in place where the cache holds them so, else gathered
// into `gathered`.
template <class E>
INLINE const E* KeyTile(const Cache& k, int64_t head, int64_t p16, int64_t end, E* gathered) {
  const E* data = reinterpret_cast<const E*>(k.data);
  // A ring whose length is no multiple of 16 breaks tiles once it has wrapped.
  if (k.layout == kKeys16 && (k.slots % 16 == 0 || end <= k.slots))
    return data + CacheElement(k, head, p16 % k.slots, 0);
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < 16; ++i) {
    const int64_t slot = (p16 + i) % k.slots;
#pragma clang loop unroll(disable)
    for (int64_t d = 0; d < k.dim; ++d)
      gathered[16 * d + i] = p16 + i < end ? data[CacheElement(k, head, slot, d)] : E{};
  }
  return gathered;
}

// Where a group's keys begin, as a hint for prefetching.
template <class E>
INLINE const E* KeysOfGroup(const Cache& k, int64_t head, int64_t group) {
  return reinterpret_cast<const E*>(k.data) + CacheElement(k, head, group * kGroup % k.slots, 0);
}

// Values of consecutive positions are `stride` elements apart, up to the ring's end.
template <class E>
struct ValueRun {
  const E* first;
  int64_t stride, count;
};
template <class E>
INLINE ValueRun<E> ValuesFrom(const Cache& v, int64_t head, int64_t position, int64_t count) {
  const int64_t slot = position % v.slots, left = v.slots - slot;
  return {reinterpret_cast<const E*>(v.data) + CacheElement(v, head, slot, 0),
          v.layout == kLayoutRows ? v.heads * v.dim : v.dim, count < left ? count : left};
}

// The cache comes from memory: while a group's keys are read its values are prefetched, and while its values are read
// the next group's keys are. `Bytes` of a loop's step, taken from `ahead` on.
template <int64_t Bytes>
INLINE void PrefetchBytes(const void* ahead) {
#pragma clang loop unroll(full)
  for (int64_t i = 0; i < Bytes; i += 64) Prefetch(static_cast<const uint8_t*>(ahead) + i);
}

// Scores of tiles [tile, tile + T) of a group for H queries: s[h][64]. T tiles go together, so that the chains over d
// hide each other's latency.
template <class E, int H, int T>
INLINE void ScoreTiles(const Cache& k, int64_t head, int64_t position, int64_t end, const float* q, int64_t tile,
                       float* s, E* gathered, const E* group_values) {
  const E* keys[T];
#pragma clang loop unroll(full)
  for (int t = 0; t < T; ++t) keys[t] = KeyTile<E>(k, head, position + 16 * (tile + t), end, gathered + t * 16 * k.dim);
  F32x16 acc[H][T];
#pragma clang loop unroll(full)
  for (int h = 0; h < H; ++h) {
#pragma clang loop unroll(full)
    for (int t = 0; t < T; ++t) acc[h][t] = Zero();
  }
#pragma clang loop unroll(disable)
  for (int64_t d = 0; d < k.dim; ++d) {
    PrefetchBytes<T * 16 * sizeof(E)>(group_values + tile * 16 * k.dim + d * T * 16);
#pragma clang loop unroll(full)
    for (int t = 0; t < T; ++t) {
      const F32x16 key = LoadLanes(keys[t] + 16 * d);
#pragma clang loop unroll(full)
      for (int h = 0; h < H; ++h) FmaInOrder(acc[h][t], q + h * k.dim + d, key);
    }
  }
#pragma clang loop unroll(full)
  for (int h = 0; h < H; ++h) {
#pragma clang loop unroll(full)
    for (int t = 0; t < T; ++t) Store(s + h * kGroup + 16 * (tile + t), acc[h][t]);
  }
}

// Scores s[0 .. 63], capped, to weights. Keys outside `keys` are absent whatever their scores are: they get weight +0
// where they share a tile with a key inside; other tiles aren't touched.
INLINE void Weigh(float* s, Range keys, float cap, float& m, float& l) {
  const int64_t begin = keys.begin / 16 * 16;
  const auto own = [&](F32x16 v, int64_t i, float otherwise) {
    return i >= keys.begin && i + 16 <= keys.end ? v : KeepLanes(v, keys.begin - i, keys.end - i, otherwise);
  };
  F32x16 max = Splat(kNoScore);
#pragma clang loop unroll(disable)
  for (int64_t i = begin; i < keys.end; i += 16) {
    if (cap != 0) Store(s + i, Mul(Splat(cap), Tanh(Load(s + i))));
    max = Max(max, own(Load(s + i), i, kNoScore));
  }
  const F32x16 rounded = Round(Splat(MaxLane(max)));
  F32x16 lanes = Zero();
#pragma clang loop unroll(disable)
  for (int64_t i = begin; i < keys.end; i += 16) {
    F32x16 n;
    const F32x16 p = Exp2Parts(Load(s + i), n);
    const F32x16 w = own(Mul(p, Pow2(Add(Sub(n, rounded), Splat(126.0f)))), i, 0.0f);
    Store(s + i, w);
    lanes = Add(lanes, w);
  }
  m = MaxLane(rounded);
  l = TreeSum(lanes);
}

// o[h][d .. d + 16 C) of H queries: chains over the group's visible keys.
template <class E, int H, int C>
INLINE void WeighValues(const Cache& v, int64_t head, int64_t position, Range keys, const float* s, int64_t d,
                        int64_t n, float* out, int64_t out_stride, const E* next_keys) {
  F32x16 acc[H][C];
#pragma clang loop unroll(full)
  for (int h = 0; h < H; ++h) {
#pragma clang loop unroll(full)
    for (int j = 0; j < C; ++j) acc[h][j] = Zero();
  }
#pragma clang loop unroll(disable)
  for (int64_t i = keys.begin; i < keys.end;) {
    const ValueRun<E> run = ValuesFrom<E>(v, head, position + i, keys.end - i);
    const E* value = run.first + d;
    const float* weight = s + i;
#pragma clang loop unroll(disable)
    for (int64_t r = 0; r < run.count; ++r, value += run.stride) {
      PrefetchBytes<C * 16 * sizeof(E)>(next_keys + d * kGroup + (i + r) * C * 16);
#pragma clang loop unroll(full)
      for (int j = 0; j < C; ++j) {
        const F32x16 x = C == 1 && n < 16 ? LoadLanesPart(value, n) : LoadLanes(value + 16 * j);
#pragma clang loop unroll(full)
        for (int h = 0; h < H; ++h) FmaInOrder(acc[h][j], weight + h * kGroup + r, x);
      }
    }
    i += run.count;
  }
#pragma clang loop unroll(full)
  for (int h = 0; h < H; ++h) {
#pragma clang loop unroll(full)
    for (int j = 0; j < C; ++j) StorePart(out + h * out_stride + d + 16 * j, acc[h][j], n - 16 * j);
  }
}

// One group for H queries of one position: out[h] = m, l, o[v.width], out_stride floats apart. q is scaled; `gathered`
// has room for 4 tiles; next_keys: where the group after this one begins.
template <class E, int H>
INLINE void AttendGroup(const Cache& k, const Cache& v, int64_t head, int64_t group, Range visible, float cap,
                        const float* q, float* out, int64_t out_stride, E* gathered, const E* next_keys) {
  alignas(64) float s[H * kGroup];
  constexpr int kTogether = H == 1 ? 4 : 2;
  const Range keys = InGroup(visible, group);
  const int64_t position = group * kGroup, tiles = (keys.end + 15) / 16;
  const E* values = reinterpret_cast<const E*>(v.data) + CacheElement(v, head, position % v.slots, 0);
  int64_t tile = keys.begin / 16;
#pragma clang loop unroll(disable)
  for (; tile + kTogether <= tiles; tile += kTogether)
    ScoreTiles<E, H, kTogether>(k, head, position, visible.end, q, tile, s, gathered, values);
#pragma clang loop unroll(disable)
  for (; tile < tiles; ++tile) ScoreTiles<E, H, 1>(k, head, position, visible.end, q, tile, s, gathered, values);
#pragma clang loop unroll(full)
  for (int h = 0; h < H; ++h) Weigh(s + h * kGroup, keys, cap, out[h * out_stride], out[h * out_stride + 1]);
  constexpr int kColumns = H == 1 ? 4 : 2;
  int64_t d = 0;
#pragma clang loop unroll(disable)
  for (; d + 16 * kColumns <= v.width; d += 16 * kColumns) {
    WeighValues<E, H, kColumns>(v, head, position, keys, s, d, 16 * kColumns, out + 2, out_stride, next_keys);
  }
#pragma clang loop unroll(disable)
  for (; d < v.width; d += 16)
    WeighValues<E, H, 1>(v, head, position, keys, s, d, v.width - d, out + 2, out_stride, next_keys);
}

// The same for any number of queries: in threes, which read the cache least often, and in pairs rather than alone.
template <class E>
INLINE void AttendGroupHeads(const Cache& k, const Cache& v, int64_t head, int64_t group, Range visible, float cap,
                             const float* q, int64_t n, float* out, int64_t out_stride, E* gathered,
                             const E* next_keys) {
  const int64_t threes = n % 3 == 1 ? (n - 1) / 3 - (n > 1 ? 1 : 0) : n / 3;
  int64_t h = 0;
#pragma clang loop unroll(disable)
  for (; h < 3 * threes; h += 3) {
    AttendGroup<E, 3>(k, v, head, group, visible, cap, q + h * k.dim, out + h * out_stride, out_stride, gathered,
                      next_keys);
  }
#pragma clang loop unroll(disable)
  for (; h + 2 <= n; h += 2) {
    AttendGroup<E, 2>(k, v, head, group, visible, cap, q + h * k.dim, out + h * out_stride, out_stride, gathered,
                      next_keys);
  }
  if (h < n) {
    AttendGroup<E, 1>(k, v, head, group, visible, cap, q + h * k.dim, out + h * out_stride, out_stride, gathered,
                      next_keys);
  }
}

// Where a group of a q8_0 cache is widened to, kGroup rows of floats each: a cache of 64 slots in which position p has
// slot p mod 64.
struct WideGroup {
  float *keys, *values;
};
// The same from a cache of any type.
template <class E>
INLINE void AttendGroupOf(const Cache& k, const Cache& v, int64_t head, int64_t group, Range visible, float cap,
                          const float* q, int64_t n, float* out, int64_t out_stride, E* gathered, const E* next_keys,
                          WideGroup wide) {
  if constexpr (kIsQ8<E>) {
    WidenBlocks(k, v, head, group * kGroup, InGroup(visible, group), visible.end, v.width, wide.keys, wide.values);
    const Cache wide_k{reinterpret_cast<uint8_t*>(wide.keys), 1, k.dim, kGroup, kKeys16, k.dim};
    const Cache wide_v{reinterpret_cast<uint8_t*>(wide.values), 1, v.width, kGroup, kLayoutHeads, v.width};
    AttendGroupHeads<float>(wide_k, wide_v, 0, group, visible, cap, q, n, out, out_stride, nullptr, wide.keys);
  } else if (k.layout != kKeys16 && n > 3) {  // gathered once for all queries
    const Range keys = InGroup(visible, group);
#pragma clang loop unroll(disable)
    for (int64_t tile = keys.begin / 16; tile < (keys.end + 15) / 16; ++tile)
      KeyTile<E>(k, head, group * kGroup + 16 * tile, visible.end, gathered + tile * 16 * k.dim);
    const Cache tiles{reinterpret_cast<uint8_t*>(gathered), 1, k.dim, kGroup, kKeys16, k.dim};
    Cache own = v;  // in which the head is number 0
    own.data += CacheElement(v, head, 0, 0) * static_cast<int64_t>(sizeof(E));
    AttendGroupHeads<E>(tiles, own, 0, group, visible, cap, q, n, out, out_stride, nullptr, next_keys);
  } else {
    AttendGroupHeads<E>(k, v, head, group, visible, cap, q, n, out, out_stride, gathered, next_keys);
  }
}

// What is known of a query after some groups. `o` has dim floats, rounded up to 16.
struct Merged {
  float m = kNoScore, l = 0;
};
INLINE void MergeGroup(Merged& state, float* o, const float* partial, int64_t dim, bool first) {
  const float m = partial[0] > state.m ? partial[0] : state.m;
  const float a = Pow2Of(state.m - m + 127.0f), b = Pow2Of(partial[0] - m + 127.0f);
  state.l = __builtin_fmaf(partial[1], b, state.l * a);
  state.m = m;
  ForColumns({0, dim}, [&](int64_t d, int64_t n) {
    const F32x16 next = LoadColumns(partial + 2 + d, n);
    Store(o + d, first ? next : Fma(next, Splat(b), Mul(Load(o + d), Splat(a))));
  });
}

// A group of one score, in natural units, that has no value: an attention sink.
INLINE void MergeSink(Merged& state, float* o, int64_t dim, float sink) {
  F32x16 n;
  const F32x16 p = Exp2Parts(Splat(sink * math::kLog2Ef), n);
  const float own = MaxLane(n), m = own > state.m ? own : state.m;
  const float a = Pow2Of(state.m - m + 127.0f), b = Pow2Of(own - m + 127.0f);
  state.l = __builtin_fmaf(MaxLane(Mul(p, Splat(0.5f))), b, state.l * a);
  state.m = m;
  ForColumns({0, dim}, [&](int64_t d, int64_t) { Store(o + d, Mul(Load(o + d), Splat(a))); });
}

// out = o / l of one query: f32 columns, or blocks of a8 records of `record` elements, from `column` of the row on.
INLINE void StoreMerged(const Merged& state, const float* o, int64_t dim, int64_t out_type, uint8_t* row,
                        int64_t record, int64_t column) {
  const F32x16 r = Splat(1.0f / state.l);
  if (out_type == kA8) {
    row += column / record * A8RowBytes(record);
    column %= record;
#pragma clang loop unroll(disable)
    for (int64_t d = 0; d < dim; d += 32) {
      QuantizeBlock(Fma(Load(o + d), r, Zero()), Fma(Load(o + d + 16), r, Zero()), row, record, (column + d) / 32);
    }
  } else {
    float* out = reinterpret_cast<float*>(row) + column;
    ForColumns({0, dim}, [&](int64_t d, int64_t n) { StoreColumns(out + d, Fma(Load(o + d), r, Zero()), n); });
  }
}
INLINE int64_t RowBytesOf(int64_t out_type, int64_t k) { return out_type == kA8 ? A8RowBytes(k) : 4 * k; }

#define STACK(type, count) \
  static_cast<type*>(__builtin_alloca_with_align(static_cast<__SIZE_TYPE__>(count) * sizeof(type), 512))

// Queries of one row for one kv head, multiplied by the scale: out[n][dim].
INLINE void ScaleQueries(const float* q, int64_t count, float scale, float* out) {
  ForColumns({0, count},
             [&](int64_t i, int64_t n) { StoreColumns(out + i, Mul(LoadColumns(q + i, n), Splat(scale)), n); });
}

template <class E>
INLINE void AttentionGroups(const LlmcContext* c, int64_t rows, const float* q, const Cache& k, const Cache& v,
                            float* out, int64_t q_heads, const Mask& mask, float scale, int64_t over, int64_t grain,
                            int64_t by_row, uint32_t thread, uint32_t threads) {
  const int64_t per_kv = q_heads / k.heads, dim = k.dim, slots_of_groups = (k.slots + kGroup - 1) / kGroup + 1,
                stride = v.width + 2;
  float* scaled = STACK(float, per_kv* dim);
  E* gathered = STACK(E, 4 * 16 * dim);
  WideGroup wide{};
  if constexpr (kIsQ8<E>) wide = {STACK(float, kGroup* dim), STACK(float, kGroup* v.width)};
  // From the first group that any row sees to the last.
  int64_t lowest = PositionOf(c, 0, by_row), highest = PositionOf(c, rows - 1, by_row);
  if (by_row != 0) {
#pragma clang loop unroll(disable)
    for (int64_t s = 0; s < rows; ++s) {
      const int64_t p = PositionOf(c, s, by_row);
      lowest = p < lowest ? p : lowest;
      highest = p > highest ? p : highest;
    }
  }
  const int64_t first = VisibleKeys(lowest, mask).begin / kGroup, groups = highest / kGroup + 1 - first;
  const Range units = Share(k.heads * groups, grain, over, kKeys, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t u = units.begin; u < units.end; ++u) {
    const int64_t head = u / groups, group = first + u % groups;
    const E* next_keys = KeysOfGroup<E>(k, (u + 1) / groups, first + (u + 1) % groups);
#pragma clang loop unroll(disable)
    for (int64_t s = 0; s < rows; ++s) {
      const Range visible = VisibleKeys(PositionOf(c, s, by_row), mask);
      const int64_t own_first = visible.begin / kGroup;
      if (group < own_first || group * kGroup >= visible.end) continue;
      const int64_t query = s * q_heads + head * per_kv;
      ScaleQueries(q + query * dim, per_kv * dim, scale, scaled);
      AttendGroupOf<E>(CacheOf(c, k, s, by_row), CacheOf(c, v, s, by_row), head, group, visible, mask.cap, scaled,
                       per_kv, out + (query * slots_of_groups + group - own_first) * stride, slots_of_groups * stride,
                       gathered, next_keys, wide);
    }
  }
}

KERNEL void attention_groups(KERNEL_CALL, int64_t q_heads, int64_t kv_heads, int64_t dim, int64_t v_dim, int64_t v_row,
                             int64_t slots, int64_t window, int64_t all, int64_t cap, int64_t scale, int64_t type,
                             int64_t k_layout, int64_t v_layout, int64_t q_space, int64_t out_space, int64_t over,
                             int64_t grain, int64_t by_row) {
  const float* q = reinterpret_cast<const float*>(At(c, thread, q_space, rec[0]));
  const Cache k{At(c, thread, kStates, rec[1]), kv_heads, dim, slots, k_layout, dim};
  const Cache v{At(c, thread, kStates, rec[2]), kv_heads, v_row, slots, v_layout, v_dim};
  float* out = reinterpret_cast<float*>(At(c, thread, out_space, rec[3]));
  const Mask mask = MaskOf(c, rows, window, all, cap);
  if (type == kF16) {
    AttentionGroups<uint16_t>(c, rows, q, k, v, out, q_heads, mask, FloatOfBits(scale), over, grain, by_row, thread,
                              threads);
  } else if (type == kQ8_0) {
    AttentionGroups<Q8>(c, rows, q, k, v, out, q_heads, mask, FloatOfBits(scale), over, grain, by_row, thread, threads);
  } else {
    AttentionGroups<float>(c, rows, q, k, v, out, q_heads, mask, FloatOfBits(scale), over, grain, by_row, thread,
                           threads);
  }
}

KERNEL void attention_merge(KERNEL_CALL, int64_t q_heads, int64_t v_dim, int64_t slots, int64_t window, int64_t all,
                            int64_t has_sinks, int64_t out_type, int64_t record, int64_t partials_space,
                            int64_t out_space, int64_t over, int64_t grain, int64_t by_row) {
  const float* partials = reinterpret_cast<const float*>(At(c, thread, partials_space, rec[0]));
  const float* sinks = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[1]));
  uint8_t* out = At(c, thread, out_space, rec[2]);
  const Mask mask = MaskOf(c, rows, window, all, 0);
  float* o = STACK(float, (v_dim + 15) / 16 * 16);
  const int64_t slots_of_groups = (slots + kGroup - 1) / kGroup + 1, stride = v_dim + 2;
  const Range row = Share(rows, grain, over, kRows, thread, threads);
  const Range head = Share(q_heads, grain, over, kHeads, thread, threads);
#pragma clang loop unroll(disable)
  for (int64_t s = row.begin; s < row.end; ++s) {
    const Range visible = VisibleKeys(PositionOf(c, s, by_row), mask);
    const int64_t groups = (visible.end - 1) / kGroup - visible.begin / kGroup + 1;
#pragma clang loop unroll(disable)
    for (int64_t h = head.begin; h < head.end; ++h) {
      Merged state;
#pragma clang loop unroll(disable)
      for (int64_t g = 0; g < groups; ++g)
        MergeGroup(state, o, partials + ((s * q_heads + h) * slots_of_groups + g) * stride, v_dim, g == 0);
      if (has_sinks) MergeSink(state, o, v_dim, sinks[h]);
      StoreMerged(state, o, v_dim, out_type, out + s * RowBytesOf(out_type, q_heads * v_dim), record, h * v_dim);
    }
  }
}

}  // namespace KERNELS_NAMESPACE
