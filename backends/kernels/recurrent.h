// conv1d and delta_rule: rows go one after another, each by the state that the row before it left. Threads divide
// channels and heads, each of which has its own part of the state.
#pragma once
#include "backends/kernels/rows.h"

namespace KERNELS_NAMESPACE {

KERNEL void conv1d(KERNEL_CALL, int64_t dim, int64_t taps, int64_t has_bias, int64_t then0, int64_t then1,
                   int64_t then2, int64_t other_row, int64_t out_type, int64_t record, int64_t x_space,
                   int64_t other_space, int64_t out_space, int64_t over, int64_t grain, int64_t by_row) {
  uint8_t* state = At(c, thread, kStates, rec[0]);
  const float* x = reinterpret_cast<const float*>(At(c, thread, x_space, rec[1]));
  const float* weight = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[2]));
  const float* bias = reinterpret_cast<const float*>(At(c, thread, kWeights, rec[3]));
  const Epilogue e = EpilogueOf(then0, then1, then2, other_row, At(c, thread, other_space, rec[4]), dim);
  const Rows out{At(c, thread, out_space, rec[5]), dim, out_type, record};
  const Box box = ShareBox(rows, dim, over, grain, thread, threads);
  const int64_t kept = taps - 1;
#pragma clang loop unroll(disable)
  for (int64_t s = box.row.begin; s < box.row.end; ++s) {
    const int64_t pos = PositionOf(c, s, by_row), newest = pos % kept;
    float* ring = reinterpret_cast<float*>(StateOf(c, state, s, by_row));
    const float* row = x + s * dim;
    StoreRow(out, e, s, box.column, [&](int64_t i, int64_t n) {
      F32x16 y = Zero();
      // The oldest input lies where the newest will.
      for (int64_t j = pos < kept ? kept - pos : 0; j < kept; ++j) {
        const int64_t at = newest + j < kept ? newest + j : newest + j - kept;
        y = Fma(LoadColumns(weight + j * dim + i, n), LoadColumns(ring + at * dim + i, n), y);
      }
      y = Fma(LoadColumns(weight + kept * dim + i, n), LoadColumns(row + i, n), y);
      return has_bias ? Add(y, LoadColumns(bias + i, n)) : y;
    });
    ForColumns(box.column,
               [&](int64_t i, int64_t n) { StoreColumns(ring + newest * dim + i, LoadColumns(row + i, n), n); });
  }
}

// A row's numbers of a head.
struct DeltaRow {
  const float *q, *k;
  float decay, beta;
  bool correct;
};

// The row's step on `kVectors` times 16 columns of a head's state h [dim, v_dim], or with kWhole false on n < 16:
// v and out are the columns' elements. kAhead: what lies `ahead` elements behind is read next.
template <int kVectors, bool kWhole, bool kAhead>
INLINE void DeltaColumns(const DeltaRow& row, float* h, int64_t dim, int64_t v_dim, int64_t n, int64_t ahead,
                         const float* v, float* out) {
  const auto load = [&](const float* p) { return kWhole ? Load(p) : LoadPart(p, n); };
  const auto store = [&](float* p, F32x16 x) { kWhole ? Store(p, x) : StorePart(p, x, n); };
  F32x16 lanes[4][kVectors], delta[kVectors];
  const auto clear = [&] {
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < kVectors; ++i) lanes[j][i] = Zero();
  };
  const auto sum = [&](int i) { return Add(Add(lanes[0][i], lanes[2][i]), Add(lanes[1][i], lanes[3][i])); };
  const auto find = [&](int64_t at, int j) {
    const F32x16 k = Splat(row.k[at]);
    const float* from = h + at * v_dim;
    for (int i = 0; i < kVectors; ++i) {
      lanes[j][i] = Fma(k, load(from + 16 * i), lanes[j][i]);
      if (kAhead) Prefetch(from + ahead + 16 * i);
    }
  };
  const F32x16 decay = Splat(row.decay);
  const auto move = [&](int64_t at, int j) {
    const F32x16 k = Splat(row.k[at]), q = Splat(row.q[at]);
    float* to = h + at * v_dim;
    for (int i = 0; i < kVectors; ++i) {
      const F32x16 moved = Fma(k, delta[i], Mul(decay, load(to + 16 * i)));
      store(to + 16 * i, moved);
      lanes[j][i] = Fma(q, moved, lanes[j][i]);
    }
  };
  const int64_t whole = dim / 4 * 4;
  for (int i = 0; i < kVectors; ++i) delta[i] = load(v + 16 * i);
  if (row.correct) {
    clear();
#pragma clang loop unroll(disable)
    for (int64_t at = 0; at < whole; at += 4) find(at, 0), find(at + 1, 1), find(at + 2, 2), find(at + 3, 3);
    for (int j = 0; j < 3; ++j)
      if (whole + j < dim) find(whole + j, j);
    for (int i = 0; i < kVectors; ++i) delta[i] = Sub(delta[i], Mul(decay, sum(i)));
  }
  for (int i = 0; i < kVectors; ++i) delta[i] = Mul(Splat(row.beta), delta[i]);
  clear();
#pragma clang loop unroll(disable)
  for (int64_t at = 0; at < whole; at += 4) move(at, 0), move(at + 1, 1), move(at + 2, 2), move(at + 3, 3);
  for (int j = 0; j < 3; ++j)
    if (whole + j < dim) move(whole + j, j);
  for (int i = 0; i < kVectors; ++i) store(out + 16 * i, sum(i));
}

