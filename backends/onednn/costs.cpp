// Rates of matrix products, measured, and what they make of a phase.
#include "backends/onednn/costs.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/onednn/product.h"
#include "ir/diag.h"
#include "ir/op.h"

namespace llmc {
namespace {

// Gop/s of one core, two operations a multiply-add. llvm: code for x86-64-v3. onednn: on a CPU with AVX2 alone, and on
// one with `feature`. Measured on an AMD EPYC (Zen 4) with oneDNN 2.6.3: kernel_bench; onednn_bench, under
// ONEDNN_MAX_CPU_ISA=AVX2 and without. One row is what a core streams and unpacks.
struct Rates {
  DnnlCompute compute;
  DType weights;  // of Blocks; the others take any type
  double llvm, onednn_avx2, onednn_most;
  double llvm_row, onednn_row;
  const char* feature;
};
constexpr Rates kRates[] = {
    {DnnlCompute::F32, DType::F32, 110, 108, 112, 18, 8.4, "avx512f"},
    {DnnlCompute::Bf16, DType::BF16, 110, 109, 205, 29, 9.0, "avx512_bf16"},
    {DnnlCompute::Blocks, DType::Q4_0, 258, 88, 170, 115, 11, "avx512_vnni"},
    {DnnlCompute::Blocks, DType::Q4_1, 251, 84, 163, 105, 11, "avx512_vnni"},
    {DnnlCompute::Blocks, DType::Q5_0, 240, 88, 170, 78, 11, "avx512_vnni"},
    {DnnlCompute::Blocks, DType::Q5_1, 241, 84, 163, 80, 11, "avx512_vnni"},
    {DnnlCompute::Blocks, DType::Q8_0, 127, 88, 177, 62, 10, "avx512_vnni"},
};
constexpr uint32_t kManyRows = 64;  // fewer are priced as one row
// As fast within this share: what two measurements differ by.
constexpr double kSame = 0.03;

const Rates& RatesOf(const DnnlStep& product) {
  for (const Rates& rates : kRates) {
    const bool type = rates.compute != DnnlCompute::Blocks || static_cast<uint32_t>(rates.weights) == product.w_type;
    if (rates.compute == product.compute && type) return rates;
  }
  LLMC_CHECK(false, "no rates for a product");
  return kRates[0];
}

}  // namespace

CostEstimate EstimateCosts(const Module& module, const Func& func, const std::string& targets) {
  const bool native = targets == "native";
  double llvm = 0, least = 0, most = 0;  // milliseconds; onednn on the least CPU of the target, and on the best
  for (const Op& op : func.ops) {
    if (DefOf(op.kind).weight < 0) continue;
    const DnnlStep product = ProductOf(module, func, op, false);
    double work = 0;
    for (const DnnlStep::Part& part : product.parts)
      work += 2e-6 * static_cast<double>(part.n) * static_cast<double>(product.k) * product.max_rows;
    const Rates& rates = RatesOf(product);
    const bool many = product.max_rows >= kManyRows;
    const double best = many ? rates.onednn_most : rates.onednn_row;
    const bool has = native && MissingCpuFeatures(std::vector<std::string>{rates.feature}).empty();
    const double sure = has ? best : many ? rates.onednn_avx2 : rates.onednn_row;
    llvm += work / (many ? rates.llvm : rates.llvm_row);
    least += work / sure;
    most += work / (native ? sure : best);
  }
  CostEstimate cost;
  // Never slower, and faster somewhere.
  cost.onednn = least <= (1 + kSame) * llvm && most < (1 - kSame) * llvm;
  cost.reason = fmt::format("matrices on one core: llvm {:.3g} ms, onednn {:.3g} ms", llvm, least);
  if (most < (1 - kSame) * least) cost.reason += fmt::format(", or {:.3g} ms where the CPU has more than AVX2", most);
  return cost;
}

}  // namespace llmc
