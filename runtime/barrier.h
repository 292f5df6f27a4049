// The barrier at which the threads of a call meet: one algorithm for generated code (backends/kernels/sync.h) and for
// the executor between steps. Header-only and freestanding, since it is compiled into kernels' bitcode too: no libc, no
// static data; the futex is called by number. Waiting: spin, then yield, then sleep.
#pragma once
#include "runtime/context.h"

namespace llmc {
namespace barrier_detail {

#if defined(__x86_64__)
constexpr long kFutexCall = 202, kYieldCall = 24;
static inline __attribute__((always_inline)) long SystemCall(long number, void* a, long b, long d) {
  long result;
  register long timeout __asm__("r10") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(number), "D"(a), "S"(b), "d"(d), "r"(timeout)
                   : "rcx", "r11", "memory");
  return result;
}
static inline __attribute__((always_inline)) void Pause() { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
constexpr long kFutexCall = 98, kYieldCall = 124;
static inline __attribute__((always_inline)) long SystemCall(long number, void* a, long b, long d) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = reinterpret_cast<long>(a);
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = d;
  register long x3 __asm__("x3") = 0;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
}
static inline __attribute__((always_inline)) void Pause() { __asm__ volatile("yield"); }
#endif

constexpr long kFutexWaitPrivate = 128, kFutexWakePrivate = 129;
constexpr int kSpins = 2000, kYields = 64;

}  // namespace barrier_detail

// Every thread 0 <= thread < threads of the call enters, and leaves when all have entered. 1: all threads leave the
// phase here, as the context's abort_request asked for; the same answer for every thread.
static inline __attribute__((always_inline)) uint32_t MeetAtBarrier(const LlmcContext* c, uint32_t thread,
                                                                    uint32_t threads) {
  using namespace barrier_detail;
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
#ifdef __clang__
#pragma clang loop unroll(disable)
#endif
  for (int i = 0; i < kSpins && waiting(); ++i) Pause();
  if (waiting()) {
    __atomic_add_fetch(&b->long_waits, 1, __ATOMIC_RELAXED);
#ifdef __clang__
#pragma clang loop unroll(disable)
#endif
    for (int i = 0; i < kYields && waiting(); ++i) SystemCall(kYieldCall, nullptr, 0, 0);
    if (waiting()) {
      __atomic_add_fetch(&b->sleepers, 1, __ATOMIC_SEQ_CST);
#ifdef __clang__
#pragma clang loop unroll(disable)
#endif
      while (__atomic_load_n(&b->epoch, __ATOMIC_SEQ_CST) == epoch) {
        SystemCall(kFutexCall, &b->epoch, kFutexWaitPrivate, static_cast<long>(epoch));
      }
      __atomic_sub_fetch(&b->sleepers, 1, __ATOMIC_SEQ_CST);
    }
  }
  return __atomic_load_n(&b->abort, __ATOMIC_RELAXED) == leave;
}

}  // namespace llmc
