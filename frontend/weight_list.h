// The weights that a description's graph reads: name, kind, shape with the rule behind it, and the tensor of the file
// that each comes from.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/description.h"
#include "ir/type.h"

namespace llmc {

// Matrix: [out, in], any weight type. Gain, Bias: a vector of floats, f32 in the graph.
enum class WeightKind : uint8_t { Matrix, Gain, Bias };
// For the report.
enum class WeightPart : uint8_t { Embedding, Position, Attention, Ffn, Norm, Head };

struct WeightUse {
  Name name;
  WeightKind kind{};
  WeightPart part{};
  std::vector<int64_t> dims;  // outermost first
  std::string rule;           // the dims in fields: "[attention.n_heads * d_head, d_model]"
  TensorRule source;          // "{i}" filled in
};

// In graph order. A tied head is not listed.
std::vector<WeightUse> WeightsOf(const Description& d);

// The head, tied or not: its name, shape and tensor.
WeightUse HeadOf(const Description& d);

// Throws InputError UnknownKey when the description's "tensors" names something that no graph reads.
void CheckTensorNames(const Description& d, const std::string& file);

// Drops the rules of weights that the description does not have; a tied head keeps its own, since a file may hold it.
void KeepUsedTensorRules(Description& d);

// "model.layers.{i}.x" matches "model.layers.12.x": "{i}" stands for a run of digits.
bool MatchesPattern(std::string_view pattern, std::string_view name);

}  // namespace llmc
