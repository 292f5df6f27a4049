// The weights that a description's graph reads: name, kind, shape with the rule behind it, and the tensor of the file
// that each comes from.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/description.h"
#include "ir/type.h"

namespace llmc {

// Matrix: [out, in], any weight type. Gain, Bias: a vector of floats, f32 in the graph.
enum class WeightKind : uint8_t { Matrix, Gain, Bias };
// For the report.
enum class WeightPart : uint8_t { Embedding, Constant, Attention, Ffn, Router, Experts, Norm, Head };

// A size with its spelling in fields: {16, "d_model"}.
struct SizeRule {
  int64_t value = 0;
  std::string text;
};

// What the parts of a block list: every weight that an alternative can have, and whether it is there.
struct WeightRow {
  std::string base;  // name without layer
  WeightKind kind{};
  WeightPart part{};
  std::vector<SizeRule> dims;
  bool present = true;
  bool flat = false;       // a file may hold it with more dims: the same elements in the same order
  bool as_stored = false;  // --quantize leaves it
};
class WeightRows {
 public:
  void Matrix(WeightPart part, std::string base, SizeRule rows, SizeRule columns, bool present = true) {
    rows_.push_back({std::move(base), WeightKind::Matrix, part, {std::move(rows), std::move(columns)}, present});
  }
  void Bias(WeightPart part, std::string base, SizeRule n, bool present = true) {
    rows_.push_back({std::move(base), WeightKind::Bias, part, {std::move(n)}, present});
  }
  void Gain(WeightPart part, std::string base, SizeRule n, bool present = true) {
    rows_.push_back({std::move(base), WeightKind::Gain, part, {std::move(n)}, present});
  }
  // A gain that files hold as rows of heads.
  void FlatGain(WeightPart part, std::string base, SizeRule n, bool present = true) {
    rows_.push_back({std::move(base), WeightKind::Gain, part, {std::move(n)}, present, true});
  }
  // What a convolution of each channel multiplies its last inputs by, the oldest first: f32 [channels, taps].
  void Taps(WeightPart part, std::string base, SizeRule channels, SizeRule taps, bool present = true) {
    rows_.push_back({std::move(base), WeightKind::Gain, part, {std::move(channels), std::move(taps)}, present, true});
  }
  // Matrices below one another, and their biases, that files may hold with a dim for the matrix.
  void Stack(WeightPart part, std::string base, SizeRule rows, SizeRule columns, bool present = true) {
    rows_.push_back({std::move(base), WeightKind::Matrix, part, {std::move(rows), std::move(columns)}, present, true});
  }
  // A stack that --quantize leaves as it is: graphs transpose it, which blocks don't allow.
  void AsStored(WeightPart part, std::string base, SizeRule rows, SizeRule columns) {
    Stack(part, std::move(base), std::move(rows), std::move(columns));
    rows_.back().as_stored = true;
  }
  void FlatBias(WeightPart part, std::string base, SizeRule n, bool present = true) {
    rows_.push_back({std::move(base), WeightKind::Bias, part, {std::move(n)}, present, true});
  }
  // The gain and the bias ("BASE_b") of a norm.
  void Norm(const NormSpec& spec, const std::string& base, const SizeRule& n, bool present = true) {
    Gain(WeightPart::Norm, base, n, present && spec.gain);
    Bias(WeightPart::Norm, base + "_b", n, present && spec.bias);
  }
  const std::vector<WeightRow>& all() const { return rows_; }

 private:
  std::vector<WeightRow> rows_;
};

// Rows of a weight that are one part of a fused tensor: `count` rows from `begin`, and again `every` rows further,
// `times` times in all.
struct RowCut {
  Name whole;
  int64_t begin = 0, count = 0, every = 0, times = 1;
};

struct WeightUse {
  Name name;
  WeightKind kind{};
  WeightPart part{};
  std::vector<int64_t> dims;  // outermost first
  std::string rule;           // the dims in fields: "[attention.n_heads * d_head, d_model]"
  TensorRule source;          // "{i}" filled in
  bool flat = false;          // the tensor may have more dims
  bool as_stored = false;     // --quantize leaves it
  std::optional<RowCut> cut;  // rows of an earlier use instead of a tensor
  bool fused = false;         // stands for the parts that are cut from it
};

// In graph order. A tied head is not listed.
std::vector<WeightUse> WeightsOf(const Description& d);

// The head, tied or not: its name, shape and tensor.
WeightUse HeadOf(const Description& d);

// Throws InputError UnknownKey when the description's "tensors" names something that no graph reads.
void CheckTensorNames(const Description& d, const std::string& file);

// Drops the rules of weights that the description does not have; a tied head keeps its own, since a file may hold it.
void KeepUsedTensorRules(Description& d);

// "model.layers.{i}.x" matches "model.layers.12.x": "{i}" stands for a run of digits; "vision.*" matches whatever
// starts with "vision.".
bool MatchesPattern(std::string_view pattern, std::string_view name);

}  // namespace llmc
