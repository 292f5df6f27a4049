// How the columns of a product are cut (DnnlStep, runtime/plan_steps.h).
#pragma once
#include <algorithm>
#include <cstdint>

#include "runtime/plan_steps.h"

namespace llmc::onednn {

inline bool IsGated(const DnnlStep& step) { return step.gate != DnnlGate::None; }
// Of a float product silu is a post-op; the other activations are the kernels'.
inline bool GateIsOnednns(const DnnlStep& step) { return step.gate == DnnlGate::Silu; }
// Its number in ir/activations.def.
inline int64_t ActivationOf(const DnnlStep& step) { return static_cast<int64_t>(step.gate) - 1; }
inline uint64_t TilesOf(uint64_t n) { return (n + kPlanTile - 1) / kPlanTile; }
inline uint64_t SliceColumns(const DnnlStep& step) { return kPlanTile * step.slice_tiles; }
inline uint64_t SlicesOf(const DnnlStep& step, uint64_t n) { return (n + SliceColumns(step) - 1) / SliceColumns(step); }

inline bool IsPaired(const DnnlStep& step) { return step.interleave && step.parts.size() == 2; }

// What the threads share out: the parts' slices, counted one after another; of interleaved parts pairs of slices.
inline uint64_t UnitsOf(const DnnlStep& step) {
  if (IsPaired(step)) return SlicesOf(step, step.parts[0].n);
  uint64_t units = 0;
  for (const DnnlStep::Part& part : step.parts) units += SlicesOf(step, part.n);
  return units;
}

// f(part, first column, columns) for the slices of units begin .. end - 1.
template <class F>
void ForSlices(const DnnlStep& step, uint64_t begin, uint64_t end, F f) {
  if (IsPaired(step)) {
    for (uint64_t s = begin; s < end; ++s) {
      const uint64_t column = s * SliceColumns(step);
      for (size_t p = 0; p < 2; ++p) f(p, column, std::min(SliceColumns(step), step.parts[p].n - column));
    }
    return;
  }
  uint64_t first = 0;
  for (size_t p = 0; p < step.parts.size(); ++p) {
    const uint64_t n = step.parts[p].n, slices = SlicesOf(step, n);
    for (uint64_t s = std::max(begin, first); s < std::min(end, first + slices); ++s) {
      const uint64_t column = (s - first) * SliceColumns(step);
      f(p, column, std::min(SliceColumns(step), n - column));
    }
    first += slices;
  }
}

}  // namespace llmc::onednn
