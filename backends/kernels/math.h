// The arithmetic that kernels share beyond one rounding: exp2 in parts, sums over a row, quantisation of a block
// (ir/README.md, Numerics; the constants are ir/math.h's).
#pragma once
#include "backends/kernels/primitives.h"
#include "ir/math.h"

namespace KERNELS_NAMESPACE {

INLINE float FloatOfBits(int64_t bits) {
  const uint32_t low = static_cast<uint32_t>(bits);
  float out;
  __builtin_memcpy(&out, &low, 4);
  return out;
}

// 2^(t - 127) for integer-valued t <= 252; +0 for t <= 0.
INLINE F32x16 Pow2(F32x16 t) { return AsFloat(ShiftLeft(ToInt(Max(t, Zero())), 23)); }
INLINE float Pow2Of(float t) {
  const int32_t field = t > 0 ? static_cast<int32_t>(t) : 0;
  return FloatOfBits(field << 23);
}

// The polynomial of 2^f without its first term, divided by f (ir/math.h).
INLINE F32x16 Exp2Slope(F32x16 f) {
  F32x16 p = Fma(Splat(math::kExp2C6), f, Splat(math::kExp2C5));
  p = Fma(p, f, Splat(math::kExp2C4));
  p = Fma(p, f, Splat(math::kExp2C3));
  p = Fma(p, f, Splat(math::kExp2C2));
  return Fma(p, f, Splat(math::kExp2C1));
}
INLINE F32x16 Exp2Polynomial(F32x16 f) { return Fma(Exp2Slope(f), f, Splat(math::kExp2C0)); }
// 2^x = p * 2^(n - 1), n = rint(x), p in [1.41, 2.83].
INLINE F32x16 Exp2Parts(F32x16 x, F32x16& n) {
  n = Round(x);
  return Exp2Polynomial(Sub(x, n));
}

// tree16 of a row's lanes, lane[i mod 16] = add(lane, x[i]), from +0.
template <class F>
INLINE float RowSum(const float* x, int64_t dim, F add) {
  F32x16 lanes = Zero();
  int64_t i = 0;
#pragma clang loop unroll(disable)
  for (; i + 16 <= dim; i += 16) lanes = add(lanes, Load(x + i));
  if (i < dim) lanes = add(lanes, LoadPart(x + i, dim - i));
  return TreeSum(lanes);
}
// 1 / sqrt(squares / dim + eps); a NaN where the sum of squares overflows, which would make it zero.
INLINE float InverseRoot(float squares, int64_t dim, float eps) {
  const float r = 1.0f / __builtin_sqrtf(squares / static_cast<float>(dim) + eps);
  return r > 0 ? r : __builtin_nanf("");
}
// Of x[0 .. dim-1].
INLINE float RowScale(const float* x, int64_t dim, float eps) {
  return InverseRoot(RowSum(x, dim, [](F32x16 lanes, F32x16 v) { return Fma(v, v, lanes); }), dim, eps);
}

// A row of a8 (ir/dtypes.def): codes, scales d, d * f32(sum), and a word a block: the sum of all codes in the low half,
// of the first 16 in the high half.
struct A8 {
  const int8_t* codes;
  const float* d;
  const float* s;
  const int32_t* sums;
};
INLINE int64_t A8RowBytes(int64_t k) { return k + k / 32 * 12; }
INLINE A8 A8Row(const uint8_t* row, int64_t k) {
  const float* d = reinterpret_cast<const float*>(row + k);
  return {reinterpret_cast<const int8_t*>(row), d, d + k / 32, reinterpret_cast<const int32_t*>(d + 2 * (k / 32))};
}

// Codes of 32 values, and their largest magnitude, 0 where it is flushed. It is found among bits, where a NaN is above
// all: so it isn't finite when one of the values isn't, and the codes are then any.
INLINE float BlockCodes(F32x16 lo, F32x16 hi, I32x16& a, I32x16& b) {
  const int32_t bits = MaxIntLane(MaxInt(AbsBits(lo), AbsBits(hi)));
  const float max = FloatOfBits(bits > __builtin_bit_cast(int32_t, math::kQuantizeFlush) ? bits : 0);
  const float inverse = max > 0 ? 127.0f / max : 0.0f;
  a = ToInt(Mul(lo, Splat(inverse)));
  b = ToInt(Mul(hi, Splat(inverse)));
  return max;
}

// Block `block` of an a8 row of k elements from 32 values.
INLINE void QuantizeBlock(F32x16 lo, F32x16 hi, uint8_t* row, int64_t k, int64_t block) {
  I32x16 a, b;
  const float d = BlockCodes(lo, hi, a, b) * math::kInv127;
  const int32_t first = SumInt(a), sum = first + SumInt(b);
  StoreCodes(reinterpret_cast<int8_t*>(row) + 32 * block, a, b);
  float* scales = reinterpret_cast<float*>(row + k);
  scales[block] = d;
  scales[k / 32 + block] = d * static_cast<float>(sum);
  reinterpret_cast<uint32_t*>(scales + 2 * (k / 32))[block] =
      (static_cast<uint32_t>(sum) & 0xffff) | static_cast<uint32_t>(first) << 16;
}

}  // namespace KERNELS_NAMESPACE
