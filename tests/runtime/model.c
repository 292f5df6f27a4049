/* A model for tests of the loader and the executor, without a compiler: make_model.py turns this file into
 * model.plan.txt.
 *
 * Its state holds the tokens so far. The logits of position p are integers below 1024 times the weights, from a hash of
 * tokens 0 .. p, so they show every wrong token, position, weight, order and missing barrier. The last id of the
 * vocabulary makes a NaN. Thread 0 appends, all meet, then each thread fills its share of the vocabulary. */
#include "runtime/context.h"

enum { kVocab = 64, kSpins = 2000 };

static long Futex(uint32_t* word, long op, uint32_t value) {
  long result;
  register long timeout __asm__("r10") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(202L), "D"(word), "S"(op | 128), "d"((long)value), "r"(timeout)
                   : "rcx", "r11", "memory");
  return result;
}

/* Returns whether to leave. */
static uint32_t Barrier(const LlmcContext* c, uint32_t thread, uint32_t threads) {
  LlmcBarrier* b = c->barrier;
  uint32_t epoch = __atomic_load_n(&b->epoch, __ATOMIC_ACQUIRE), leave = 2 * epoch + 1;
  if (thread == 0)
    __atomic_store_n(&b->abort, __atomic_load_n(c->abort_request, __ATOMIC_RELAXED) ? leave : 0, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == threads) {
    __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&b->epoch, epoch + 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&b->sleepers, __ATOMIC_SEQ_CST) != 0) Futex(&b->epoch, 1, 0x7fffffff);
  } else {
    for (int i = 0; i < kSpins && __atomic_load_n(&b->epoch, __ATOMIC_ACQUIRE) == epoch; ++i) __asm__ volatile("pause");
    if (__atomic_load_n(&b->epoch, __ATOMIC_ACQUIRE) == epoch) {
      __atomic_add_fetch(&b->long_waits, 1, __ATOMIC_RELAXED);
      __atomic_add_fetch(&b->sleepers, 1, __ATOMIC_SEQ_CST);
      while (__atomic_load_n(&b->epoch, __ATOMIC_SEQ_CST) == epoch) Futex(&b->epoch, 0, epoch);
      __atomic_sub_fetch(&b->sleepers, 1, __ATOMIC_SEQ_CST);
    }
  }
  return __atomic_load_n(&b->abort, __ATOMIC_RELAXED) == leave;
}

static void Logits(const LlmcContext* c, uint32_t row, float* logits, uint32_t thread, uint32_t threads) {
  const uint32_t* seen = (const uint32_t*)c->states;
  const float* weights = (const float*)c->weights;
  uint32_t hash = 0;
  for (uint32_t p = 0; p <= c->pos + row; ++p) hash += (seen[p] + 1) * (2 * p + 1);
  hash *= 2654435761u;
  for (uint32_t v = kVocab * thread / threads; v < kVocab * (thread + 1) / threads; ++v) {
    logits[v] = (float)((int32_t)((hash ^ (v * 40503u << 8)) >> 16 & 1023)) * weights[v];
    if (c->tokens[row] == kVocab - 1) logits[v] = 0.0f / (logits[v] - logits[v]);
  }
}

static uint32_t Run(const LlmcContext* c, uint32_t thread, uint32_t threads, uint32_t first_row) {
  if (thread == 0) {
    for (uint32_t r = 0; r < c->rows; ++r) ((uint32_t*)c->states)[c->pos + r] = (uint32_t)c->tokens[r];
  }
  if (Barrier(c, thread, threads)) return 1;
  for (uint32_t r = first_row; r < c->rows; ++r)
    Logits(c, r, c->logits + (uint64_t)kVocab * (r - first_row), thread, threads);
  return Barrier(c, thread, threads);
}

uint32_t decode(const LlmcContext* c, uint32_t thread, uint32_t threads) { return Run(c, thread, threads, 0); }
uint32_t prefill(const LlmcContext* c, uint32_t thread, uint32_t threads) {
  return Run(c, thread, threads, c->rows - 1);
}
uint32_t score(const LlmcContext* c, uint32_t thread, uint32_t threads) { return Run(c, thread, threads, 0); }
