// Guards the shared arithmetic: error bounds against libm in higher precision, exact conversions, and the edges that
// kernels rely on.
#include "ir/math.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include <gtest/gtest.h>

#include "ir/math_f64.h"

namespace llmc::math {
namespace {

// A deterministic stream of 64-bit numbers.
struct Stream {
  uint64_t state = 88172645463325252U;
  uint64_t Next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
};

TEST(Math, RintIsNearestEvenForEveryMagnitude) {
  EXPECT_EQ(Rint(0.5F), 0.0F);
  EXPECT_EQ(Rint(1.5F), 2.0F);
  EXPECT_EQ(Rint(2.5F), 2.0F);
  EXPECT_EQ(Rint(-0.5F), 0.0F);
  EXPECT_EQ(Rint(-1.5F), -2.0F);
  EXPECT_EQ(Rint(4194304.5F), 4194304.0F);
  EXPECT_EQ(Rint(8388607.5F), 8388608.0F);
  EXPECT_EQ(Rint(-8388607.5F), -8388608.0F);
  EXPECT_EQ(Rint(1e30F), 1e30F);
  for (uint64_t u = 0; u < 0x100000000U; u += 65521) {
    const float x = FromBits(static_cast<uint32_t>(u));
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(Rint(x), std::nearbyint(x)) << x;
  }
}

TEST(Math, Tree16AddsHalvesThenQuarters) {
  float lane[16] = {};
  lane[0] = 1e8F;
  lane[8] = 1;  // absorbed by lane 0 at once
  lane[4] = -1e8F;
  lane[1] = 3;
  EXPECT_EQ(Tree16(lane), 3.0F);
}

TEST(Math, Pow2FlushesToExactZeroAndIsNeverDenormal) {
  EXPECT_EQ(Pow2(127), 1.0F);
  EXPECT_EQ(Pow2(252), 0x1p125F);
  EXPECT_EQ(Pow2(1), 0x1p-126F);
  EXPECT_EQ(ToBits(Pow2(0)), 0U);
  EXPECT_EQ(ToBits(Pow2(-1e30F)), 0U);
  EXPECT_EQ(ToBits(Pow2(-std::numeric_limits<float>::infinity())), 0U);
}

TEST(Math, Exp2PartsStayWithinTheirErrorBound) {
  double worst = 0;
  for (uint32_t bits = ToBits(0x1p-27F); bits <= ToBits(0.5F); bits += 37) {
    for (const float f : {FromBits(bits), -FromBits(bits)}) {
      const Exp2Parts parts = SplitExp2(f);
      ASSERT_TRUE(parts.p >= 1.41F && parts.p <= 2.83F);
      const double got = static_cast<double>(parts.p) * std::exp2(static_cast<double>(parts.n) - 1);
      worst = std::max(worst, std::fabs(got / std::exp2(static_cast<double>(f)) - 1));
    }
  }
  EXPECT_LE(worst, 7.5e-8);
}

TEST(Math, Exp2IsExactAtIntegers) {
  for (int n = -140; n <= 120; ++n) {
    const Exp2Parts parts = SplitExp2(static_cast<float>(n));
    EXPECT_EQ(parts.p, 2.0F);
    EXPECT_EQ(parts.n, static_cast<float>(n));
  }
}

TEST(Math, SiluStaysWithinItsErrorBound) {
  double worst = 0;
  for (float g = -10; g < 90; g += 0.00037F) {
    const double exact = static_cast<double>(g) / (1 + std::exp(-static_cast<double>(g)));
    if (exact != 0) worst = std::max(worst, std::fabs(static_cast<double>(Silu(g)) / exact - 1));
  }
  EXPECT_LE(worst, 5.7e-7);
  EXPECT_EQ(Silu(0.0F), 0.0F);
  EXPECT_TRUE(std::signbit(Silu(-0.0F)));
  EXPECT_EQ(Silu(100.0F), 100.0F);
  EXPECT_LT(std::fabs(Silu(-1000.0F)), 1e-34F);
  EXPECT_TRUE(std::isfinite(Silu(-3e38F)));
  EXPECT_TRUE(std::isnan(Silu(std::numeric_limits<float>::quiet_NaN())));
}

// Largest error relative to the exact value over low .. high and, finer and finer, around 0.
template <class F, class G>
double WorstError(float low, float high, const F& f, const G& exact) {
  double worst = 0;
  const auto look = [&](float x) {
    if (x < low || x > high || exact(x) == 0) return;
    worst = std::max(worst, std::fabs(static_cast<double>(f(x)) / exact(x) - 1));
  };
  for (int i = 0; i <= 300'000; ++i) look(low + (high - low) * (static_cast<float>(i) / 300'000.0F));
  for (double x = 1e-30; x < 20; x *= 1.003) {
    look(static_cast<float>(x));
    look(static_cast<float>(-x));
  }
  return worst;
}

TEST(Math, ActivationsStayWithinTheirErrorBounds) {
  EXPECT_LE(WorstError(-86, 86, Exp, [](double x) { return std::exp(x); }), 1.5e-7);
  EXPECT_LE(WorstError(-30, 30, Tanh, [](double x) { return std::tanh(x); }), 3.5e-7);
  EXPECT_LE(WorstError(-10, 90, Sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }), 5.7e-7);
  EXPECT_LE(WorstError(-3, 90, Gelu, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }), 7e-7);
  const auto gelu_tanh = [](double x) {
    return x / (1 + std::exp(-2 * std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  };
  EXPECT_LE(WorstError(-3, 90, GeluTanh, gelu_tanh), 7e-7);
  EXPECT_LE(WorstError(-10, 90, Softplus, [](double x) { return std::log1p(std::exp(x)); }), 6.5e-7);
  EXPECT_LE(WorstError(
                -500, 500, [](float x) { return SoftCap(x, 50); }, [](double x) { return 50 * std::tanh(x / 50); }),
            4.5e-7);
}

// Finite for every finite input, with the limits that the exact functions have.
TEST(Math, ActivationsOfExtremes) {
  for (int64_t kind = 0; kind < kActivations; ++kind) {
    for (const float x : {-3e38F, -1e20F, -1e3F, -1e-40F, 0.0F, 1e-40F, 1e3F, 1e18F})
      EXPECT_TRUE(std::isfinite(Activate(static_cast<Activation>(kind), x))) << kind << " of " << x;
  }
  EXPECT_EQ(Gelu(-1e30F), 0.0F);
  EXPECT_EQ(Gelu(1e30F), 1e30F);
  EXPECT_EQ(GeluTanh(1e20F), 1e20F);
  EXPECT_EQ(Exp(-3e38F), 0.0F);
  EXPECT_EQ(Exp(0.0F), 1.0F);
  EXPECT_EQ(Tanh(3e38F), 1.0F);
  EXPECT_EQ(Tanh(-3e38F), -1.0F);
  EXPECT_EQ(Softplus(1e30F), 1e30F);
  EXPECT_EQ(SoftCap(0.0F, 30), 0.0F);
}

TEST(Math, EveryHalfRoundTrips) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float f = HalfToFloat(static_cast<uint16_t>(h));
    const uint32_t exponent = (h >> 10) & 31U;
    const double sign = (h & 0x8000U) != 0 ? -1 : 1;
    if (exponent == 31) {
      if ((h & 1023U) == 0) {
        EXPECT_EQ(f, static_cast<float>(sign) * std::numeric_limits<float>::infinity());
        EXPECT_EQ(FloatToHalf(f), h);
      } else {
        EXPECT_TRUE(std::isnan(f));
        EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(f))));
      }
      continue;
    }
    const double mantissa = exponent == 0 ? h & 1023U : 1024 + (h & 1023U);
    const double value = sign * std::ldexp(mantissa, static_cast<int>(exponent == 0 ? 1 : exponent) - 25);
    ASSERT_EQ(static_cast<double>(f), value);
    ASSERT_EQ(std::signbit(f), sign < 0);
    ASSERT_EQ(FloatToHalf(f), h);
  }
}

