// One group of keys, a lane per key for the scores and a lane per element for the values. Built -O3 and dispatched by
// CPU like linear_eval.cpp, with the same bits.
#include "ir/ops/attention_eval.h"

#define LLMC_INLINE inline __attribute__((always_inline))

namespace llmc::ops {
namespace {

constexpr int kKeys = math::kGroupKeys;

LLMC_INLINE void Attend(const float* q, const float* keys, const float* values, int64_t d, int64_t width, int64_t begin,
                        int64_t end, float cap, float* m, float* l, float* o) {
  float s[kKeys] = {};
  for (int64_t i = 0; i < d; ++i) {
    for (int k = 0; k < kKeys; ++k) s[k] = __builtin_fmaf(q[i], keys[i * kKeys + k], s[k]);
  }
  if (cap != 0) {
    for (float& score : s) score = cap * math::Tanh(score);
  }
  float largest = s[begin];
  for (int64_t k = begin + 1; k < end; ++k) largest = s[k] > largest ? s[k] : largest;
  *m = math::Rint(largest);
  float lane[math::kLanes] = {};
  for (int64_t i = 0; i < width; ++i) o[i] = 0;
  for (int64_t k = begin; k < end; ++k) {
    const math::Exp2Parts parts = math::SplitExp2(s[k]);
    const float w = parts.p * math::Pow2(parts.n - *m + 126.0F);
    lane[k % math::kLanes] = lane[k % math::kLanes] + w;
    for (int64_t i = 0; i < width; ++i) o[i] = __builtin_fmaf(w, values[k * width + i], o[i]);
  }
  *l = math::Tree16(lane);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void AttendAvx2(const float* q, const float* keys, const float* values, int64_t d,
                                                    int64_t width, int64_t begin, int64_t end, float cap, float* m,
                                                    float* l, float* o) {
  Attend(q, keys, values, d, width, begin, end, cap, m, l, o);
}
#endif
void AttendPortable(const float* q, const float* keys, const float* values, int64_t d, int64_t width, int64_t begin,
                    int64_t end, float cap, float* m, float* l, float* o) {
  Attend(q, keys, values, d, width, begin, end, cap, m, l, o);
}

}  // namespace

void AttendGroup(const float* q, const float* keys, const float* values, int64_t d, int64_t width, int64_t begin,
                 int64_t end, float cap, float* m, float* l, float* o, [[maybe_unused]] bool portable) {
#if defined(__x86_64__)
  if (!portable && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return AttendAvx2(q, keys, values, d, width, begin, end, cap, m, l, o);
  }
#endif
  AttendPortable(q, keys, values, d, width, begin, end, cap, m, l, o);
}

}  // namespace llmc::ops
