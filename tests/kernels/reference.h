// Scalar references, straight from the definitions of ir/README.md (Numerics), in plain C++ on rows layouts. They share
// nothing with the kernels but the numbers of the enumerations. What the bytes of blocks of 256 say is ir's (blocks.h).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backends/kernels/kernel.h"
#include "tests/kernels/blocks.h"

namespace llmc::kernels_test {

using kernels::Type;

inline float Half(uint16_t bits) {
  _Float16 h;
  std::memcpy(&h, &bits, 2);
  return static_cast<float>(h);
}
inline uint16_t ToHalf(float x) {
  const _Float16 h = static_cast<_Float16>(x);
  uint16_t bits;
  std::memcpy(&bits, &h, 2);
  return bits;
}

// To the nearest value with 8 significant bits (fewer below 2^-126), ties to even, beyond the largest to infinity.
inline float RoundToBf16(float x) {
  if (std::isnan(x)) {  // quiet, with its sign and the upper bits of its payload
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    bits = (bits & 0xffff0000u) | 0x400000u;
    std::memcpy(&x, &bits, 4);
    return x;
  }
  if (x == 0 || std::isinf(x)) return x;
  const double step = std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7);
  return static_cast<float>(std::nearbyint(static_cast<double>(x) / step) * step);
}

struct BlockType {
  bool is_block, min, fifth, eight;
  int bytes, offset;
  int block = 32;
  bool own = true;  // what its bytes say is known here
};
inline BlockType InfoOf(Type t) {
  switch (t) {
    case kernels::kQ4_0: return {true, false, false, false, 18, 8};
    case kernels::kQ4_1: return {true, true, false, false, 20, 0};
    case kernels::kQ5_0: return {true, false, true, false, 22, 16};
    case kernels::kQ5_1: return {true, true, true, false, 24, 0};
    case kernels::kQ8_0: return {true, false, false, true, 34, 0};
    case kernels::kF32: return {false, false, false, false, 4, 0, 1};
    case kernels::kF16:
    case kernels::kBF16: return {false, false, false, false, 2, 0, 1};
    default: return {true, false, false, false, CodesOfBlock(t).bytes, 0, CodesOfBlock(t).codes, false};
  }
}

// A weight matrix as plain numbers, and its bytes in both layouts.
struct Matrix {
  Type type{};
  int64_t n = 0, k = 0;
  std::vector<float> values;         // dequantised [n, k]
  std::vector<int> codes;            // block types: signed codes [n, k] (minima: unsigned)
  std::vector<float> d, m;           // per block [n, k / 32]
  std::vector<int> scale, min;       // integers of 16 codes [n, k / 16]; empty: 1 and 1
  std::vector<uint8_t> rows, tiles;  // layouts; one part
};

// Bytes of tiles16 for n rows: each tile zero-padded to 16 rows.
inline std::vector<uint8_t> PackTiles(const Matrix& w) {
  const BlockType info = InfoOf(w.type);
  const int64_t tiles = (w.n + 15) / 16;
  const int64_t step_k = info.is_block ? 32 : w.type == kernels::kF32 ? 1 : 2;
  const int64_t steps = (w.k + step_k - 1) / step_k;
  const int64_t step_bytes = info.is_block ? 16 * info.bytes : 64;
  std::vector<uint8_t> out(static_cast<size_t>(tiles * steps * step_bytes), 0);
  for (int64_t r = 0; r < w.n; ++r) {
    const int64_t lane = r % 16;
    for (int64_t s = 0; s < steps; ++s) {
      uint8_t* step = out.data() + (r / 16 * steps + s) * step_bytes;
      if (!info.is_block) {
        const int64_t size = info.bytes;
        for (int64_t i = 0; i < step_k && s * step_k + i < w.k; ++i) {
          std::memcpy(step + 4 * lane + size * i, w.rows.data() + ((r * w.k) + s * step_k + i) * size,
                      static_cast<size_t>(size));
        }
        continue;
      }
      const uint8_t* block = w.rows.data() + (r * steps + s) * info.bytes;
      std::memcpy(step + 2 * lane, block, 2);
      block += 2;
      step += 32;
      if (info.min) {
        std::memcpy(step + 2 * lane, block, 2);
        block += 2;
        step += 32;
      }
      if (info.eight) {
        for (int k = 0; k < 32; ++k) step[64 * (k / 4) + 4 * lane + k % 4] = block[k];
        continue;
      }
      if (info.fifth) {
        for (int k = 0; k < 32; ++k) {
          uint8_t& bits = step[4 * lane + k % 4];
          bits = static_cast<uint8_t>(bits | (block[k / 8] >> k % 8 & 1) << k / 4);
        }
        block += 4;
        step += 64;
      }
      for (int k = 0; k < 32; ++k) {
        const int nibble = k < 16 ? block[k] & 15 : block[k - 16] >> 4;
        uint8_t& byte = step[64 * (k / 8) + 4 * lane + k % 4];
        byte = static_cast<uint8_t>(byte | nibble << (k % 8 < 4 ? 0 : 4));
      }
    }
  }
  return out;
}

