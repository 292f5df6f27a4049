// The values of a run, op by op, as the interpreter computes them.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/interpreter.h"
#include "ir/module.h"
#include "ir/weights.h"

namespace llmc {

// One result of one op. Values are f32 as they are, int8 activations dequantised (code * d), integers converted.
struct OpValue {
  std::string name;  // "b3.q"
  int layer = -1;
  OpKind kind{};
  Type type;  // with constant dims
  std::vector<float> values;
  std::vector<std::string> operands;  // names of the values and globals that the op reads, "%b3.n", "$b3.wq"
};

// Ids that exercise a model when nobody gives any: (7919 i + 1) mod vocabulary, as compile --check takes them.
std::vector<int32_t> SeededTokens(const Module& module, int64_t count);
// Numbers in a row of what the model gives: its vocabulary, or the width of an encoder's hidden rows.
int64_t RowWidth(const Module& module);

// Runs the tokens from position 0 through @forward, or where the module has phases through @score (an encoder's @hidden),
// in calls as large as it takes, and hands over each op's results in order (rows of several calls are handed over call
// by call; `pos` is the first row's position). States, views and attention's partial results are left out. types: an
// encoder's, empty: zeros. Returns the logits of all rows, or the hidden rows. Throws InputError TooLarge for more
// tokens than an encoder's one call takes.
std::vector<float> RunValues(const Module& module, const WeightSource& weights, std::span<const int32_t> tokens,
                             int threads, const std::function<void(OpValue&&, int64_t pos)>& sink,
                             std::span<const int32_t> types = {});

}  // namespace llmc
