// The plan's weight section: every weight and const that has an offset, in the order of offsets, evaluated by rows in
// bounded memory.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "ir/module.h"
#include "ir/weights.h"

namespace llmc {

// Size of the section: the module's option weight_bytes.
uint64_t WeightBytes(const Module& module);

// Calls `append` with consecutive pieces of the section from its start to its end, zeros between tensors included;
// never from two threads at once. `jobs` threads evaluate pieces of at most a few MiB ahead of it. `progress`: fraction
// done; may be empty.
void StreamWeights(const Module& module, const WeightSource& source, int jobs,
                   const std::function<void(std::span<const uint8_t>)>& append,
                   const std::function<void(double)>& progress);

// The same into memory of WeightBytes() zero bytes.
void FillWeights(const Module& module, const WeightSource& source, int jobs, uint8_t* to,
                 const std::function<void(double)>& progress);

}  // namespace llmc