enum class Extreme { None, Codes, Scales };  // all codes at an end of their range; scales zero, subnormal or large

inline Matrix RandomMatrix(Type type, int64_t n, int64_t k, std::mt19937& random, Extreme extreme = Extreme::None) {
  Matrix w;
  w.type = type;
  w.n = n;
  w.k = k;
  const BlockType info = InfoOf(type);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  const auto number = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  const auto byte = [](int x) { return static_cast<uint8_t>(x); };
  const auto push16 = [&](uint16_t bits) {
    w.rows.push_back(byte(bits & 255));
    w.rows.push_back(byte(bits >> 8));
  };
  const auto scale = [&]() -> uint16_t {
    if (extreme == Extreme::Scales) {
      const uint16_t choices[] = {0, 0x8000, 1, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x3c00};
      return choices[number(8)];
    }
    return ToHalf(0.02f * normal(random));
  };
  if (!info.own) {
    Blocks blocks = RandomBlocks(type, n, k, random, extreme == Extreme::Codes, extreme == Extreme::Scales, scale);
    w.rows = std::move(blocks.rows);
    w.tiles = std::move(blocks.tiles);
    w.values = std::move(blocks.values);
    w.codes = std::move(blocks.codes);
    w.d = std::move(blocks.d);
    w.m = std::move(blocks.m);
    w.scale = std::move(blocks.scale);
    w.min = std::move(blocks.min);
    return w;
  }
  for (int64_t r = 0; r < n; ++r) {
    if (!info.is_block) {
      for (int64_t i = 0; i < k; ++i) {
        float v = normal(random) * 0.1f;
        if (extreme == Extreme::Scales && number(3) == 0)
          v = number(2) ? 0x1p-140f * static_cast<float>(number(100)) : -0.0f;
        uint32_t bits;
        std::memcpy(&bits, &v, 4);
        if (type == kernels::kF32) {
          push16(static_cast<uint16_t>(bits & 0xffff));
          push16(static_cast<uint16_t>(bits >> 16));
        } else if (type == kernels::kF16) {
          push16(
              ToHalf(extreme == Extreme::Scales && number(3) == 0 ? 0x1p-24f * static_cast<float>(number(1023)) : v));
          v = Half(static_cast<uint16_t>(w.rows[w.rows.size() - 2] | w.rows.back() << 8));
        } else {
          push16(static_cast<uint16_t>(bits >> 16));
          bits &= 0xffff0000;
          std::memcpy(&v, &bits, 4);
        }
        w.values.push_back(v);
      }
      continue;
    }
    for (int64_t b = 0; b < k / 32; ++b) {
      const uint16_t d = scale();
      push16(d);
      w.d.push_back(Half(d));
      const uint16_t m = info.min ? scale() : uint16_t{0};
      if (info.min) push16(m);
      w.m.push_back(Half(m));
      int raw[32];
      const int end = info.eight ? 256 : info.fifth ? 32 : 16;
      for (int& code : raw) code = extreme == Extreme::Codes ? (number(4) ? end - 1 : 0) : number(end);
      if (info.eight) {
        for (int i = 0; i < 32; ++i) {
          if (extreme == Extreme::Codes) raw[i] = number(4) ? 128 : 127;
          w.rows.push_back(byte(raw[i]));
          raw[i] = static_cast<int8_t>(raw[i]);
        }
      } else {
        if (info.fifth) {
          uint32_t bits = 0;
          for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(raw[i] >> 4) << i;
          push16(static_cast<uint16_t>(bits & 0xffff));
          push16(static_cast<uint16_t>(bits >> 16));
        }
        for (int i = 0; i < 16; ++i) w.rows.push_back(byte((raw[i] & 15) | (raw[i + 16] & 15) << 4));
      }
      for (int code : raw) {
        w.codes.push_back(code - info.offset);
        const float product = w.d.back() * static_cast<float>(code - info.offset);
        w.values.push_back(info.min ? product + w.m.back() : product);
      }
    }
  }
  w.tiles = PackTiles(w);
  return w;
}

