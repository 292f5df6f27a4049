// Checks that several op records share.
#include "ir/ops/common.h"

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

void NeedPositions(const InferContext& c, size_t i, std::string_view label) {
  const Type by_row{
      DType::I32, {c.operand(0).state >= 0 ? c.operand(1).dims[0] : c.operand(0).dims[0]}, Layout::Rows, -1};
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
