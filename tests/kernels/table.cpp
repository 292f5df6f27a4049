// Compiles the kernels as ordinary code and lists them. Built twice for each ISA level: with its flags, and with
// LLMC_EMULATE and its shapes for the host.
#include "tests/kernels/table.h"

#include "backends/kernels/kernels.cpp"

namespace {

template <class... Constants>
constexpr int Arity(void (*)(const LlmcContext*, uint32_t, uint32_t, uint32_t, const uint64_t*, Constants...)) {
  return sizeof...(Constants);
}

const KernelEntry kEntries[] = {
#define KERNEL_DEF(name, ops, record, constants, divisions, open) \
  {#name,                                                         \
   record,                                                        \
   constants,                                                     \
   divisions,                                                     \
   reinterpret_cast<void (*)()>(&KERNELS_NAMESPACE::name),        \
   Arity(&KERNELS_NAMESPACE::name)},
#include "backends/kernels/kernels.def"
#undef KERNEL_DEF
    {nullptr, nullptr, nullptr, nullptr, nullptr, 0},
};

}  // namespace

#ifdef LLMC_EMULATE
extern "C" const KernelEntry* EmulatedKernels() { return kEntries; }
#else
extern "C" const KernelEntry* NativeKernels() { return kEntries; }
#endif
