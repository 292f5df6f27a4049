// The inner part of `linear`, 16 weight rows at a time: unpack a stretch of K to floats, one weight row per lane, then
// run the chains of the definition in 16 lanes. Built -O3 and dispatched by CPU; every fma is explicit and contraction
// is off, so that both versions give the same bits.
//
// Dots of codes, with the integer scales of 16 codes in them, run in f32: they are integers below 2^24 (32 * 127 times
// 128, or times q6_k's 128 * 32), so each sum is exact and any order gives the integer of the definition.
#include "ir/ops/linear_eval.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ir/block_format.h"
#include "ir/layout.h"
#include "ir/math.h"

// The helpers must be inlined into the versions for each CPU.
#define LLMC_INLINE inline __attribute__((always_inline))

namespace llmc::ops {
namespace {

constexpr int kRows = kTileRows;
constexpr int64_t kStretch = 256;  // K elements unpacked at a time: 16 KB
constexpr int64_t kBlock = kCodes;
constexpr size_t kMaxBlock = 256;  // bytes of a block at most

using Lanes = float[kRows];  // a number per weight row

struct Stretch {
  alignas(64) Lanes w[kStretch];                // codes, or values
  alignas(64) Lanes d[kStretch / kBlock];       // block types: scales
  alignas(64) Lanes m[kStretch / kBlock];       // and minima
  alignas(64) Lanes min[kStretch / kBlock][2];  // by which m is multiplied, of each 16 codes
};
// How minima are added.
enum class Min { None, One, Halves };

// Half of the 16 lanes, as a vector of the compiler: what it can't find in loops over bits and conversions.
using Words8 = uint32_t __attribute__((vector_size(32)));
using Ints8 = int32_t __attribute__((vector_size(32)));
using Floats8 = float __attribute__((vector_size(32)));

// One unit's weight: 32- and 16-bit columns of its 16 rows, in either layout.
struct Weight {
  const DType dtype;
  bool tiled;
  const std::byte* tile;
  const std::byte* rows[kRows];  // rows layout; what the unit lacks repeats its last row
  int64_t step_bytes;            // of a step of the tile
  int64_t block_bytes;           // of the same elements in one row
  int64_t row_bytes;             // the word at the end of a row may be cut

  Weight(const LinearCall& call, const LinearUnit& unit)
      : dtype(call.dtype),
        tiled(call.tiled),
        tile(unit.weight),
        step_bytes(TileStepBytes(call.dtype)),
        block_bytes(
            RowBytes(call.dtype, InfoOf(call.dtype).block == 1 ? TileStepK(call.dtype) : InfoOf(call.dtype).block)),
        row_bytes(RowBytes(call.dtype, call.k)) {
    for (int r = 0; r < kRows; ++r) rows[r] = unit.weight + std::min(r, unit.n_rows - 1) * row_bytes;
  }

  // Word `word` of every row's elements, in two vectors: 4 bytes, less where a row ends.
  LLMC_INLINE void Words(int64_t step, Words8* v) const {
    if (tiled) {
      const std::byte* from = tile + step * step_bytes;
      std::memcpy(&v[0], from, sizeof v[0]);
      std::memcpy(&v[1], from + 32, sizeof v[1]);
      return;
    }
    const int64_t offset = step * block_bytes;
    const auto bytes = static_cast<size_t>(std::min<int64_t>(4, row_bytes - offset));
    uint32_t words[kRows] = {};
    if (bytes == 4) {
      for (int r = 0; r < kRows; ++r) std::memcpy(&words[r], rows[r] + offset, 4);
    } else {
      for (int r = 0; r < kRows; ++r) std::memcpy(&words[r], rows[r] + offset, bytes);
    }
    std::memcpy(v, words, sizeof words);
  }

  // Scales of part j of a step.
  LLMC_INLINE void Scales(const BlockFormat& format, int64_t step, int j, int64_t b, Lanes* scale, Stretch& out) const {
    std::byte head[kMaxBlock];
    for (int r = 0; r < kRows; ++r) {
      const std::byte* block = tiled ? head : rows[r] + step * block_bytes;
      if (tiled) UnpackHead(dtype, tile + step * step_bytes, r, head);
      const BlockScales s = ReadScales(dtype, block, j);
      out.d[b][r] = s.d;
      if (format.has_min) out.m[b][r] = s.m;
      for (int h = 0; h < 2; ++h) {
        if (format.has_mins) out.min[b][h][r] = static_cast<float>(s.min[h]);
        if (format.has_scales) scale[h][r] = static_cast<float>(s.scale[h]);
      }
    }
  }

