// How far logits are from those of an oracle.
#pragma once
#include <cstddef>

namespace llmc {

// Sum (a - b)^2 / sum b^2 over n numbers; b is the oracle's.
inline double Nmse(const float* a, const float* b, size_t n) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    error += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return error / norm;
}

}  // namespace llmc
