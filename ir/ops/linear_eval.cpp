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

using Lanes = float[kRows];  // a number per weight row

struct Stretch {
  alignas(64) Lanes w[kStretch];           // codes, or values
  alignas(64) Lanes d[kStretch / kBlock];  // block types: scales
  alignas(64) Lanes m[kStretch / kBlock];  // and minima
};

// Half of the 16 lanes, as a vector of the compiler: what it can't find in loops over bits and conversions.
using Words8 = uint32_t __attribute__((vector_size(32)));
using Ints8 = int32_t __attribute__((vector_size(32)));
using Floats8 = float __attribute__((vector_size(32)));

// One unit's weight: 32- and 16-bit columns of its 16 rows, in either layout.
struct Weight {
  bool tiled;
  const std::byte* tile;
  const std::byte* rows[kRows];  // rows layout; what the unit lacks repeats its last row
  int64_t step_bytes;            // of a step of the tile
  int64_t block_bytes;           // of the same elements in one row
  int64_t row_bytes;             // the word at the end of a row may be cut

  Weight(const LinearCall& call, const LinearUnit& unit)
      : tiled(call.tiled),
        tile(unit.weight),
        step_bytes(TileStepBytes(call.dtype)),
        block_bytes(step_bytes / kRows),
        row_bytes(RowBytes(call.dtype, call.k)) {
    for (int r = 0; r < kRows; ++r) rows[r] = unit.weight + std::min(r, unit.n_rows - 1) * row_bytes;
  }

  // Word `word` of every row's codes, in two vectors; `at` is where codes start, in a block and (times 16) in a step.
  LLMC_INLINE void Words(int64_t step, int at, int64_t word, Words8* v) const {
    if (tiled) {
      const std::byte* from = tile + step * step_bytes + kRows * at + 64 * word;
      std::memcpy(&v[0], from, sizeof v[0]);
      std::memcpy(&v[1], from + 32, sizeof v[1]);
      return;
    }
    const int64_t offset = step * block_bytes + at + 4 * word;
    const auto bytes = static_cast<size_t>(std::min<int64_t>(4, row_bytes - offset));
    uint32_t words[kRows] = {};
    if (bytes == 4) {
      for (int r = 0; r < kRows; ++r) std::memcpy(&words[r], rows[r] + offset, 4);
    } else {
      for (int r = 0; r < kRows; ++r) std::memcpy(&words[r], rows[r] + offset, bytes);
    }
    std::memcpy(v, words, sizeof words);
  }
  LLMC_INLINE void Halves(int64_t step, int at, float* out) const {
    uint16_t half[kRows];
    if (tiled) {
      std::memcpy(half, tile + step * step_bytes + kRows * at, sizeof half);
    } else {
      for (int r = 0; r < kRows; ++r) std::memcpy(&half[r], rows[r] + step * block_bytes + at, 2);
    }
    for (int r = 0; r < kRows; ++r) out[r] = math::HalfToFloat(half[r]);
  }
};

LLMC_INLINE void StoreFloats(const Ints8& codes, float* out) {
  const Floats8 values = __builtin_convertvector(codes, Floats8);
  std::memcpy(out, &values, sizeof values);
}

// Codes of 32 elements as signed integers in f32. kAt: where a block's nibbles start; kFifthAt: its fifth bits, 0 for
// none; kZero: the code of zero. The two nibbles of a byte are elements `low + i` and `high + i`.
template <int kAt, int kFifthAt, int kZero>
LLMC_INLINE void UnpackNibbles(const Weight& weight, int64_t step, Lanes* w) {
  Words8 fifth[2] = {};
  if constexpr (kFifthAt > 0) weight.Words(step, kFifthAt, 0, fifth);
  for (int word = 0; word < 4; ++word) {
    Words8 v[2];
    weight.Words(step, kAt, word, v);
    const int low = weight.tiled ? 8 * word : 4 * word;
    const int high = weight.tiled ? 8 * word + 4 : 4 * word + 16;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        Words8 a = (v[half] >> (8 * i)) & 15U;
        Words8 b = (v[half] >> (8 * i + 4)) & 15U;
        if constexpr (kFifthAt > 0) {
          a |= ((fifth[half] >> (low + i)) & 1U) << 4;
          b |= ((fifth[half] >> (high + i)) & 1U) << 4;
        }
        StoreFloats(reinterpret_cast<Ints8>(a) - kZero, &w[low + i][8 * half]);
        StoreFloats(reinterpret_cast<Ints8>(b) - kZero, &w[high + i][8 * half]);
      }
    }
  }
}

