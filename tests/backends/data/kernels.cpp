// Kernels for the tests of code generation alone: small integers in f32, so that any order of summation is exact.
#include <cstddef>

#include "runtime/context.h"

#define KERNEL extern "C" __attribute__((visibility("hidden")))
#define CALL                                                                                                  \
  [[maybe_unused]] const LlmcContext *c, [[maybe_unused]] uint32_t thread, [[maybe_unused]] uint32_t threads, \
      [[maybe_unused]] uint32_t rows, [[maybe_unused]] const uint64_t *rec

namespace {
typedef float F8 __attribute__((vector_size(32)));
}

// A barrier for one thread per call: only counts, and leaves when the host asks for it.
KERNEL __attribute__((noinline)) uint32_t llmc_barrier(const LlmcContext* c, uint32_t thread, uint32_t) {
  if (thread == 0) ++c->barrier->epoch;
  return *c->abort_request;
}

// x[i] = i + add, i < n
KERNEL void iota(CALL, int64_t n, int64_t add) {
  float* x = reinterpret_cast<float*>(c->shared + rec[0]);
  const int64_t begin = n * thread / threads, end = n * (thread + 1) / threads;
  for (uint32_t row = 0; row < rows; ++row)
    for (int64_t i = begin; i < end; ++i) x[row * n + i] = static_cast<float>(i + add);
}

// y[i] = x[i] + w[i]
KERNEL void add(CALL, int64_t n) {
  const float* x = reinterpret_cast<const float*>(c->shared + rec[0]);
  const float* w = reinterpret_cast<const float*>(c->weights + rec[1]);
  float* y = reinterpret_cast<float*>(c->shared + rec[2]);
  const int64_t begin = n / 8 * thread / threads, end = n / 8 * (thread + 1) / threads;
  for (uint32_t row = 0; row < rows; ++row)
    for (int64_t i = begin; i < end; ++i)
      *reinterpret_cast<F8*>(y + row * n + 8 * i) =
          *reinterpret_cast<const F8*>(x + row * n + 8 * i) + *reinterpret_cast<const F8*>(w + 8 * i);
}

// logits = x; needs memcpy for its large structures
struct Big {
  float v[1024];
};
KERNEL void emit(CALL, int64_t) {
  if (thread != 0) return;
  for (uint32_t row = 0; row < rows; ++row)
    *reinterpret_cast<Big*>(c->logits + row * 1024) =
        *reinterpret_cast<const Big*>((c->shared + rec[0]) + row * sizeof(Big));
}

KERNEL void* memcpy(void* to, const void* from, size_t n) {
  for (size_t i = 0; i < n; ++i) static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
  return to;
}
