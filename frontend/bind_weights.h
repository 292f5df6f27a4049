// Ties a description's weights to the tensors of its files, and reads them by rows.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "frontend/description.h"
#include "frontend/tensor_file.h"
#include "frontend/weight_list.h"
#include "ir/diag.h"
#include "ir/weights.h"

namespace llmc {

// The weights of a graph with the type each has in its file.
struct BoundWeights {
  std::vector<WeightUse> uses;
  std::vector<DType> dtypes;                   // uses[i]'s stored type
  std::shared_ptr<const WeightSource> source;  // null without files
};

// Checks every tensor: shape (ShapeMismatch), type (Unsupported), presence (MissingTensor), and that none is left over
// (UnusedTensor); messages name file, tensor, rule and values. A tied description whose files hold another head becomes
// untied, with a warning.
BoundWeights BindWeights(Description& d, const std::shared_ptr<const TensorSet>& set, const DiagSink& sink);

// Without files: every weight has the description's dtype.
BoundWeights UnboundWeights(const Description& d);

}  // namespace llmc
