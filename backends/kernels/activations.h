// Activations on sixteen values: ir/math.h's definitions, operation by operation.
#pragma once
#include "backends/kernels/math.h"

namespace KERNELS_NAMESPACE {

INLINE F32x16 KeepNonFinite(F32x16 x, F32x16 y) { return Fma(x, Zero(), y); }
INLINE F32x16 Positive(F32x16 x) { return Max(x, Zero()); }
INLINE F32x16 OneMore(F32x16 x) { return Add(Splat(1.0f), x); }

INLINE F32x16 Exp2(F32x16 x) {
  F32x16 n;
  const F32x16 p = Exp2Parts(Min(x, Splat(math::kExp2Max)), n);
  return Mul(p, Pow2(Add(n, Splat(126.0f))));
}
INLINE F32x16 Exp2Minus1(F32x16 x) {
  const F32x16 t = Max(Min(x, Splat(math::kExp2Max)), Splat(-math::kExp2Max)), n = Round(t), f = Sub(t, n);
  return Fma(Pow2(Add(n, Splat(126.0f))), Mul(Exp2Slope(f), f), Sub(Pow2(Add(n, Splat(127.0f))), Splat(1.0f)));
}
INLINE F32x16 Exp(F32x16 x) {
  const F32x16 cut = Max(Min(x, Splat(math::kExpMax)), Splat(math::kExpMin));
  const F32x16 n = Round(Mul(cut, Splat(math::kLog2Ef)));
  const F32x16 f = Fma(cut, Splat(math::kLog2ERest), Fma(cut, Splat(math::kLog2Ef), Negate(n)));
  return KeepNonFinite(x, Mul(Exp2Polynomial(f), Pow2(Add(n, Splat(126.0f)))));
}
INLINE F32x16 Silu(F32x16 g) { return Div(g, OneMore(Exp2(Mul(g, Splat(math::kNegLog2E))))); }
INLINE F32x16 Sigmoid(F32x16 x) {
  return KeepNonFinite(x, Div(Splat(1.0f), OneMore(Exp2(Mul(x, Splat(math::kNegLog2E))))));
}
INLINE F32x16 Tanh(F32x16 x) {
  const F32x16 m = Exp2Minus1(Mul(x, Splat(math::kTwoLog2E)));
  return KeepNonFinite(x, Div(m, Add(m, Splat(2.0f))));
}
INLINE F32x16 GeluTanh(F32x16 x) {
  const F32x16 t = Mul(x, Fma(Splat(math::kGeluTanhB), Mul(x, x), Splat(math::kGeluTanhA)));
  return Div(x, OneMore(Exp2(Max(t, Splat(-math::kExp2Max)))));
}
INLINE F32x16 Gelu(F32x16 x) {
  const F32x16 a = Min(AsFloat(AbsBits(x)), Splat(math::kGeluMost));
  const F32x16 t = Div(Splat(1.0f), Fma(Splat(math::kGeluC), a, Splat(1.0f)));
  F32x16 p = Fma(Splat(math::kGeluP8), t, Splat(math::kGeluP7));
  p = Fma(p, t, Splat(math::kGeluP6));
  p = Fma(p, t, Splat(math::kGeluP5));
  p = Fma(p, t, Splat(math::kGeluP4));
  p = Fma(p, t, Splat(math::kGeluP3));
  p = Fma(p, t, Splat(math::kGeluP2));
  p = Fma(p, t, Splat(math::kGeluP1));
  p = Fma(p, t, Splat(math::kGeluP0));
  const F32x16 rest = Mul(a, Mul(Exp2(Mul(Mul(a, a), Splat(math::kHalfNegLog2E))), p));
  return KeepNonFinite(x, Sub(Positive(x), rest));
}
INLINE F32x16 Softplus(F32x16 x) {
  const F32x16 y = Exp2(Mul(Min(AsFloat(AbsBits(x)), Splat(math::kExp2Max)), Splat(math::kNegLog2E)));
  const F32x16 u = Div(y, Add(y, Splat(2.0f))), w = Mul(u, u);
  F32x16 q = Fma(Splat(math::kLogQ4), w, Splat(math::kLogQ3));
  q = Fma(q, w, Splat(math::kLogQ2));
  q = Fma(q, w, Splat(math::kLogQ1));
  q = Fma(q, w, Splat(math::kLogQ0));
  return KeepNonFinite(x, Add(Positive(x), Mul(u, q)));
}
// kind: math::Activation's number.
CHOICE F32x16 Activate(int64_t kind, F32x16 x) {
  switch (static_cast<math::Activation>(kind)) {
    case math::Activation::Silu: return Silu(x);
    case math::Activation::Gelu: return Gelu(x);
    case math::Activation::GeluTanh: return GeluTanh(x);
    case math::Activation::Relu: return KeepNonFinite(x, Positive(x));
    case math::Activation::Relu2: return KeepNonFinite(x, Mul(Positive(x), Positive(x)));
    case math::Activation::Sigmoid: return Sigmoid(x);
    case math::Activation::Tanh: return Tanh(x);
    case math::Activation::Softplus: return Softplus(x);
    case math::Activation::Exp: return Exp(x);
  }
  return x;
}

INLINE F32x16 SoftCap(F32x16 x, F32x16 cap) { return Mul(cap, Tanh(Div(x, cap))); }

INLINE F32x16 Clamp(F32x16 x, float limit) { return KeepNonFinite(x, Min(Max(x, Splat(-limit)), Splat(limit))); }
INLINE F32x16 AtLeast(F32x16 x, float least) { return KeepNonFinite(x, Max(x, Splat(least))); }
INLINE F32x16 SwigluClamped(F32x16 gate, F32x16 up, float alpha, float limit) {
  const F32x16 g = Min(gate, Splat(limit)), u = Max(Min(up, Splat(limit)), Splat(-limit));
  const F32x16 e = Exp2(Mul(Mul(g, Splat(alpha)), Splat(math::kNegLog2E)));
  return KeepNonFinite(gate, KeepNonFinite(up, Mul(Add(u, Splat(1.0f)), Div(g, OneMore(e)))));
}
// What `gated` does: act is math::Activation's number, or the one behind the last for swiglu_clamped, which alone reads
// alpha and limit (bits of f32).
struct Gate {
  int64_t act, alpha, limit;
};
CHOICE F32x16 Apply(const Gate& gate, F32x16 g, F32x16 u) {
  if (gate.act == math::kActivations) return SwigluClamped(g, u, FloatOfBits(gate.alpha), FloatOfBits(gate.limit));
  return Mul(Activate(gate.act, g), u);
}

INLINE F32x16 Xielu(F32x16 x, float p, float n, float beta, float eps) {
  const F32x16 high = Positive(x), low = Min(x, Zero());
  const F32x16 bend = Positive(Sub(Exp2Minus1(Mul(Min(x, Splat(eps)), Splat(math::kLog2Ef))), low));
  const F32x16 y = Fma(Splat(beta), x, Fma(Splat(n), bend, Mul(Splat(p), Mul(high, high))));
  return Fma(Splat(eps), Zero(), y);
}

}  // namespace KERNELS_NAMESPACE
