// rope and kv_append: positions enter here.
#include <cmath>
#include <vector>

#include "ir/ops/common.h"

namespace llmc {
namespace {

using namespace ops;

std::vector<Type> InferRope(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 3, "C1", "f32[S, H, D]");
  const int64_t d = NeedConstant(c, c.operand(0).dims[2], 1, "C1", "x's dim 2");
  NeedRows(c, 1, DType::F32, 2, "C2", "f32[P, R]");
  const int64_t r = NeedConstant(c, c.operand(1).dims[1], 2, "C2", "the table's dim 1");
  if (r % 2 != 0 || r > d) c.Fail("C2", Describe(c, 1) + ": dim 1 must be even and at most " + std::to_string(d));
  NeedPositions(c, 2, "C3");
  return {c.operand(0)};
}

void EvalRope(const EvalContext& c) {
  const Tensor& x = c.operands[0];
  const Tensor& table = c.operands[1];
  const int64_t heads = DimOf(x, 1);
  const int64_t d = DimOf(x, 2);
  const int64_t half = DimOf(table, 1) / 2;
  const bool interleaved = c.op.attrs.Ident("pairs") == "interleaved";
  for (int64_t s = 0; s < DimOf(x, 0); ++s) {
    const int64_t pos = PositionOf(c.operands[2], s);
    if (pos < 0 || pos >= DimOf(table, 0)) {
      Fail(DiagKind::ConstraintViolated, {},
           "rope: position " + std::to_string(pos) + " lies beyond the table's " + std::to_string(DimOf(table, 0)) +
               " rows");
    }
    const float* cos = table.as<float>() + pos * 2 * half;
    const float* sin = cos + half;
    for (int64_t h = 0; h < heads; ++h) {
      const float* in = x.as<float>() + (s * heads + h) * d;
      float* out = c.results[0].as<float>() + (s * heads + h) * d;
      for (int64_t i = 0; i < half; ++i) {
        const int64_t ia = interleaved ? 2 * i : i;
        const int64_t ib = interleaved ? 2 * i + 1 : i + half;
        const float a = in[ia];
        const float b = in[ib];
        out[ia] = std::fma(b, -sin[i], a * cos[i]);
        out[ib] = std::fma(a, sin[i], b * cos[i]);
      }
      for (int64_t i = 2 * half; i < d; ++i) out[i] = in[i];
    }
  }
}

std::vector<Type> InferKvAppend(const InferContext& c) {
  const Type& state = c.operand(0);
  if (state.state < 0 || !IsCacheType(state)) {
    c.Fail("C1", Describe(c, 0) + ", must be a state [C, H, D] of f16, f32, or q8_0 with D of whole blocks");
  }
  const int64_t slots = NeedConstant(c, state.dims[0], 1, "C1", "the state's dim 0");
  NeedRows(c, 1, DType::F32, 3, "C2", "f32[S, H, D]");
  const Type& x = c.operand(1);
  if (x.dims[1] != state.dims[1] || x.dims[2] != state.dims[2]) {
    c.Fail("C2", Describe(c, 0) + ", " + Describe(c, 1) + ": dims 1 and 2 must be equal");
  }
  NeedPositions(c, 2, "C3");
  const int64_t rows = RangeOf(c.module, c.func, x.dims[0]).max;
  if (rows > slots) {
    c.Fail("C4", Describe(c, 0) + ": one call may append " + std::to_string(rows) + " rows, more than the slots");
  }
  return {state};
}

void EvalKvAppend(const EvalContext& c) {
  const Tensor& x = c.operands[1];
  for (int64_t s = 0; s < DimOf(x, 0); ++s) {
    Cache cache(c, c.results[0], s);
    const int64_t slot = PositionOf(c.operands[2], s) % cache.slots();
    for (int64_t h = 0; h < cache.heads(); ++h) {
      cache.Set(slot, h, x.as<float>() + (s * cache.heads() + h) * cache.d());
    }
  }
}

}  // namespace

const OpDef kRopeDef = {
    .summary = "Rotates pairs of each head's elements by the angles of its position.",
    .operands = {{"x"}, {"table"}, {"pos"}},
    .attrs = {{.name = "pairs",
               .type = AttrType::Ident,
               .required = true,
               .otherwise = {},
               .choices = {"half", "interleaved"}}},
    .results = {"y"},
    .few = Over::Heads,
    .infer = InferRope,
    .eval = EvalRope,
    .divisions = {{Over::Heads, "oww"}, {Over::Rows, "oww"}},
};

const OpDef kKvAppendDef = {
    .summary = "Appends rows to a cache, rounded to its element type.",
    .operands = {{"state"}, {"x"}, {"pos"}},
    .attrs = {},
    .results = {"appended"},
    .appends_state = true,
    .rows = 1,
    .few = Over::Heads,
    .infer = InferKvAppend,
    .eval = EvalKvAppend,
    .divisions = {{Over::Heads, "oow"}, {Over::Rows, "oow"}},
};

}  // namespace llmc
