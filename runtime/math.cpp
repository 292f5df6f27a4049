// exp: x = k ln 2 + r, |r| <= ln 2 / 2, Taylor's series of e^r to r^13 (the next term is below 5e-18). log: x = 2^k m,
// m in [sqrt(1/2), sqrt(2)], log m = 2 atanh((m - 1) / (m + 1)), whose series in s^2 <= 0.0295 needs 11 terms.
#include "runtime/math.h"

#include <bit>
#include <cstdint>

namespace llmc {
namespace {

// ln 2 in two parts: the first has 32 trailing zero bits, so that k * kLn2High is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep0;

double PowerOfTwo(int k) { return std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52); }  // -1022 <= k <= 1023

}  // namespace

double ExpOfNegative(double x) {
  if (x != x) return x;
  if (x < -708.0) return 0.0;
  const int k = static_cast<int>(x * kInverseLn2 - 0.5);  // toward zero: the nearest integer for x <= 0
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1.0;
  for (int i = 13; i >= 1; --i) sum = 1.0 + r / i * sum;
  return sum * PowerOfTwo(k);
}

double NaturalLog(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  int k = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);  // 1 <= m < 2
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++k;
  }
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double sum = 0.0;
  for (int i = 23; i >= 3; i -= 2) sum = (sum + 1.0 / i) * s2;
  return k * kLn2High + (k * kLn2Low + 2.0 * (s + s * sum));
}

double SquareRoot(double x) {
  if (!(x > 0)) return 0;
  // Half the exponent is within a factor of sqrt(2); each step of Newton's squares the relative error.
  double y = std::bit_cast<double>((std::bit_cast<uint64_t>(x) >> 1) + (uint64_t{1023} << 51));
  for (int i = 0; i < 6; ++i) y = 0.5 * (y + x / y);
  return y;
}

}  // namespace llmc
