// The kernels as a table of functions, once native and once emulated: what tests call them through.
#pragma once
#include <cstdint>
#include <vector>

struct KernelEntry {
  const char* name;
  const char* record;     // words, as in kernels.def
  const char* constants;  // names, as in kernels.def
  const char* divisions;  // names, as in kernels.def
  void (*function)();     // void(const LlmcContext*, uint32_t, uint32_t, uint32_t, const uint64_t*, int64_t...)
  int arity;              // int64_t parameters of the function
};

// Ends with an entry without a name.
extern "C" const KernelEntry* NativeKernels();
extern "C" const KernelEntry* EmulatedKernels();
// Those of the two that this CPU can run.
std::vector<const KernelEntry*> RunnableKernels();