#if LLMC_WIDE
constexpr int kDeltaVectors = 2;  // eight chains of sums, as many as FMAs are in flight
#else
constexpr int kDeltaVectors = 1;  // of two registers
#endif
constexpr int64_t kDeltaColumns = 16 * kDeltaVectors;
constexpr int64_t kMostGathered = 256;  // rows of a matrix whose columns are brought together

struct DeltaCall {
  const float *q, *k, *v, *decay, *beta;
  float* out;
  int64_t q_heads, dim, v_heads, v_dim, correct;
};

// Row s of head h on n columns from `column` on, which lie at `state` in rows of `stride`.
INLINE void DeltaStep(const DeltaCall& d, int64_t s, int64_t h, int64_t key_head, int64_t column, int64_t n, bool first,
                      float* state, int64_t stride, int64_t ahead) {
  if (first) {
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < d.dim; ++i)
      ForColumns({0, n}, [&](int64_t j, int64_t m) { StoreColumns(state + i * stride + j, Zero(), m); });
  }
  const int64_t of_key = (s * d.q_heads + key_head) * d.dim, of_head = s * d.v_heads + h;
  const float* v = d.v + of_head * d.v_dim + column;
  float* out = d.out + of_head * d.v_dim + column;
  const DeltaRow row{d.q + of_key, d.k + of_key, first ? 0.0f : d.decay[of_head], d.beta[of_head], d.correct != 0};
  if (n == kDeltaColumns && ahead != 0) {
    DeltaColumns<kDeltaVectors, true, true>(row, state, d.dim, stride, n, ahead, v, out);
  } else if (n == kDeltaColumns) {
    DeltaColumns<kDeltaVectors, true, false>(row, state, d.dim, stride, n, 0, v, out);
  } else if (n == 16) {
    DeltaColumns<1, true, false>(row, state, d.dim, stride, n, 0, v, out);
  } else {
    DeltaColumns<1, false, false>(row, state, d.dim, stride, n, 0, v, out);
  }
}

// A head's state is walked in columns that stay in the first cache while all rows pass. Of many rows they are brought
// together for it: rows of 512 bytes would meet in a quarter of the cache's sets.
KERNEL void delta_rule(KERNEL_CALL, int64_t q_heads, int64_t dim, int64_t v_heads, int64_t v_dim, int64_t tiled,
                       int64_t correct, int64_t q_space, int64_t k_space, int64_t v_space, int64_t decay_space,
                       int64_t beta_space, int64_t out_space, int64_t over, int64_t grain, int64_t by_row) {
  uint8_t* state = At(c, thread, kStates, rec[0]);
  const auto input = [&](int64_t space, int word) {
    return reinterpret_cast<const float*>(At(c, thread, space, rec[word]));
  };
  const DeltaCall d{input(q_space, 1),
                    input(k_space, 2),
                    input(v_space, 3),
                    input(decay_space, 4),
                    input(beta_space, 5),
                    reinterpret_cast<float*>(At(c, thread, out_space, rec[6])),
                    q_heads,
                    dim,
                    v_heads,
                    v_dim,
                    correct};
  const Range head = Share(v_heads, grain, over, kHeads, thread, threads);
  alignas(64) float gathered[kMostGathered * kDeltaColumns];
#pragma clang loop unroll(disable)
  for (int64_t h = head.begin; h < head.end; ++h) {
    const int64_t key_head = tiled ? h % q_heads : h / (v_heads / q_heads), matrix = h * dim * v_dim;
#pragma clang loop unroll(disable)
    for (int64_t column = 0; column < v_dim;) {
      const int64_t left = v_dim - column, n = left >= kDeltaColumns ? kDeltaColumns : left < 16 ? left : 16;
      if (rows > 1 && by_row == 0 && n == kDeltaColumns && dim <= kMostGathered) {
        float* own = reinterpret_cast<float*>(state) + matrix + column;
        const auto copy = [&](const float* from, int64_t step, float* to, int64_t to_step) {
#pragma clang loop unroll(disable)
          for (int64_t i = 0; i < dim; ++i)
            for (int j = 0; j < kDeltaVectors; ++j) Store(to + i * to_step + 16 * j, Load(from + i * step + 16 * j));
        };
        copy(own, v_dim, gathered, kDeltaColumns);
#pragma clang loop unroll(disable)
        for (int64_t s = 0; s < rows; ++s)
          DeltaStep(d, s, h, key_head, column, n, PositionOf(c, s, 0) == 0, gathered, kDeltaColumns, 0);
        copy(gathered, kDeltaColumns, own, v_dim);
      } else {
        const int64_t next = left > n ? n : dim * v_dim - column;  // the next head's first columns
#pragma clang loop unroll(disable)
        for (int64_t s = 0; s < rows; ++s) {
          float* at = reinterpret_cast<float*>(StateOf(c, state, s, by_row)) + matrix + column;
          DeltaStep(d, s, h, key_head, column, n, PositionOf(c, s, by_row) == 0, at, v_dim, rows == 1 ? next : 0);
        }
      }
      column += n;
    }
  }
}

}  // namespace KERNELS_NAMESPACE
