// Comparison of two sets of logits or tensors, for verify, bisect and trace.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace llmc {

// How `now` differs from `was`. A NaN equals a NaN of the same bits alone.
struct Difference {
  size_t values = 0;
  size_t unequal = 0;     // by their bits
  size_t first = 0;       // index of the first unequal value, where there is one
  size_t worst = 0;       // index of the largest absolute difference
  double max_abs = 0;     // infinity where one side isn't finite and the other is
  uint64_t max_ulp = 0;   // steps between the two floats; 2^32 where one is NaN
  double worst_nmse = 0;  // largest of the rows: sum (now - was)^2 / sum was^2
  size_t worst_row = 0;
  bool same() const { return unequal == 0; }
};

// columns: values of a row, for the NMSE. Both spans have the same size, a multiple of columns.
Difference Compare(std::span<const float> now, std::span<const float> was, size_t columns);

// "0", "1.2e-07": for tables.
std::string ShortNumber(double value);

// A number as JSON has it; null for what JSON cannot say (NaN, infinity).
std::string JsonNumber(double value);

// Text table: columns as wide as their widest cell, the first one to the left, the others to the right.
std::string Table(const std::vector<std::vector<std::string>>& rows);

}  // namespace llmc
