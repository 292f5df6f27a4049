// Attention for many rows: queries of one kv head in blocks of 48, each group widened to f32 once a block, register
// tiles (fma_tile.h) for both products.
#pragma once
#include "backends/kernels/attention.h"
#include "backends/kernels/fma_tile.h"

namespace KERNELS_NAMESPACE {

constexpr int64_t kQueryBlock = 48;  // a multiple of 12 and of 6

// Buffers of a thread; rows of values and results are v.width rounded up to 16 (`wide`).
struct AttentionScratch {
  float *q, *keys, *values, *o, *s;
};

template <int C>
INLINE void Clear(F32x16 (&acc)[kTileRows][C]) {
#pragma clang loop unroll(full)
  for (int r = 0; r < kTileRows; ++r) {
#pragma clang loop unroll(full)
    for (int c = 0; c < C; ++c) acc[r][c] = Zero();
  }
}
// acc[kTileRows][C] goes on: rows of a (row stride a_stride) times b[count][16 C], b rows b_stride and its vectors
// c_stride apart; chains over count.
template <int C>
INLINE void MultiplyTile(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t c_stride,
                         int64_t count, F32x16 (&acc)[kTileRows][C]) {
  const float *rows[kTileRows], *columns[C];
#pragma clang loop unroll(full)
  for (int r = 0; r < kTileRows; ++r) rows[r] = a + r * a_stride;
#pragma clang loop unroll(full)
  for (int c = 0; c < C; ++c) columns[c] = b + c * c_stride;
  FmaTile<kTileRows, C>(rows, columns, b_stride, count, acc);
}

// The same for weights of queries and the values of keys that only some of them see, own[r] each: a key that a query
// doesn't see has no part in its chain.
template <int C>
INLINE void MultiplySeen(const float* weights, const float* values, int64_t values_stride, Range keys,
                         const Range (&own)[kTileRows], F32x16 (&acc)[kTileRows][C]) {
#pragma clang loop unroll(disable)
  for (int64_t i = keys.begin; i < keys.end; ++i) {
    F32x16 row[C];
#pragma clang loop unroll(full)
    for (int c = 0; c < C; ++c) row[c] = Load(values + i * values_stride + 16 * c);
#pragma clang loop unroll(full)
    for (int r = 0; r < kTileRows; ++r) {
      if (own[r].begin > i || i >= own[r].end) continue;
#pragma clang loop unroll(full)
      for (int c = 0; c < C; ++c) FmaInOrder(acc[r][c], weights + r * kGroup + i, row[c]);
    }
  }
}

// Keys and values [keys.begin, keys.end) of a group, as f32 [tile][d][16] and [key][wide].
template <class E>
INLINE void WidenGroup(const Cache& k, const Cache& v, int64_t head, int64_t position, Range keys, int64_t end,
                       int64_t wide, const AttentionScratch& t, E* gathered) {
  if constexpr (kIsQ8<E>) {
    WidenBlocks(k, v, head, position, keys, end, wide, t.keys, t.values);
  } else {
#pragma clang loop unroll(disable)
    for (int64_t tile = keys.begin / 16; tile < (keys.end + 15) / 16; ++tile) {
      const E* from = KeyTile<E>(k, head, position + 16 * tile, end, gathered);
      float* to = t.keys + tile * 16 * k.dim;
#pragma clang loop unroll_count(4)
      for (int64_t d = 0; d < k.dim; ++d) Store(to + 16 * d, LoadLanes(from + 16 * d));
    }
#pragma clang loop unroll(disable)
    for (int64_t i = keys.begin; i < keys.end;) {
      const ValueRun<E> run = ValuesFrom<E>(v, head, position + i, keys.end - i);
#pragma clang loop unroll(disable)
      for (int64_t r = 0; r < run.count; ++r) {
        const E* from = run.first + r * run.stride;
        float* to = t.values + (i + r) * wide;
#pragma clang loop unroll_count(4)
        for (int64_t d = 0; d < wide; d += 16)
          Store(to + d, d + 16 <= v.width ? LoadLanes(from + d) : LoadLanesPart(from + d, v.width - d));
      }
      i += run.count;
    }
  }
}

// Queries [first, first + n) of kv head `head`, n <= kQueryBlock: query u is q head u mod per_kv of row u / per_kv.
template <class E>
INLINE void AttendQueries(const Cache& k, const Cache& v, int64_t head, int64_t first, int64_t n, int64_t per_kv,
                          int64_t pos, const Mask& mask, const float* sinks, float scale, const float* q,
                          int64_t q_heads, uint8_t* out, int64_t out_type, int64_t record, const AttentionScratch& t,
                          E* gathered) {
  const int64_t dim = k.dim, v_dim = v.width, wide = (v_dim + 15) / 16 * 16;
  Merged state[kQueryBlock];
  float keep[kQueryBlock], take[kQueryBlock];  // factors of what is merged so far and of the group at hand
  const auto query = [&](int64_t u) {
    return first + (u < n ? u : n - 1);
  };  // the last one pads the block to whole tiles of rows
  const auto visible = [&](int64_t u) { return VisibleKeys(pos + query(u) / per_kv, mask); };
  const int64_t padded = (n + kTileRows - 1) / kTileRows * kTileRows;
#pragma clang loop unroll(disable)
  for (int64_t u = 0; u < padded; ++u) {
    state[u] = Merged{};
    ScaleQueries(q + (query(u) / per_kv * q_heads + head * per_kv + query(u) % per_kv) * dim, dim, scale,
                 t.q + u * dim);
    ForColumns({0, wide}, [&](int64_t d, int64_t) { Store(t.o + u * wide + d, Zero()); });
  }
  const Range all{visible(0).begin, visible(n - 1).end};
#pragma clang loop unroll(disable)
  for (int64_t group = all.begin / kGroup; group * kGroup < all.end; ++group) {
    WidenGroup<E>(k, v, head, group * kGroup, InGroup(all, group), all.end, wide, t, gathered);
#pragma clang loop unroll(disable)
    for (int64_t u = 0; u < padded; u += kTileRows) {
      const Range keys = InGroup({visible(u).begin, visible(u + kTileRows - 1).end}, group);  // of these rows together
      if (keys.begin >= keys.end) {
#pragma clang loop unroll(full)
        for (int r = 0; r < kTileRows; ++r) take[u + r] = 0, keep[u + r] = 1;
        continue;
      }
      const auto score = [&]<int C>(int64_t i, Count<C>) {
        F32x16 acc[kTileRows][C];
        Clear(acc);
        MultiplyTile<C>(t.q + u * dim, dim, t.keys + i * dim, 16, 16 * dim, dim, acc);
#pragma clang loop unroll(full)
        for (int r = 0; r < kTileRows; ++r) {
#pragma clang loop unroll(full)
          for (int c = 0; c < C; ++c) Store(t.s + (u + r) * kGroup + i + 16 * c, acc[r][c]);
        }
      };
      int64_t i = keys.begin / 16 * 16;
#pragma clang loop unroll(disable)
      for (; i + 16 * (kTileVectors - 1) < keys.end; i += 16 * kTileVectors) score(i, Count<kTileVectors>{});
      if (kTileVectors > 1 && i < keys.end) score(i, Count<1>{});
      Range own[kTileRows];
#pragma clang loop unroll(disable)
      for (int64_t r = u; r < u + kTileRows; ++r) {
        own[r - u] = InGroup(visible(r), group);
        keep[r] = 1;
        take[r] = 0;
        if (own[r - u].begin >= own[r - u].end) continue;
        float m, l;
        Weigh(t.s + r * kGroup, own[r - u], mask.cap, m, l);
        const float high = m > state[r].m ? m : state[r].m;
        keep[r] = Pow2Of(state[r].m - high + 127.0f);
        take[r] = Pow2Of(m - high + 127.0f);
        state[r].l = __builtin_fmaf(l, take[r], state[r].l * keep[r]);
        state[r].m = high;
      }
      // Both bounds ascend from query to query: all of these see [begin, end), and before and behind it lie fewer keys
      // than there are queries.
      const int64_t begin = own[kTileRows - 1].begin < keys.end ? own[kTileRows - 1].begin : keys.end;
      const int64_t end = own[0].end > begin ? own[0].end : begin;
      const float* weights = t.s + u * kGroup;
      const auto weigh = [&]<int C>(int64_t d, Count<C>) {
        const float* values = t.values + d;
        F32x16 acc[kTileRows][C];
        Clear(acc);
        MultiplySeen<C>(weights, values, wide, {keys.begin, begin}, own, acc);
        MultiplyTile<C>(weights + begin, kGroup, values + begin * wide, wide, 16, end - begin, acc);
        MultiplySeen<C>(weights, values, wide, {end, keys.end}, own, acc);
#pragma clang loop unroll(full)
        for (int r = 0; r < kTileRows; ++r) {
#pragma clang loop unroll(full)
          for (int c = 0; c < C; ++c) {
            float* o = t.o + (u + r) * wide + d + 16 * c;
            Store(o, Fma(acc[r][c], Splat(take[u + r]), Mul(Load(o), Splat(keep[u + r]))));
          }
        }
      };
      int64_t d = 0;
#pragma clang loop unroll(disable)
      for (; d + 16 * kTileVectors <= wide; d += 16 * kTileVectors) weigh(d, Count<kTileVectors>{});
      if (kTileVectors > 1 && d < wide) weigh(d, Count<1>{});
    }
  }
#pragma clang loop unroll(disable)
  for (int64_t u = 0; u < n; ++u) {
    const int64_t row = query(u) / per_kv, column = (head * per_kv + query(u) % per_kv) * v_dim;
    if (sinks) MergeSink(state[u], t.o + u * wide, v_dim, sinks[head * per_kv + query(u) % per_kv]);
    StoreMerged(state[u], t.o + u * wide, v_dim, out_type, out + row * RowBytesOf(out_type, q_heads * v_dim), record,
                column);
  }
}

// The one query of each head of a call with one row: groups one after another, merged as they come.
template <class E>
INLINE void AttendRow(const Cache& k, const Cache& v, int64_t head, int64_t per_kv, int64_t pos, const Mask& mask,
                      const float* sinks, float scale, const float* q, uint8_t* out, int64_t out_type, int64_t record,
                      Merged* state, float* partial, const AttentionScratch& t, E* gathered) {
  const int64_t dim = k.dim, v_dim = v.width, wide = (v_dim + 15) / 16 * 16;
  const Range visible = VisibleKeys(pos, mask);
  ScaleQueries(q + head * per_kv * dim, per_kv * dim, scale, t.q);
#pragma clang loop unroll(disable)
  for (int64_t h = 0; h < per_kv; ++h) state[h] = Merged{};
  const int64_t first = visible.begin / kGroup;
#pragma clang loop unroll(disable)
  for (int64_t group = first; group * kGroup < visible.end; ++group) {
    AttendGroupOf<E>(k, v, head, group, visible, mask.cap, t.q, per_kv, partial, v_dim + 2, gathered,
                     KeysOfGroup<E>(k, head, group + 1), {t.keys, t.values});
#pragma clang loop unroll(disable)
    for (int64_t h = 0; h < per_kv; ++h)
      MergeGroup(state[h], t.o + h * wide, partial + h * (v_dim + 2), v_dim, group == first);
  }
#pragma clang loop unroll(disable)
  for (int64_t h = 0; h < per_kv; ++h) {
    if (sinks) MergeSink(state[h], t.o + h * wide, v_dim, sinks[head * per_kv + h]);
    StoreMerged(state[h], t.o + h * wide, v_dim, out_type, out, record, (head * per_kv + h) * v_dim);
  }
}

template <class E>
INLINE void Attention(const LlmcContext* c, int64_t rows, const float* q, const Cache& k, const Cache& v, uint8_t* out,
                      int64_t q_heads, const Mask& mask, const float* sinks, float scale, int64_t out_type,
                      int64_t record, int64_t over, int64_t grain, int64_t by_row, uint32_t thread, uint32_t threads) {
  const int64_t per_kv = q_heads / k.heads, dim = k.dim, v_dim = v.width, wide = (v_dim + 15) / 16 * 16;
  const int64_t queries = per_kv > kQueryBlock ? per_kv : kQueryBlock;
  const AttentionScratch t{STACK(float, queries* dim), STACK(float, kGroup* dim), STACK(float, kGroup* wide),
                           STACK(float, queries* wide), STACK(float, kQueryBlock* kGroup)};
  E* gathered = STACK(E, 4 * 16 * dim);
  float* partial = STACK(float, per_kv*(v_dim + 2));
  Merged* state = STACK(Merged, per_kv);
  const bool apart =
      by_row != 0 && (c->positions != nullptr || c->state_bases != nullptr);  // else rows follow each other
  const auto attend = [&](int64_t head, Range row) {
    if (apart || rows == 1) {
#pragma clang loop unroll(disable)
      for (int64_t s = row.begin; s < row.end; ++s)
        AttendRow<E>(CacheOf(c, k, s, by_row), CacheOf(c, v, s, by_row), head, per_kv, PositionOf(c, s, by_row), mask,
                     sinks, scale, q + s * q_heads * dim, out + s * RowBytesOf(out_type, q_heads * v_dim), out_type,
                     record, state, partial, t, gathered);
      return;
    }
    const int64_t end = row.end * per_kv;
#pragma clang loop unroll(disable)
    for (int64_t first = row.begin * per_kv; first < end; first += kQueryBlock) {
      const int64_t n = end - first < kQueryBlock ? end - first : kQueryBlock;
      AttendQueries<E>(k, v, head, first, n, per_kv, c->pos, mask, sinks, scale, q, q_heads, out, out_type, record, t,
                       gathered);
    }
  };
  // Queries: blocks of rows from the last, which see the most keys, to the first, dealt out one by one. Else one range
  // of heads and rows.
  const bool dealt = over == kQueries;
  const int64_t block = dealt ? grain : rows, blocks = (rows + block - 1) / block;
  const Range head = Share(q_heads, grain, over, kHeads, thread, threads);
  const Range row = Share(rows, grain, over, kRows, thread, threads);
  const int64_t first_head = dealt ? 0 : head.begin / per_kv, heads = dealt ? k.heads : head.end / per_kv - first_head;
#pragma clang loop unroll(disable)
  for (int64_t u = dealt ? thread : 0; u < blocks * heads; u += dealt ? threads : 1) {
    const int64_t begin = (blocks - 1 - u / heads) * block, end = begin + block < rows ? begin + block : rows;
    attend(first_head + u % heads, dealt ? Range{begin, end} : row);
  }
}

KERNEL void attention(KERNEL_CALL, int64_t q_heads, int64_t kv_heads, int64_t dim, int64_t v_dim, int64_t v_row,
                      int64_t slots, int64_t window, int64_t all, int64_t cap, int64_t has_sinks, int64_t scale,
                      int64_t type, int64_t k_layout, int64_t v_layout, int64_t out_type, int64_t record,
                      int64_t q_space, int64_t out_space, int64_t over, int64_t grain, int64_t by_row) {
  const float* q = reinterpret_cast<const float*>(At(c, thread, q_space, rec[0]));
  const Cache k{At(c, thread, kStates, rec[1]), kv_heads, dim, slots, k_layout, dim};
  const Cache v{At(c, thread, kStates, rec[2]), kv_heads, v_row, slots, v_layout, v_dim};
  const float* sinks = has_sinks ? reinterpret_cast<const float*>(At(c, thread, kWeights, rec[3])) : nullptr;
  uint8_t* out = At(c, thread, out_space, rec[4]);
  const Mask mask = MaskOf(c, rows, window, all, cap);
  if (type == kF16) {
    Attention<uint16_t>(c, rows, q, k, v, out, q_heads, mask, sinks, FloatOfBits(scale), out_type, record, over, grain,
                        by_row, thread, threads);
  } else if (type == kQ8_0) {
    Attention<Q8>(c, rows, q, k, v, out, q_heads, mask, sinks, FloatOfBits(scale), out_type, record, over, grain,
                  by_row, thread, threads);
  } else {
    Attention<float>(c, rows, q, k, v, out, q_heads, mask, sinks, FloatOfBits(scale), out_type, record, over, grain,
                     by_row, thread, threads);
  }
}

}  // namespace KERNELS_NAMESPACE