inline std::vector<float> RandomFloats(size_t n, std::mt19937& random, float scale = 1.0f) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> out(n);
  for (float& v : out) v = normal(random);
  return out;
}

// 2^(t - 127), +0 for t <= 0.
inline float Pow2(float t) { return t > 0 ? std::ldexp(1.0f, static_cast<int>(t) - 127) : 0.0f; }
inline float Exp2Parts(float x, float& n) {
  n = std::nearbyint(x);
  const float f = x - n;
  float p = 0x1.4454b2p-12f;
  for (float coefficient : {0x1.5f1c46p-9f, 0x1.3b2f4cp-6f, 0x1.c6aff4p-4f, 0x1.ebfbcep-2f, 0x1.62e42ep+0f, 0x1p+1f})
    p = std::fma(p, f, coefficient);
  return p;
}
inline float Silu(float g) {
  float x = g * -0x1.715476p+0f;
  x = x < 125 ? x : 125;
  float n;
  const float p = Exp2Parts(x, n);
  return g / (1.0f + p * Pow2(n + 126));
}
inline float TreeSum(std::vector<float> lanes) {
  for (size_t w = 8; w > 0; w /= 2) {
    for (size_t i = 0; i < w; ++i) lanes[i] = lanes[i] + lanes[i + w];
  }
  return lanes[0];
}
inline std::vector<float> RmsNorm(const float* x, const std::vector<float>& gain, float eps) {
  std::vector<float> lanes(16, 0.0f), y(gain.size());
  for (size_t i = 0; i < gain.size(); ++i) lanes[i % 16] = std::fma(x[i], x[i], lanes[i % 16]);
  const float r = 1.0f / std::sqrt(TreeSum(lanes) / static_cast<float>(gain.size()) + eps);
  for (size_t i = 0; i < gain.size(); ++i) y[i] = (x[i] * r) * gain[i];
  return y;
}

struct Quantized {
  std::vector<int> codes, sum;  // sum: of all codes of a block, and of its first 16 times 2^16
  std::vector<float> d, s;
  std::vector<uint8_t> bytes;  // the a8 row
};
inline Quantized Quantize(const float* x, int64_t k) {
  Quantized q;
  for (int64_t b = 0; b < k; b += 32) {
    float max = 0;
    for (int i = 0; i < 32; ++i) max = std::max(max, std::fabs(x[b + i]));
    if (!(max > 0x1p-80f)) max = 0;
    const float inverse = max > 0 ? 127.0f / max : 0.0f;
    int sum = 0, first = 0;
    for (int i = 0; i < 32; ++i) {
      const float scaled = x[b + i] * inverse;
      q.codes.push_back(static_cast<int>(std::nearbyint(scaled)));
      sum += q.codes.back();
      if (i < 16) first += q.codes.back();
    }
    q.d.push_back(max * 0x1.020408p-7f);
    q.s.push_back(q.d.back() * static_cast<float>(sum));
    q.sum.push_back((sum & 0xffff) | first * 65536);
  }
  for (int code : q.codes) q.bytes.push_back(static_cast<uint8_t>(code));
  const auto append = [&](const auto& values) {
    const auto* p = reinterpret_cast<const uint8_t*>(values.data());
    q.bytes.insert(q.bytes.end(), p, p + values.size() * 4);
  };
  append(q.d);
  append(q.s);
  append(q.sum);
  return q;
}

