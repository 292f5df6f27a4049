// The portable form of the primitives, which also says what each one computes: the emulation that tests compare native
// kernels with.
#pragma once
#include "backends/kernels/kernel.h"

namespace KERNELS_NAMESPACE {

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};
struct Codes {  // byte 4r + i: code i of lane r
  uint8_t v[64];
};
struct Dot {  // sums of products of unsigned codes with activations in -127..127; without VNNI the native forms hold 16
              // bits: codes up to 15 eight times, codes up to 31 four times
  int32_t v[16];
};

template <class F>
INLINE F32x16 Lanes(F f) {
  F32x16 out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}
template <class F>
INLINE I32x16 IntLanes(F f) {
  I32x16 out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}
template <class To, class From>
INLINE To Bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

INLINE F32x16 Zero() {
  return Lanes([](int) { return 0.0f; });
}
INLINE F32x16 Splat(float x) {
  return Lanes([=](int) { return x; });
}
INLINE F32x16 Load(const float* p) {
  return Lanes([=](int i) { return p[i]; });
}
INLINE void Store(float* p, F32x16 v) {
  for (int i = 0; i < 16; ++i) p[i] = v.v[i];
}
// Lanes 0 .. n-1, the others are 0 and not read; n may be over 16.
INLINE F32x16 LoadPart(const float* p, int64_t n) {
  return Lanes([=](int i) { return i < n ? p[i] : 0.0f; });
}
INLINE void StorePart(float* p, F32x16 v, int64_t n) {
  for (int i = 0; i < 16 && i < n; ++i) p[i] = v.v[i];
}
// f16, both ways to nearest even, subnormals kept.
INLINE float HalfToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31, mantissa = h & 1023u;
  if (exponent == 31) return Bits<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return Bits<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return Bits<float>(sign | Bits<uint32_t>(magnitude));
}
INLINE uint16_t FloatToHalf(float x) {
  const uint32_t bits = Bits<uint32_t>(x), sign = bits >> 16 & 0x8000u;
  const float magnitude = Bits<float>(bits & 0x7fffffffu);
  if (magnitude != magnitude) return static_cast<uint16_t>(sign | 0x7e00u | (bits >> 13 & 0x1ffu));
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x1p-14f) {  // rounds to a multiple of 2^-24, the ulp of 0.5
    const float rounded = magnitude + 0x1p-1f;
    return static_cast<uint16_t>(sign | (Bits<uint32_t>(rounded) - Bits<uint32_t>(0x1p-1f)));
  }
  const uint32_t b = Bits<uint32_t>(magnitude);
  const uint32_t rounded = b + 0xfffu + (b >> 13 & 1u);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}
INLINE F32x16 LoadHalf(const uint16_t* p) {
  return Lanes([=](int i) { return HalfToFloat(p[i]); });
}
INLINE void StoreHalf(uint16_t* p, F32x16 v) {
  for (int i = 0; i < 16; ++i) p[i] = FloatToHalf(v.v[i]);
}

