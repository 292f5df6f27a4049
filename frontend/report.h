// What a model weighs: parameters by part, cache bytes, and the work of a decode step and of a prefill, from the costs
// in the op records.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "frontend/bind_weights.h"
#include "frontend/description.h"
#include "ir/module.h"

namespace llmc {

struct BlockFigures {
  std::string name;
  std::string mixer;   // its kind
  int64_t layers = 0;  // how many are of this kind
  // Parameters of one layer.
  int64_t attention = 0, ffn = 0, norms = 0;  // attention: of the mixer
  int64_t kv_bytes_per_token = 0;             // of one layer
  int64_t past_bytes = 0;                     // of one layer's states that hold the past
  int64_t total() const { return attention + ffn + norms; }
};

struct WorkFigures {
  int64_t rows = 0;   // tokens of the call
  int64_t total = 0;  // length of the sequence behind it
  double weight_macs = 0, attention_macs = 0, weight_bytes = 0, state_bytes = 0;
};

struct ModelFigures {
  int64_t embedding = 0, final_norm = 0, head = 0;  // parameters; head 0: tied
  std::vector<BlockFigures> blocks;
  int64_t parameters = 0;
  int64_t active = 0;        // of them: without the experts that a token doesn't choose
  int64_t weight_bytes = 0;  // of all parameters as the graph reads them
  int64_t kv_bytes_per_token = 0;
  int64_t past_bytes = 0;                        // states of a sequence, however long it is
  WorkFigures first_token, last_token, prefill;  // decode at position 0 and at the end of the context
};

// prefill: rows of the call; logits are counted for its last row alone.
ModelFigures FiguresOf(const Description& d, const BoundWeights& weights, const Module& module, int64_t prefill);

// The report as text, each line ended.
std::string ReportText(const Description& d, const ModelFigures& figures);

}  // namespace llmc
