// The interpreter: runs a function of a module, at any stage of compilation, by the definitions of the ops. It is the
// oracle for passes and backends. With a memory plan in the module it runs inside an arena of the planned size, so an
// overlap is a wrong number here too.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/op.h"
#include "ir/weights.h"

namespace llmc {

// What a call hands to a function, by its inputs (ir/entries.def).
struct EntryCall {
  std::span<const int32_t> tokens;     // or hidden
  std::span<const int32_t> positions;  // of the first row; or of each row, where the function takes pos i32[S]
  int64_t total = 0;
  std::span<const int32_t> lengths = {};
  std::span<const float> hidden = {};
  std::span<const int32_t> types = {};
  std::span<const int32_t> sequences = {};  // of each row; empty: all of sequence 0
};

class Interpreter {
 public:
  // Both outlive the interpreter. The module is verified. Consts are evaluated at first use and kept. threads: for
  // `linear` alone; bits never depend on it. sequences: how many each have states of their own.
  Interpreter(const Module& module, const WeightSource& source, int threads = 1, int sequences = 1);
  ~Interpreter();

  // Runs @func over tokens at positions pos.. ; total >= pos + tokens.size(). Returns logits f32[rows, vocab]. States
  // carry over from call to call. Throws InputError when the tokens do not fit the function's range of S, or a token is
  // outside the vocabulary.
  std::vector<float> Run(std::string_view func, std::span<const int32_t> tokens, int64_t pos, int64_t total);
  // The same for any inputs; returns the function's output, f32[rows, N].
  std::vector<float> Run(std::string_view func, const EntryCall& call);
  void ResetStates();

  // Called after each op with its results (for traces and comparisons).
  std::function<void(const Func&, const Op&, const std::vector<Tensor>& results)> on_op;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
