// The version of kernels, constants and layouts: what a plan's kernel and dnnl steps were made for. Machine code in a
// plan holds its kernels and needs none.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace llmc {

// Raised when something changes that the tables below don't show: what a kernel computes from the same words and
// constants, what an enumerator of kernel.h stands for, a layout (ir/README.md), what a dnnl step does.
inline constexpr int kKernelsRevision = 1;

// "1.8a3f02c7": the revision, and a hash (FNV-1a) of the kernels' names, words and constants, of steps and activations,
// and of the element types.
inline std::string KernelsVersion() {
  uint32_t hash = 2166136261u;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
    hash = (hash ^ 0xffu) * 16777619u;  // no byte of a text
  };
#define KERNEL_DEF(name, ops, record, constants, divisions, open) \
  add(#name);                                                     \
  add(record);                                                    \
  add(constants);
#include "backends/kernels/kernels.def"
#undef KERNEL_DEF
#define THEN(name, op, attribute) add(#name);
#define THEN_TWO(name, op) add(#name);
#define THEN_LAST(op)
#include "backends/kernels/thens.def"
#undef THEN
#undef THEN_TWO
#undef THEN_LAST
#define ACTIVATION(name, text) add(text);
#include "ir/activations.def"
#undef ACTIVATION
#define DTYPE(name, number, text, gguf, block, bytes, cls) \
  add(text);                                               \
  add(#number);                                            \
  add(#bytes);
#include "ir/dtypes.def"
#undef DTYPE
  std::string version = std::to_string(kKernelsRevision) + ".";
  for (int shift = 28; shift >= 0; shift -= 4) version += "0123456789abcdef"[(hash >> shift) & 15];
  return version;
}

}  // namespace llmc
