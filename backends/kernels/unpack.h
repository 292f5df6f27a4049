// How tiles of block types are read: one description a type, which products with a8 rows and with f32 rows share on
// every ISA. A step of a tile (ir/README.md, Layouts) holds Block<T>::kBlocks blocks of 32 k for its 16 rows behind its
// head; block j of a step has eight groups of codes, group g being k = 4g .. 4g + 3, a scale, for some types a minimum,
// and for some types integer scales (and minima) of its first and its last 16 codes.
#pragma once
#include "backends/kernels/math.h"

namespace KERNELS_NAMESPACE {

template <Type T>
struct Block {
  static constexpr bool kSuper = T == kQ2_K || T == kQ3_K || T == kQ4_K || T == kQ5_K || T == kQ6_K || T == kIQ4_XS ||
                                 T == kTQ2_0;  // blocks of 256
  static constexpr int kBlocks = kSuper ? 8 : 1;
  static constexpr bool kTwoBits = T == kQ2_K || T == kQ3_K || T == kTQ2_0;
  static constexpr bool kFifth = T == kQ5_0 || T == kQ5_1 || T == kQ5_K;
  static constexpr bool kTable = T == kIQ4_NL || T == kIQ4_XS;
  static constexpr bool kSigned = T == kQ8_0 || kTable;                               // codes are signed bytes
  static constexpr bool kMin = T == kQ4_1 || T == kQ5_1 || T == kQ4_K || T == kQ5_K;  // a minimum of 32 codes
  static constexpr bool kHalves = T == kQ2_K || T == kQ3_K || T == kQ6_K;             // scales of 16 codes,
  static constexpr bool kHalfMins = T == kQ2_K;                                       // and minima
  static constexpr int kOffset = T == kQ4_0    ? 8
                                 : T == kQ5_0  ? 16
                                 : T == kQ3_K  ? 4
                                 : T == kQ6_K  ? 32
                                 : T == kMXFP4 ? 12
                                 : T == kTQ2_0 ? 1
                                               : 0;  // w = d * (code - kOffset)
  static constexpr int kMaxCode = T == kQ6_K    ? 63
                                  : kFifth      ? 31
                                  : T == kMXFP4 ? 24
                                  : T == kQ3_K  ? 7
                                  : kTwoBits    ? 3
                                                : 15;  // of unsigned codes
  // Bytes of the head, of the bits of codes that stand in front of the others, of a block, of a step.
  static constexpr int64_t kHeadBytes = T == kMXFP4                ? 16
                                        : T == kQ4_1 || T == kQ5_1 ? 64
                                        : T == kQ2_K               ? 320
                                        : T == kQ3_K               ? 224
                                        : T == kQ4_K || T == kQ5_K ? 256
                                        : T == kQ6_K               ? 288
                                        : T == kIQ4_XS             ? 128
                                                                   : 32;
  static constexpr int64_t kExtraBytes = T == kQ6_K ? 128 : kFifth || T == kQ3_K ? 64 : 0;
  static constexpr int64_t kBlockBytes = kExtraBytes + (T == kQ8_0 ? 512 : kTwoBits ? 128 : 256);
  static constexpr int64_t kBytes = kHeadBytes + kBlocks * kBlockBytes;
};

// Each type of blocks, or of weights, is code of its own; which one is a constant of the call. tq1_0's tiles are
// tq2_0's.
#define BLOCK_TYPES(CASE) \
  CASE(kQ4_0)             \
  CASE(kQ4_1)             \
  CASE(kQ5_0)             \
  CASE(kQ5_1)             \
  CASE(kQ8_0)             \
  CASE(kQ2_K) CASE(kQ3_K) CASE(kQ4_K) CASE(kQ5_K) CASE(kQ6_K) CASE(kIQ4_NL) CASE(kIQ4_XS) CASE(kMXFP4) CASE(kTQ2_0)
#define WEIGHT_TYPES(CASE) CASE(kF32) CASE(kF16) CASE(kBF16) BLOCK_TYPES(CASE)

// Tables of 16 bytes, the first in the lowest bits.
constexpr uint64_t kIq4First = 0xf6eaddcfbfad9881;    // -127 -104 -83 -65 -49 -35 -22 -10
constexpr uint64_t kIq4Last = 0x7159453526190d01;     // 1 13 25 38 53 69 89 113
constexpr uint64_t kMxfp4First = 0x181412100f0e0d0c;  // 0 1 2 3 4 6 8 12, all plus 12
constexpr uint64_t kMxfp4Last = 0x00040608090a0b0c;   // 0 -1 -2 -3 -4 -6 -8 -12, all plus 12

// The type whose tiles these are: tq1_0's hold the trits as tq2_0's do.
INLINE int64_t TileType(int64_t type) { return type == kTQ1_0 ? static_cast<int64_t>(kTQ2_0) : type; }

INLINE F32x16 LoadHalfAt(const uint8_t* p) { return LoadHalf(reinterpret_cast<const uint16_t*>(p)); }
INLINE I32x16 LoadWords(const uint8_t* p) { return LoadInt(reinterpret_cast<const uint32_t*>(p)); }

// What all blocks of a step share, made ready once.
template <Type T>
struct Head {
  const uint8_t* step;
  F32x16 d, m;              // blocks of 256
  I32x16 scale[2], min[2];  // q4_k, q5_k: four blocks' to a word, a byte each
};
template <Type T>
INLINE Head<T> HeadOf(const uint8_t* step) {
  Head<T> head;
  head.step = step;
  if constexpr (Block<T>::kSuper) head.d = LoadHalfAt(step);
  if constexpr (T == kQ2_K || T == kQ4_K || T == kQ5_K) head.m = Negate(LoadHalfAt(step + 32));
  if constexpr (T == kQ4_K || T == kQ5_K) {
    // Blocks 0..3 have six bits in one byte; those of blocks 4..7 are a nibble of the third word and the two bits that
    // 0..3 leave.
    const I32x16 w0 = LoadWords(step + 64), w1 = LoadWords(step + 128), w2 = LoadWords(step + 192);
    constexpr int32_t kLow6 = 0x3f3f3f3f, kLow4 = 0x0f0f0f0f, kTop2 = 0x30303030;
    head.scale[0] = And(w0, kLow6);
    head.min[0] = And(w1, kLow6);
    head.scale[1] = AddInt(And(w2, kLow4), And(ShiftRight(w0, 2), kTop2));
    head.min[1] = AddInt(And(ShiftRight(w2, 4), kLow4), And(ShiftRight(w1, 2), kTop2));
  }
  return head;
}

// Codes of group g of block j, as they are stored or as a table gives them: signed, or unsigned with the type's offset.
template <Type T>
INLINE Codes CodesOf(const Head<T>& head, int64_t j, int g) {
  using B = Block<T>;
  const uint8_t* extra = head.step + B::kHeadBytes + j * B::kBlockBytes;
  const uint8_t* codes = extra + B::kExtraBytes;
  if constexpr (T == kQ8_0) {
    return LoadCodes(codes + 64 * g);
  } else if constexpr (B::kTwoBits) {
    const Codes two = FieldOf(LoadCodes(codes + 64 * (g / 4)), 2 * (g % 4), 3);
    if constexpr (T == kQ3_K) return OrCodes(two, FieldOf(LoadCodes(extra), g - 2, 4));
    return two;
  } else {
    const Codes pair = LoadCodes(codes + 64 * (g / 2));
    const Codes four = FieldOf(pair, g % 2 == 0 ? 0 : 4, 15);
    if constexpr (B::kFifth) return OrCodes(four, FieldOf(LoadCodes(extra), g - 4, 16));
    if constexpr (T == kQ6_K) return OrCodes(four, FieldOf(LoadCodes(extra + 64 * (g / 4)), 2 * (g % 4) - 4, 48));
    if constexpr (B::kTable) return Lookup<kIq4First, kIq4Last>(four);
    if constexpr (T == kMXFP4) return Lookup<kMxfp4First, kMxfp4Last>(four);
    return four;
  }
}

// The scale of block j (of halves: without the integers), and its minimum (q2_k: by which the integers are multiplied).
template <Type T>
INLINE F32x16 ScaleOf(const Head<T>& head, int64_t j) {
  if constexpr (T == kQ4_K || T == kQ5_K) {
    return Mul(head.d, ToFloat(And(ShiftRight(head.scale[j / 4], static_cast<int>(8 * (j % 4))), 255)));
  } else if constexpr (T == kIQ4_XS) {
    const I32x16 low = And(ShiftRight(LoadWords(head.step + 64), static_cast<int>(4 * j)), 15);
    const I32x16 high = And(ShiftRight(WidenHalves(head.step + 32), static_cast<int>(2 * j)), 3);
    return Mul(head.d, ToFloat(SubInt(AddInt(low, ShiftLeft(high, 4)), SplatInt(32))));
  } else if constexpr (T == kMXFP4) {
    // 2^(e - 128), a denormal for e < 2, as a product of two powers.
    const I32x16 e = WidenBytes(head.step), half = ShiftRight(e, 1);
    const I32x16 rest = SubInt(e, half);
    return Mul(AsFloat(ShiftLeft(AddInt(half, SplatInt(64)), 23)), AsFloat(ShiftLeft(AddInt(rest, SplatInt(62)), 23)));
  } else if constexpr (Block<T>::kSuper) {
    return head.d;
  } else {
    return LoadHalfAt(head.step);
  }
}
template <Type T>
INLINE F32x16 MinimumOf(const Head<T>& head, int64_t j) {
  if constexpr (T == kQ4_K || T == kQ5_K) {
    return Mul(head.m, ToFloat(And(ShiftRight(head.min[j / 4], static_cast<int>(8 * (j % 4))), 255)));
  } else if constexpr (T == kQ2_K) {
    return head.m;
  } else if constexpr (Block<T>::kMin) {
    return LoadHalfAt(head.step + 32);
  } else {
    return Zero();
  }
}

// Integer scales of the first and the last 16 codes of block j, as pairs of i16: the first in the low half. And minima.
template <Type T>
INLINE I32x16 HalfScalesOf(const Head<T>& head, int64_t j) {
  if constexpr (T == kQ2_K) return And(PairsOfBytes(head.step + 64 + 32 * j), 0x000f000f);
  if constexpr (T == kQ6_K) return PairsOfBytes(head.step + 32 + 32 * j);
  if constexpr (T == kQ3_K) {
    // Scale i of 16: a nibble of byte i mod 8, and two bits of byte 8 + i mod 4.
    const int at = static_cast<int>(16 * (j % 2));
    const I32x16 low = ShiftRight(LoadWords(head.step + 32 + 64 * (j % 4 / 2)), at + static_cast<int>(4 * (j / 4)));
    const I32x16 high = ShiftRight(LoadWords(head.step + 160), at + static_cast<int>(2 * (j / 2)));
    const I32x16 both = AddInt(And(low, 0x0f0f), ShiftLeft(And(high, 0x0303), 4));
    const I32x16 first = And(SubInt(And(both, 255), SplatInt(32)), 0xffff);
    return AddInt(first, ShiftLeft(SubInt(ShiftRight(both, 8), SplatInt(32)), 16));
  }
  return SplatInt(0x00010001);
}
template <Type T>
INLINE I32x16 HalfMinsOf(const Head<T>& head, int64_t j) {
  if constexpr (!Block<T>::kHalfMins) return SplatInt(0);
  return And(ShiftRight(PairsOfBytes(head.step + 64 + 32 * j), 4), 0x000f000f);
}

// By what the codes of a block are multiplied, and what is added: of its first 16, and of its last.
struct Values {
  F32x16 d[2], m[2];
};
template <Type T>
INLINE Values ValuesOf(const Head<T>& head, int64_t j) {
  using B = Block<T>;
  const F32x16 d = ScaleOf<T>(head, j), m = MinimumOf<T>(head, j);
  Values v{{d, d}, {m, m}};
  if constexpr (B::kHalves) {
    const I32x16 pair = HalfScalesOf<T>(head, j), mins = HalfMinsOf<T>(head, j);
#pragma clang loop unroll(full)
    for (int h = 0; h < 2; ++h) {
      v.d[h] = Mul(d, ToFloat(HalfOf(pair, h)));
      if constexpr (B::kHalfMins) v.m[h] = Mul(m, ToFloat(HalfOf(mins, h)));
    }
  }
  return v;
}
// Dequantised weights k = 4g + i of a block. All products are exact, so one FMA rounds as a product and a sum do.
template <Type T>
INLINE F32x16 Dequantize(const Values& v, Codes w, int g, int i) {
  using B = Block<T>;
  I32x16 code = B::kSigned ? SignedCodeOf(w, i) : CodeOf(w, i);
  if constexpr (B::kOffset != 0) code = SubInt(code, SplatInt(B::kOffset));
  if constexpr (B::kMin || B::kHalfMins) return Fma(v.d[g / 4], ToFloat(code), v.m[g / 4]);
  return Mul(v.d[g / 4], ToFloat(code));
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
// Block j's share of a step's lines.
template <Type T>
INLINE void PrefetchBlock(const uint8_t* step, int64_t j) {
  PrefetchStep(step + j * (Block<T>::kBytes / Block<T>::kBlocks), Block<T>::kBytes / Block<T>::kBlocks);
}

}  // namespace KERNELS_NAMESPACE
