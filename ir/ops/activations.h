// The bytes of a row of a8 activations: K codes, then K/32 each of d, s = d * f32(sum of codes), and two i16 sums: of
// all the codes, and of the first 16 (blocks with scales for 16 codes need both).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ir/math.h"

namespace llmc::ops {

// `quantize` of 32 values: codes, and the largest magnitude (0 where it is flushed; not finite where a value isn't, and
// codes are then any in -127..127).
inline float QuantizeCodes(const float* x, int8_t* codes) {
  uint32_t bits = 0;  // of the largest magnitude: they order as the values do, infinity above, NaNs above that
  for (int k = 0; k < 32; ++k) bits = std::max(bits, math::ToBits(x[k]) & 0x7fffffffU);
  const float largest = bits > math::ToBits(math::kQuantizeFlush) ? math::FromBits(bits) : 0.0F;
  const float inverse = largest > 0 ? 127.0F / largest : 0.0F;
  // |x * inverse| <= 127.5 for finite x; what is beyond comes from an element that isn't finite and gives code 0.
  for (int k = 0; k < 32; ++k) {
    const float scaled = x[k] * inverse;
    codes[k] = static_cast<int8_t>(scaled < 127.5F && scaled > -127.5F ? math::Rint(scaled) : 0.0F);
  }
  return largest;
}

struct ActivationRow {
  int8_t* codes;
  float* d;
  float* s;
  int16_t* sums;  // [2 b]: of block b; [2 b + 1]: of its first 16 codes
};

// K is a multiple of 32, so every part is aligned to 4 bytes when `data` is.
inline ActivationRow RowOf(std::byte* data, int64_t row, int64_t k) {
  std::byte* codes = data + row * (k / 32 * 44);
  std::byte* d = codes + k;
  std::byte* s = d + k / 32 * 4;
  std::byte* sums = s + k / 32 * 4;
  return {reinterpret_cast<int8_t*>(codes), reinterpret_cast<float*>(d), reinterpret_cast<float*>(s),
          reinterpret_cast<int16_t*>(sums)};
}

}  // namespace llmc::ops
