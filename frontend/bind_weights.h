// Ties a description's weights to the tensors of its files, and reads them by rows.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontend/description.h"
#include "frontend/lora.h"
#include "frontend/tensor_file.h"
#include "frontend/weight_list.h"
#include "ir/diag.h"
#include "ir/weights.h"

namespace llmc {

// The weights of a graph with the type each has in its file.
// An adapter's pair of matrices for one weight.
struct LoraUse {
  Name a, b;  // as the graph calls them
  int64_t rank = 0;
  DType a_type{}, b_type{};
  double scale = 1;
};

struct BoundWeights {
  std::vector<WeightUse> uses;
  std::vector<DType> dtypes;                   // uses[i]'s stored type
  std::map<Name, std::vector<LoraUse>> lora;   // by the weight that they adapt
  std::shared_ptr<const WeightSource> source;  // null without files
  std::map<Name, Place> places;                // of each weight's tensor in its file
};

// Checks every tensor: shape (ShapeMismatch), type (Unsupported), presence (MissingTensor), and that none is left over
// (UnusedTensor); messages name file, tensor, rule and values. A tied description whose files hold another head becomes
// untied, with a warning. Adapters: every pair of matrices must adapt a matrix of floats of the model.
BoundWeights BindWeights(Description& d, const std::shared_ptr<const TensorSet>& set,
                         const std::vector<LoraAdapter>& adapters, const DiagSink& sink);

// `source`, with the numbers of weights whose rule gives them in front of it.
std::shared_ptr<const WeightSource> WithValues(const BoundWeights& bound, std::shared_ptr<const WeightSource> source);

// Without files: every weight has the description's dtype.
BoundWeights UnboundWeights(const Description& d);

}  // namespace llmc
