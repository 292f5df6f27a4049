// The Context: all that generated code ever sees of its host. Plain C layout, append-only: a field never moves, changes
// meaning or goes away within an ABI version; new fields go to the end and raise LLMC_ABI_VERSION's minor part
// (runtime/README.md).
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Major in the low half, minor in the high half. Code records the lowest that it needs, and a host runs code of its own
// major and any minor up to its own.
#define LLMC_ABI_1_0 1u
#define LLMC_ABI_1_1 0x10001u  // positions, state_bases, inputs, outputs
#define LLMC_ABI_1_2 0x20001u  // claims
#define LLMC_ABI_VERSION LLMC_ABI_1_2

// Shared by the threads of one call. Sense is by epoch: the last thread to arrive raises `epoch` and wakes sleepers.
typedef struct LlmcBarrier {
  uint32_t arrived;
  uint8_t pad0[60];
  uint32_t epoch;  // futex word
  uint32_t sleepers;
  // 2 * epoch + 1 of the barrier at which all threads leave, written by thread 0 before it arrives; else 0
  uint32_t abort;
  // Waits that outlasted the spin phase (a core is shared with somebody); read and reset by the executor.
  uint32_t long_waits;
  uint8_t pad1[48];
} LlmcBarrier;

// Of one thread: how much of its share of a step is taken, by itself and by threads that are done with theirs. Steps
// take turns with two words, so that the one that isn't in use can be cleared.
typedef struct LlmcClaims {
  uint64_t taken[2];  // chunks from the front in the low half, from the back in the high half
  uint32_t turn;      // steps so far, counted by the thread itself
  uint8_t pad[44];
} LlmcClaims;

// One forward call over `rows` consecutive tokens, at positions pos .. pos + rows - 1.
typedef struct LlmcContext {
  const uint8_t* weights;   // the plan's weight section (64-byte aligned at least, 2 MiB for large plans)
  uint8_t* shared;          // arena of the values all threads see, 64-byte aligned
  uint8_t* scratch;         // thread t's private values start at scratch + t * scratch_stride
  uint64_t scratch_stride;  // multiple of 64
  uint8_t* states;          // KV caches, 64-byte aligned; every byte that was never written is 0
  const int32_t* tokens;    // i32[rows], each in [0, vocab)
  // What the phase gives: f32[logit rows, vocab], 1 row (prefill, decode) or `rows` (score); or f32[rows, N] hidden rows.
  float* logits;
  uint32_t rows;  // S
  uint32_t pos;   // position of tokens[0]
  // Length of the sequence that this call belongs to (prompt and what follows it in this call), >= pos + rows.
  uint32_t total;
  uint32_t abi;  // LLMC_ABI_VERSION of the host
  LlmcBarrier* barrier;
  const uint32_t* abort_request;  // read by thread 0 before a barrier; non-zero: all threads leave at that barrier
  // Since 1.1. Rows of several sequences, or of none in particular: where each stands. Null: row s is at pos + s, and its
  // states are at `states`.
  const int32_t* positions;     // i32[rows]
  const uint64_t* state_bases;  // u64[rows]: bytes from `states` to the states of the row's sequence
  // Inputs and outputs that have no field above, by their numbers in ir/entries.def; null where the call has none.
  const void* const* inputs;
  void* const* outputs;
  // Since 1.2. LlmcClaims[threads], zero when a call begins: a thread that is done with its share of a product takes over
  // what others haven't begun. Null: shares are fixed.
  LlmcClaims* claims;
} LlmcContext;

// A phase of a plan. Every thread 0 <= thread < threads of the call enters it; returns 0, or 1 after an abort.
typedef uint32_t (*LlmcPhaseFn)(const LlmcContext* context, uint32_t thread, uint32_t threads);

#ifdef __cplusplus
}
#endif
