// What every kernel shares: the calling convention, where operands live and how work is divided. Kernels are compiled
// by clang 19 to bitcode, once per ISA level, and specialised when a model is compiled: trailing int64_t parameters
// become constants. They call nothing outside this folder: no libc, no libm, no static data. kernels.def lists them
// all.
//
// With LLMC_EMULATE the same sources use portable primitives instead of the ISA's (primitives.h) and get C++ linkage in
// namespace llmc::emulated, so that a test can link both and compare them.
#pragma once
#include <cstdint>

#include "runtime/context.h"

#ifdef LLMC_EMULATE
#define KERNELS_NAMESPACE llmc::emulated
#define KERNEL __attribute__((visibility("hidden")))
#else
#define KERNELS_NAMESPACE llmc::kernels
#define KERNEL extern "C" __attribute__((visibility("hidden")))
#endif
#define INLINE static inline __attribute__((always_inline))
// What a constant chooses among much code: a function of its own where constants aren't bound yet, or kernels would be
// many times as large. Where they are bound, code generation reads only what is chosen, and inlines it.
#define CHOICE static __attribute__((noinline))
// The parameters that every kernel begins with.
#define KERNEL_CALL                                                                                           \
  [[maybe_unused]] const LlmcContext *c, [[maybe_unused]] uint32_t thread, [[maybe_unused]] uint32_t threads, \
      [[maybe_unused]] uint32_t rows, const uint64_t *rec

namespace KERNELS_NAMESPACE {

// Where an operand lives; a constant of the call. The record's word holds the offset in bytes from that base.
enum Space : int64_t {
  kWeights = 0,
  kShared = 1,
  kPrivate = 2,
  kStates = 3,
  kLogits = 4,
  kTokens = 5,
  kTypes = 6,
  kHidden = 7
};
constexpr int64_t kLastSpace = kHidden;
// Numbers of inputs (ir/entries.def) that are found by them.
constexpr int64_t kHiddenInput = 4, kTypesInput = 5;

// What the threads divide; the values are those of llmc::Over (ir/module.h).
enum Over : int64_t { kAll = 0, kOne = 1, kTiles = 2, kHeads = 3, kKeys = 4, kRows = 5, kQueries = 6 };

// Layouts; the values are those of llmc::Layout (ir/type.h).
enum Layout : int64_t { kLayoutRows = 0, kTiles16 = 1, kKeys16 = 2, kLayoutHeads = 3 };

// Element types; the values are those of llmc::DType (ir/type.h).
enum Type : int64_t {
#define DTYPE(name, number, text, gguf, block, bytes, cls) k##name = number,
#include "ir/dtypes.def"
#undef DTYPE
};
// What a type is (the class of ir/dtypes.def); values that are no type are none of these.
enum class TypeClass : int64_t { NONE, FLOAT, INT, BLOCK, ACT };
constexpr TypeClass ClassOf(int64_t type) {
  switch (type) {
#define DTYPE(name, number, text, gguf, block, bytes, cls) \
  case number: return TypeClass::cls;
#include "ir/dtypes.def"
#undef DTYPE
    default: return TypeClass::NONE;
  }
}
constexpr bool IsFloat(int64_t type) { return ClassOf(type) == TypeClass::FLOAT; }
constexpr bool IsBlock(int64_t type) { return ClassOf(type) == TypeClass::BLOCK; }

INLINE uint8_t* At(const LlmcContext* c, uint32_t thread, int64_t space, uint64_t offset) {
  switch (space) {
    case kWeights: return const_cast<uint8_t*>(c->weights) + offset;
    case kShared: return c->shared + offset;
    case kPrivate: return c->scratch + thread * c->scratch_stride + offset;
    case kStates: return c->states + offset;
    case kLogits: return reinterpret_cast<uint8_t*>(c->logits) + offset;
    case kTypes: return static_cast<uint8_t*>(const_cast<void*>(c->inputs[kTypesInput])) + offset;
    case kHidden: return static_cast<uint8_t*>(const_cast<void*>(c->inputs[kHiddenInput])) + offset;
    default: return reinterpret_cast<uint8_t*>(const_cast<int32_t*>(c->tokens)) + offset;
  }
}

// Where row s of a call stands, and its sequence's bytes of a state. by_row 0: rows follow Context.pos in one sequence.
// by_row 1: each row has what the Context says of it, if it says anything.
INLINE int64_t PositionOf(const LlmcContext* c, int64_t s, int64_t by_row) {
  return by_row != 0 && c->positions != nullptr ? c->positions[s] : static_cast<int64_t>(c->pos) + s;
}
INLINE uint8_t* StateOf(const LlmcContext* c, uint8_t* state, int64_t s, int64_t by_row) {
  return by_row != 0 && c->state_bases != nullptr ? state + c->state_bases[s] : state;
}

// Part [begin, end) of `count` items that this thread computes. When `over` is `division`, the items are dealt in units
// of `grain`, thread t of n taking units U*t/n to U*(t+1)/n; when `over` names another division, this dimension isn't
// divided and everything is computed.
struct Range {
  int64_t begin, end;
};
INLINE Range Share(int64_t count, int64_t grain, int64_t over, int64_t division, uint32_t thread, uint32_t threads) {
  if (over == kOne) return {0, thread == 0 ? count : 0};
  if (over != division) return {0, count};
  const int64_t units = (count + grain - 1) / grain;
  const int64_t begin = units * thread / threads * grain, end = units * (thread + 1) / threads * grain;
  return {begin, end < count ? end : count};
}

}  // namespace KERNELS_NAMESPACE
