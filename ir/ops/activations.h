// The bytes of a row of a8 activations: K codes, then K/32 each of d, s = d * f32(sum of codes), and two i16 sums: of
// all the codes, and of the first 16 (blocks with scales for 16 codes need both).
#pragma once
#include <cstddef>
#include <cstdint>

namespace llmc::ops {

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
