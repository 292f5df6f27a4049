// The barrier that generated code calls between steps; the kernels themselves are listed in kernels.def.
#pragma once
#include "backends/kernels/kernel.h"

// Meets the other threads; non-zero when the call was aborted and every thread leaves. Spins about 2000 pauses, yields,
// then sleeps on a futex. Thread 0 copies *abort_request (when there is one) into the barrier before it arrives, so
// that all threads see the same answer.
extern "C" __attribute__((visibility("hidden"))) uint32_t llmc_barrier(const LlmcContext* c, uint32_t thread,
                                                                       uint32_t threads);
