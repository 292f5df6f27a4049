// The inner part of `linear`, 16 weight rows at a time: unpack a stretch of K to floats, one weight row per lane, then
// run the chains of the definition in 16 lanes. Built -O3 and dispatched by CPU; every fma is explicit and contraction
// is off, so that both versions give the same bits.
//
// Dots of codes run in f32: they are integers below 2^24 (32 * 128 * 127), so each sum is exact and any order gives the
// integer of the definition.
#include "ir/ops/linear_eval.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ir/layout.h"
#include "ir/math.h"

// The helpers must be inlined into the versions for each CPU.
#define LLMC_INLINE inline __attribute__((always_inline))

namespace llmc::ops {
namespace {

constexpr int kRows = kTileRows;
constexpr int64_t kStretch = 256;  // K elements unpacked at a time: 16 KB
constexpr int64_t kBlock = 32;

struct Stretch {
  alignas(64) float w[kStretch][kRows];           // codes, or values
  alignas(64) float d[kStretch / kBlock][kRows];  // block types: scales
  alignas(64) float m[kStretch / kBlock][kRows];  // and minima
};

// One unit's weight: word and half-word columns of its 16 rows, in either layout.
struct Weight {
  const std::byte* base;
  bool tiled;
  int n_rows;
  int64_t row_bytes;    // rows layout
  int64_t step_bytes;   // of a step of the tile
  int64_t block_bytes;  // of the same elements in one row
  int64_t bytes;        // of the whole row: a word at the end may be cut

