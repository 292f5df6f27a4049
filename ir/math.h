// Arithmetic that the interpreter and the kernels share, so that both give the same bits: constants, reductions, exp2,
// activations and half floats. Freestanding: no library, no libm. Every written operation is one rounding; contraction
// must be off (-ffp-contract=off), every fma is explicit. ir/README.md, section Numerics, is the definition; a change
// here changes the module option `numerics`.
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

constexpr float kNegLog2E = -0x1.715476p+0F;   // f32(-log2(e))
constexpr float kExp2Max = 125.0F;             // exp2's argument is cut here: pow2's argument stays below 252
constexpr float kLog2Ef = 0x1.715476p+0F;      // f32(log2(e))
constexpr float kLog2ERest = 0x1.4ae0c0p-26F;  // f32(log2(e) - kLog2Ef)
constexpr float kExpMax = 86.5F;               // where 2^125 isn't reached yet
constexpr float kExpMin = -100.0F;             // below, e^x is +0 anyway
constexpr float kTwoLog2E = 0x1.715476p+1F;    // f32(2 log2(e)), tanh's
constexpr float kHalfNegLog2E = -0x1.715476p-1F;

// gelu_tanh(x) = x / (1 + 2^(x (A + B x^2))): A = -2 log2(e) sqrt(2 / pi), B = 0.044715 A.
constexpr float kGeluTanhA = -0x1.26aec2p+1F;
constexpr float kGeluTanhB = -0x1.a5a7d0p-4F;
// gelu(x) = max(x, 0) - a e^(-a^2 / 2) P(1 / (1 + C a)), a = |x|: P fits erfc(a / sqrt(2)) e^(a^2 / 2) / 2 for a up to
// 14 within 2e-8.
constexpr float kGeluMost = 16.0F;  // a is cut here: e^(-a^2 / 2) is +0
constexpr float kGeluC = 0x1.333334p-2F;
constexpr float kGeluP8 = 0x1.339974p-5F;
constexpr float kGeluP7 = -0x1.52af72p-3F;
constexpr float kGeluP6 = 0x1.c5534cp-3F;
constexpr float kGeluP5 = -0x1.19b462p-4F;
constexpr float kGeluP4 = 0x1.19e62ep-3F;
constexpr float kGeluP3 = 0x1.8b8decp-4F;
constexpr float kGeluP2 = 0x1.f19c9cp-4F;
constexpr float kGeluP1 = 0x1.e9a47cp-4F;
constexpr float kGeluP0 = 0x1.25bfecp-18F;
// log(1 + y) = u Q(u^2), u = y / (2 + y), y up to 1: within 9e-9.
constexpr float kLogQ4 = 0x1.2055eep-2F;
constexpr float kLogQ3 = 0x1.1e5cfcp-2F;
constexpr float kLogQ2 = 0x1.99da14p-2F;
constexpr float kLogQ1 = 0x1.5554e2p-1F;
constexpr float kLogQ0 = 0x1p+1F;

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
// Its part without C0, divided by f: (2^(f + 1) - 2) / f.
inline float Exp2Slope(float f) {
  float p = kExp2C6;
  p = __builtin_fmaf(p, f, kExp2C5);
  p = __builtin_fmaf(p, f, kExp2C4);
  p = __builtin_fmaf(p, f, kExp2C3);
  p = __builtin_fmaf(p, f, kExp2C2);
  return __builtin_fmaf(p, f, kExp2C1);
}
inline float Exp2Polynomial(float f) { return __builtin_fmaf(Exp2Slope(f), f, kExp2C0); }
inline Exp2Parts SplitExp2(float x) {
  const float n = Rint(x);
  return {Exp2Polynomial(x - n), n};
}

// 2^x, x cut at 125; +0 below about -126.
inline float Exp2Cut(float x) {
  const Exp2Parts parts = SplitExp2(x < kExp2Max ? x : kExp2Max);
  return parts.p * Pow2(parts.n + 126.0F);
}

// g / (1 + e^-g); relative error <= 5.7e-7 for g >= -10.
inline float Silu(float g) { return g / (1.0F + Exp2Cut(g * kNegLog2E)); }

// A function that levels off would hide an infinity, and a cut a NaN: what is not finite stays so.
inline float KeepNonFinite(float x, float y) { return __builtin_fmaf(x, 0.0F, y); }

inline float Sigmoid(float x) { return KeepNonFinite(x, 1.0F / (1.0F + Exp2Cut(x * kNegLog2E))); }

// e^x, x cut at -100 and 86.5; relative error <= 2e-7 from -87 to there.
inline float Exp(float x) {
  float cut = x < kExpMax ? x : kExpMax;
  cut = cut > kExpMin ? cut : kExpMin;
  const float n = Rint(cut * kLog2Ef);
  const float f = __builtin_fmaf(cut, kLog2ERest, __builtin_fmaf(cut, kLog2Ef, -n));
  return KeepNonFinite(x, Exp2Polynomial(f) * Pow2(n + 126.0F));
}

