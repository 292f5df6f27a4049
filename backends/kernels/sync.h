// The barrier between steps, and the memory functions that the back end may call for large copies of structs and zeroed
// arrays.
#pragma once
#include "backends/kernels/kernels.h"
#include "backends/kernels/primitives.h"

#ifndef LLMC_EMULATE
namespace llmc::kernels {

constexpr long kFutexCall = 202, kYieldCall = 24, kFutexWaitPrivate = 128, kFutexWakePrivate = 129;
INLINE long SystemCall(long number, void* a, long b, long d) {
  long result;
  register long timeout __asm__("r10") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(number), "D"(a), "S"(b), "d"(d), "r"(timeout)
                   : "rcx", "r11", "memory");
  return result;
}

constexpr int kSpins = 2000, kYields = 64;

}  // namespace llmc::kernels

extern "C" uint32_t llmc_barrier(const LlmcContext* c, uint32_t thread, uint32_t threads) {
  using namespace llmc::kernels;
  LlmcBarrier* b = c->barrier;
  const uint32_t* request = c->abort_request;
  if (threads <= 1) return request != nullptr && __atomic_load_n(request, __ATOMIC_RELAXED) != 0;
  const uint32_t epoch = __atomic_load_n(&b->epoch, __ATOMIC_RELAXED);
  // Thread 0's answer is written before it arrives and read after the epoch has moved on: everybody sees the same. It
  // names this barrier, since thread 0 may be at the next one before a slow thread has read it.
  const uint32_t leave = 2 * epoch + 1;
  if (thread == 0) {
    const bool wanted = request != nullptr && __atomic_load_n(request, __ATOMIC_RELAXED) != 0;
    __atomic_store_n(&b->abort, wanted ? leave : 0, __ATOMIC_RELAXED);
  }
  if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == threads) {
    const uint32_t abort = __atomic_load_n(&b->abort, __ATOMIC_RELAXED) == leave;
    __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&b->epoch, epoch + 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&b->sleepers, __ATOMIC_SEQ_CST) != 0)
      SystemCall(kFutexCall, &b->epoch, kFutexWakePrivate, 0x7fffffff);
    return abort;
  }
  const auto waiting = [&] { return __atomic_load_n(&b->epoch, __ATOMIC_ACQUIRE) == epoch; };
#pragma clang loop unroll(disable)
  for (int i = 0; i < kSpins && waiting(); ++i) Pause();
  if (waiting()) {
    __atomic_add_fetch(&b->long_waits, 1, __ATOMIC_RELAXED);
#pragma clang loop unroll(disable)
    for (int i = 0; i < kYields && waiting(); ++i) SystemCall(kYieldCall, nullptr, 0, 0);
    if (waiting()) {
      __atomic_add_fetch(&b->sleepers, 1, __ATOMIC_SEQ_CST);
#pragma clang loop unroll(disable)
      while (__atomic_load_n(&b->epoch, __ATOMIC_SEQ_CST) == epoch) {
        SystemCall(kFutexCall, &b->epoch, kFutexWaitPrivate, static_cast<long>(epoch));
      }
      __atomic_sub_fetch(&b->sleepers, 1, __ATOMIC_SEQ_CST);
    }
  }
  return __atomic_load_n(&b->abort, __ATOMIC_RELAXED) == leave;
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
