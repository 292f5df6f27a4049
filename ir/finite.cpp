// Exponents that are all ones, among values, scales and minima.
#include "ir/finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/block_format.h"
#include "ir/blocks.h"

namespace llmc {
namespace {

// The first of n words whose bits under `exponent` are all set; n if none. Stretches are looked at as a whole, without
// a branch a word.
using Words16 = uint16_t __attribute__((vector_size(16)));
using Words32 = uint32_t __attribute__((vector_size(16)));
template <class Word, class Words>
int64_t FindExponent(const std::byte* in, int64_t n, Word exponent) {
  constexpr int64_t kWords = 16 / sizeof(Word), kStretch = 64 * kWords;
  const auto bad = [&](int64_t i) {
    Word word = 0;
    std::memcpy(&word, in + i * static_cast<int64_t>(sizeof(Word)), sizeof word);
    return (word & exponent) == exponent;
  };
  for (int64_t begin = 0; begin < n; begin += kStretch) {
    const int64_t end = std::min(n, begin + kStretch);
    Words any = {};
    int64_t i = begin;
    for (; i + kWords <= end; i += kWords) {
      Words words;
      std::memcpy(&words, in + i * static_cast<int64_t>(sizeof(Word)), sizeof words);
      any |= reinterpret_cast<Words>((words & exponent) == exponent);
    }
    Word found = 0;
    for (int64_t lane = 0; lane < kWords; ++lane) found = static_cast<Word>(found | any[lane]);
    for (; i < end; ++i) found = static_cast<Word>(found | static_cast<Word>(bad(i)));
    if (found == 0) continue;
    for (i = begin; !bad(i); ++i) {
    }
    return i;
  }
  return n;
}

std::string Kind(float value) { return std::isnan(value) ? "NaN" : "infinite"; }

uint16_t HalfAt(const std::byte* p) {
  uint16_t half = 0;
  std::memcpy(&half, p, sizeof half);
  return half;
}

// The first block whose field at `offset` isn't finite; `blocks` if none. bytes 2: an f16; 1: an exponent, 255 for NaN.
int64_t FindField(const std::byte* in, int64_t blocks, int64_t stride, int64_t offset, int bytes) {
  const std::byte* field = in + offset;
  for (int64_t b = 0; b < blocks; ++b, field += stride) {
    if (bytes == 2 ? (HalfAt(field) & 0x7c00U) == 0x7c00U : *field == std::byte{255}) return b;
  }
  return blocks;
}

}  // namespace

std::optional<NotFinite> FindNotFinite(DType dtype, const std::byte* in, int64_t n) {
  const DTypeInfo& info = InfoOf(dtype);
  if (info.cls == DTypeClass::FLOAT) {
    const int64_t at = dtype == DType::F32   ? FindExponent<uint32_t, Words32>(in, n, 0x7f800000U)
                       : dtype == DType::F16 ? FindExponent<uint16_t, Words16>(in, n, 0x7c00U)
                                             : FindExponent<uint16_t, Words16>(in, n, 0x7f80U);
    if (at == n) return std::nullopt;
    float value = 0;
    Dequantize(dtype, in + at * info.block_bytes, 1, &value);
    return NotFinite{at, "is " + Kind(value)};
  }
  if (info.cls != DTypeClass::BLOCK) return std::nullopt;
  const BlockFormat& format = BlockFormatOf(dtype);
  const int64_t blocks = n / info.block;
  const HeadField scale = format.head[0], minimum = format.head[format.has_min ? 1 : 0];
  const int64_t at_scale = FindField(in, blocks, info.block_bytes, scale.at, scale.bytes);
  const int64_t at_minimum =
      format.has_min ? FindField(in, blocks, info.block_bytes, minimum.at, minimum.bytes) : blocks;
  const int64_t at = std::min(at_scale, at_minimum);
  if (at == blocks) return std::nullopt;
  const bool of_scale = at == at_scale;
  const std::byte* field = in + at * info.block_bytes + (of_scale ? scale : minimum).at;
  const std::string kind = scale.bytes == 1 ? "NaN" : Kind(F16ToF32(HalfAt(field)));
  return NotFinite{at, (of_scale ? "has the scale " : "has the minimum ") + kind};
}

}  // namespace llmc
