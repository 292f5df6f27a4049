// The steps of a plan that libllmc_onednn.so runs, checked and with their primitives.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/onednn/kernels.h"
#include "runtime/onednn/library.h"
#include "runtime/onednn/primitives.h"
#include "runtime/plan_steps.h"

namespace llmc::onednn {

struct KernelCall {
  const NativeKernel* kernel;
  KernelStep step;
};

// One of a product's weight matrices, [n, k] in tiles16: tile t lies at `w` + t * `tile_stride`.
struct Factor {
  uint64_t w = 0, tile_stride = 0;  // bytes in the weight section
  uint64_t bias = 0;                // of the weight section; read when the step has one
  const Matmul* full = nullptr;     // of 16 * slice_tiles columns; null when there is no such slice
  const Matmul* last = nullptr;     // of the columns that are left; null when there are none
};

struct Product {
  DnnlStep step;
  Factors factors = Factors::F32;
  std::vector<Factor> matrices;  // one for each part; gated: gate and up of the one part
};

class Program {
 public:
  // Throws PlanError for a step that isn't one, dnnl::error.
  Program(const LlmcOnednnStep* steps, uint64_t count);

  uint64_t steps() const { return steps_.size(); }
  const std::vector<std::string>& descriptions() const { return descriptions_; }
  uint64_t scratchpad_bytes() const { return widened_bytes_ + dnnl_bytes_; }
  // Throws PlanError when the call has more rows than the step is made for, dnnl::error.
  void Run(uint64_t step, const LlmcContext& c, uint32_t thread, uint32_t threads, uint8_t* scratchpad) const;

 private:
  Product MakeProduct(const DnnlStep& step);
  bool MakeMatmuls(Product& product);
  const Matmul* FindMatmul(const MatmulShape& shape);
  void RunProduct(const Product& product, const LlmcContext& c, uint32_t thread, uint32_t threads,
                  uint8_t* scratchpad) const;

  std::vector<std::variant<KernelCall, Product>> steps_;
  std::map<MatmulShape, std::unique_ptr<Matmul>> matmuls_;
  std::vector<std::string> descriptions_;
  uint64_t widened_bytes_ = 0, dnnl_bytes_ = 0;
};

}  // namespace llmc::onednn
