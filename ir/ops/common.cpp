// Checks that several op records share.
#include "ir/ops/common.h"

#include <cmath>

namespace llmc::ops {

std::string Describe(const InferContext& c, size_t i) {
  return std::string(DefOf(c.op.kind).operands[i].name) + " is " + ToText(c.operand(i));
}

void NeedRows(const InferContext& c, size_t i, DType dtype, size_t rank, std::string_view label,
              std::string_view shape) {
  const Type& t = c.operand(i);
  if (t.dtype != dtype || t.dims.size() != rank || t.layout != Layout::Rows || t.state >= 0) {
    c.Fail(label, Describe(c, i) + ", must be " + std::string(shape));
  }
}

void NeedGain(const InferContext& c, size_t i, std::string_view label) {
  const Type want{DType::F32, {c.operand(0).dims.back()}, Layout::Rows, -1};
  if (c.operand(i) != want) c.Fail(label, Describe(c, i) + ", must be " + ToText(want));
}

void NeedF32(const InferContext& c, size_t i, std::string_view label) {
  const Type& t = c.operand(i);
  if (t.dtype != DType::F32 || t.layout != Layout::Rows || t.state >= 0 || t.dims.empty())
    c.Fail(label, Describe(c, i) + ", must be f32 in rows");
}

void NeedSameOrRow(const InferContext& c, size_t i, std::string_view label) {
  if (c.operand(i) == c.operand(0)) return;
  const std::vector<Dim>& dims = c.operand(0).dims;
  int64_t width = 1;
  for (size_t d = 1; d < dims.size(); ++d) width = dims[d].is_symbol() ? -1 : width * dims[d].value;
  if (!c.op.operands[i].is_global || c.operand(i) != Type{DType::F32, {Dim(width)}, Layout::Rows, -1})
    c.Fail(label, Describe(c, 0) + ", " + Describe(c, i) + ": must be one type, or the second a weight's row");
}

float NeedFinite(const InferContext& c, std::string_view attr, std::string_view label) {
  const float value = std::get<float>(AttrOf(c.op, attr));
  if (!std::isfinite(value)) c.Fail(label, std::string(attr) + " must be finite");
  return value;
}

void NeedPositions(const InferContext& c, size_t i, std::string_view label) {
  const Type by_row{DType::I32, {c.operand(static_cast<size_t>(DefOf(c.op.kind).rows)).dims[0]}, Layout::Rows, -1};
  if (c.operand(i) != Type{DType::I32, {}, Layout::Rows, -1} && c.operand(i) != by_row)
    c.Fail(label, Describe(c, i) + ", must be i32[] or " + ToText(by_row));
}

void NeedSameType(const InferContext& c, size_t i, std::string_view label) {
  if (c.operand(i) != c.operand(0)) c.Fail(label, Describe(c, 0) + ", " + Describe(c, i) + ": must be one type");
}

int64_t NeedConstant(const InferContext& c, const Dim& dim, int64_t least, std::string_view label,
                     const std::string& what) {
  if (dim.is_symbol() || dim.value < least) {
    c.Fail(label, what + " is " + ToText(dim) + ", must be a constant of at least " + std::to_string(least));
  }
  return dim.value;
}

}  // namespace llmc::ops
