// What every kernel shares: the calling convention and where operands live. Kernels are compiled by clang 19 to bitcode, once per ISA level, and specialised
// when a model is compiled: trailing int64_t parameters become constants. They call nothing outside this folder: no libc, no libm, no static data.
#pragma once
#include "runtime/context.h"

#define KERNEL extern "C" __attribute__((visibility("hidden")))
#define INLINE static inline __attribute__((always_inline))

namespace llmc::kernels {

// Where an operand lives; a constant of the call. The record's word holds the offset in bytes from that base.
enum Space : long { kWeights = 0, kShared = 1, kPrivate = 2, kStates = 3, kLogits = 4, kTokens = 5 };

INLINE unsigned char* At(const LlmcContext* c, unsigned thread, long space, unsigned long offset) {
  switch (space) {
    case kWeights: return const_cast<unsigned char*>(c->weights) + offset;
    case kShared: return c->shared + offset;
    case kPrivate: return c->scratch + thread * c->scratch_stride + offset;
    case kStates: return c->states + offset;
    case kLogits: return reinterpret_cast<unsigned char*>(c->logits) + offset;
    default: return reinterpret_cast<unsigned char*>(const_cast<int*>(c->tokens)) + offset;
  }
}

// Units [begin, end) of `units` that this thread computes. split: 0 every thread all of them, 1 divided, 2 thread 0 alone.
struct Range {
  long begin, end;
};
INLINE Range Share(long units, unsigned thread, unsigned threads, long split) {
  if (split == 0) return {0, units};
  if (split == 2) return {0, thread == 0 ? units : 0};
  return {units * thread / threads, units * (thread + 1) / threads};
}

}  // namespace llmc::kernels
