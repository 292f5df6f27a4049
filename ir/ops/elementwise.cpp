// add, gated, quantize and round: ops without sums across a row.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/ops/activations.h"
#include "ir/ops/common.h"

namespace llmc {
namespace {

using namespace ops;

std::vector<Type> InferAdd(const InferContext& c) {
  const Type& a = c.operand(0);
  if (a.dtype != DType::F32 || a.layout != Layout::Rows || a.state >= 0) {
    c.Fail("C1", Describe(c, 0) + ", must be f32 in rows");
  }
  NeedSameType(c, 1, "C2");
  return {a};
}

void EvalAdd(const EvalContext& c) {
  for (int64_t i = 0; i < ElementCount(c.results[0].type); ++i) {
    c.results[0].as<float>()[i] = c.operands[0].as<float>()[i] + c.operands[1].as<float>()[i];
  }
}

std::vector<Type> InferGated(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 2, "C1", "f32[S, F]");
  NeedSameType(c, 1, "C2");
  return {c.operand(0)};
}

void EvalGated(const EvalContext& c) {
  for (int64_t i = 0; i < ElementCount(c.results[0].type); ++i) {
    c.results[0].as<float>()[i] = math::Silu(c.operands[0].as<float>()[i]) * c.operands[1].as<float>()[i];
  }
}

std::vector<Type> InferQuantize(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 2, "C1", "f32[S, K]");
  const Dim& k = c.operand(0).dims[1];
  if (k.is_symbol() || k.value < 32 || k.value % 32 != 0) {
    c.Fail("C2", Describe(c, 0) + ": dim 1 must be a multiple of 32");
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
  const Type& x = c.operand(0);
  if (x.dtype != DType::F32 || x.layout != Layout::Rows || x.state >= 0) {
    c.Fail("C1", Describe(c, 0) + ", must be f32 in rows");
  }
  return {x};
}

void EvalRound(const EvalContext& c) {
  for (int64_t i = 0; i < ElementCount(c.results[0].type); ++i) {
    c.results[0].as<float>()[i] = math::BfloatToFloat(math::FloatToBfloat(c.operands[0].as<float>()[i]));
  }
}

}  // namespace

const OpDef kAddDef = {
    .summary = "Elementwise sum.",
    .operands = {{"a"}, {"b"}},
    .attrs = {},
    .results = {"sum"},
    .row_wise = true,
    .infer = InferAdd,
    .eval = EvalAdd,
    .divisions = {{Over::Rows, "oo"}, {Over::Tiles, "oo"}},
};

const OpDef kGatedDef = {
    .summary = "act(gate) * up.",
    .operands = {{"gate"}, {"up"}},
    .attrs = {{.name = "act",
               .type = AttrType::Ident,
               .required = false,
               .otherwise = std::string("silu"),
               .choices = {"silu"}}},
    .results = {"h"},
    .row_wise = true,
    .takes_pair = true,
    .few = Over::Tiles,
    .infer = InferGated,
    .eval = EvalGated,
    .divisions = {{Over::Rows, "oo"}, {Over::Tiles, "oo"}},
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