LLMC_INLINE void UnpackBytes(const Weight& weight, int64_t step, Lanes* w) {
  for (int word = 0; word < 8; ++word) {
    Words8 v[2];
    weight.Words(step, 2, word, v);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        StoreFloats(reinterpret_cast<Ints8>(v[half] << (24 - 8 * i)) >> 24, &w[4 * word + i][8 * half]);
      }
    }
  }
}

// math::HalfToFloat in eight lanes; the upper 16 bits of each word are zero.
LLMC_INLINE void StoreHalves(const Words8& halves, float* out) {
  const Words8 magnitude = (halves & 0x7fffU) << 13;
  const Words8 finite = reinterpret_cast<Words8>(reinterpret_cast<Floats8>(magnitude) * 0x1p112F);
  const Words8 special = reinterpret_cast<Words8>((halves & 0x7c00U) == 0x7c00U);
  const Words8 bits = ((halves & 0x8000U) << 16) | (finite & ~special) | ((magnitude | 0x7f800000U) & special);
  std::memcpy(out, &bits, sizeof bits);
}

// Elements [k0, k0 + n): codes, scales and minima of block types, values of floats.
LLMC_INLINE void Unpack(const Weight& weight, DType dtype, int64_t k0, int64_t n, Stretch& out) {
  switch (dtype) {
    case DType::F32:
      for (int64_t k = 0; k < n; ++k) {
        Words8 v[2];
        weight.Words(k0 + k, 0, 0, v);
        std::memcpy(out.w[k], v, sizeof v);
      }
      return;
    case DType::F16:
    case DType::BF16:
      // k0 is even: only the last stretch can have an odd length.
      for (int64_t k = 0; k < n; k += 2) {
        Words8 v[2];
        weight.Words((k0 + k) / 2, 0, 0, v);
        for (int i = 0; i < 2 && k + i < n; ++i) {
          for (int half = 0; half < 2; ++half) {
            float* to = &out.w[k + i][8 * half];
            const Words8 bits = (v[half] >> (16 * i)) & 0xffffU;
            if (dtype == DType::F16) {
              StoreHalves(bits, to);
            } else {
              const Words8 widened = bits << 16;
              std::memcpy(to, &widened, sizeof widened);
            }
          }
        }
      }
      return;
    default: break;
  }
  for (int64_t b = 0; b < n / kBlock; ++b) {
    const int64_t step = k0 / kBlock + b;
    Lanes* w = out.w + b * kBlock;
    weight.Halves(step, 0, out.d[b]);
    switch (dtype) {
      case DType::Q4_0: UnpackNibbles<2, 0, 8>(weight, step, w); break;
      case DType::Q5_0: UnpackNibbles<6, 2, 16>(weight, step, w); break;
      case DType::Q4_1:
        weight.Halves(step, 2, out.m[b]);
        UnpackNibbles<4, 0, 0>(weight, step, w);
        break;
      case DType::Q5_1:
        weight.Halves(step, 2, out.m[b]);
        UnpackNibbles<8, 4, 0>(weight, step, w);
        break;
      default: UnpackBytes(weight, step, w); break;
    }
  }
}

// Codes to values: d * code, or d * code + m, rounded at each step as in Dequantize.
LLMC_INLINE void Scale(bool has_min, int64_t n, Stretch& s) {
  for (int64_t b = 0; b < n / kBlock; ++b) {
    Lanes d, m;
    std::memcpy(d, s.d[b], sizeof d);
    std::memcpy(m, s.m[b], sizeof m);
    for (Lanes* w = s.w + b * kBlock; w < s.w + (b + 1) * kBlock; ++w) {
      for (int r = 0; r < kRows; ++r) (*w)[r] = d[r] * (*w)[r];
      if (!has_min) continue;
      for (int r = 0; r < kRows; ++r) (*w)[r] = (*w)[r] + m[r];
    }
  }
}

// Rows of x go through in fours with a named array each: so the sums stay in registers.
LLMC_INLINE void AddProduct(Lanes& sum, const float* w, float x) {
  for (int r = 0; r < kRows; ++r) sum[r] = __builtin_fmaf(x, w[r], sum[r]);
}

// acc += the stretch times x, from the stretch's first element on.
LLMC_INLINE void ChainFloat(const Stretch& s, int64_t n, const float* x, Lanes& acc) {
  Lanes sum;
  std::memcpy(sum, acc, sizeof sum);
  for (int64_t k = 0; k < n; ++k) AddProduct(sum, s.w[k], x[k]);
  std::memcpy(acc, sum, sizeof sum);
}