  // Word `word` of every row's codes; `at` is where codes start, in a block and (times 16) in a step.
  LLMC_INLINE void Words(int64_t step, int at, int64_t word, uint32_t* v) const {
    if (tiled) {
      std::memcpy(v, base + step * step_bytes + 16 * at + 64 * word, 64);
      return;
    }
    const int64_t offset = step * block_bytes + at + 4 * word;
    const auto size = static_cast<size_t>(std::min<int64_t>(4, bytes - offset));
    for (int r = 0; r < kRows; ++r) {
      v[r] = 0;
      std::memcpy(&v[r], base + std::min(r, n_rows - 1) * row_bytes + offset, size);
    }
  }
  LLMC_INLINE void Halves(int64_t step, int at, float* out) const {
    for (int r = 0; r < kRows; ++r) {
      uint16_t half = 0;
      const std::byte* from = tiled ? base + step * step_bytes + 16 * at + 2 * r
                                    : base + std::min(r, n_rows - 1) * row_bytes + step * block_bytes + at;
      std::memcpy(&half, from, 2);
      out[r] = math::HalfToFloat(half);
    }
  }
};

// Codes of 32 elements as signed integers in f32. Nibbles of one word: elements i and i + distance of `first`.
LLMC_INLINE void UnpackNibbles(const Weight& weight, int64_t step, int at, int fifth_at, float offset,
                               float (*w)[kRows]) {
  uint32_t fifth[kRows] = {};
  if (fifth_at > 0) weight.Words(step, fifth_at, 0, fifth);
  for (int word = 0; word < 4; ++word) {
    uint32_t v[kRows];
    weight.Words(step, at, word, v);
    const int low = weight.tiled ? 8 * word : 4 * word;
    const int high = weight.tiled ? 8 * word + 4 : 4 * word + 16;
    for (int i = 0; i < 4; ++i) {
      for (int r = 0; r < kRows; ++r) {
        const uint32_t a = ((v[r] >> (8 * i)) & 15U) | (((fifth[r] >> (low + i)) & 1U) << 4);
        const uint32_t b = ((v[r] >> (8 * i + 4)) & 15U) | (((fifth[r] >> (high + i)) & 1U) << 4);
        w[low + i][r] = static_cast<float>(static_cast<int32_t>(a)) - offset;
        w[high + i][r] = static_cast<float>(static_cast<int32_t>(b)) - offset;
      }
    }
  }
}

LLMC_INLINE void UnpackBytes(const Weight& weight, int64_t step, float (*w)[kRows]) {
  for (int word = 0; word < 8; ++word) {
    uint32_t v[kRows];
    weight.Words(step, 2, word, v);
    for (int i = 0; i < 4; ++i) {
      for (int r = 0; r < kRows; ++r)
        w[4 * word + i][r] = static_cast<float>(static_cast<int32_t>(v[r] << (24 - 8 * i)) >> 24);
    }
  }
}

// Elements [k0, k0 + n): codes, scales and minima of block types, values of floats.
LLMC_INLINE void Unpack(const Weight& weight, DType dtype, int64_t k0, int64_t n, Stretch& out) {
  switch (dtype) {
    case DType::F32:
      for (int64_t k = 0; k < n; ++k) {
        uint32_t v[kRows];
        weight.Words(k0 + k, 0, 0, v);
        for (int r = 0; r < kRows; ++r) out.w[k][r] = math::FromBits(v[r]);
      }
      return;
    case DType::F16:
    case DType::BF16:
      // k0 is even: only the last stretch can have an odd length.
      for (int64_t k = 0; k < n; k += 2) {
        uint32_t v[kRows];
        weight.Words((k0 + k) / 2, 0, 0, v);
        for (int i = 0; i < 2 && k + i < n; ++i) {
          for (int r = 0; r < kRows; ++r) {
            const auto bits = static_cast<uint16_t>(v[r] >> (16 * i));
            out.w[k + i][r] = dtype == DType::F16 ? math::HalfToFloat(bits) : math::BfloatToFloat(bits);
          }
        }
      }
      return;
    default: break;
  }
  for (int64_t b = 0; b < n / kBlock; ++b) {
    const int64_t step = k0 / kBlock + b;
    float(*w)[kRows] = out.w + b * kBlock;
    weight.Halves(step, 0, out.d[b]);
    switch (dtype) {
      case DType::Q4_0: UnpackNibbles(weight, step, 2, 0, 8.0F, w); break;
      case DType::Q5_0: UnpackNibbles(weight, step, 6, 2, 16.0F, w); break;
      case DType::Q4_1:
        weight.Halves(step, 2, out.m[b]);
        UnpackNibbles(weight, step, 4, 0, 0.0F, w);
        break;
      case DType::Q5_1:
        weight.Halves(step, 2, out.m[b]);
        UnpackNibbles(weight, step, 8, 4, 0.0F, w);
        break;
      default: UnpackBytes(weight, step, w); break;
    }
  }
}

// Codes to values: d * code, or d * code + m, rounded at each step as in Dequantize.
LLMC_INLINE void Scale(bool has_min, int64_t n, Stretch& s) {
  for (int64_t k = 0; k < n; ++k) {
    const int64_t b = k / kBlock;
    for (int r = 0; r < kRows; ++r) s.w[k][r] = has_min ? s.d[b][r] * s.w[k][r] + s.m[b][r] : s.d[b][r] * s.w[k][r];
  }
}

// acc[j] += the stretch times row j of x, for J rows at once. x: the first row's element at the stretch's start.
template <int J>
LLMC_INLINE void ChainFloat(const Stretch& s, int64_t n, const float* x, int64_t x_stride, float (*acc)[kRows]) {
  float sum[J][kRows];
  std::memcpy(sum, acc, sizeof sum);
  for (int64_t k = 0; k < n; ++k) {
    for (int j = 0; j < J; ++j) {
      const float xk = x[j * x_stride + k];
      for (int r = 0; r < kRows; ++r) sum[j][r] = __builtin_fmaf(xk, s.w[k][r], sum[j][r]);
    }
  }
  std::memcpy(acc, sum, sizeof sum);
}

template <int J>
LLMC_INLINE void ChainCodes(const Stretch& s, bool has_min, int64_t n, const float* x, int64_t x_stride, const float* d,
                            const float* sums, int64_t d_stride, float (*acc)[kRows]) {
  for (int64_t b = 0; b < n / kBlock; ++b) {
    float dot[J][kRows] = {};
    for (int64_t k = b * kBlock; k < (b + 1) * kBlock; ++k) {
      for (int j = 0; j < J; ++j) {
        const float xk = x[j * x_stride + k];
        for (int r = 0; r < kRows; ++r) dot[j][r] = __builtin_fmaf(xk, s.w[k][r], dot[j][r]);
      }
    }
    for (int j = 0; j < J; ++j) {
      const float da = d[j * d_stride + b];
      const float sa = sums[j * d_stride + b];
      for (int r = 0; r < kRows; ++r) {
        float a = acc[j][r];
        if (has_min) a = __builtin_fmaf(s.m[b][r], sa, a);
        acc[j][r] = __builtin_fmaf(s.d[b][r] * da, dot[j][r], a);
      }
    }
  }
}

LLMC_INLINE void RunStretch(const LinearCall& call, bool has_min, const Stretch& s, int64_t k0, int64_t n,
                            float (*acc)[kRows]) {
  const float* x = call.x + k0;
  const int64_t blocks = call.k / kBlock;
  int64_t row = 0;
  if (call.x_d == nullptr) {
    for (; row + 4 <= call.rows; row += 4) ChainFloat<4>(s, n, x + row * call.k, call.k, acc + row);
    for (; row < call.rows; ++row) ChainFloat<1>(s, n, x + row * call.k, call.k, acc + row);
    return;
  }
  const float* d = call.x_d + k0 / kBlock;
  const float* sums = call.x_s + k0 / kBlock;
  for (; row + 4 <= call.rows; row += 4) {
    ChainCodes<4>(s, has_min, n, x + row * call.k, call.k, d + row * blocks, sums + row * blocks, blocks, acc + row);
  }
  for (; row < call.rows; ++row) {
    ChainCodes<1>(s, has_min, n, x + row * call.k, call.k, d + row * blocks, sums + row * blocks, blocks, acc + row);
  }
}

LLMC_INLINE void EvalUnits(const LinearCall& call, std::span<const LinearUnit> units) {
  const bool has_min = call.dtype == DType::Q4_1 || call.dtype == DType::Q5_1;
  const bool block_type = InfoOf(call.dtype).cls == DTypeClass::BLOCK;
  const int64_t step_k = TileStepK(call.dtype);
  const int64_t row_bytes = RowBytes(call.dtype, call.k);
  std::vector<float> sums(static_cast<size_t>(call.rows * kRows));
  std::vector<float> totals(sums.size());
  auto* acc = reinterpret_cast<float(*)[kRows]>(sums.data());
  Stretch stretch;
  for (const LinearUnit& unit : units) {
    const Weight weight{unit.weight,
                        call.tiled,
                        unit.n_rows,
                        row_bytes,
                        TileStepBytes(call.dtype),
                        step_k * InfoOf(call.dtype).block_bytes / InfoOf(call.dtype).block,
                        row_bytes};
    for (int64_t split = 0; split < call.k_split; ++split) {
      const int64_t begin = call.k / call.k_split * split;
      const int64_t end = call.k / call.k_split * (split + 1);
      std::fill(sums.begin(), sums.end(), 0.0F);
      for (int64_t k0 = begin; k0 < end; k0 += kStretch) {
        const int64_t n = std::min(kStretch, end - k0);
        Unpack(weight, call.dtype, k0, n, stretch);
        if (block_type && call.x_d == nullptr) Scale(has_min, n, stretch);
        RunStretch(call, has_min, stretch, k0, n, acc);
      }
      for (size_t i = 0; i < sums.size(); ++i) totals[i] = split == 0 ? sums[i] : totals[i] + sums[i];
    }
    for (int64_t row = 0; row < call.rows; ++row) {
      for (int r = 0; r < unit.n_rows; ++r) {
        const float total = totals[static_cast<size_t>(row * kRows + r)];
        unit.y[row * unit.y_stride + r] = unit.bias == nullptr ? total : total + unit.bias[r];
      }
    }
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma,f16c"))) void EvalUnitsAvx2(const LinearCall& call, std::span<const LinearUnit> units) {
  EvalUnits(call, units);
}
#endif
void EvalUnitsPortable(const LinearCall& call, std::span<const LinearUnit> units) { EvalUnits(call, units); }

}  // namespace

void EvalLinearUnits(const LinearCall& call, std::span<const LinearUnit> units) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return EvalUnitsAvx2(call, units);
#endif
  EvalUnitsPortable(call, units);
}

}  // namespace llmc::ops
