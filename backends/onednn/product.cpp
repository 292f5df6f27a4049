// Shapes, element types and slices of products.
#include "backends/onednn/product.h"

#include <algorithm>

#include "ir/diag.h"
#include "ir/op.h"

namespace llmc {
namespace {

// Slices of 6 tiles (96 columns) keep oneDNN's GEMM within 2 % of its best; narrow matrices get 3, so that they are
// still many slices for the threads. The unpacked weights of a slice should stay in the second-level cache.
constexpr int64_t kWideTiles = 6, kNarrowTiles = 3;
constexpr int64_t kWideColumns = 1536;
constexpr int64_t kCacheBytes = 1 << 20;

int64_t MostRowsOf(const Module& module, const Func& func, const Dim& rows) {
  if (!rows.is_symbol()) return rows.value;
  for (const std::vector<DimRange>* ranges : {&func.dims, &module.dims}) {
    for (const DimRange& range : *ranges) {
      if (range.symbol == rows.symbol) return range.max;
    }
  }
  LLMC_CHECK(false, "no range for dim " + rows.symbol);
  return 0;
}

uint32_t SliceTiles(const DnnlStep& step) {
  // One row of f32 weights: a tile is used as it lies, without a copy.
  if (step.max_rows == 1 && step.w_type == static_cast<uint32_t>(DType::F32)) return 1;
  uint64_t widest = 0;
  for (const DnnlStep::Part& part : step.parts) widest = std::max(widest, part.n);
  const auto element = static_cast<int64_t>(step.compute == DnnlCompute::Bf16 ? 2 : 4);
  const int64_t tile_bytes = static_cast<int64_t>(step.k * kPlanTile) * element;
  int64_t tiles = widest >= kWideColumns ? kWideTiles : kNarrowTiles;
  if (tiles * tile_bytes > kCacheBytes) tiles = kNarrowTiles;
  return static_cast<uint32_t>(tiles);
}

// Activations that hold bf16 values make the product of a bf16 matrix one of bf16.
bool HoldsBf16(const Func& func, Operand x) {
  const std::vector<int> made = DefiningOps(func);
  for (int op = x.is_global ? -1 : made[static_cast<size_t>(x.index)]; op >= 0;) {
    const Op& maker = func.ops[static_cast<size_t>(op)];
    const OpDef& def = DefOf(maker.kind);
    if (!def.rounds_to.empty() && maker.attrs.Ident(def.rounds_to) == "bf16") return true;
    op = def.copies ? made[static_cast<size_t>(maker.operands[0].index)] : -1;
  }
  return false;
}

DnnlCompute ComputeOf(const Func& func, const Op& linear, const Type& x, const Type& w) {
  if (x.dtype == DType::A8) return DnnlCompute::Blocks;
  return w.dtype == DType::BF16 && HoldsBf16(func, linear.operands[0]) ? DnnlCompute::Bf16 : DnnlCompute::F32;
}

DnnlGate GateOf(const Op& gate) {
  const std::string act = std::get<std::string>(AttrOf(gate, "act"));
  for (uint32_t i = 1; i < kDnnlGates; ++i) {
    if (DnnlGateName(static_cast<DnnlGate>(i)) == act) return static_cast<DnnlGate>(i);
  }
  LLMC_CHECK(false, "a product has no gate " + act);
  return DnnlGate::None;
}

}  // namespace

DnnlStep ProductOf(const Module& module, const Func& func, const Op& linear, const Op* gate) {
  const Type& x = TypeOf(module, func, linear.operands[0]);
  const Type& w = TypeOf(module, func, linear.operands[1]);
  DnnlStep step;
  step.max_rows = static_cast<uint32_t>(MostRowsOf(module, func, x.dims[0]));
  step.one_row = step.max_rows == 1;
  step.compute = ComputeOf(func, linear, x, w);
  step.x_type = static_cast<uint32_t>(x.dtype);
  step.w_type = static_cast<uint32_t>(w.dtype);
  step.k = static_cast<uint64_t>(x.dims[1].value);
  step.interleave = std::get<bool>(AttrOf(linear, "interleave"));
  step.gate = gate == nullptr ? DnnlGate::None : GateOf(*gate);
  for (size_t i = 0; i < (gate != nullptr ? 1 : linear.results.size()); ++i) {
    const Type& y = func.values[static_cast<size_t>(linear.results[i])].type;
    step.parts.push_back({static_cast<uint64_t>(y.dims[1].value), {}});
  }
  step.slice_tiles = SliceTiles(step);
  step.scratch_bytes = DnnlScratchBytes(step).total();
  return step;
}

}  // namespace llmc
