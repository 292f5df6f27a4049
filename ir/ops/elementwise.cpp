// add, mul, scale, clamp, quantize and round: ops without sums across a row.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/ops/activations.h"
#include "ir/ops/common.h"

namespace llmc {
namespace {

using namespace ops;

std::vector<Type> InferTwo(const InferContext& c) {
  NeedF32(c, 0, "C1");
  NeedSameOrRow(c, 1, "C2");
  return {c.operand(0)};
}

// f(a, b) of each element; a row b for all rows.
template <class F>
void EvalTwo(const EvalContext& c, const F& f) {
  const auto* a = c.operands[0].as<float>();
  const auto* b = c.operands[1].as<float>();
  const int64_t size = ElementCount(c.operands[1].type);
  for (int64_t i = 0; i < ElementCount(c.results[0].type); ++i) c.results[0].as<float>()[i] = f(a[i], b[i % size]);
}
void EvalAdd(const EvalContext& c) {
  EvalTwo(c, [](float a, float b) { return a + b; });
}
void EvalMul(const EvalContext& c) {
  EvalTwo(c, [](float a, float b) { return a * b; });
}

template <class F>
void EvalOne(const EvalContext& c, const F& f) {
  for (int64_t i = 0; i < ElementCount(c.results[0].type); ++i)
    c.results[0].as<float>()[i] = f(c.operands[0].as<float>()[i]);
}

std::vector<Type> InferScale(const InferContext& c) {
  NeedF32(c, 0, "C1");
  NeedFinite(c, "factor", "C2");
  return {c.operand(0)};
}
void EvalScale(const EvalContext& c) {
  const float factor = c.op.attrs.F32("factor");
  EvalOne(c, [&](float x) { return x * factor; });
}

std::vector<Type> InferClamp(const InferContext& c) {
  NeedF32(c, 0, "C1");
  if (NeedFinite(c, "limit", "C2") <= 0) c.Fail("C2", "limit must be positive");
  return {c.operand(0)};
}
void EvalClamp(const EvalContext& c) {
  const float limit = c.op.attrs.F32("limit");
  EvalOne(c, [&](float x) { return math::Clamp(x, limit); });
}

std::vector<Type> InferAtLeast(const InferContext& c) {
  NeedF32(c, 0, "C1");
  NeedFinite(c, "least", "C2");
  return {c.operand(0)};
}
void EvalAtLeast(const EvalContext& c) {
  const float least = c.op.attrs.F32("least");
  EvalOne(c, [&](float x) { return math::AtLeast(x, least); });
}

std::vector<Type> InferQuantize(const InferContext& c) {
  NeedF32(c, 0, "C1");
  if (c.operand(0).dims.size() < 2 || c.operand(0).dims.size() > 3)
    c.Fail("C1", Describe(c, 0) + ", must be f32[S, K] or f32[S, k, K]");
  const Dim& k = c.operand(0).dims.back();
  if (k.is_symbol() || k.value < 32 || k.value % 32 != 0) {
    c.Fail("C2", Describe(c, 0) + ": the innermost dim must be a multiple of 32");
  }
  return {Type{DType::A8, c.operand(0).dims, Layout::Rows, -1}};
}

void QuantizeBlock(const float* x, const ActivationRow& out, int64_t block) {
  int8_t* codes = out.codes + block * 32;
  const float d = QuantizeCodes(x, codes) * math::kInv127;
  int32_t sum = 0;
  int32_t first = 0;
  for (int k = 0; k < 32; ++k) {
    sum += codes[k];
    if (k < 16) first += codes[k];
  }
  out.d[block] = d;
  out.s[block] = d * static_cast<float>(sum);
  out.sums[2 * block] = static_cast<int16_t>(sum);
  out.sums[2 * block + 1] = static_cast<int16_t>(first);
}

void EvalQuantize(const EvalContext& c) {
  const Tensor& x = c.operands[0];
  const int64_t k = Inner(x);
  for (int64_t row = 0; row < RowsOf(x); ++row) {
    for (int64_t block = 0; block < k / 32; ++block) {
      QuantizeBlock(x.as<float>() + row * k + block * 32, RowOf(c.results[0].data, row, k), block);
    }
  }
}

std::vector<Type> InferRound(const InferContext& c) {
  NeedF32(c, 0, "C1");
  return {c.operand(0)};
}

void EvalRound(const EvalContext& c) {
  EvalOne(c, [](float x) { return math::BfloatToFloat(math::FloatToBfloat(x)); });
}

}  // namespace

const OpDef kAddDef = {
    .summary = "Elementwise sum.",
    .operands = {{"a"}, {"b"}},
    .attrs = {},
    .results = {"sum"},
    .row_wise = true,
    .infer = InferTwo,
    .eval = EvalAdd,
    .divisions = {{Over::Rows, "oo"}, {Over::Tiles, "oo"}},
};

const OpDef kMulDef = {
    .summary = "Elementwise product.",
    .operands = {{"a"}, {"b"}},
    .attrs = {},
    .results = {"product"},
    .row_wise = true,
    .infer = InferTwo,
    .eval = EvalMul,
    .divisions = {{Over::Rows, "oo"}, {Over::Tiles, "oo"}},
};

const OpDef kScaleDef = {
    .summary = "x times a number.",
    .operands = {{"x"}},
    .attrs = {{.name = "factor", .type = AttrType::F32, .required = true, .otherwise = {}}},
    .results = {"y"},
    .row_wise = true,
    .infer = InferScale,
    .eval = EvalScale,
    .divisions = {{Over::Rows, "o"}, {Over::Tiles, "o"}},
};

const OpDef kClampDef = {
    .summary = "x, cut at both sides.",
    .operands = {{"x"}},
    .attrs = {{.name = "limit", .type = AttrType::F32, .required = true, .otherwise = {}}},
    .results = {"y"},
    .row_wise = true,
    .infer = InferClamp,
    .eval = EvalClamp,
    .divisions = {{Over::Rows, "o"}, {Over::Tiles, "o"}},
};

const OpDef kAtLeastDef = {
    .summary = "x, cut below.",
    .operands = {{"x"}},
    .attrs = {{.name = "least", .type = AttrType::F32, .required = true, .otherwise = {}}},
    .results = {"y"},
    .row_wise = true,
    .infer = InferAtLeast,
    .eval = EvalAtLeast,
    .divisions = {{Over::Rows, "o"}, {Over::Tiles, "o"}},
};

const OpDef kQuantizeDef = {
    .summary = "f32 to blocks of 32 codes of 8 bits with a scale.",
    .operands = {{"x"}},
    .attrs = {},
    .results = {"q"},
    .row_wise = true,
    .infer = InferQuantize,
    .eval = EvalQuantize,
    // Heads and queries: behind attention in one function, whose division it takes over (a head is whole blocks).
    .divisions = {{Over::Rows, "o"}, {Over::Tiles, "o"}, {Over::Heads, "o"}, {Over::Queries, "o"}},
};

const OpDef kRoundDef = {
    .summary = "f32 to the nearest values that a narrower float type holds, kept as f32.",
    .operands = {{"x"}},
    .attrs = {{.name = "to", .type = AttrType::Ident, .required = true, .otherwise = {}, .choices = {"bf16"}}},
    .results = {"y"},
    .row_wise = true,
    .rounds_to = "to",
    .infer = InferRound,
    .eval = EvalRound,
    .divisions = {{Over::Rows, "o"}, {Over::Tiles, "o"}},
};

}  // namespace llmc
