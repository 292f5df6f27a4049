// linear: y = x W^T (+ bias), the record. The sums stand in linear_eval.cpp.
#include <algorithm>
#include <thread>
#include <vector>

#include "ir/layout.h"
#include "ir/ops/common.h"
#include "ir/ops/linear_input.h"

namespace llmc {
namespace {

using namespace ops;

// Rows of the weight before part i; with interleave of its tile 0.
int64_t PartOffset(const std::vector<Dim>& split, size_t part, bool tiled) {
  int64_t offset = 0;
  for (size_t i = 0; i < part; ++i) offset += tiled ? RoundUp(split[i].value, kTileRows) : split[i].value;
  return offset;
}

std::vector<Dim> SplitOf(const Op& op, const Type& weight) {
  if (op.attrs.Find("split") != nullptr) return op.attrs.List("split");
  return {weight.dims[0]};
}

bool InterleaveOf(const Op& op) { return std::get<bool>(AttrOf(op, "interleave")); }

void CheckSplit(const InferContext& c, const std::vector<Dim>& split) {
  const Type& weight = c.operand(1);
  const bool tiled = weight.layout == Layout::Tiles16;
  if (split.empty()) c.Fail("C4", "split is empty");
  int64_t sum = 0;
  for (const Dim& n : split) {
    sum += NeedConstant(c, n, 1, "C4", "a part of split");
    if (sum > weight.dims[0].value) break;
  }
  if (InterleaveOf(c.op)) {
    if (!tiled || split.size() != 2 || split[0] != split[1]) {
      c.Fail("C5", Describe(c, 1) + ": interleave needs tiles16 and two equal parts");
    }
  }
  const int64_t rows =
      sum > weight.dims[0].value ? sum : PartOffset(split, split.size() - 1, tiled) + split.back().value;
  if (rows != weight.dims[0].value) {
    c.Fail("C4", Describe(c, 1) + ": split needs " + std::to_string(rows) + " rows");
  }
}

std::vector<Type> InferLinear(const InferContext& c) {
  const Type& x = c.operand(0);
  const Type& w = c.operand(1);
  const bool quantised = x.dtype == DType::A8;
  if ((x.dtype != DType::F32 && !quantised) || x.dims.size() != 2 || x.layout != Layout::Rows || x.state >= 0) {
    c.Fail("C1", Describe(c, 0) + ", must be f32[S, K] or a8[S, K]");
  }
  const int64_t k = NeedConstant(c, x.dims[1], 1, "C1", "x's dim 1");
  const DTypeClass cls = InfoOf(w.dtype).cls;
  const bool is_weight = (cls == DTypeClass::FLOAT || cls == DTypeClass::BLOCK) && w.state < 0;
  if (!is_weight || w.dims.size() != 2 || (w.layout != Layout::Rows && w.layout != Layout::Tiles16)) {
    c.Fail("C2", Describe(c, 1) + ", must be a weight [N, K], rows or tiles16");
  }
  NeedConstant(c, w.dims[0], 1, "C2", "the weight's dim 0");
  if (w.dims[1] != x.dims[1]) {
    c.Fail("C2", "weight dim 1 is " + ToText(w.dims[1]) + ", input has " + std::to_string(k));
  }
  if (quantised && cls != DTypeClass::BLOCK) c.Fail("C3", Describe(c, 1) + ": a8 needs a weight of blocks");
  const std::vector<Dim> split = SplitOf(c.op, w);
  CheckSplit(c, split);
  const int64_t k_split = std::get<int64_t>(AttrOf(c.op, "k_split"));
  const int64_t unit = k_split == 1 ? InfoOf(w.dtype).block : TileStepK(w.dtype);
  if (k_split < 1 || k_split > k || k % k_split != 0 || k / k_split % unit != 0) {
    c.Fail("C6", "k_split is " + std::to_string(k_split) + ", must cut " + std::to_string(k) +
                     " into equal ranges of a multiple of " + std::to_string(unit));
  }
  if (c.has(2)) {
    int64_t n = 0;
    for (const Dim& part : split) n += part.value;
    if (c.operand(2) != Type{DType::F32, {Dim(n)}, Layout::Rows, -1}) {
      c.Fail("C7", Describe(c, 2) + ", must be f32[" + std::to_string(n) + "]");
    }
  }
  std::vector<Type> results;
  for (const Dim& n : split) results.push_back({DType::F32, {x.dims[0], n}, Layout::Rows, -1});
  return results;
}

std::vector<LinearUnit> UnitsOf(const EvalContext& c) {
  const Tensor& w = c.operands[1];
  const bool tiled = w.type.layout == Layout::Tiles16;
  const bool interleave = InterleaveOf(c.op);
  const std::vector<Dim> split = SplitOf(c.op, w.type);
  const int64_t k = DimOf(w, 1);
  const int64_t tile_bytes = TileBytes(w.type.dtype, k);
  const int64_t row_bytes = RowBytes(w.type.dtype, k);
  const float* bias = c.operands.size() > 2 ? c.operands[2].as<float>() : nullptr;
  std::vector<LinearUnit> units;
  for (size_t part = 0; part < split.size(); ++part) {
    const int64_t n = split[part].value;
    const int64_t offset = PartOffset(split, part, tiled);
    for (int64_t row = 0; row < n; row += kTileRows) {
      LinearUnit unit{};
      const int64_t tile = row / kTileRows;
      unit.weight = w.data + (tiled ? (interleave ? 2 * tile + static_cast<int64_t>(part) : offset / kTileRows + tile) *
                                          tile_bytes
                                    : (offset + row) * row_bytes);
      unit.n_rows = static_cast<int>(std::min<int64_t>(kTileRows, n - row));
      unit.y = c.results[part].as<float>() + row;
      unit.y_stride = n;
      unit.bias = bias == nullptr ? nullptr : bias + row;
      units.push_back(unit);
    }
    if (bias != nullptr) bias += n;
  }
  return units;
}

void EvalLinear(const EvalContext& c) {
  const Tensor& x = c.operands[0];
  const Tensor& w = c.operands[1];
  const int64_t rows = DimOf(x, 0);
  const int64_t k = DimOf(x, 1);
  const LinearInput input(x.type.dtype, x.data, rows, k);
  const LinearCall call = input.Rows(0, rows, std::get<int64_t>(AttrOf(c.op, "k_split")), w.type);
  const std::vector<LinearUnit> units = UnitsOf(c);
  const std::span<const LinearUnit> all(units);
  // Starting a thread costs as much as some hundred thousand multiply-adds.
  constexpr int64_t kThreadMacs = 500'000;
  const int64_t macs = rows * k * static_cast<int64_t>(units.size()) * kTileRows;
  const auto threads = static_cast<size_t>(std::clamp<int64_t>(macs / kThreadMacs, 1, std::max(1, c.threads)));
  std::vector<std::thread> others;
  for (size_t t = 1; t < threads; ++t) {
    const size_t begin = units.size() * t / threads;
    const size_t end = units.size() * (t + 1) / threads;
    others.emplace_back([&call, part = all.subspan(begin, end - begin)] { EvalLinearUnits(call, part); });
  }
  EvalLinearUnits(call, all.subspan(0, units.size() / threads));
  for (std::thread& thread : others) thread.join();
}

Cost CostLinear(const InferContext& c, int64_t rows, int64_t /*total*/) {
  const Type& w = c.operand(1);
  int64_t n = 0;
  for (const Dim& part : SplitOf(c.op, w)) n += part.value;
  Cost cost;
  cost.weight_macs = static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(w.dims[1].value);
  cost.weight_bytes = static_cast<double>(n) * static_cast<double>(RowBytes(w.dtype, w.dims[1].value));
  return cost;
}

}  // namespace

const OpDef kLinearDef = {
    .summary = "x times the transposed weight, plus a bias; several weights at once with split.",
    .operands = {{"x"}, {"weight"}, {"bias", true}},
    .attrs = {{.name = "split", .type = AttrType::List, .required = false, .otherwise = {}},
              {.name = "interleave", .type = AttrType::Bool, .required = false, .otherwise = false},
              {.name = "k_split", .type = AttrType::Int, .required = false, .otherwise = int64_t{1}}},
    .results = {"y..."},
    .row_wise = true,
    .weight = 1,
    .few = Over::Tiles,
    .many = Over::Tiles,
    .infer = InferLinear,
    .eval = EvalLinear,
    .cost = CostLinear,
    .divisions = {{Over::Tiles, "woo"}, {Over::Rows, "oww"}},
};

}  // namespace llmc
