// Arithmetic that the interpreter and the kernels share, so that both give the same bits: constants, reductions, exp2,
// silu and half floats. Freestanding: no library, no libm. Every written operation is one rounding; contraction must be
// off (-ffp-contract=off), every fma is explicit. ir/README.md, section Numerics, is the definition; a change here
// changes the module option `numerics`.
#pragma once
#include <cstdint>

namespace llmc::math {

// Keys are summed in groups of this many consecutive positions.
constexpr int kGroupKeys = 64;
// Sums over a row or a group run in this many lanes.
constexpr int kLanes = 16;

// 2^(f+1) on [-0.5, 0.5], minimax, degree 6; |relative error| <= 7.4e-8 after rounding. Doubled, so that the smallest
// scale that is not flushed times the polynomial is still a normal number.
constexpr float kExp2C6 = 0x1.4454b2p-12F;
constexpr float kExp2C5 = 0x1.5f1c46p-9F;
constexpr float kExp2C4 = 0x1.3b2f4cp-6F;
constexpr float kExp2C3 = 0x1.c6aff4p-4F;
constexpr float kExp2C2 = 0x1.ebfbcep-2F;
constexpr float kExp2C1 = 0x1.62e42ep+0F;
constexpr float kExp2C0 = 0x1p+1F;

constexpr float kNegLog2E = -0x1.715476p+0F;  // f32(-log2(e))
constexpr float kSiluMax = 125.0F;            // exp2's argument is cut here: pow2's argument stays below 252

// quantize: d = absmax * f32(1/127); a block whose absmax is at most kQuantizeFlush is all zeros.
constexpr float kInv127 = 0x1.020408p-7F;
constexpr float kQuantizeFlush = 0x1p-80F;

// The version of all this: the module option `numerics`.
constexpr int64_t kNumerics = 2;

inline float FromBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t ToBits(float value) { return __builtin_bit_cast(uint32_t, value); }

// Nearest integer, ties to even, for every float (2^23 and up are integers already). The sign of a zero result is +.
inline float Rint(float x) {
  const float magic = x < 0.0F ? -0x1p23F : 0x1p23F;
  const float near = (x + magic) - magic;
  return x > -0x1p23F && x < 0x1p23F ? near : x;
}

// Sum of 16 lanes in the order of the contract; destroys `lane`.
inline float Tree16(float* lane) {
  for (int w = 8; w > 0; w /= 2) {
    for (int i = 0; i < w; ++i) lane[i] = lane[i] + lane[i + w];
  }
  return lane[0];
}

// 2^(t - 127) for an integer-valued t <= 252; +0 for t <= 0. Never a denormal.
inline float Pow2(float t) {
  const float kept = t > 0.0F ? t : 0.0F;
  return FromBits(static_cast<uint32_t>(static_cast<int32_t>(kept)) << 23);
}

// 2^x = p * 2^(n - 1), n an integer, p in [1.41, 2.83].
struct Exp2Parts {
  float p, n;
};
inline Exp2Parts SplitExp2(float x) {
  const float n = Rint(x);
  const float f = x - n;
  float p = kExp2C6;
  p = __builtin_fmaf(p, f, kExp2C5);
  p = __builtin_fmaf(p, f, kExp2C4);
  p = __builtin_fmaf(p, f, kExp2C3);
  p = __builtin_fmaf(p, f, kExp2C2);
  p = __builtin_fmaf(p, f, kExp2C1);
  p = __builtin_fmaf(p, f, kExp2C0);
  return {p, n};
}

// g / (1 + e^-g); relative error <= 5.7e-7 for g >= -10.
inline float Silu(float g) {
  float x = g * kNegLog2E;
  x = x < kSiluMax ? x : kSiluMax;
  const Exp2Parts parts = SplitExp2(x);
  const float e = parts.p * Pow2(parts.n + 126.0F);
  return g / (1.0F + e);
}

// IEEE binary16 to f32: exact, subnormals and infinities too; a NaN keeps its payload.
inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fffU) << 13;
  // The exponent's bias goes from 15 to 127 by an exact product, which normalises subnormals too.
  const uint32_t finite = ToBits(FromBits(magnitude) * 0x1p112F);
  const uint32_t special = magnitude | 0x7f800000U;
  return FromBits(sign | ((half & 0x7c00U) == 0x7c00U ? special : finite));
}

// f32 to binary16, ties to even; overflow to infinity, subnormals kept, NaN to a quiet NaN.
inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = ToBits(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // 65520 and up
  if (magnitude < 0x38800000U) {
    // Below 2^-14: multiples of 2^-24. Adding 1/2 puts the unit of the sum there, so that the sum rounds as the result
    // must.
    return static_cast<uint16_t>(sign | (ToBits(FromBits(magnitude) + 0.5F) - ToBits(0.5F)));
  }
  const uint32_t rebased = magnitude - 0x38000000U;
  return static_cast<uint16_t>(sign | ((rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13));
}

inline float BfloatToFloat(uint16_t bits) { return FromBits(static_cast<uint32_t>(bits) << 16); }

inline uint16_t FloatToBfloat(float value) {
  const uint32_t bits = ToBits(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace llmc::math
