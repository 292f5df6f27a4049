// The numbers of the steps that may stand behind a kernel's own result.
#pragma once
#include "backends/kernels/kernel.h"
#include "ir/math.h"

namespace KERNELS_NAMESPACE {

// A step is its number, and above bit 8 its parameter: bits of an f32, or the number of a choice.
enum Then : int64_t {
  kThenNothing,
#define THEN(name, op, attribute) kThen##name,
#define THEN_TWO(name, op) kThen##name,
#define THEN_LAST(op)
#include "backends/kernels/thens.def"
#undef THEN
#undef THEN_TWO
#undef THEN_LAST
  kThens  // their number
};
constexpr int64_t kMostThen = (int64_t{1} << 40) - 1;

}  // namespace KERNELS_NAMESPACE
