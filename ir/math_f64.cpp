// Double-precision functions for compile-time tables (ir/math_f64.h): range reduction by fma, then power series long
// enough for the last bit.
#include "ir/math_f64.h"

#include <bit>

namespace llmc::math {
namespace {

// Nearest integer for |x| < 2^51.
double Nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

double ScaleByPow2(double x, int64_t exponent) {
  return x * std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// High part and error of log2(e) and ln(2): their products keep about 100 bits.
constexpr double kLog2ELow = 0x1.777d0ffda0d24p-56;
constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;

// sum over j >= 1 of z^(2j) / (2j + 1), for |z| <= 0.172: atanh(z) = z + z * this.
double AtanhTail(double z2) {
  double sum = 0;
  for (int j = 12; j >= 1; --j) sum = __builtin_fma(sum, z2, 1.0 / (2 * j + 1));
  return sum * z2;
}

}  // namespace

double Log2(double x) {
  uint64_t bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffU) | 0x3ff0000000000000U);
  if (m > 0x1.6a09e667f3bcdp+0) {  // sqrt(2)
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2 atanh(z); z is kept with its error, so that the sum is right to the last bits.
  const double num = m - 1.0;
  const double den = m + 1.0;
  const double den_low = (m - den) + 1.0;
  const double z = num / den;
  const double z_low = (__builtin_fma(-z, den, num) - z * den_low) / den;
  const double high = 2.0 * z;
  const double low = 2.0 * (z_low + z * AtanhTail(z * z));
  // times log2(e)
  const double product = high * kLog2E;
  const double rest = __builtin_fma(high, kLog2E, -product) + (low * kLog2E + high * kLog2ELow);
  const auto whole = static_cast<double>(exponent);
  const double sum = whole + product;
  const double sum_low = (whole - sum) + product;  // |whole| >= |product|, or whole is 0 and this is 0
  return sum + (sum_low + rest);
}

double Ln(double x) { return Log2(x) * kLn2; }

double Exp2(double x) {
  const double n = Nearest(x);
  const double f = x - n;
  const double t = f * kLn2;
  const double t_low = __builtin_fma(f, kLn2, -t) + f * kLn2Low;
  // e^t - 1 - t by Taylor's series: |t| <= 0.3466, the first term left out is below 2e-18.
  double tail = 0;
  for (int k = 15; k >= 2; --k) tail = (tail + 1.0) * (t / k);
  const double p = 1.0 + (t + (t * tail + t_low * (1.0 + t)));
  return ScaleByPow2(p, static_cast<int64_t>(n));
}

SinCos SinCosOf(double x) {
  // pi/2 in three parts of 53, 53 and 53 bits; the products are exact to 2^-106 of n.
  constexpr double kPart1 = 0x1.921fb54442d18p+0;
  constexpr double kPart2 = 0x1.1a62633145c07p-54;
  const double n = Nearest(x * 0x1.45f306dc9c883p-1);  // 2/pi
  const double a = __builtin_fma(-n, kPart1, x);
  const double r = __builtin_fma(-n, kPart2, a);
  const double r_low = __builtin_fma(-n, kPart2, a - r);
  const double r2 = r * r;
  double s = 0;
  double c = 0;
  for (int k = 19; k >= 3; k -= 2) s = -(1.0 + s) * (r2 / (k * (k - 1)));  // sin r = r + r * s
  for (int k = 18; k >= 4; k -= 2) c = -(1.0 + c) * (r2 / (k * (k - 1)));
  // cos r = 1 - r^2/2 * (1 + c), and the low part of r by the first derivative.
  const double sine = r + (r * s + r_low);
  const double half = 0.5 * r2;
  const double head = 1.0 - half;
  const double cosine = head + (((1.0 - head) - half) - half * c - r * r_low);
  switch (static_cast<int64_t>(n) & 3) {
    case 0: return {sine, cosine};
    case 1: return {cosine, -sine};
    case 2: return {-sine, -cosine};
    default: return {-cosine, sine};
  }
}

float AttentionScale(int64_t head_dim) {
  return static_cast<float>(kLog2E / __builtin_sqrt(static_cast<double>(head_dim)));
}

float Log2Scale(double scale) { return static_cast<float>(kLog2E * scale); }

}  // namespace llmc::math
