// The barrier between steps as a function (runtime/barrier.h has the algorithm), and the memory functions that the back
// end may call for large copies of structs and zeroed arrays.
#pragma once
#include "backends/kernels/kernels.h"
#include "backends/kernels/primitives.h"
#include "runtime/barrier.h"

#ifndef LLMC_EMULATE
extern "C" uint32_t llmc_barrier(const LlmcContext* c, uint32_t thread, uint32_t threads) {
  return llmc::MeetAtBarrier(c, thread, threads);
}

#if !__STDC_HOSTED__
// Small and plain: they're reached only where a struct is too large for inline code.
extern "C" __attribute__((visibility("hidden"))) void* memcpy(void* __restrict to, const void* __restrict from,
                                                              __SIZE_TYPE__ n) {
  char* d = static_cast<char*>(to);
  const char* s = static_cast<const char*>(from);
  for (; n >= 32; n -= 32, d += 32, s += 32)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(d), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s)));
  for (; n > 0; --n) *d++ = *s++;
  return to;
}
extern "C" __attribute__((visibility("hidden"))) void* memset(void* to, int byte, __SIZE_TYPE__ n) {
  char* d = static_cast<char*>(to);
  const __m256i v = _mm256_set1_epi8(static_cast<char>(byte));
  for (; n >= 32; n -= 32, d += 32) _mm256_storeu_si256(reinterpret_cast<__m256i*>(d), v);
  for (; n > 0; --n) *d++ = static_cast<char>(byte);
  return to;
}
#endif
#endif
