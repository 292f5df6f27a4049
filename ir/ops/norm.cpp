// rms_norm and add_rms_norm. Sums run in 16 lanes and a fixed tree (ir/README.md, Numerics).
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

std::vector<Type> InferRmsNorm(const InferContext& c) {
  const Type& x = c.operand(0);
  if (x.dtype != DType::F32 || (x.dims.size() != 2 && x.dims.size() != 3) || x.layout != Layout::Rows || x.state >= 0) {
    c.Fail("C1", Describe(c, 0) + ", must be f32[S, D] or f32[S, H, D]");
  }
  NeedConstant(c, x.dims.back(), 1, "C1", "x's innermost dim");
  NeedGain(c, 1, "C2");
  NeedEps(c, "C3");
  return {x};
}

std::vector<Type> InferAddRmsNorm(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 2, "C1", "f32[S, D]");
  NeedConstant(c, c.operand(0).dims.back(), 1, "C1", "x's innermost dim");
  NeedSameType(c, 1, "C2");
  NeedGain(c, 2, "C3");
  NeedEps(c, "C4");
  return {c.operand(0), c.operand(0)};
}

void NormRow(const float* x, const float* gain, int64_t d, float eps, float* y) {
  float lane[math::kLanes] = {};
  for (int64_t i = 0; i < d; ++i) lane[i % math::kLanes] = std::fma(x[i], x[i], lane[i % math::kLanes]);
  const float mean = math::Tree16(lane) / static_cast<float>(d);
  const float scale = 1.0F / std::sqrt(mean + eps);
  const float r = scale > 0 ? scale : std::numeric_limits<float>::quiet_NaN();  // a sum that overflows would give zeros
  for (int64_t i = 0; i < d; ++i) y[i] = (x[i] * r) * gain[i];
}

void NormRows(const float* x, const Tensor& gain, float eps, const Tensor& y) {
  const int64_t d = Inner(y);
  for (int64_t row = 0; row < RowsOf(y); ++row) {
    NormRow(x + row * d, gain.as<float>(), d, eps, y.as<float>() + row * d);
  }
}

void EvalRmsNorm(const EvalContext& c) {
  NormRows(c.operands[0].as<float>(), c.operands[1], c.op.attrs.F32("eps"), c.results[0]);
}

void EvalAddRmsNorm(const EvalContext& c) {
  auto* sum = c.results[0].as<float>();
  for (int64_t i = 0; i < ElementCount(c.results[0].type); ++i) {
    sum[i] = c.operands[0].as<float>()[i] + c.operands[1].as<float>()[i];
  }
  NormRows(sum, c.operands[2], c.op.attrs.F32("eps"), c.results[1]);
}

}  // namespace

const OpDef kRmsNormDef = {
    .summary = "x divided by the root of its mean square, times a gain.",
    .operands = {{"x"}, {"gain"}},
    .attrs = {{.name = "eps", .type = AttrType::F32, .required = true, .otherwise = {}}},
    .results = {"y"},
    .row_wise = true,
    .few = Over::Heads,
    .infer = InferRmsNorm,
    .eval = EvalRmsNorm,
    .divisions = {{Over::Rows, "ow"}, {Over::Heads, "ow"}},
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
