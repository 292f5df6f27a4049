// Rates of matrix products, measured, and what they make of a phase.
#include "backends/onednn/costs.h"

#include <fmt/format.h>

#include "backends/onednn/product.h"
#include "ir/op.h"

namespace llmc {
namespace {

// Multiply-adds per nanosecond and core. Many rows: the products' own speed; one row: what a core streams, at the
// weight type's size. Measured by tools/bench_backends.py on an AMD EPYC (Zen 4), llvm's code for x86-64-v3, oneDNN
// 2.6.3 with what the CPU has.
struct Rates {
  double llvm, onednn;
};

Rates RatesOf(const DnnlStep& product) {
  const bool many = product.max_rows >= 64;
  if (product.x_type == static_cast<uint32_t>(DType::A8)) return many ? Rates{120, 50} : Rates{40, 2};
  return many ? Rates{54, 56} : Rates{8, 2};
}

}  // namespace

CostEstimate EstimateCosts(const Module& module, const Func& func, const std::string& targets) {
  (void)targets;
  double llvm = 0, onednn = 0;
  for (const Op& op : func.ops) {
    if (op.kind != OpKind::Linear) continue;
    const DnnlStep product = ProductOf(module, func, op, false);
    double work = 0;
    for (const DnnlStep::Part& part : product.parts)
      work += static_cast<double>(part.n) * static_cast<double>(product.k) * product.max_rows;
    const Rates rates = RatesOf(product);
    llvm += work / rates.llvm;
    onednn += work / rates.onednn;
  }
  CostEstimate cost;
  cost.onednn = onednn < llvm;
  cost.reason = fmt::format("matrices: llvm {:.3g} ms, onednn {:.3g} ms on one core", llvm / 1e6, onednn / 1e6);
  return cost;
}

}  // namespace llmc
