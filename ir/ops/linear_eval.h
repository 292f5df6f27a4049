// The inner part of `linear`: rows of x times 16 rows of a weight at a time. Compiled for speed, with the definition's
// sums to the bit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/type.h"

namespace llmc::ops {

// 16 rows of a weight (fewer at the end of a part) and where their results go.
struct LinearUnit {
  const std::byte* weight;  // tiles16: the tile; rows: the first row
  int n_rows;
  float* y;           // result of x's row 0 and the unit's row 0
  int64_t y_stride;   // floats between results of neighbouring rows of x
  const float* bias;  // n_rows values, or nullptr
};

struct LinearCall {
  const float* x;         // [rows, k]; for a8 the codes as floats
  const float* x_d;       // a8: scales [rows, k/32], else nullptr
  const float* x_s;       // a8: d * f32(sum) [rows, k/32]
  const float* x_first;   // a8: sums of the first 16 codes of each block, [rows, k/32]
  const float* x_second;  // and of the last 16
  int64_t rows;
  int64_t k;
  int64_t k_split;
  DType dtype;
  bool tiled;  // tiles16, else rows
};

// portable: the version for any CPU, which gives the same bits as the one chosen for this CPU.
void EvalLinearUnits(const LinearCall& call, std::span<const LinearUnit> units, bool portable = false);

}  // namespace llmc::ops