// Arithmetic by lanes, one rounding each.
INLINE F32x16 Fma(F32x16 x, F32x16 y, F32x16 z) {
  return Lanes([&](int i) { return __builtin_fmaf(x.v[i], y.v[i], z.v[i]); });
}
INLINE F32x16 Add(F32x16 x, F32x16 y) {
  return Lanes([&](int i) { return x.v[i] + y.v[i]; });
}
INLINE F32x16 Sub(F32x16 x, F32x16 y) {
  return Lanes([&](int i) { return x.v[i] - y.v[i]; });
}
INLINE F32x16 Mul(F32x16 x, F32x16 y) {
  return Lanes([&](int i) { return x.v[i] * y.v[i]; });
}
INLINE F32x16 Div(F32x16 x, F32x16 y) {
  return Lanes([&](int i) { return x.v[i] / y.v[i]; });
}
INLINE F32x16 Max(F32x16 x, F32x16 y) {  // y where one of them is a NaN, as in Min
  return Lanes([&](int i) { return x.v[i] > y.v[i] ? x.v[i] : y.v[i]; });
}
INLINE F32x16 Min(F32x16 x, F32x16 y) {
  return Lanes([&](int i) { return x.v[i] < y.v[i] ? x.v[i] : y.v[i]; });
}
INLINE I32x16 AbsBits(F32x16 x) {  // of |x|: they order as the values do, with infinity above and NaNs above that
  return IntLanes([&](int i) { return Bits<int32_t>(__builtin_fabsf(x.v[i])); });
}
INLINE F32x16 Round(F32x16 x) {  // nearest even
  return Lanes([&](int i) { return __builtin_rintf(x.v[i]); });
}
INLINE I32x16 ToInt(F32x16 x) {  // nearest even; what doesn't fit, and a NaN, is -2^31
  return IntLanes([&](int i) {
    const float near = __builtin_rintf(x.v[i]);
    return near >= -0x1p31f && near < 0x1p31f ? static_cast<int32_t>(near) : INT32_MIN;
  });
}
INLINE F32x16 ToFloat(I32x16 x) {
  return Lanes([&](int i) { return static_cast<float>(x.v[i]); });
}
INLINE F32x16 AsFloat(I32x16 x) {
  return Lanes([&](int i) { return Bits<float>(x.v[i]); });
}
// Sums of integers are those modulo 2^32.
INLINE int32_t WrappedSum(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
INLINE I32x16 AddInt(I32x16 x, I32x16 y) {
  return IntLanes([&](int i) { return WrappedSum(x.v[i], y.v[i]); });
}
INLINE I32x16 SubInt(I32x16 x, I32x16 y) {
  return IntLanes(
      [&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(x.v[i]) - static_cast<uint32_t>(y.v[i])); });
}
INLINE I32x16 MaxInt(I32x16 x, I32x16 y) {
  return IntLanes([&](int i) { return x.v[i] > y.v[i] ? x.v[i] : y.v[i]; });
}
INLINE I32x16 MulInt(I32x16 x, I32x16 y) {
  return IntLanes([&](int i) { return x.v[i] * y.v[i]; });
}
INLINE I32x16 TimesLow16(I32x16 x, int c) {  // the low 16 bits of a lane, with their sign, times c (16 bits)
  return IntLanes([&](int i) { return static_cast<int16_t>(x.v[i]) * c; });
}
INLINE I32x16 SplatInt(int32_t x) {
  return IntLanes([=](int) { return x; });
}
INLINE I32x16 WidenSigned(const uint8_t* p) {  // bytes with a sign
  return IntLanes([=](int i) { return static_cast<int8_t>(p[i]); });
}
INLINE I32x16 LoadInt(const uint32_t* p) {
  return IntLanes([=](int i) { return static_cast<int32_t>(p[i]); });
}
INLINE I32x16 LoadIntPart(const int32_t* p, int64_t n) {  // as LoadPart
  return IntLanes([=](int i) { return i < n ? p[i] : 0; });
}
INLINE void StoreInt(int32_t* p, I32x16 v) {
  for (int i = 0; i < 16; ++i) p[i] = v.v[i];
}
INLINE I32x16 WidenBytes(const uint8_t* p) {
  return IntLanes([=](int i) { return p[i]; });
}
INLINE I32x16 WidenHalves(const uint8_t* p) {  // of 16 bits
  return IntLanes([=](int i) { return p[2 * i] | p[2 * i + 1] << 8; });
}
// Pairs of i16 in a lane, the first in the low half: from pairs of i8, one of the two, and the sum of the products.
INLINE I32x16 PairsOfBytes(const uint8_t* p) {
  return IntLanes(
      [=](int i) { return (static_cast<int8_t>(p[2 * i]) & 0xffff) | static_cast<int8_t>(p[2 * i + 1]) * 65536; });
}
INLINE I32x16 HalfOf(I32x16 x, int which) {
  return IntLanes([&](int i) { return static_cast<int32_t>(static_cast<int16_t>(x.v[i] >> 16 * which)); });
}
INLINE I32x16 MulPairs(I32x16 x, I32x16 y) {
  return IntLanes([&](int i) {
    return static_cast<int16_t>(x.v[i]) * static_cast<int16_t>(y.v[i]) + (x.v[i] >> 16) * (y.v[i] >> 16);
  });
}
INLINE I32x16 And(I32x16 x, int32_t mask) {
  return IntLanes([&](int i) { return x.v[i] & mask; });
}
INLINE I32x16 ShiftLeft(I32x16 x, int n) {
  return IntLanes([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(x.v[i]) << n); });
}
INLINE I32x16 ShiftRight(I32x16 x, int n) {  // zeros come in
  return IntLanes([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(x.v[i]) >> n); });
}