TEST(Math, HalvesRoundToNearestEven) {
  EXPECT_EQ(FloatToHalf(65519.996F), 0x7bffU);
  EXPECT_EQ(FloatToHalf(65520.0F), 0x7c00U);
  EXPECT_EQ(FloatToHalf(-1e30F), 0xfc00U);
  EXPECT_EQ(FloatToHalf(0x1p-25F), 0U);               // tie, to zero
  EXPECT_EQ(FloatToHalf(0x1.000002p-25F), 1U);        // just above
  EXPECT_EQ(FloatToHalf(0x1.8p-24F), 2U);             // tie, to even
  EXPECT_EQ(FloatToHalf(0x1.ffcp-15F), 0x3ffU + 1U);  // tie, up to the smallest normal number
  EXPECT_EQ(FloatToHalf(2049.0F), 0x6800U);           // tie between 2048 and 2050
  EXPECT_EQ(FloatToHalf(2051.0F), 0x6802U);
  EXPECT_EQ(FloatToHalf(-0.0F), 0x8000U);
  EXPECT_EQ(FloatToHalf(1e-40F), 0U);
  // Every float between neighbouring halves goes to the nearer one.
  for (uint64_t u = 0; u < 0x100000000U; u += 65521) {
    const float x = FromBits(static_cast<uint32_t>(u));
    if (!std::isfinite(x) || std::fabs(x) >= 65504.0F) continue;
    const uint16_t h = FloatToHalf(x);
    const double error = std::fabs(static_cast<double>(HalfToFloat(h)) - static_cast<double>(x));
    for (const int step : {-1, 1}) {
      if ((h & 0x7fffU) == 0 && step < 0) continue;
      const double other =
          std::fabs(static_cast<double>(HalfToFloat(static_cast<uint16_t>(h + step))) - static_cast<double>(x));
      ASSERT_TRUE(error < other || (error == other && (h & 1U) == 0)) << x;
    }
  }
}

