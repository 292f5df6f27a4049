// What stands behind a kernel's own result, before it is stored: a short list of constants, folded when a kernel is
// specialised (thens.def, kernels.def).
#pragma once
#include "backends/kernels/activations.h"
#include "backends/kernels/thens.h"

namespace KERNELS_NAMESPACE {

INLINE F32x16 LoadColumns(const float* p, int64_t n) { return n == 16 ? Load(p) : LoadPart(p, n); }
INLINE void StoreColumns(float* p, F32x16 v, int64_t n) { n == 16 ? Store(p, v) : StorePart(p, v, n); }

struct Epilogue {
  int64_t then0, then1, then2;
  const float* other;  // f32[rows, width], or one row of it
  int64_t stride;      // from row to row of other; 0: one row
};
// The constants then0 then1 then2 other_row of a kernel, and the word `other`.
INLINE Epilogue EpilogueOf(int64_t then0, int64_t then1, int64_t then2, int64_t other_row, const uint8_t* other,
                           int64_t width) {
  return {then0, then1, then2, reinterpret_cast<const float*>(other), other_row ? 0 : width};
}

CHOICE F32x16 ApplyThen(int64_t then, F32x16 v, const float* other, int64_t n) {
  const int64_t parameter = then >> 8;
  switch (then & 255) {
    case kThenRound: return RoundToBf16(v);
    case kThenAct: return Activate(parameter, v);
    case kThenScale: return Mul(v, Splat(FloatOfBits(parameter)));
    case kThenSoftCap: return SoftCap(v, Splat(FloatOfBits(parameter)));
    case kThenClamp: return Clamp(v, FloatOfBits(parameter));
    case kThenAtLeast: return AtLeast(v, FloatOfBits(parameter));
    case kThenAdd: return Add(v, LoadColumns(other, n));
    case kThenMul: return Mul(v, LoadColumns(other, n));
    default: return v;
  }
}
// v is columns [column, column + n) of a row, n <= 16.
INLINE F32x16 Finish(const Epilogue& e, F32x16 v, int64_t row, int64_t column, int64_t n) {
  if (e.then0 == kThenNothing) return v;
  const float* other = e.other + row * e.stride + column;
  v = ApplyThen(e.then0, v, other, n);
  v = ApplyThen(e.then1, v, other, n);
  return ApplyThen(e.then2, v, other, n);
}

// Rows that a kernel stores: f32[rows, width], or a8 in records of `record` elements, of which a row is one or more.
struct Rows {
  uint8_t* data;
  int64_t width, type, record;
};

// f(column, n) for each run of n <= 16 columns.
template <class F>
INLINE void ForColumns(Range column, F f) {
  int64_t i = column.begin;
#pragma clang loop unroll(disable)
  for (; i + 16 <= column.end; i += 16) f(i, 16);
  if (i < column.end) f(i, column.end - i);
}

// Columns of a row from value(column, n), finished and stored; a8: whole blocks of 32.
template <class F>
INLINE void StoreRow(const Rows& out, const Epilogue& e, int64_t row, Range column, F value) {
  if (out.type == kA8) {
    uint8_t* to = out.data + row * A8RowBytes(out.width);
#pragma clang loop unroll(disable)
    for (int64_t i = column.begin; i < column.end; i += 32) {
      const F32x16 lo = Finish(e, value(i, 16), row, i, 16);
      const F32x16 hi = Finish(e, value(i + 16, 16), row, i + 16, 16);
      QuantizeBlock(lo, hi, to + i / out.record * A8RowBytes(out.record), out.record, i % out.record / 32);
    }
  } else {
    float* to = reinterpret_cast<float*>(out.data) + row * out.width;
    ForColumns(column, [&](int64_t i, int64_t n) { StoreColumns(to + i, Finish(e, value(i, n), row, i, n), n); });
  }
}

}  // namespace KERNELS_NAMESPACE
