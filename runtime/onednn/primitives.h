// One oneDNN matmul, and a call of it with its memory objects.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/onednn/dnnl_compat.h"

namespace llmc::onednn {

// Types of x and w; sums and out are f32, of I8 i32. Bf16AsF32: f32, on a CPU whose oneDNN has no bf16 product.
enum class Factors : uint8_t { F32, Bf16, Bf16AsF32, I8 };

// out[rows, width] = x[rows, k] * w[k, width], all row-major; or `batch` > 1 such products, with columns b * k .. of x,
// rows b * k .. of w, and outs batch_stride apart. For any number of rows.
struct MatmulShape {
  int64_t batch = 1;
  int64_t k = 0, width = 0;
  int64_t x_stride = 0, w_stride = 0, out_stride = 0;  // elements from row to row
  int64_t batch_stride = 0;                            // elements, of out
  Factors factors = Factors::F32;
  bool bias = false;   // f32[width] is added
  bool sum = false;    // what out held is added
  bool swish = false;  // then x / (1 + e^-x)
  auto operator<=>(const MatmulShape&) const = default;
};

// The CPU engine, made at the first use; throws dnnl::error.
const dnnl::engine& Engine();

// `size` zero bytes at a multiple of 64.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size)
      : bytes_(size + kAlign), data_(bytes_.data() + (kAlign - reinterpret_cast<uintptr_t>(bytes_.data()) % kAlign)) {}
  uint8_t* data() { return data_; }

 private:
  static constexpr size_t kAlign = 64;
  std::vector<uint8_t> bytes_;
  uint8_t* data_;
};

// Immutable; shared by threads.
class Matmul {
 public:
  // Nothing when the factors are Bf16 or I8 and oneDNN has no implementation, or only its reference one, on this CPU.
  // Throws dnnl::error.
  static std::optional<Matmul> Make(const MatmulShape& shape);

  const MatmulShape& shape() const { return shape_; }
  uint64_t scratchpad_bytes() const { return scratchpad_.get_size(); }
  // Runs it on zeros, of one row and of several: oneDNN generates its code at the first execution. Throws dnnl::error.
  void WarmUp() const;
  // "f32 [*, 576] x [576, 48] + bias, swish: gemm:jit"
  std::string Describe() const;

 private:
  friend class MatmulCall;
  MatmulShape shape_;
  dnnl::matmul primitive_;
  dnnl::memory::desc scratchpad_;
  std::string implementation_;
};

// A matmul with memory objects for a number of rows; of one thread.
class MatmulCall {
 public:
  MatmulCall(const Matmul& matmul, int64_t rows, uint8_t* scratchpad);
  const Matmul* matmul() const { return matmul_; }
  // bias: null unless the shape has one. Throws dnnl::error.
  void Run(const dnnl::stream& stream, const void* x, const void* w, const float* bias, void* out);

 private:
  const Matmul* matmul_;
  dnnl::memory x_, w_, bias_, out_, scratchpad_;
  dnnl_exec_arg_t args_[5];
  int n_args_ = 0;
};

}  // namespace llmc::onednn