// The same for four rows of x, `stride` apart.
LLMC_INLINE void ChainFloat4(const Stretch& s, int64_t n, const float* x, int64_t stride, Lanes* acc) {
  Lanes sum0, sum1, sum2, sum3;
  std::memcpy(sum0, acc[0], sizeof sum0);
  std::memcpy(sum1, acc[1], sizeof sum1);
  std::memcpy(sum2, acc[2], sizeof sum2);
  std::memcpy(sum3, acc[3], sizeof sum3);
  for (int64_t k = 0; k < n; ++k) {
    AddProduct(sum0, s.w[k], x[k]);
    AddProduct(sum1, s.w[k], x[stride + k]);
    AddProduct(sum2, s.w[k], x[2 * stride + k]);
    AddProduct(sum3, s.w[k], x[3 * stride + k]);
  }
  std::memcpy(acc[0], sum0, sizeof sum0);
  std::memcpy(acc[1], sum1, sizeof sum1);
  std::memcpy(acc[2], sum2, sizeof sum2);
  std::memcpy(acc[3], sum3, sizeof sum3);
}

// A block's term of the sum: the minimum first, then the dot.
LLMC_INLINE void AddBlock(const Stretch& s, bool has_min, int64_t b, float d, float sum, const Lanes& dot, Lanes& acc) {
  if (has_min) {
    for (int r = 0; r < kRows; ++r) acc[r] = __builtin_fmaf(s.m[b][r], sum, acc[r]);
  }
  for (int r = 0; r < kRows; ++r) acc[r] = __builtin_fmaf(s.d[b][r] * d, dot[r], acc[r]);
}

// One row: the dot in four parts (it is exact, so any order will do), for their latency.
LLMC_INLINE void ChainCodes(const Stretch& s, bool has_min, int64_t n, const float* x, const float* d,
                            const float* sums, Lanes& acc) {
  for (int64_t b = 0; b < n / kBlock; ++b) {
    Lanes dot0 = {}, dot1 = {}, dot2 = {}, dot3 = {};
    for (int64_t k = b * kBlock; k < (b + 1) * kBlock; k += 4) {
      AddProduct(dot0, s.w[k], x[k]);
      AddProduct(dot1, s.w[k + 1], x[k + 1]);
      AddProduct(dot2, s.w[k + 2], x[k + 2]);
      AddProduct(dot3, s.w[k + 3], x[k + 3]);
    }
    for (int r = 0; r < kRows; ++r) dot0[r] = (dot0[r] + dot1[r]) + (dot2[r] + dot3[r]);
    AddBlock(s, has_min, b, d[b], sums[b], dot0, acc);
  }
}

LLMC_INLINE void ChainCodes4(const Stretch& s, bool has_min, int64_t n, const float* x, int64_t stride, const float* d,
                             const float* sums, int64_t d_stride, Lanes* acc) {
  for (int64_t b = 0; b < n / kBlock; ++b) {
    Lanes dot0 = {}, dot1 = {}, dot2 = {}, dot3 = {};
    for (int64_t k = b * kBlock; k < (b + 1) * kBlock; ++k) {
      AddProduct(dot0, s.w[k], x[k]);
      AddProduct(dot1, s.w[k], x[stride + k]);
      AddProduct(dot2, s.w[k], x[2 * stride + k]);
      AddProduct(dot3, s.w[k], x[3 * stride + k]);
    }
    AddBlock(s, has_min, b, d[b], sums[b], dot0, acc[0]);
    AddBlock(s, has_min, b, d[d_stride + b], sums[d_stride + b], dot1, acc[1]);
    AddBlock(s, has_min, b, d[2 * d_stride + b], sums[2 * d_stride + b], dot2, acc[2]);
    AddBlock(s, has_min, b, d[3 * d_stride + b], sums[3 * d_stride + b], dot3, acc[3]);
  }
}

// The loops above as functions of their own (each with registers to itself), once for any CPU and once for AVX2 with
// FMA.
struct Loops {
  void (*unpack)(const Weight&, DType, int64_t, int64_t, Stretch&);
  void (*scale)(bool, int64_t, Stretch&);
  void (*chain_float)(const Stretch&, int64_t, const float*, Lanes&);
  void (*chain_float4)(const Stretch&, int64_t, const float*, int64_t, Lanes*);
  void (*chain_codes)(const Stretch&, bool, int64_t, const float*, const float*, const float*, Lanes&);
  void (*chain_codes4)(const Stretch&, bool, int64_t, const float*, int64_t, const float*, const float*, int64_t,
                       Lanes*);
};

