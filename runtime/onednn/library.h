// The interface between a loader and libllmc_onednn.so: plain C, so that either may be newer. The loader opens the
// library only when a plan has `kernel` or `dnnl` steps, and looks up one symbol, llmc_onednn_library.
//
// The library holds oneDNN (as a dependency) and the kernels of backends/kernels compiled for x86-64-v3.
#pragma once
#include <stdint.h>

#include "runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LLMC_ONEDNN_ABI 2u
#define LLMC_ONEDNN_SYMBOL "llmc_onednn_library"

// A `kernel` or `dnnl` step of a plan: kind and payload as in runtime/plan_steps.h.
typedef struct LlmcOnednnStep {
  uint32_t kind;
  const char* payload;
  uint64_t size;
  const char* where;  // begins messages about it, "phase decode, step 16 (kernel)"; null: its place in the list
} LlmcOnednnStep;

// Steps with their primitives; immutable once made, shared by any number of threads and sessions.
typedef struct LlmcOnednnProgram LlmcOnednnProgram;

typedef struct LlmcOnednnLibrary {
  uint32_t abi;          // LLMC_ONEDNN_ABI
  uint32_t context_abi;  // LLMC_ABI_VERSION
  const char* version;   // "oneDNN 2.6.3"
  const char* kernels;  // version of the kernels (backends/kernels/version.h): a plan with steps names the one it needs
  const char* features;  // what the CPU must have, /proc/cpuinfo's names, separated by spaces

  // Checks each step's form, kernel and types, and makes the primitives, one for each distinct product. Null and a
  // message (what rule, what values) when it can't.
  LlmcOnednnProgram* (*create)(const LlmcOnednnStep* steps, uint64_t count, char* message, uint64_t message_size);
  void (*destroy)(LlmcOnednnProgram* program);

  // For reports and tests: number of primitives; each in words, "f32 [*, 576] x [576, 48] + bias, swish: gemm:jit".
  uint64_t (*primitives)(const LlmcOnednnProgram* program);
  const char* (*describe)(const LlmcOnednnProgram* program, uint64_t primitive);
  // Bytes of `run`'s scratchpad, a multiple of 64: what any step needs of a thread besides the plan's own scratch, for
  // oneDNN and, where bf16 is computed as f32, for a slice of weights.
  uint64_t (*scratchpad_bytes)(const LlmcOnednnProgram* program);

  // The share of thread `thread` of `threads` in step `step`. scratchpad: scratchpad_bytes that no other thread uses
  // meanwhile, 64-byte aligned. Never opens threads of its own. 0, or 1 when oneDNN failed (out of memory): the results
  // of this call are then worthless, and nothing else is.
  uint32_t (*run)(const LlmcOnednnProgram* program, uint64_t step, const LlmcContext* context, uint32_t thread,
                  uint32_t threads, uint8_t* scratchpad);
} LlmcOnednnLibrary;

const LlmcOnednnLibrary* llmc_onednn_library(void);

#ifdef __cplusplus
}
#endif
