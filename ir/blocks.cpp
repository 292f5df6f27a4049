// Element formats: half floats and ggml's 32-code blocks, to f32 and from it.
// Block layouts are those of ir/dtypes.def; each formula is stated where it is used and in ir/README.md.
#include "ir/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/block_format.h"
#include "ir/diag.h"
#include "ir/math.h"
#include "ir/quantize_blocks.h"

namespace llmc {
namespace {

constexpr int kBlock = 32;

uint16_t LoadU16(const std::byte* p) {
  uint16_t v = 0;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void Store(std::byte* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

// 32 weights.
void DequantizePart(DType dtype, const BlockFormat& format, const std::byte* block, int j, float* out) {
  const BlockScales s = ReadScales(dtype, block, j);
  uint8_t raw[kCodes];
  ReadCodes(dtype, block, j, raw);
  for (int k = 0; k < kCodes; ++k) {
    const int half = k / 16;
    // In this order zeros have gguf-py's signs.
    const float scale = s.d * static_cast<float>(s.scale[half]);
    out[k] = scale * static_cast<float>(SignedCode(dtype, raw[k]));
  }
  if (!format.has_min) return;
  for (int k = 0; k < kCodes; ++k) {
    const int half = k / 16;
    out[k] = out[k] + s.m * static_cast<float>(s.min[half]);
  }
}

// Byte offsets in a block of a 4- or 5-bit type: f16 d, [f16 m], [u32 fifth bits], 16 bytes of nibbles.
struct NibbleFormat {
  bool has_min;
  bool has_fifth;
  int offset() const { return has_fifth ? 16 : 8; }  // subtracted from the codes when there is no minimum
  size_t fifth_at() const { return has_min ? 4 : 2; }
  size_t nibbles_at() const { return fifth_at() + (has_fifth ? 4 : 0); }
};

// The integer part of v (towards zero) within [low, high]; NaN gives low.
int Truncate(float v, int low, int high) {
  const auto least = static_cast<float>(low);
  const auto most = static_cast<float>(high);
  const float above = v > least ? v : least;
  return static_cast<int>(above < most ? above : most);
}

// The first element of largest magnitude, with its sign; NaNs aside.
float Extreme(const float* x) {
  float largest = 0;
  for (int k = 0; k < kBlock; ++k) largest = std::fabs(x[k]) > largest ? std::fabs(x[k]) : largest;
  for (int k = 0; k < kBlock; ++k) {
    if (std::fabs(x[k]) == largest && largest > 0) return x[k];
  }
  return 0;
}

// Nearest integer, ties away from zero, within [-127, 127]; NaN gives 0.
int RoundAway(float v) {
  const float magnitude = v < 0 ? -v : v;
  const int whole = Truncate(magnitude, 0, 127);
  const int rounded = std::min(127, whole + (magnitude - static_cast<float>(whole) >= 0.5F ? 1 : 0));
  return v < 0 ? -rounded : rounded;
}

// q4_0, q5_0: d = extreme / -offset, where `extreme` is the element of largest magnitude with its sign; code = trunc(x
// / d + offset + 0.5). q4_1, q5_1: m = least element, d = (largest - m) / top; code = trunc((x - m) / d + 0.5). 1 / d
// is rounded first, and d = 0 gives codes of x = 0.
void QuantizeNibbles(const NibbleFormat& format, const float* in, std::byte* block) {
  const int top = format.has_fifth ? 31 : 15;
  float d = 0;
  float start = 0;  // what code 0 stands for, as a subtrahend
  float bias = 0;   // added before truncation
  if (format.has_min) {
    float low = in[0];
    float high = in[0];
    for (int k = 1; k < kBlock; ++k) {
      low = in[k] < low ? in[k] : low;
      high = in[k] > high ? in[k] : high;
    }
    d = (high - low) / static_cast<float>(top);
    start = low;
    bias = 0.5F;
    Store(block + 2, math::FloatToHalf(low));
  } else {
    d = Extreme(in) / static_cast<float>(-format.offset());
    bias = static_cast<float>(format.offset()) + 0.5F;
  }
  const float inverse = d != 0.0F ? 1.0F / d : 0.0F;
  Store(block, math::FloatToHalf(d));
  uint32_t fifth = 0;
  std::byte* nibbles = block + format.nibbles_at();
  for (int k = 0; k < 16; ++k) {
    const int low = Truncate((in[k] - start) * inverse + bias, 0, top);
    const int high = Truncate((in[k + 16] - start) * inverse + bias, 0, top);
    nibbles[k] = static_cast<std::byte>((low & 15) | ((high & 15) << 4));
    fifth |= static_cast<uint32_t>(low >> 4) << k | static_cast<uint32_t>(high >> 4) << (k + 16);
  }
  if (format.has_fifth) Store(block + format.fifth_at(), fifth);
}

// d = absmax / 127; code = x * (1 / d) to nearest, ties away from zero.
void QuantizeQ8(const float* in, std::byte* block) {
  float largest = 0;
  for (int k = 0; k < kBlock; ++k) largest = std::fabs(in[k]) > largest ? std::fabs(in[k]) : largest;
  const float d = largest / 127.0F;
  const float inverse = d != 0.0F ? 1.0F / d : 0.0F;
  Store(block, math::FloatToHalf(d));
  for (int k = 0; k < kBlock; ++k) Store(block + 2 + k, static_cast<int8_t>(RoundAway(in[k] * inverse)));
}

NibbleFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::Q4_0: return {false, false};
    case DType::Q4_1: return {true, false};
    case DType::Q5_0: return {false, true};
    case DType::Q5_1: return {true, true};
    default: LLMC_CHECK(false, "not a block type of 4 or 5 bits: " + std::string(InfoOf(dtype).text));
  }
}

}  // namespace

float F16ToF32(uint16_t half) { return math::HalfToFloat(half); }
uint16_t F32ToF16(float value) { return math::FloatToHalf(value); }
float Bf16ToF32(uint16_t bits) { return math::BfloatToFloat(bits); }
uint16_t F32ToBf16(float value) { return math::FloatToBfloat(value); }

void Dequantize(DType dtype, const std::byte* in, int64_t n, float* out) {
  const DTypeInfo& info = InfoOf(dtype);
  LLMC_CHECK(n % info.block == 0, "Dequantize: " + std::to_string(n) + " elements are not whole blocks");
  switch (dtype) {
    case DType::F32: std::memcpy(out, in, static_cast<size_t>(n) * sizeof(float)); return;
    case DType::F16:
      for (int64_t i = 0; i < n; ++i) out[i] = math::HalfToFloat(LoadU16(in + 2 * i));
      return;
    case DType::BF16:
      for (int64_t i = 0; i < n; ++i) out[i] = math::BfloatToFloat(LoadU16(in + 2 * i));
      return;
    default: {
      const BlockFormat& format = BlockFormatOf(dtype);
      for (int64_t b = 0; b < n / kCodes; ++b) {
        const int64_t parts = info.block / kCodes;
        DequantizePart(dtype, format, in + b / parts * info.block_bytes, static_cast<int>(b % parts), out + b * kCodes);
      }
    }
  }
}

void QuantizeRow(DType dtype, const float* in, int64_t n, std::byte* out) {
  const DTypeInfo& info = InfoOf(dtype);
  LLMC_CHECK(n % info.block == 0, "QuantizeRow: " + std::to_string(n) + " elements are not whole blocks");
  switch (dtype) {
    case DType::F32: std::memcpy(out, in, static_cast<size_t>(n) * sizeof(float)); return;
    case DType::F16:
      for (int64_t i = 0; i < n; ++i) Store(out + 2 * i, math::FloatToHalf(in[i]));
      return;
    case DType::BF16:
      for (int64_t i = 0; i < n; ++i) Store(out + 2 * i, math::FloatToBfloat(in[i]));
      return;
    case DType::Q8_0:
      for (int64_t b = 0; b < n / kBlock; ++b) QuantizeQ8(in + b * kBlock, out + b * info.block_bytes);
      return;
    case DType::Q4_0:
    case DType::Q4_1:
    case DType::Q5_0:
    case DType::Q5_1: {
      const NibbleFormat format = FormatOf(dtype);
      for (int64_t b = 0; b < n / kBlock; ++b) QuantizeNibbles(format, in + b * kBlock, out + b * info.block_bytes);
      return;
    }
    default:
      for (int64_t b = 0; b < n / info.block; ++b) {
        QuantizeBlock(dtype, in + b * info.block, out + b * info.block_bytes);
      }
  }
}

}  // namespace llmc