#define LLMC_LOOPS(version, attributes)                                                                           \
  attributes void Unpack##version(const Weight& w, DType dtype, int64_t k0, int64_t n, Stretch& s) {              \
    Unpack(w, dtype, k0, n, s);                                                                                   \
  }                                                                                                               \
  attributes void Scale##version(bool has_min, int64_t n, Stretch& s) { Scale(has_min, n, s); }                   \
  attributes void ChainFloat##version(const Stretch& s, int64_t n, const float* x, Lanes& acc) {                  \
    ChainFloat(s, n, x, acc);                                                                                     \
  }                                                                                                               \
  attributes void ChainFloat4##version(const Stretch& s, int64_t n, const float* x, int64_t stride, Lanes* acc) { \
    ChainFloat4(s, n, x, stride, acc);                                                                            \
  }                                                                                                               \
  attributes void ChainCodes##version(const Stretch& s, bool has_min, int64_t n, const float* x, const float* d,  \
                                      const float* sums, Lanes& acc) {                                            \
    ChainCodes(s, has_min, n, x, d, sums, acc);                                                                   \
  }                                                                                                               \
  attributes void ChainCodes4##version(const Stretch& s, bool has_min, int64_t n, const float* x, int64_t stride, \
                                       const float* d, const float* sums, int64_t d_stride, Lanes* acc) {         \
    ChainCodes4(s, has_min, n, x, stride, d, sums, d_stride, acc);                                                \
  }                                                                                                               \
  constexpr Loops k##version = {Unpack##version,      Scale##version,      ChainFloat##version,                   \
                                ChainFloat4##version, ChainCodes##version, ChainCodes4##version};

LLMC_LOOPS(Portable, )
#if defined(__x86_64__)
LLMC_LOOPS(Avx2, __attribute__((target("avx2,fma"))))
#endif
#undef LLMC_LOOPS

const Loops& LoopsOfThisCpu() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
  return kPortable;
}

void RunStretch(const Loops& loops, const LinearCall& call, bool has_min, const Stretch& s, int64_t k0, int64_t n,
                Lanes* acc) {
  const float* x = call.x + k0;
  const int64_t blocks = call.k / kBlock;
  int64_t row = 0;
  if (call.x_d == nullptr) {
    for (; row + 4 <= call.rows; row += 4) loops.chain_float4(s, n, x + row * call.k, call.k, acc + row);
    for (; row < call.rows; ++row) loops.chain_float(s, n, x + row * call.k, acc[row]);
    return;
  }
  const float* d = call.x_d + k0 / kBlock;
  const float* sums = call.x_s + k0 / kBlock;
  for (; row + 4 <= call.rows; row += 4) {
    loops.chain_codes4(s, has_min, n, x + row * call.k, call.k, d + row * blocks, sums + row * blocks, blocks,
                       acc + row);
  }
  for (; row < call.rows; ++row) {
    loops.chain_codes(s, has_min, n, x + row * call.k, d + row * blocks, sums + row * blocks, acc[row]);
  }
}

}  // namespace

void EvalLinearUnits(const LinearCall& call, std::span<const LinearUnit> units, bool portable) {
  const Loops& loops = portable ? kPortable : LoopsOfThisCpu();
  const bool has_min = call.dtype == DType::Q4_1 || call.dtype == DType::Q5_1;
  const bool block_type = InfoOf(call.dtype).cls == DTypeClass::BLOCK;
  std::vector<float> sums(static_cast<size_t>(call.rows * kRows));
  std::vector<float> totals(sums.size());
  auto* acc = reinterpret_cast<Lanes*>(sums.data());
  Stretch stretch;
  for (const LinearUnit& unit : units) {
    const Weight weight(call, unit);
    for (int64_t split = 0; split < call.k_split; ++split) {
      const int64_t begin = call.k / call.k_split * split;
      const int64_t end = call.k / call.k_split * (split + 1);
      std::fill(sums.begin(), sums.end(), 0.0F);
      for (int64_t k0 = begin; k0 < end; k0 += kStretch) {
        const int64_t n = std::min(kStretch, end - k0);
        loops.unpack(weight, call.dtype, k0, n, stretch);
        if (block_type && call.x_d == nullptr) loops.scale(has_min, n, stretch);
        RunStretch(loops, call, has_min, stretch, k0, n, acc);
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

}  // namespace llmc::ops
