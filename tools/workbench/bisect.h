// llmc bisect: the first pass, then op, layer and element, where the numbers leave what the pass promises.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/weights.h"
#include "tools/workbench/numbers.h"
#include "tools/workbench/stages.h"

namespace llmc {

// The first op, in order, whose result is another than the op of the same name gives in the module before.
struct Culprit {
  std::string name;  // of the value, "b3.q"
  std::string op;    // of the later module
  int layer = -1;
  size_t position = 0, element = 0;  // of the first value that differs: the row, and the place in it
  float now = 0, was = 0;
  Difference difference;
  std::vector<std::string> operands;  // what the op reads
};

struct Bisection {
  bool broken = false;
  size_t stage = 0;     // the first one that breaks its promise; the one before holds
  std::string promise;  // "exact", "NMSE at most 0.01"
  Difference logits;    // of the stage against the one before; of an encoder its hidden rows
  std::string phases;   // not empty: the stage's functions disagree among themselves, and how
  std::optional<Culprit> culprit;
  int runs = 0;  // evaluations that it took
};

// Evaluates O(log) of the stages: between two passes that round, all results are the same bits, or some pass in between
// broke them.
Bisection BisectStages(const std::vector<Stage>& stages, const WeightSource& weights, int threads);

// The same against logits of somebody else, f32[tokens, vocab] (of an encoder hidden rows, its types being 0): the first stage whose NMSE of some row is over
// `tolerance`. Stage 0 broken means that import differs already.
Bisection BisectReference(const std::vector<Stage>& stages, const WeightSource& weights, int threads,
                          std::span<const int32_t> tokens, const std::vector<float>& reference, double tolerance);

// The first op of `now` whose value parts from the value of the same name in `was`: in bits, or where tolerance > 0 by
// an NMSE over it.
std::optional<Culprit> FindCulprit(const Module& now, const WeightSource& now_weights, const Module& was,
                                   const WeightSource& was_weights, std::span<const int32_t> tokens, int threads,
                                   double tolerance);

// The fewest layers that still break, by taking layers out of both modules while they do (both as imported, or any
// stage before specialize-phases). Empty when the modules have no layers to take out.
std::vector<int> ReduceLayers(const Module& was, const std::vector<int>& layers,
                              const std::function<bool(const Module&)>& breaks);

}  // namespace llmc