TEST(Math, BfloatsRoundToNearestEven) {
  EXPECT_EQ(BfloatToFloat(0x3f80), 1.0F);
  EXPECT_EQ(FloatToBfloat(257.0F), FloatToBfloat(256.0F));  // tie, to even
  EXPECT_EQ(BfloatToFloat(FloatToBfloat(259.0F)), 260.0F);
  EXPECT_EQ(FloatToBfloat(0x1.fffffep127F), 0x7f80U);
  EXPECT_TRUE(std::isnan(BfloatToFloat(FloatToBfloat(FromBits(0x7f800001U)))));
  for (uint32_t b = 0; b < 65536; ++b) {
    const float f = BfloatToFloat(static_cast<uint16_t>(b));
    if (!std::isnan(f)) {
      EXPECT_EQ(FloatToBfloat(f), b);
    }
  }
}

// |got - exact| in units of the last place of `exact`.
double Ulps(double got, long double exact) {
  const double spacing =
      std::nextafter(std::fabs(static_cast<double>(exact)), INFINITY) - std::fabs(static_cast<double>(exact));
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact)) / spacing;
}

TEST(MathF64, Log2AndExp2StayWithinTwoUlp) {
  Stream stream;
  double worst_log = 0;
  double worst_exp = 0;
  for (int i = 0; i < 200000; ++i) {
    const double x = std::exp2(stream.Unit() * 80 - 40);
    worst_log = std::max(worst_log, Ulps(Log2(x), std::log2(static_cast<long double>(x))));
    const double near_one = 1 + (stream.Unit() - 0.5) * 0x1p-10;
    worst_log = std::max(worst_log, Ulps(Log2(near_one), std::log2(static_cast<long double>(near_one))));
    const double y = stream.Unit() * 80 - 40;
    worst_exp = std::max(worst_exp, Ulps(Exp2(y), std::exp2(static_cast<long double>(y))));
  }
  EXPECT_LE(worst_log, 2);
  EXPECT_LE(worst_exp, 2);
  EXPECT_EQ(Log2(1), 0);
  EXPECT_EQ(Log2(1024), 10);
  EXPECT_EQ(Log2(0x1p-60), -60);
  EXPECT_EQ(Exp2(0), 1);
  EXPECT_EQ(Exp2(-37), 0x1p-37);
  EXPECT_NEAR(Ln(40), std::log(40.0), 1e-15 * 4);
}

TEST(MathF64, SinAndCosStayWithinTheirErrorBound) {
  Stream stream;
  double worst = 0;
  const auto check = [&](double x) {
    const SinCos got = SinCosOf(x);
    const auto exact = static_cast<long double>(x);
    worst = std::max(worst, static_cast<double>(std::fabs(static_cast<long double>(got.sin) - std::sin(exact))));
    worst = std::max(worst, static_cast<double>(std::fabs(static_cast<long double>(got.cos) - std::cos(exact))));
  };
  for (int i = 0; i < 300000; ++i) {
    check(stream.Unit() * 0x1p24);
    check(stream.Unit() * 10);
    check(static_cast<double>(i % 1000000));
    check(-stream.Unit() * 1000);
  }
  // Next to the multiples of pi/2, where the reduction cancels.
  for (int n = 1; n < 100000; ++n) check(n * (kPi / 2));
  EXPECT_LE(worst, 2.5e-16);
  EXPECT_EQ(SinCosOf(0).sin, 0);
  EXPECT_EQ(SinCosOf(0).cos, 1);
}

// CASES E16: a position rounded to bf16 would give -0.267950 here.
TEST(MathF64, CosineOfAFarPosition) { EXPECT_NEAR(SinCosOf(15962).cos, -0.908016, 5e-7); }

TEST(MathF64, AttentionScaleIsRoundedOnce) {
  EXPECT_EQ(AttentionScale(64), 0x1.715476p-3F);
  EXPECT_EQ(AttentionScale(1), 0x1.715476p+0F);
  for (int d = 1; d < 300; ++d) {
    const long double exact = std::numbers::log2e_v<long double> / std::sqrt(static_cast<long double>(d));
    EXPECT_EQ(AttentionScale(d), static_cast<float>(exact)) << d;
  }
}

}  // namespace
}  // namespace llmc::math
