// rms_norm, add_rms_norm and layer_norm. Sums run in 16 lanes and a fixed tree (ir/README.md, Numerics).
#include <cmath>
#include <limits>
#include <vector>

#include "ir/ops/common.h"

namespace llmc {
namespace {

using namespace ops;

void NeedEps(const InferContext& c, std::string_view label) {
  const float eps = c.op.attrs.F32("eps");
  if (!(eps >= 0) || !std::isfinite(eps)) {
    c.Fail(label, "eps is " + std::to_string(eps) + ", must be finite and not negative");
  }
}

void NeedNormed(const InferContext& c, std::string_view label) {
  const Type& x = c.operand(0);
  if (x.dtype != DType::F32 || (x.dims.size() != 2 && x.dims.size() != 3) || x.layout != Layout::Rows || x.state >= 0) {
    c.Fail(label, Describe(c, 0) + ", must be f32[S, D] or f32[S, H, D]");
  }
  NeedConstant(c, x.dims.back(), 1, label, "x's innermost dim");
}

// Operand i is f32[D], or f32[H D] of an x [S, H, D].
void NeedVector(const InferContext& c, size_t i, std::string_view label) {
  const std::vector<Dim>& dims = c.operand(0).dims;
  const bool per_head = dims.size() == 3 && !dims[1].is_symbol() &&
                        c.operand(i) == Type{DType::F32, {Dim(dims[1].value * dims[2].value)}, Layout::Rows, -1};
  if (!per_head) NeedGain(c, i, label);
}

std::vector<Type> InferRmsNorm(const InferContext& c) {
  NeedNormed(c, "C1");
  if (c.has(1)) NeedVector(c, 1, "C2");
  NeedEps(c, "C3");
  return {c.operand(0)};
}

std::vector<Type> InferLayerNorm(const InferContext& c) {
  NeedNormed(c, "C1");
  if (c.has(1)) NeedVector(c, 1, "C2");
  if (c.has(2) && c.operand(2) != c.operand(1)) c.Fail("C3", Describe(c, 2) + ", must be " + ToText(c.operand(1)));
  NeedEps(c, "C4");
  return {c.operand(0)};
}

std::vector<Type> InferAddRmsNorm(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 2, "C1", "f32[S, D]");
  NeedConstant(c, c.operand(0).dims.back(), 1, "C1", "x's innermost dim");
  NeedSameType(c, 1, "C2");
  NeedGain(c, 2, "C3");
  NeedEps(c, "C4");
  return {c.operand(0), c.operand(0)};
}

// tree16 of lane[i mod 16] = add(lane, x[i]), i ascending from +0.
template <class F>
float RowSum(const float* x, int64_t d, const F& add) {
  float lane[math::kLanes] = {};
  for (int64_t i = 0; i < d; ++i) lane[i % math::kLanes] = add(lane[i % math::kLanes], x[i]);
  return math::Tree16(lane);
}

// 1 / sqrt(squares / d + eps); a NaN where the sum of squares overflows, which would make it zero.
float InverseRoot(float squares, int64_t d, float eps) {
  const float r = 1.0F / std::sqrt(squares / static_cast<float>(d) + eps);
  return r > 0 ? r : std::numeric_limits<float>::quiet_NaN();
}

void NormRow(const float* x, const float* gain, int64_t d, float eps, float* y) {
  const float sum = RowSum(x, d, [](float lane, float v) { return std::fma(v, v, lane); });
  const float r = InverseRoot(sum, d, eps);
  for (int64_t i = 0; i < d; ++i) y[i] = gain != nullptr ? (x[i] * r) * gain[i] : x[i] * r;
}

void LayerNormRow(const float* x, const float* gain, const float* bias, int64_t d, float eps, float* y) {
  const float mean = RowSum(x, d, [](float lane, float v) { return lane + v; }) / static_cast<float>(d);
  const float sum = RowSum(x, d, [&](float lane, float v) { return std::fma(v - mean, v - mean, lane); });
  const float r = InverseRoot(sum, d, eps);
  for (int64_t i = 0; i < d; ++i) {
    y[i] = (x[i] - mean) * r;
    if (gain != nullptr) y[i] = y[i] * gain[i];
    if (bias != nullptr) y[i] = y[i] + bias[i];
  }
}

// norm(row of x, its gain or null, its bias or null, row of y) for each row, or head, of y.
template <class Norm>
void ForRows(const float* x, const Tensor* gain, const Tensor* bias, const Tensor& y, const Norm& norm) {
  const int64_t d = Inner(y);
  const int64_t heads = RowsOf(y) / y.rows();
  for (int64_t row = 0; row < RowsOf(y); ++row) {
    const auto vector = [&](const Tensor* t) -> const float* {
      if (t == nullptr) return nullptr;
      return t->as<float>() + (Inner(*t) == d ? 0 : row % heads * d);
    };
    norm(x + row * d, vector(gain), vector(bias), y.as<float>() + row * d);
  }
}

void EvalRmsNorm(const EvalContext& c) {
  const float eps = c.op.attrs.F32("eps");
  const int64_t d = Inner(c.results[0]);
  ForRows(c.operands[0].as<float>(), c.operands.size() > 1 ? &c.operands[1] : nullptr, nullptr, c.results[0],
          [&](const float* x, const float* gain, const float*, float* y) { NormRow(x, gain, d, eps, y); });
}

void EvalLayerNorm(const EvalContext& c) {
  const float eps = c.op.attrs.F32("eps");
  const int64_t d = Inner(c.results[0]);
  ForRows(
      c.operands[0].as<float>(), c.operands.size() > 1 ? &c.operands[1] : nullptr,
      c.operands.size() > 2 ? &c.operands[2] : nullptr, c.results[0],
      [&](const float* x, const float* gain, const float* bias, float* y) { LayerNormRow(x, gain, bias, d, eps, y); });
}

void EvalAddRmsNorm(const EvalContext& c) {
  auto* sum = c.results[0].as<float>();
  const float eps = c.op.attrs.F32("eps");
  const int64_t d = Inner(c.results[1]);
  for (int64_t i = 0; i < ElementCount(c.results[0].type); ++i) {
    sum[i] = c.operands[0].as<float>()[i] + c.operands[1].as<float>()[i];
  }
  ForRows(sum, &c.operands[2], nullptr, c.results[1],
          [&](const float* x, const float* gain, const float*, float* y) { NormRow(x, gain, d, eps, y); });
}

}  // namespace

