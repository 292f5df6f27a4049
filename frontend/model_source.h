// Opens what the user named as MODEL: decides its format, reads the description and finds the weights.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/bind_weights.h"
#include "frontend/description.h"
#include "frontend/frontend.h"
#include "frontend/gguf.h"

namespace llmc {

enum class ModelFormat : uint8_t { Hf, Gguf, Own };

struct OpenedModel {
  ModelFormat format{};
  Description description;
  std::string config_path;  // the config, description or GGUF file
  std::string directory;    // of the model's other files (tokenizer.json, generation_config.json)
  std::shared_ptr<const GgufModel> gguf;
  BoundWeights weights;
  std::optional<int64_t> random_seed;
  std::vector<InputHash> inputs;  // config and weights
};

// What to do when no weights are there and none are named.
enum class NoWeights : uint8_t { Refuse, Allow };

// Throws InputError, and UsageError for options that contradict one another.
OpenedModel OpenModel(const ModelOptions& options, NoWeights missing);

}  // namespace llmc