  // Raw codes 4g .. 4g + 3 of part j of a step, a byte each, of every row.
  LLMC_INLINE void Codes(const BlockFormat& format, int64_t step, int j, Words8 (*words)[2]) const {
    if (!tiled) {
      uint8_t raw[kRows][kCodes];
      for (int r = 0; r < kRows; ++r) ReadCodes(dtype, rows[r] + step * block_bytes, j, raw[r]);
      for (int g = 0; g < kCodes / 4; ++g) {
        uint32_t column[kRows];
        for (int r = 0; r < kRows; ++r) std::memcpy(&column[r], raw[r] + 4 * g, 4);
        std::memcpy(words[g], column, sizeof column);
      }
      return;
    }
    const std::byte* from =
        tile + step * step_bytes + format.head_bytes + static_cast<ptrdiff_t>(j) * format.plane_bytes;
    for (int g = 0; g < kCodes / 4; ++g) words[g][0] = words[g][1] = Words8{};
    for (const CodePlane& plane : format.planes) {
      const int fields = 8 / plane.bits;
      const uint32_t mask = ((1U << plane.bits) - 1) * 0x01010101U;
      for (int v = 0; v < plane.bits; ++v, from += 64) {
        Words8 both[2];
        std::memcpy(both, from, sizeof both);
        for (int f = 0; f < fields; ++f) {
          for (int half = 0; half < 2; ++half) {
            words[v * fields + f][half] |= ((both[half] >> (plane.bits * f)) & mask) << plane.low;
          }
        }
      }
    }
  }
};

LLMC_INLINE void StoreFloats(const Ints8& codes, float* out) {
  const Floats8 values = __builtin_convertvector(codes, Floats8);
  std::memcpy(out, &values, sizeof values);
}

// Part j of a step: signed codes times their 16's scale, as f32. Signed codes are raw ones less the code of zero, bytes
// with a sign, or come from a table.
enum class CodeKind { Offset, Byte, Table };
LLMC_INLINE void UnpackPart(const Weight& weight, const BlockFormat& format, CodeKind kind, int64_t step, int j,
                            int64_t b, Stretch& out) {
  Lanes scale[2];
  weight.Scales(format, step, j, b, scale, out);
  Words8 words[kCodes / 4][2];
  weight.Codes(format, step, j, words);
  const int zero = -SignedCode(weight.dtype, 0);
  for (int k = 0; k < kCodes; ++k) {
    float* to = out.w[b * kBlock + k];
    for (int half = 0; half < 2; ++half) {
      const Words8& word = words[k / 4][half];
      if (kind == CodeKind::Byte) {
        StoreFloats(reinterpret_cast<Ints8>(word << (24 - 8 * (k % 4))) >> 24, to + 8 * half);
        continue;
      }
      Ints8 code = reinterpret_cast<Ints8>((word >> (8 * (k % 4))) & 255U);
      if (kind == CodeKind::Offset) {
        code -= zero;
      } else {
        for (int r = 0; r < 8; ++r) code[r] = SignedCode(weight.dtype, static_cast<uint8_t>(code[r]));
      }
      StoreFloats(code, to + 8 * half);
    }
    if (format.has_scales) {
      for (int r = 0; r < kRows; ++r) to[r] = scale[k / 16][r] * to[r];
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
LLMC_INLINE void Unpack(const Weight& weight, int64_t k0, int64_t n, Stretch& out) {
  switch (weight.dtype) {
    case DType::F32:
      for (int64_t k = 0; k < n; ++k) {
        Words8 v[2];
        weight.Words(k0 + k, v);
        std::memcpy(out.w[k], v, sizeof v);
      }
      return;
    case DType::F16:
    case DType::BF16:
      // k0 is even: only the last stretch can have an odd length.
      for (int64_t k = 0; k < n; k += 2) {
        Words8 v[2];
        weight.Words((k0 + k) / 2, v);
        for (int i = 0; i < 2 && k + i < n; ++i) {
          for (int half = 0; half < 2; ++half) {
            float* to = &out.w[k + i][8 * half];
            const Words8 bits = (v[half] >> (16 * i)) & 0xffffU;
            if (weight.dtype == DType::F16) {
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
  const BlockFormat& format = BlockFormatOf(weight.dtype);
  const int64_t parts = InfoOf(weight.dtype).block / kBlock;
  for (int64_t b = 0; b < n / kBlock; ++b) {
    const int64_t step = (k0 / kBlock + b) / parts;
    const int j = static_cast<int>((k0 / kBlock + b) % parts);
    switch (weight.dtype) {
      case DType::Q8_0: UnpackPart(weight, format, CodeKind::Byte, step, j, b, out); break;
      case DType::IQ4_NL:
      case DType::IQ4_XS:
      case DType::MXFP4: UnpackPart(weight, format, CodeKind::Table, step, j, b, out); break;
      default: UnpackPart(weight, format, CodeKind::Offset, step, j, b, out); break;
    }
  }
}

// Codes to values: d * code, and the minimum, rounded at each step as in Dequantize.
LLMC_INLINE void Scale(Min min, int64_t n, Stretch& s) {
  for (int64_t b = 0; b < n / kBlock; ++b) {
    for (int64_t k = 0; k < kBlock; ++k) {
      float* w = s.w[b * kBlock + k];
      for (int r = 0; r < kRows; ++r) w[r] = s.d[b][r] * w[r];
      if (min == Min::One) {
        for (int r = 0; r < kRows; ++r) w[r] = w[r] + s.m[b][r];
      } else if (min == Min::Halves) {
        for (int r = 0; r < kRows; ++r) w[r] = w[r] + s.m[b][r] * s.min[b][k / 16][r];
      }
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

// Scales and sums of a block of x.
struct BlockOfX {
  float d, s;           // s = d * f32(sum of the codes)
  float first, second;  // sums of the first and of the last 16 codes
};
struct RowScales {
  const float *d, *s, *first, *second;
  LLMC_INLINE BlockOfX At(int64_t b) const { return {d[b], s[b], first[b], second[b]}; }
};

// A block's term of the sum: the minimum first, then the dot.
LLMC_INLINE void AddBlock(const Stretch& s, Min min, int64_t b, const BlockOfX& x, const Lanes& dot, Lanes& acc) {
  if (min == Min::One) {
    for (int r = 0; r < kRows; ++r) acc[r] = __builtin_fmaf(s.m[b][r], x.s, acc[r]);
  } else if (min == Min::Halves) {
    for (int r = 0; r < kRows; ++r) {
      const float mins = s.min[b][0][r] * x.first + s.min[b][1][r] * x.second;  // integers below 2^24
      acc[r] = __builtin_fmaf(s.m[b][r] * x.d, mins, acc[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) acc[r] = __builtin_fmaf(s.d[b][r] * x.d, dot[r], acc[r]);
}

// One row: the dot in four parts (it is exact, so any order will do), for their latency.
LLMC_INLINE void ChainCodes(const Stretch& s, Min min, int64_t n, const float* x, const RowScales& scales, Lanes& acc) {
  for (int64_t b = 0; b < n / kBlock; ++b) {
    Lanes dot0 = {}, dot1 = {}, dot2 = {}, dot3 = {};
    for (int64_t k = b * kBlock; k < (b + 1) * kBlock; k += 4) {
      AddProduct(dot0, s.w[k], x[k]);
      AddProduct(dot1, s.w[k + 1], x[k + 1]);
      AddProduct(dot2, s.w[k + 2], x[k + 2]);
      AddProduct(dot3, s.w[k + 3], x[k + 3]);
    }
    for (int r = 0; r < kRows; ++r) dot0[r] = (dot0[r] + dot1[r]) + (dot2[r] + dot3[r]);
    AddBlock(s, min, b, scales.At(b), dot0, acc);
  }
}

LLMC_INLINE void ChainCodes4(const Stretch& s, Min min, int64_t n, const float* x, int64_t stride,
                             const RowScales& scales, int64_t scale_stride, Lanes* acc) {
  for (int64_t b = 0; b < n / kBlock; ++b) {
    Lanes dot0 = {}, dot1 = {}, dot2 = {}, dot3 = {};
    for (int64_t k = b * kBlock; k < (b + 1) * kBlock; ++k) {
      AddProduct(dot0, s.w[k], x[k]);
      AddProduct(dot1, s.w[k], x[stride + k]);
      AddProduct(dot2, s.w[k], x[2 * stride + k]);
      AddProduct(dot3, s.w[k], x[3 * stride + k]);
    }
    AddBlock(s, min, b, scales.At(b), dot0, acc[0]);
    AddBlock(s, min, b, scales.At(scale_stride + b), dot1, acc[1]);
    AddBlock(s, min, b, scales.At(2 * scale_stride + b), dot2, acc[2]);
    AddBlock(s, min, b, scales.At(3 * scale_stride + b), dot3, acc[3]);
  }
}

// The loops above as functions of their own (each with registers to itself), once for any CPU and once for AVX2 with
// FMA.
struct Loops {
  void (*unpack)(const Weight&, int64_t, int64_t, Stretch&);
  void (*scale)(Min, int64_t, Stretch&);
  void (*chain_float)(const Stretch&, int64_t, const float*, Lanes&);
  void (*chain_float4)(const Stretch&, int64_t, const float*, int64_t, Lanes*);
  void (*chain_codes)(const Stretch&, Min, int64_t, const float*, const RowScales&, Lanes&);
  void (*chain_codes4)(const Stretch&, Min, int64_t, const float*, int64_t, const RowScales&, int64_t, Lanes*);
};

#define LLMC_LOOPS(version, attributes)                                                                           \
  attributes void Unpack##version(const Weight& w, int64_t k0, int64_t n, Stretch& s) { Unpack(w, k0, n, s); }    \
  attributes void Scale##version(Min min, int64_t n, Stretch& s) { Scale(min, n, s); }                            \
  attributes void ChainFloat##version(const Stretch& s, int64_t n, const float* x, Lanes& acc) {                  \
    ChainFloat(s, n, x, acc);                                                                                     \
  }                                                                                                               \
  attributes void ChainFloat4##version(const Stretch& s, int64_t n, const float* x, int64_t stride, Lanes* acc) { \
    ChainFloat4(s, n, x, stride, acc);                                                                            \
  }                                                                                                               \
  attributes void ChainCodes##version(const Stretch& s, Min min, int64_t n, const float* x, const RowScales& d,   \
                                      Lanes& acc) {                                                               \
    ChainCodes(s, min, n, x, d, acc);                                                                             \
  }                                                                                                               \
  attributes void ChainCodes4##version(const Stretch& s, Min min, int64_t n, const float* x, int64_t stride,      \
                                       const RowScales& d, int64_t d_stride, Lanes* acc) {                        \
    ChainCodes4(s, min, n, x, stride, d, d_stride, acc);                                                          \
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

void RunStretch(const Loops& loops, const LinearCall& call, Min min, const Stretch& s, int64_t k0, int64_t n,
                Lanes* acc) {
  const float* x = call.x + k0;
  const int64_t blocks = call.k / kBlock;
  int64_t row = 0;
  if (call.x_d == nullptr) {
    for (; row + 4 <= call.rows; row += 4) loops.chain_float4(s, n, x + row * call.k, call.k, acc + row);
    for (; row < call.rows; ++row) loops.chain_float(s, n, x + row * call.k, acc[row]);
    return;
  }
  const auto scales = [&](int64_t r) {
    const int64_t at = r * blocks + k0 / kBlock;
    return RowScales{call.x_d + at, call.x_s + at, call.x_first + at, call.x_second + at};
  };
  for (; row + 4 <= call.rows; row += 4) {
    loops.chain_codes4(s, min, n, x + row * call.k, call.k, scales(row), blocks, acc + row);
  }
  for (; row < call.rows; ++row) loops.chain_codes(s, min, n, x + row * call.k, scales(row), acc[row]);
}

Min MinOf(DType dtype) {
  if (InfoOf(dtype).cls != DTypeClass::BLOCK) return Min::None;
  const BlockFormat& format = BlockFormatOf(dtype);
  return format.has_mins ? Min::Halves : format.has_min ? Min::One : Min::None;
}

}  // namespace

void EvalLinearUnits(const LinearCall& call, std::span<const LinearUnit> units, bool portable) {
  const Loops& loops = portable ? kPortable : LoopsOfThisCpu();
  const Min min = MinOf(call.dtype);
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
        loops.unpack(weight, k0, n, stretch);
        if (block_type && call.x_d == nullptr) loops.scale(min, n, stretch);
        RunStretch(loops, call, min, stretch, k0, n, acc);
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
