// How tiles of block types are read: one description a type, which products with a8 rows and with f32 rows share on
// every ISA. A step of a tile (ir/layout.h) holds Block<T>::kBlocks blocks of 32 k for its 16 rows; block j of a step
// has eight groups of codes, group g being k = 4g .. 4g + 3, a scale and, for some types, a minimum for each row.
#pragma once
#include "backends/kernels/math.h"

namespace KERNELS_NAMESPACE {

template <Type T>
struct Block {
  static constexpr bool kSigned = T == kQ8_0;  // codes are signed bytes
  static constexpr bool kMin = T == kQ4_1 || T == kQ5_1;
  static constexpr bool kFifth = T == kQ5_0 || T == kQ5_1;
  static constexpr int kOffset = T == kQ4_0 ? 8 : T == kQ5_0 ? 16 : 0;  // w = d * (code - kOffset)
  static constexpr int kMaxCode = kFifth ? 31 : 15;                     // of unsigned codes
  static constexpr int kBlocks = 1;
  static constexpr int64_t kFifthAt = kMin ? 64 : 32;
  static constexpr int64_t kCodesAt = kFifthAt + (kFifth ? 64 : 0);
  static constexpr int64_t kBytes = kCodesAt + (kSigned ? 512 : 256);  // of a step
};

INLINE F32x16 LoadHalfAt(const uint8_t* p) { return LoadHalf(reinterpret_cast<const uint16_t*>(p)); }

// What all blocks of a step share, made ready once.
template <Type T>
struct Head {
  const uint8_t* step;
};
template <Type T>
INLINE Head<T> HeadOf(const uint8_t* step) {
  return {step};
}

// Codes of group g of block j, as they are stored: signed, or unsigned with the type's offset.
template <Type T>
INLINE Codes CodesOf(const Head<T>& head, int64_t, int g) {
  using B = Block<T>;
  const uint8_t* codes = head.step + B::kCodesAt;
  if constexpr (B::kSigned) {
    return LoadCodes(codes + 64 * g);
  } else {
    const Codes pair = LoadCodes(codes + 64 * (g / 2));
    const Codes four = g % 2 == 0 ? LowNibbles(pair) : HighNibbles(pair);
    if constexpr (B::kFifth) {
      return OrFifthBits(four, LoadCodes(head.step + B::kFifthAt), g);
    }
    return four;
  }
}
template <Type T, class F>
INLINE void ForCodes(const Head<T>& head, int64_t block, F f) {
#pragma clang loop unroll(full)
  for (int g = 0; g < 8; ++g) f(g, CodesOf<T>(head, block, g));
}
template <Type T>
INLINE F32x16 ScaleOf(const Head<T>& head, int64_t) {
  return LoadHalfAt(head.step);
}
template <Type T>
INLINE F32x16 MinimumOf(const Head<T>& head, int64_t) {
  return LoadHalfAt(head.step + 32);
}

// Dots want unsigned codes: with VNNI signed ones become so by 128 more, which the sum of the activations takes back.
template <Type T>
constexpr int kDotOffset = kVnni && Block<T>::kSigned ? 128 : Block<T>::kOffset;
template <Type T>
INLINE Codes DotCodesOf(const Head<T>& head, int64_t j, int g) {
  const Codes codes = CodesOf<T>(head, j, g);
  return kVnni && Block<T>::kSigned ? FlipSigns(codes) : codes;
}

// Of a linear stream of weights, in bytes; multiples of 4096 are slower, their lines meet in one set of the first
// cache.
constexpr int64_t kPrefetchAhead = 5120;
INLINE void PrefetchStep(const uint8_t* step, int64_t bytes) {
#pragma clang loop unroll(full)
  for (int64_t i = 0; i < bytes; i += 64) Prefetch(step + kPrefetchAhead + i);
}

}  // namespace KERNELS_NAMESPACE
