// Weights and the consts computed from them, read by rows on demand: nobody holds more than the rows asked for.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ir/module.h"

namespace llmc {

// Where a module's weights come from (safetensors, GGUF, random numbers). Thread-safe.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Rows [begin, end) of `weight` (its first dim; a 1-d weight is one row), in rows layout and its stored type. out:
  // (end - begin) * RowBytes.
  virtual void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const = 0;
};

// Rows of any weight or const. In tiles16 layout begin and end are multiples of 16, or the end (padding rows are zero
// bytes). Evaluates the recipe; O(end - begin) memory.
void ReadRows(const Module& module, const WeightSource& source, int global, int64_t begin, int64_t end, std::byte* out);
// Row count that ReadRows takes (the first dim; for a 1-d tensor 1) and bytes per row (per 1/16 tile for tiles16).
int64_t RowCount(const Type& type);
int64_t StoredRowBytes(const Type& type);

// Made-up weights (--weights random:SEED): counter-based on (seed, name, index), so any row can be made alone. Norm
// gains near 1, matrices scaled by 1/sqrt(K).
std::unique_ptr<WeightSource> RandomWeights(uint64_t seed);

}  // namespace llmc
