// --check: evaluates a module with the interpreter after every pass and compares the logits with those before it.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/module.h"
#include "ir/weights.h"
#include "passes/pass.h"

namespace llmc {

// Logits of eight seeded tokens by every function the module has: @forward, or @score for all rows, and @prefill then
// @decode for the last ones; of an encoder its hidden rows. A module whose functions disagree among themselves is an
// InputError (InvalidModule) here already.
std::vector<float> EvaluateModule(const Module& module, const WeightSource& weights, int threads);
// The types of such tokens where the model has types, of both kinds; else zeros.
std::vector<int32_t> SeededTypes(const Module& module, size_t count);
// The hidden rows of the same tokens, by the function that gives them; empty: there is none.
std::vector<float> EvaluateHidden(const Module& module, const WeightSource& weights, int threads);

class PassCheck {
 public:
  // Evaluates the module as it is before the first pass. `weights` outlives the check.
  PassCheck(const Module& module, const WeightSource& weights, int threads = 1);
  // After an exact pass the logits are the same bits, after one that rounds their NMSE per row is at most 1e-2; else
  // InputError (PassBrokeNumbers) that names the pass, row and element. The module's logits are the reference for the
  // next pass.
  void After(const PassInfo& pass, const Module& module);

 private:
  const WeightSource& weights_;
  int threads_;
  std::vector<float> logits_;
  std::vector<float> hidden_;  // empty until a decoder has a function that gives hidden rows
};

}  // namespace llmc
