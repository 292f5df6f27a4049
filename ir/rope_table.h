// Rows of a `rope_table` const: cosines, then sines, of every pair's angle at a position (ir/README.md, Recipes).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ir/module.h"

namespace llmc {

// Angles per position of the dim/2 pairs, in double: the frequencies of transformers' modeling_rope_utils for the
// recipe's kind, without libm. Throws InputError BadAttribute when an attribute makes no sense (theta below 1, factor
// not positive, ...).
std::vector<double> RopeFrequencies(const Recipe& recipe, int64_t dim);
// Each of the pairs' frequencies divided by its element of `divisors`.
std::vector<double> RopeFrequencies(const Recipe& recipe, std::span<const float> divisors);

// Positions [begin, end) of f32[positions, dim]. out: (end - begin) * dim floats.
void RopeTableRows(const Recipe& recipe, int64_t dim, int64_t begin, int64_t end, float* out);
void RopeTableRows(const Recipe& recipe, std::span<const double> frequencies, int64_t begin, int64_t end, float* out);

}  // namespace llmc
