// From a description to a module as import leaves it (after = import): the plain graph, one op a step, in the order in
// which a reader would write it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "frontend/bind_weights.h"
#include "frontend/description.h"
#include "frontend/quantize_mix.h"
#include "ir/module.h"

namespace llmc {

struct BuildOptions {
  int64_t context = 0;  // positions; at least 1
  int64_t chunk = 0;    // rows of the largest prefill call; at least 1
  DType kv_type = DType::F16;
  std::string activations;            // q8 | f32 | bf16; "": q8 when a matrix has a block type
  bool hidden = false;                // the plan is to give hidden rows as well
  const Mixture* quantize = nullptr;  // float matrices to block types
  bool absorb = true;                 // latent attention may be built absorbed, where its weights allow no other form
  std::optional<int64_t> random;      // seed of made-up weights, for the header
  DiagSink sink;
};

Module BuildModule(const Description& d, const BoundWeights& weights, const BuildOptions& options);

}  // namespace llmc