// A block of 32 elements of a q8_0 cache [slots, heads, dim] into its bytes; x becomes what the cache holds.
inline void PutCacheBlock(std::vector<uint8_t>& bytes, kernels::Layout layout, int64_t slots, int64_t heads,
                          int64_t dim, int64_t slot, int64_t head, int64_t block, float* x) {
  const Quantized q = Quantize(x, 32);
  const uint16_t d = ToHalf(q.d[0]);
  const bool keys = layout == kernels::kKeys16;
  const int64_t row = keys                              ? head * ((slots + 15) / 16) + slot / 16
                      : layout == kernels::kLayoutHeads ? head * slots + slot
                                                        : slot * heads + head;
  uint8_t* at = bytes.data() + (row * (dim / 32) + block) * (keys ? 544 : 34);
  std::memcpy(keys ? at + 2 * (slot % 16) : at, &d, 2);
  for (int64_t i = 0; i < 32; ++i) {
    const int code = q.codes[static_cast<size_t>(i)];
    at[keys ? 32 + 16 * i + slot % 16 : 2 + i] = static_cast<uint8_t>(code);
    x[i] = Half(d) * static_cast<float>(code);
  }
}

// Output `row` of a linear without bias.
inline float LinearA8(const Quantized& x, const Matrix& w, int64_t row, int64_t k_split) {
  const int64_t blocks = w.k / 32, part = blocks / k_split;
  float total = 0;
  for (int64_t s = 0; s < k_split; ++s) {
    float acc = 0;
    for (int64_t b = s * part; b < (s + 1) * part; ++b) {
      const size_t at = static_cast<size_t>(row * blocks + b), block = static_cast<size_t>(b);
      int dot = 0, mins = 0;
      for (int64_t i = 32 * b; i < 32 * b + 32; ++i) {
        const size_t half = 2 * at + static_cast<size_t>(i / 16 % 2);
        const int a = x.codes[static_cast<size_t>(i)];
        dot += (w.scale.empty() ? 1 : w.scale[half]) * w.codes[static_cast<size_t>(row * w.k + i)] * a;
        mins += w.min.empty() ? 0 : w.min[half] * a;
      }
      if (w.type == kernels::kQ2_K) {
        acc = std::fma(w.m[at] * x.d[block], static_cast<float>(mins), acc);
      } else if (InfoOf(w.type).min || w.type == kernels::kQ4_K || w.type == kernels::kQ5_K) {
        acc = std::fma(w.m[at], x.s[block], acc);
      }
      const float scale = w.d[at] * x.d[block];
      acc = std::fma(scale, static_cast<float>(dot), acc);
    }
    total = s == 0 ? acc : total + acc;
  }
  return total;
}
inline float LinearF32(const float* x, const Matrix& w, int64_t row, int64_t k_split) {
  const int64_t part = w.k / k_split;
  float total = 0;
  for (int64_t s = 0; s < k_split; ++s) {
    float acc = 0;
    for (int64_t i = s * part; i < (s + 1) * part; ++i)
      acc = std::fma(x[i], w.values[static_cast<size_t>(row * w.k + i)], acc);
    total = s == 0 ? acc : total + acc;
  }
  return total;
}

}  // namespace llmc::kernels_test
