// The rows of x of a product, as its evaluation takes them.
#pragma once
#include <vector>

#include "ir/ops/activations.h"
#include "ir/ops/common.h"
#include "ir/ops/linear_eval.h"

namespace llmc::ops {

// f32 as it lies; a8 as floats.
class LinearInput {
 public:
  // `rows` rows of k elements; `data`, of element type `dtype`, outlives this.
  LinearInput(DType dtype, std::byte* data, int64_t rows, int64_t k)
      : a8_(dtype == DType::A8), k_(k), f32_(reinterpret_cast<const float*>(data)) {
    if (!a8_) return;
    for (int64_t row = 0; row < rows; ++row) {
      const ActivationRow a = RowOf(data, row, k);
      codes_.insert(codes_.end(), a.codes, a.codes + k);
      scales_.insert(scales_.end(), a.d, a.d + k / 32);
      sums_.insert(sums_.end(), a.s, a.s + k / 32);
      for (int64_t b = 0; b < k / 32; ++b) {
        first_.push_back(a.sums[2 * b + 1]);
        second_.push_back(static_cast<float>(a.sums[2 * b] - a.sums[2 * b + 1]));
      }
    }
  }
  // Rows [row, row + count) times a weight.
  LinearCall Rows(int64_t row, int64_t count, int64_t k_split, const Type& weight) const {
    LinearCall call{};
    call.x = (a8_ ? codes_.data() : f32_) + row * k_;
    if (a8_) {
      const int64_t block = row * (k_ / 32);
      call.x_d = scales_.data() + block;
      call.x_s = sums_.data() + block;
      call.x_first = first_.data() + block;
      call.x_second = second_.data() + block;
    }
    call.rows = count;
    call.k = k_;
    call.k_split = k_split;
    call.dtype = weight.dtype;
    call.tiled = weight.layout == Layout::Tiles16;
    return call;
  }

 private:
  bool a8_;
  int64_t k_;
  const float* f32_;
  std::vector<float> codes_, scales_, sums_, first_, second_;
};

}  // namespace llmc::ops
