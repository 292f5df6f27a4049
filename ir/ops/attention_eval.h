// One group of 64 keys of `attention`, and the merge of groups (ir/README.md, Numerics). attention, attention_groups
// and attention_merge share them, which is why they agree to the bit.
#pragma once
#include <cstdint>

#include "ir/math.h"

namespace llmc::ops {

// A group's part of the softmax, in log2 units: keys count as w = 2^(s - m); l is the sum of w, o[width] the sum of w *
// v. q: [d], scaled. keys: [d][64], values: [64][width]. Keys begin..end - 1 of the group are visible, at least one.
// cap: scores s become cap tanh(s); 0: they don't. portable: the version for any CPU, which gives the same bits as the
// one chosen for this CPU.
void AttendGroup(const float* q, const float* keys, const float* values, int64_t d, int64_t width, int64_t begin,
                 int64_t end, float cap, float* m, float* l, float* o, bool portable = false);

// Adds a group to what was merged before (m = -inf, l = 0, o = 0 to start with).
inline void MergeGroup(float group_m, float group_l, const float* group_o, int64_t d, float* m, float* l, float* o) {
  const float top = *m > group_m ? *m : group_m;
  const float a = math::Pow2(*m - top + 127.0F);
  const float b = math::Pow2(group_m - top + 127.0F);
  *l = __builtin_fmaf(group_l, b, *l * a);
  for (int64_t i = 0; i < d; ++i) o[i] = __builtin_fmaf(group_o[i], b, o[i] * a);
  *m = top;
}

}  // namespace llmc::ops