// 2^x - 1, x cut at -125 and 125: for small x without the loss of a subtraction.
inline float Exp2Minus1(float x) {
  float t = x < kExp2Max ? x : kExp2Max;
  t = t > -kExp2Max ? t : -kExp2Max;
  const float n = Rint(t);
  const float f = t - n;
  return __builtin_fmaf(Pow2(n + 126.0F), Exp2Slope(f) * f, Pow2(n + 127.0F) - 1.0F);
}

inline float Tanh(float x) {
  const float m = Exp2Minus1(x * kTwoLog2E);
  return KeepNonFinite(x, m / (m + 2.0F));
}

// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
inline float GeluTanh(float x) {
  const float t = x * __builtin_fmaf(kGeluTanhB, x * x, kGeluTanhA);
  return x / (1.0F + Exp2Cut(t > -kExp2Max ? t : -kExp2Max));
}

// x times the normal distribution's integral up to x.
inline float Gelu(float x) {
  float a = x < 0.0F ? -x : x;
  a = a < kGeluMost ? a : kGeluMost;
  const float t = 1.0F / __builtin_fmaf(kGeluC, a, 1.0F);
  float p = kGeluP8;
  p = __builtin_fmaf(p, t, kGeluP7);
  p = __builtin_fmaf(p, t, kGeluP6);
  p = __builtin_fmaf(p, t, kGeluP5);
  p = __builtin_fmaf(p, t, kGeluP4);
  p = __builtin_fmaf(p, t, kGeluP3);
  p = __builtin_fmaf(p, t, kGeluP2);
  p = __builtin_fmaf(p, t, kGeluP1);
  p = __builtin_fmaf(p, t, kGeluP0);
  const float rest = a * (Exp2Cut(a * a * kHalfNegLog2E) * p);
  return KeepNonFinite(x, (x > 0.0F ? x : 0.0F) - rest);
}

// log(1 + e^x)
inline float Softplus(float x) {
  float a = x < 0.0F ? -x : x;
  a = a < kExp2Max ? a : kExp2Max;
  const float y = Exp2Cut(a * kNegLog2E);
  const float u = y / (y + 2.0F);
  const float w = u * u;
  float q = kLogQ4;
  q = __builtin_fmaf(q, w, kLogQ3);
  q = __builtin_fmaf(q, w, kLogQ2);
  q = __builtin_fmaf(q, w, kLogQ1);
  q = __builtin_fmaf(q, w, kLogQ0);
  return KeepNonFinite(x, (x > 0.0F ? x : 0.0F) + u * q);
}

enum class Activation : int64_t {
#define ACTIVATION(name, text) name,
#include "ir/activations.def"
#undef ACTIVATION
};
constexpr int64_t kActivations = 0
#define ACTIVATION(name, text) +1
#include "ir/activations.def"
#undef ACTIVATION
    ;
inline float Activate(Activation kind, float x) {
  const float positive = x > 0.0F ? x : 0.0F;
  switch (kind) {
    case Activation::Silu: return Silu(x);
    case Activation::Gelu: return Gelu(x);
    case Activation::GeluTanh: return GeluTanh(x);
    case Activation::Relu: return KeepNonFinite(x, positive);
    case Activation::Relu2: return KeepNonFinite(x, positive * positive);
    case Activation::Sigmoid: return Sigmoid(x);
    case Activation::Tanh: return Tanh(x);
    case Activation::Softplus: return Softplus(x);
    case Activation::Exp: return Exp(x);
  }
  return x;
}

// cap * tanh(x / cap)
inline float SoftCap(float x, float cap) { return cap * Tanh(x / cap); }

// (u + 1) * g / (1 + e^(-alpha g)), g cut above at `limit`, u on both sides.
inline float SwigluClamped(float gate, float up, float alpha, float limit) {
  const float g = gate < limit ? gate : limit;
  float u = up < limit ? up : limit;
  u = u > -limit ? u : -limit;
  const float y = (u + 1.0F) * (g / (1.0F + Exp2Cut(g * alpha * kNegLog2E)));
  return KeepNonFinite(gate, KeepNonFinite(up, y));
}

inline float Clamp(float x, float limit) {
  const float high = x > -limit ? x : -limit;
  return KeepNonFinite(x, high < limit ? high : limit);
}

inline float AtLeast(float x, float least) { return KeepNonFinite(x, x > least ? x : least); }

// x > 0: p x^2 + beta x; else n (e^min(x, eps) - 1 - x) + beta x. An eps that is not finite is seen.
struct Xielu {
  float p, n, beta, eps;
};
inline float ApplyXielu(float x, const Xielu& k) {
  const float high = x > 0.0F ? x : 0.0F;
  const float low = x < 0.0F ? x : 0.0F;
  const float e = Exp2Minus1((x < k.eps ? x : k.eps) * kLog2Ef) - low;
  const float bend = e > 0.0F ? e : 0.0F;
  return KeepNonFinite(k.eps, __builtin_fmaf(k.beta, x, __builtin_fmaf(k.n, bend, k.p * (high * high))));
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
