// Modules of one op each, between an embedding and a head, and how tests run them: what the op suite and the test of
// non-finite values share.
#pragma once
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/weights.h"
#include "runtime/executor.h"

namespace llmc {

constexpr int64_t kOpWidth = 64;  // of %x

struct OpCase {
  std::string name;
  std::string globals, body;  // from %x : f32[S, 64] to %y : f32[S, width]
  std::string activations = "f32", kv_type = "f32";
  int64_t width = kOpWidth;
  std::string tail = {};  // from %l, the head's result, to %logits
  friend void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }
};

std::vector<OpCase> OpCases();
// Each fourth, for what compiles every case once more; all of them in tools/check.
std::vector<OpCase> SampleOf(const std::vector<OpCase>& cases);
// The module as import leaves it: %x = embed $embed, %tokens; the case's body; logits = linear %y, $head.
Module ImportOp(const OpCase& c);
// The interpreter on the phases that quantize-activations leaves, one row after another.
std::vector<float> OracleRows(Module module, const WeightSource& weights, const std::vector<int32_t>& tokens);
// The rows that RunAll gives, of OracleRows.
std::vector<float> AsRunAll(const std::vector<float>& rows, size_t tokens);
// Prefill's last row, decode of what is left (three tokens), score of all: with `threads` threads.
std::vector<float> RunAll(const Executable& executable, const std::vector<int32_t>& tokens, uint32_t threads);

}  // namespace llmc
