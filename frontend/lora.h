// Low-rank adapters in PEFT's format: adapter_config.json and adapter_model.safetensors of a folder, merged into the
// matrices that they adapt: w + scale * (B A).
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontend/tensor_file.h"

namespace llmc {

struct LoraAdapter {
  std::string config_path, weights_path;
  std::shared_ptr<const TensorSet> set;
  double scale = 1;  // of B A: the factor asked for, times lora_alpha / r (use_rslora: / sqrt(r))
  int64_t rank = 0;

  // The two matrices [rank, in] and [out, rank] that adapt the tensor NAME ("model.layers.0.mlp.up_proj.weight"); null:
  // none do.
  std::pair<const TensorInfo*, const TensorInfo*> Find(const std::string& name) const;
};

// `text`: DIR or DIR=SCALE. Throws InputError for what the files say and is not done here (DoRA, biases, modules saved
// whole, ranks or alphas by module, conv layers' transposed matrices), UsageError for a scale that is no number.
LoraAdapter OpenLora(const std::string& text);

}  // namespace llmc