// Across lanes. TreeSum: for w in 8, 4, 2, 1: lane i += lane i + w.
INLINE float TreeSum(F32x16 v) {
  for (int w = 8; w > 0; w /= 2) {
    for (int i = 0; i < w; ++i) v.v[i] = v.v[i] + v.v[i + w];
  }
  return v.v[0];
}
INLINE float MaxLane(F32x16 v) {
  float max = v.v[0];
  for (int i = 1; i < 16; ++i) max = v.v[i] > max ? v.v[i] : max;
  return max;
}
INLINE int32_t MaxIntLane(I32x16 v) {
  int32_t max = v.v[0];
  for (int i = 1; i < 16; ++i) max = v.v[i] > max ? v.v[i] : max;
  return max;
}
INLINE int32_t SumInt(I32x16 v) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum = WrappedSum(sum, v.v[i]);
  return sum;
}
// Lanes begin .. end-1 of v, `otherwise` in the others; both bounds may lie outside 0..16.
INLINE F32x16 KeepLanes(F32x16 v, int64_t begin, int64_t end, float otherwise) {
  return Lanes([&](int i) { return i >= begin && i < end ? v.v[i] : otherwise; });
}
// 32 codes in -128..127, one byte each: lo's, then hi's. What is outside becomes any code.
INLINE void StoreCodes(int8_t* p, I32x16 lo, I32x16 hi) {
  for (int i = 0; i < 16; ++i) {
    p[i] = static_cast<int8_t>(lo.v[i]);
    p[16 + i] = static_cast<int8_t>(hi.v[i]);
  }
}

// Bytes of a tile.
INLINE Codes LoadCodes(const uint8_t* p) {
  Codes out;
  for (int i = 0; i < 64; ++i) out.v[i] = p[i];
  return out;
}
INLINE void StoreBytes(uint8_t* p, Codes v) {
  for (int i = 0; i < 64; ++i) p[i] = v.v[i];
}
// Bits of every byte: moved down by `shift` (up, where it is negative), and those of `mask` kept. -8 < shift < 8.
INLINE Codes FieldOf(Codes v, int shift, int mask) {
  for (int i = 0; i < 64; ++i) {
    const int moved = shift < 0 ? v.v[i] << -shift : v.v[i] >> shift;
    v.v[i] = static_cast<uint8_t>(moved & mask);
  }
  return v;
}
INLINE Codes OrCodes(Codes x, Codes y) {
  for (int i = 0; i < 64; ++i) x.v[i] |= y.v[i];
  return x;
}
// The byte that each index (0..15) chooses of 16, the first in the lowest bits of kFirst.
template <uint64_t kFirst, uint64_t kLast>
INLINE Codes Lookup(Codes index) {
  for (int i = 0; i < 64; ++i) {
    const uint64_t eight = index.v[i] < 8 ? kFirst : kLast;
    index.v[i] = static_cast<uint8_t>(eight >> 8 * (index.v[i] % 8));
  }
  return index;
}
// Signed codes to unsigned ones, 128 more.
INLINE Codes FlipSigns(Codes v) {
  for (int i = 0; i < 64; ++i) v.v[i] ^= 0x80;
  return v;
}
INLINE I32x16 CodeOf(Codes v, int i) {
  return IntLanes([&](int r) { return v.v[4 * r + i]; });
}
INLINE I32x16 SignedCodeOf(Codes v, int i) {
  return IntLanes([&](int r) { return static_cast<int8_t>(v.v[4 * r + i]); });
}