const OpDef kRmsNormDef = {
    .summary = "x divided by the root of its mean square, times a gain.",
    .operands = {{"x"}, {"gain", true}},
    .attrs = {{.name = "eps", .type = AttrType::F32, .required = true, .otherwise = {}}},
    .results = {"y"},
    .row_wise = true,
    .few = Over::Heads,
    .infer = InferRmsNorm,
    .eval = EvalRmsNorm,
    .divisions = {{Over::Rows, "ow"}, {Over::Heads, "ow"}},
};

const OpDef kLayerNormDef = {
    .summary = "x less its mean, divided by its standard deviation, times a gain, plus a bias.",
    .operands = {{"x"}, {"gain", true}, {"bias", true}},
    .attrs = {{.name = "eps", .type = AttrType::F32, .required = true, .otherwise = {}}},
    .results = {"y"},
    .row_wise = true,
    .few = Over::Heads,
    .infer = InferLayerNorm,
    .eval = EvalLayerNorm,
    .divisions = {{Over::Rows, "oww"}, {Over::Heads, "oww"}},
};

const OpDef kAddRmsNormDef = {
    .summary = "A sum, and its rms_norm.",
    .operands = {{"x"}, {"delta"}, {"gain"}},
    .attrs = {{.name = "eps", .type = AttrType::F32, .required = true, .otherwise = {}}},
    .results = {"sum", "y"},
    .row_wise = true,
    .infer = InferAddRmsNorm,
    .eval = EvalAddRmsNorm,
    .divisions = {{Over::Rows, "oow"}},
};

}  // namespace llmc
