// What the op families share: checks of operand types, ranges of dims, access to cached elements.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>

#include "ir/math.h"
#include "ir/op.h"
#include "ir/round_up.h"

namespace llmc::ops {

// Each fails with `label`, naming operand i and its type, unless operand i ...
// ... has this element type and rank, in rows; `shape` is how ir/README.md writes it: "f32[S, D]".
void NeedRows(const InferContext& c, size_t i, DType dtype, size_t rank, std::string_view label,
              std::string_view shape);
// ... is f32[D], D being operand 0's innermost dim.
void NeedGain(const InferContext& c, size_t i, std::string_view label);
// ... is where operand 0's rows stand: i32[], the first row's position, or i32[S], each row's.
void NeedPositions(const InferContext& c, size_t i, std::string_view label);
// ... has operand 0's type.
void NeedSameType(const InferContext& c, size_t i, std::string_view label);
// The dim's value; fails unless it is a constant >= least.
int64_t NeedConstant(const InferContext& c, const Dim& dim, int64_t least, std::string_view label,
                     const std::string& what);

// "x is f16[S, 8]" for operand i.
std::string Describe(const InferContext& c, size_t i);

// For `eval`, where every dim is a constant.
inline int64_t DimOf(const Tensor& t, size_t i) { return t.type.dims[i].value; }
inline int64_t Inner(const Tensor& t) { return t.type.dims.back().value; }
// Product of all dims but the innermost.
inline int64_t RowsOf(const Tensor& t) { return ElementCount(t.type) / std::max<int64_t>(1, Inner(t)); }
// Where row s of a call stands. `pos`: NeedPositions'.
inline int64_t PositionOf(const Tensor& pos, int64_t s) {
  const bool by_row = !pos.type.dims.empty();
  int32_t v = 0;
  std::memcpy(&v, pos.data + (by_row ? s * static_cast<int64_t>(sizeof v) : 0), sizeof v);
  return by_row ? v : v + s;
}

// A cache [slots, heads, d] of f16 or f32 in any of its layouts.
class Cache {
 public:
  explicit Cache(const Tensor& t) : Cache(t, 0) {}
  // The instance that row s of the call reads and writes.
  Cache(const EvalContext& c, const Tensor& t, int64_t s)
      : Cache(t, c.state_bases.empty() ? 0 : c.state_bases[static_cast<size_t>(s)]) {}

  int64_t slots() const { return slots_; }
  int64_t heads() const { return heads_; }
  int64_t d() const { return d_; }
  float Get(int64_t slot, int64_t head, int64_t i) const {
    const int64_t at = At(slot, head, i);
    if (half_) return math::HalfToFloat(reinterpret_cast<const uint16_t*>(data_)[at]);
    return reinterpret_cast<const float*>(data_)[at];
  }
  void Set(int64_t slot, int64_t head, int64_t i, float value) {
    const int64_t at = At(slot, head, i);
    if (half_) {
      reinterpret_cast<uint16_t*>(data_)[at] = math::FloatToHalf(value);
    } else {
      reinterpret_cast<float*>(data_)[at] = value;
    }
  }

 private:
  Cache(const Tensor& t, int64_t base)
      : data_(t.data + base),
        half_(t.type.dtype == DType::F16),
        layout_(t.type.layout),
        slots_(DimOf(t, 0)),
        heads_(DimOf(t, 1)),
        d_(DimOf(t, 2)) {}
  int64_t At(int64_t slot, int64_t head, int64_t i) const {
    switch (layout_) {
      case Layout::Keys16: return ((head * ((slots_ + 15) / 16) + slot / 16) * d_ + i) * 16 + slot % 16;
      case Layout::Heads: return (head * slots_ + slot) * d_ + i;
      default: return (slot * heads_ + head) * d_ + i;
    }
  }
  std::byte* data_;
  bool half_;
  Layout layout_;
  int64_t slots_, heads_, d_;
};

}  // namespace llmc::ops
