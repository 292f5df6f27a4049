// What the op families share: checks of operand types, ranges of dims, access to cached elements.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>

#include "ir/math.h"
#include "ir/op.h"
#include "ir/ops/activations.h"
#include "ir/round_up.h"

namespace llmc::ops {

// Each fails with `label`, naming operand i and its type, unless operand i ...
// ... has this element type and rank, in rows; `shape` is how ir/README.md writes it: "f32[S, D]".
void NeedRows(const InferContext& c, size_t i, DType dtype, size_t rank, std::string_view label,
              std::string_view shape);
// ... is f32 in rows, of any shape.
void NeedF32(const InferContext& c, size_t i, std::string_view label);
// ... is operand 0's type, or a row: a weight or const f32[W], W the elements of a row of operand 0.
void NeedSameOrRow(const InferContext& c, size_t i, std::string_view label);
// The attribute; fails unless it is finite.
float NeedFinite(const InferContext& c, std::string_view attr, std::string_view label);
// ... is f32[D], D being operand 0's innermost dim.
void NeedGain(const InferContext& c, size_t i, std::string_view label);
// ... is where the op's rows stand: i32[], the first row's position, or i32[S], each row's.
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

// What a state of keys or values [C, H, D] can be made of: f32, f16, or q8_0 where heads are whole blocks.
inline bool IsCacheType(const Type& t) {
  if (t.dims.size() != 3) return false;
  return t.dtype == DType::F16 || t.dtype == DType::F32 || (t.dtype == DType::Q8_0 && t.dims[2].value % 32 == 0);
}

// A cache [slots, heads, d] in any of its layouts (ir/README.md, Layouts).
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
    if (dtype_ == DType::Q8_0) {
      const Block block = BlockAt(slot, head, i / 32);
      uint16_t d = 0;
      std::memcpy(&d, block.d, sizeof d);
      return math::HalfToFloat(d) * static_cast<float>(block.codes[i % 32 * block.stride]);
    }
    const int64_t at = At(slot, head, i);
    if (dtype_ == DType::F16) return math::HalfToFloat(reinterpret_cast<const uint16_t*>(data_)[at]);
    return reinterpret_cast<const float*>(data_)[at];
  }
  // The d elements of one head.
  void Set(int64_t slot, int64_t head, const float* x) {
    for (int64_t i = 0; i < d_; ++i) {
      if (dtype_ == DType::F16) {
        reinterpret_cast<uint16_t*>(data_)[At(slot, head, i)] = math::FloatToHalf(x[i]);
      } else if (dtype_ == DType::F32) {
        reinterpret_cast<float*>(data_)[At(slot, head, i)] = x[i];
      } else if (i % 32 == 0) {
        const Block block = BlockAt(slot, head, i / 32);
        int8_t codes[32];
        const uint16_t d = math::FloatToHalf(QuantizeCodes(x + i, codes) * math::kInv127);
        std::memcpy(block.d, &d, sizeof d);
        for (int k = 0; k < 32; ++k) block.codes[k * block.stride] = codes[k];
      }
    }
  }

 private:
  Cache(const Tensor& t, int64_t base)
      : data_(t.data + base),
        dtype_(t.type.dtype),
        layout_(t.type.layout),
        slots_(DimOf(t, 0)),
        heads_(DimOf(t, 1)),
        d_(DimOf(t, 2)) {}
  // A block of q8_0: its d, and its codes, `stride` bytes apart.
  struct Block {
    std::byte* d;
    int8_t* codes;
    int64_t stride;
  };
  Block BlockAt(int64_t slot, int64_t head, int64_t block) const {
    if (layout_ == Layout::Keys16) {
      const int64_t tile = (head * ((slots_ + 15) / 16) + slot / 16) * (d_ / 32) + block;
      std::byte* at = data_ + tile * 16 * 34;
      return {at + 2 * (slot % 16), reinterpret_cast<int8_t*>(at + 32 + slot % 16), 16};
    }
    const int64_t row = layout_ == Layout::Heads ? head * slots_ + slot : slot * heads_ + head;
    std::byte* at = data_ + (row * (d_ / 32) + block) * 34;
    return {at, reinterpret_cast<int8_t*>(at + 2), 1};
  }
  int64_t At(int64_t slot, int64_t head, int64_t i) const {
    switch (layout_) {
      case Layout::Keys16: return ((head * ((slots_ + 15) / 16) + slot / 16) * d_ + i) * 16 + slot % 16;
      case Layout::Heads: return (head * slots_ + slot) * d_ + i;
      default: return (slot * heads_ + head) * d_ + i;
    }
  }
  std::byte* data_;
  DType dtype_;
  Layout layout_;
  int64_t slots_, heads_, d_;
};

}  // namespace llmc::ops
