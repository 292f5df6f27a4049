// What a model's files say about embeddings of texts: sentence-transformers' modules.json and what it lists, or GGUF's
// pooling_type.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "frontend/frontend.h"
#include "frontend/gguf.h"
#include "frontend/tensor_file.h"

namespace llmc {

// A dense layer behind the pooled row: act(w x + b).
struct DenseLayer {
  std::string act;  // of ir/activations.def; "": none
  std::shared_ptr<const TensorSet> set;
  const TensorInfo* weight = nullptr;  // [out, in]
  const TensorInfo* bias = nullptr;    // null: none
};

struct EmbeddingModules {
  bool present = false;  // the files say that the model makes embeddings
  PlanPooling pooling;
  std::vector<DenseLayer> dense;
};

// Of a directory: modules in the order Transformer, Pooling, Dense.., Normalize (the last two may be missing); without
// modules.json nothing is present. width: numbers of a hidden row. Adds what it read to `inputs`. Throws InputError for
// modules, poolings and activations that are not supported, by name.
EmbeddingModules HfEmbedding(const std::string& directory, int64_t width, std::vector<InputHash>& inputs,
                             const DiagSink& sink);
// Of a GGUF file: its pooling_type, and its tensors dense_2 and dense_3. Rows are normalised, as the format's own reader
// does by default.
EmbeddingModules GgufEmbedding(const std::shared_ptr<const GgufModel>& gguf, const std::string& file, int64_t width);

// Adds the function @project, f32[S, width] to the last layer's rows, and its weights; `weights` then has them too.
void AddProjection(Module& module, const std::vector<DenseLayer>& dense, int64_t width,
                   std::shared_ptr<const WeightSource>& weights);

}  // namespace llmc
