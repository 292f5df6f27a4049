// sin, cos, log2, exp2 in double for compile-time tables, without libm: the same bits on every machine and toolchain.
// Error bounds, tested against long double libm: Log2 and Exp2 within 2 ulp, Sin and Cos within 2.5e-16 absolute for
// |x| <= 2^24. A table entry whose angle is 10^6 radians is then off by less than 3e-10, a hundredth of f32's rounding.
#pragma once
#include <cstdint>

namespace llmc::math {

constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kPi = 0x1.921fb54442d18p+1;

double Log2(double x);  // x > 0 and normal
double Ln(double x);    // x > 0 and normal; within 1e-15 relative to max(1, |result|)
double Exp2(double x);  // |x| <= 1000

struct SinCos {
  double sin, cos;
};
SinCos SinCosOf(double x);  // |x| <= 2^24

// The factor on attention scores in log2 units: f32(log2(e) / sqrt(head_dim)), evaluated in double.
float AttentionScale(int64_t head_dim);
// The same for another softmax scale: f32(log2(e) * scale).
float Log2Scale(double scale);

}  // namespace llmc::math
