// Ops whose rows go one after another, each by a state that the rows before it have left: conv1d, delta_rule.
#include <cmath>
#include <vector>

#include "ir/ops/common.h"

namespace llmc {
namespace {

using namespace ops;

// Operand 0 is a state of that kind.
const Type& NeedState(const InferContext& c, StateKind kind, size_t rank, std::string_view shape) {
  const Type& state = c.operand(0);
  const std::string text(FindRow(kStateKinds, kind)->text);
  const AttrValue* has =
      state.state < 0 ? nullptr : c.module.globals[static_cast<size_t>(state.state)].attrs.Find("kind");
  if (has == nullptr || *has != AttrValue(text) || state.dims.size() != rank)
    c.Fail("C1", Describe(c, 0) + ", must be a state " + std::string(shape) + " of kind " + text);
  return state;
}

void NeedType(const InferContext& c, size_t i, const std::vector<Dim>& dims, std::string_view label) {
  const Type want{DType::F32, dims, Layout::Rows, -1};
  if (c.operand(i) != want) c.Fail(label, Describe(c, i) + ", must be " + ToText(want));
}

// What row s of the call has of the state.
float* StateOf(const EvalContext& c, int64_t s) {
  const int64_t base = c.state_bases.empty() ? 0 : c.state_bases[static_cast<size_t>(s)];
  return reinterpret_cast<float*>(c.operands[0].data + base);
}

std::vector<Type> InferConv1d(const InferContext& c) {
  const Type& state = NeedState(c, StateKind::History, 2, "[K - 1, C]");
  NeedRows(c, 1, DType::F32, 2, "C2", "f32[S, C]");
  if (c.operand(1).dims[1] != state.dims[1]) c.Fail("C2", Describe(c, 0) + ", " + Describe(c, 1) + ": C differs");
  NeedType(c, 2, {Dim(state.dims[0].value + 1), state.dims[1]}, "C3");
  NeedPositions(c, 3, "C4");
  if (c.has(4)) NeedType(c, 4, {state.dims[1]}, "C5");
  return {c.operand(1)};
}

void EvalConv1d(const EvalContext& c) {
  const Tensor& x = c.operands[1];
  const int64_t channels = DimOf(x, 1), taps = DimOf(c.operands[2], 0);
  const int64_t slots = std::max<int64_t>(1, taps - 1);  // of the ring, which has at least one
  const auto* weight = c.operands[2].as<float>();
  const float* bias = c.operands.size() > 4 ? c.operands[4].as<float>() : nullptr;
  for (int64_t s = 0; s < DimOf(x, 0); ++s) {
    const int64_t pos = PositionOf(c.operands[3], s);
    float* ring = StateOf(c, s);
    const float* newest = x.as<float>() + s * channels;
    for (int64_t i = 0; i < channels; ++i) {
      float y = 0;
      for (int64_t j = std::max<int64_t>(0, taps - 1 - pos); j < taps; ++j) {
        const int64_t at = pos - (taps - 1) + j;
        const float input = at == pos ? newest[i] : ring[at % slots * channels + i];
        y = std::fma(weight[j * channels + i], input, y);
      }
      c.results[0].as<float>()[s * channels + i] = bias != nullptr ? y + bias[i] : y;
    }
    std::copy_n(newest, channels, ring + pos % slots * channels);
  }
}

Cost CostConv1d(const InferContext& c, int64_t rows, int64_t) {
  const auto weights = static_cast<double>(ElementCount(c.operand(2)));
  Cost cost;
  cost.weight_macs = static_cast<double>(rows) * weights;
  cost.weight_bytes = 4 * weights;
  cost.state_bytes = 4 * weights;  // K - 1 inputs are read, one is written
  return cost;
}

std::vector<Type> InferDeltaRule(const InferContext& c) {
  const Type& state = NeedState(c, StateKind::Recurrent, 3, "[Hv, Dk, Dv]");
  NeedRows(c, 1, DType::F32, 3, "C2", "f32[S, Hk, Dk]");
  const Dim rows = c.operand(1).dims[0];
  const int64_t key_heads = NeedConstant(c, c.operand(1).dims[1], 1, "C2", "q's dim 1");
  if (c.operand(1).dims[2] != state.dims[1]) c.Fail("C2", Describe(c, 0) + ", " + Describe(c, 1) + ": Dk differs");
  NeedType(c, 2, c.operand(1).dims, "C2");
  NeedType(c, 3, {rows, state.dims[0], state.dims[2]}, "C3");
  if (state.dims[0].value % key_heads != 0)
    c.Fail("C3",
           std::to_string(state.dims[0].value) + " heads of values for " + std::to_string(key_heads) + " of keys");
  NeedType(c, 4, {rows, state.dims[0]}, "C4");
  NeedType(c, 5, {rows, state.dims[0]}, "C4");
  NeedPositions(c, 6, "C5");
  return {c.operand(3)};
}

// tree4 of lane[i mod 4] = fma(x[i], h[i], lane), h being a column of the state.
float ColumnSum(const float* x, const float* h, int64_t n, int64_t stride) {
  float lane[4] = {};
  for (int64_t i = 0; i < n; ++i) lane[i % 4] = std::fma(x[i], h[i * stride], lane[i % 4]);
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

void EvalDeltaRule(const EvalContext& c) {
  const Tensor &keys = c.operands[2], &values = c.operands[3];
  const int64_t key_heads = DimOf(keys, 1), dk = DimOf(keys, 2), heads = DimOf(values, 1), dv = DimOf(values, 2);
  const bool tiled = std::get<bool>(AttrOf(c.op, "tiled")), correct = std::get<bool>(AttrOf(c.op, "correct"));
  for (int64_t s = 0; s < DimOf(values, 0); ++s) {
    const bool first = PositionOf(c.operands[6], s) == 0;
    for (int64_t h = 0; h < heads; ++h) {
      float* state = StateOf(c, s) + h * dk * dv;
      if (first) std::fill_n(state, dk * dv, 0.0F);
      const int64_t of_key = (s * key_heads + (tiled ? h % key_heads : h / (heads / key_heads))) * dk;
      const float *q = c.operands[1].as<float>() + of_key, *k = keys.as<float>() + of_key;
      const float decay = first ? 0.0F : c.operands[4].as<float>()[s * heads + h];
      const float beta = c.operands[5].as<float>()[s * heads + h];
      for (int64_t i = 0; i < dv; ++i) {
        float* column = state + i;
        const int64_t at = (s * heads + h) * dv + i;
        float target = values.as<float>()[at];
        if (correct) target = target - decay * ColumnSum(k, column, dk, dv);
        const float delta = beta * target;
        for (int64_t j = 0; j < dk; ++j) column[j * dv] = std::fma(k[j], delta, decay * column[j * dv]);
        c.results[0].as<float>()[at] = ColumnSum(q, column, dk, dv);
      }
    }
  }
}

Cost CostDeltaRule(const InferContext& c, int64_t rows, int64_t) {
  const auto elements = static_cast<double>(ElementCount(c.operand(0)));
  Cost cost;
  cost.attention_macs = 3 * static_cast<double>(rows) * elements;
  cost.state_bytes = 2 * 4 * elements;
  return cost;
}

}  // namespace

const OpDef kConv1dDef = {
    .summary = "Sums each channel's last inputs by weights.",
    .operands = {{"state"}, {"x"}, {"weight"}, {"pos"}, {"bias", true}},
    .attrs = {},
    .results = {"y"},
    .moves_state = true,
    .rows = 1,
    .few = Over::Tiles,
    .many = Over::Tiles,
    .infer = InferConv1d,
    .eval = EvalConv1d,
    .cost = CostConv1d,
    .divisions = {{Over::Tiles, "oooww"}},
};

const OpDef kDeltaRuleDef = {
    .summary = "Adds to a matrix a head by a key what a value has beyond what the key finds, and reads it by a query.",
    .operands = {{"state"}, {"q"}, {"k"}, {"v"}, {"decay"}, {"beta"}, {"pos"}},
    .attrs = {{.name = "tiled", .type = AttrType::Bool, .required = false, .otherwise = false},
              {.name = "correct", .type = AttrType::Bool, .required = false, .otherwise = true}},
    .results = {"o"},
    .moves_state = true,
    .rows = 1,
    .few = Over::Heads,
    .many = Over::Heads,
    .infer = InferDeltaRule,
    .eval = EvalDeltaRule,
    .cost = CostDeltaRule,
    .divisions = {{Over::Heads, "owwowww"}},
};

}  // namespace llmc
