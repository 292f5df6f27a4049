// head_linear and concat: what each head does by itself.
#include <algorithm>
#include <vector>

#include "ir/layout.h"
#include "ir/ops/common.h"
#include "ir/ops/linear_input.h"

namespace llmc {
namespace {

using namespace ops;

std::vector<Type> InferHeadLinear(const InferContext& c) {
  const Type& x = c.operand(0);
  const Type& w = c.operand(1);
  if ((x.dtype != DType::F32 && x.dtype != DType::A8) || x.dims.size() != 3 || x.layout != Layout::Rows || x.state >= 0)
    c.Fail("C1", Describe(c, 0) + ", must be f32 or a8 [S, H, K]");
  const int64_t heads = NeedConstant(c, x.dims[1], 1, "C1", "x's dim 1");
  const int64_t k = NeedConstant(c, x.dims[2], 1, "C1", "x's dim 2");
  const DTypeClass cls = InfoOf(w.dtype).cls;
  const bool is_weight = (cls == DTypeClass::FLOAT || cls == DTypeClass::BLOCK) && w.state < 0;
  if (!is_weight || w.dims.size() != 2 || (w.layout != Layout::Rows && w.layout != Layout::Tiles16) ||
      w.dims[1] != Dim(k) || k % InfoOf(w.dtype).block != 0) {
    c.Fail("C2", Describe(c, 1) + ", must be a weight [H N, " + std::to_string(k) + "], rows or tiles16");
  }
  if (x.dtype == DType::A8 && cls != DTypeClass::BLOCK) c.Fail("C3", Describe(c, 1) + ": a8 needs a weight of blocks");
  const int64_t rows = NeedConstant(c, w.dims[0], 1, "C2", "the weight's dim 0");
  if (rows % heads != 0 || rows / heads % kTileRows != 0)
    c.Fail("C4", Describe(c, 1) + ": " + std::to_string(heads) + " matrices of a multiple of 16 rows");
  return {Type{DType::F32, {x.dims[0], x.dims[1], Dim(rows / heads)}, Layout::Rows, -1}};
}

void EvalHeadLinear(const EvalContext& c) {
  const Tensor& x = c.operands[0];
  const Tensor& w = c.operands[1];
  const int64_t heads = DimOf(x, 1);
  const int64_t k = Inner(x);
  const int64_t n = Inner(c.results[0]);
  const bool tiled = w.type.layout == Layout::Tiles16;
  const int64_t unit_bytes = tiled ? TileBytes(w.type.dtype, k) : kTileRows * RowBytes(w.type.dtype, k);
  const LinearInput input(x.type.dtype, x.data, RowsOf(x), k);
  for (int64_t at = 0; at < RowsOf(x); ++at) {
    std::vector<LinearUnit> units;
    for (int64_t row = 0; row < n; row += kTileRows) {
      LinearUnit unit{};
      unit.weight = w.data + (at % heads * n + row) / kTileRows * unit_bytes;
      unit.n_rows = static_cast<int>(kTileRows);
      unit.y = c.results[0].as<float>() + at * n + row;
      unit.y_stride = n;
      units.push_back(unit);
    }
    EvalLinearUnits(input.Rows(at, 1, 1, w.type), units);
  }
}

Cost CostHeadLinear(const InferContext& c, int64_t rows, int64_t /*total*/) {
  const Type& w = c.operand(1);
  Cost cost;
  cost.weight_macs =
      static_cast<double>(rows) * static_cast<double>(w.dims[0].value) * static_cast<double>(w.dims[1].value);
  cost.weight_bytes = static_cast<double>(w.dims[0].value) * static_cast<double>(RowBytes(w.dtype, w.dims[1].value));
  return cost;
}

std::vector<Type> InferConcat(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 3, "C1", "f32[S, H, A]");
  NeedRows(c, 1, DType::F32, 3, "C2", "f32[S, H, B] or f32[S, 1, B]");
  const Type& x = c.operand(0);
  const Type& tail = c.operand(1);
  NeedConstant(c, x.dims[1], 1, "C1", "x's dim 1");
  const int64_t a = NeedConstant(c, x.dims[2], 1, "C1", "x's dim 2");
  const int64_t b = NeedConstant(c, tail.dims[2], 1, "C2", "tail's dim 2");
  if (tail.dims[0] != x.dims[0] || (tail.dims[1] != x.dims[1] && tail.dims[1] != Dim(1)))
    c.Fail("C2", Describe(c, 1) + ", must have x's S, and its heads or one");
  return {Type{DType::F32, {x.dims[0], x.dims[1], Dim(a + b)}, Layout::Rows, -1}};
}

void EvalConcat(const EvalContext& c) {
  const Tensor& x = c.operands[0];
  const Tensor& tail = c.operands[1];
  const int64_t a = Inner(x);
  const int64_t b = Inner(tail);
  const int64_t per_tail = DimOf(x, 1) / DimOf(tail, 1);
  for (int64_t at = 0; at < RowsOf(x); ++at) {
    float* out = c.results[0].as<float>() + at * (a + b);
    std::copy_n(x.as<float>() + at * a, a, out);
    std::copy_n(tail.as<float>() + at / per_tail * b, b, out + a);
  }
}

}  // namespace

const OpDef kHeadLinearDef = {
    .summary = "Each head's rows times the head's own weight.",
    .operands = {{"x"}, {"weight"}},
    .attrs = {},
    .results = {"y"},
    .row_wise = true,
    .weight = 1,
    .by_head = true,
    .few = Over::Tiles,
    .many = Over::Tiles,
    .infer = InferHeadLinear,
    .eval = EvalHeadLinear,
    .cost = CostHeadLinear,
    .divisions = {{Over::Tiles, "wo"}},
};

const OpDef kConcatDef = {
    .summary = "Each head's elements, followed by those of another value.",
    .operands = {{"x"}, {"tail"}},
    .attrs = {},
    .results = {"y"},
    .row_wise = true,
    .infer = InferConcat,
    .eval = EvalConcat,
    .divisions = {{Over::Rows, "oo"}},
};

}  // namespace llmc