// Dot products of each lane's four codes with the four activations at a. In order: native forms are not moved.
INLINE void DotNext(Dot& dot, Codes w, const int8_t* a) {
  for (int i = 0; i < 64; ++i) dot.v[i / 4] += w.v[i] * a[i % 4];
}
// With VNNI a dot begins with a number of each lane; without, it begins with the first products.
INLINE Dot DotFrom(I32x16 start) { return Bits<Dot>(start); }
INLINE void DotFirst(Dot& dot, Codes w, const int8_t* a) {
  dot = Dot{};
  DotNext(dot, w, a);
}
INLINE void FmaInOrder(F32x16& acc, const float* x, F32x16 y) { acc = Fma(Splat(*x), y, acc); }
INLINE void FmaTwoInOrder(F32x16& acc0, F32x16& acc1, const float* x, F32x16 y0, F32x16 y1) {  // where LLMC_WIDE
  FmaInOrder(acc0, x, y0);
  FmaInOrder(acc1, x, y1);
}
INLINE void InOrder() {}  // what stands behind it isn't moved in front of it
INLINE I32x16 DotSum(Dot dot) {
  return IntLanes([&](int i) { return dot.v[i]; });
}
// Without VNNI: the sum times one of a pair of i16 in each lane.
INLINE I32x16 DotSumTimes(Dot dot, I32x16 pair, int which) {
  const I32x16 scale = HalfOf(pair, which);
  return IntLanes([&](int i) { return dot.v[i] * scale.v[i]; });
}
// Without VNNI: the same with signed codes, -128 too, and their magnitudes.
INLINE Codes Magnitudes(Codes w) {
  for (int i = 0; i < 64; ++i) w.v[i] = static_cast<uint8_t>(w.v[i] < 128 ? w.v[i] : 256 - w.v[i]);
  return w;
}
INLINE void DotSigned(I32x16& sum, Codes w, Codes magnitudes, const int8_t* a) {
  for (int i = 0; i < 64; ++i) sum.v[i / 4] += magnitudes.v[i] * (w.v[i] < 128 ? a[i % 4] : -a[i % 4]);
}

// Pairs of lanes (2i, 2i + 1), as the interleaved rotary layout has them.
INLINE F32x16 SwapPairs(F32x16 v) {
  return Lanes([&](int i) { return v.v[i ^ 1]; });
}
INLINE F32x16 NegateEven(F32x16 v) {
  return Lanes([&](int i) { return i % 2 == 0 ? -v.v[i] : v.v[i]; });
}
INLINE F32x16 Negate(F32x16 v) {
  return Lanes([&](int i) { return -v.v[i]; });
}
INLINE F32x16 LoadTwice(const float* p) {  // p[0], p[0], p[1], p[1], ...
  return Lanes([=](int i) { return p[i / 2]; });
}

// 64 bytes holding two 16-bit floats a lane: the first and the second of each. Halves may come in an order of lanes
// that FromPairOrder undoes.
INLINE void LoadHalfPairs(const uint8_t* p, F32x16& even, F32x16& odd) {
  uint16_t h[32];
  __builtin_memcpy(h, p, 64);
  even = Lanes([&](int i) { return HalfToFloat(h[2 * i]); });
  odd = Lanes([&](int i) { return HalfToFloat(h[2 * i + 1]); });
}
INLINE F32x16 FromPairOrder(F32x16 v) { return v; }
INLINE void LoadBf16Pairs(const uint8_t* p, F32x16& even, F32x16& odd) {
  uint16_t h[32];
  __builtin_memcpy(h, p, 64);
  even = Lanes([&](int i) { return Bits<float>(static_cast<uint32_t>(h[2 * i]) << 16); });
  odd = Lanes([&](int i) { return Bits<float>(static_cast<uint32_t>(h[2 * i + 1]) << 16); });
}

// To bf16, nearest even; a NaN becomes quiet (ir/README.md, Numerics).
INLINE F32x16 RoundToBf16(F32x16 v) {
  return Lanes([&](int i) {
    const uint32_t bits = Bits<uint32_t>(v.v[i]);
    const uint32_t rounded = v.v[i] != v.v[i] ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    return Bits<float>(rounded & 0xffff0000u);
  });
}

INLINE void Prefetch(const void*) {}

}  // namespace KERNELS_NAMESPACE
