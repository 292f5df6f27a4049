// The program that a scheduled module becomes: phases as lists of kernel calls. Made by backends/lower.cpp; decides
// nothing itself. backends/llvm compiles it to machine code, backends/onednn turns it into a step list.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan_steps.h"

namespace llmc {

// One call of a kernel (backends/kernels/*.cpp):
//   void NAME(const LlmcContext* c, uint32_t thread, uint32_t threads, uint32_t rows, const uint64_t* rec,
//             int64_t constant_0, ...)
// Calls with the same kernel, constants and one_row share one function, whatever their phase or layer; what differs
// between them is in the record.
struct KernelCall {
  std::string kernel;
  // Shapes and types: bound at compile time, in the order of the kernel's trailing parameters. nullopt: the value is in
  // the record, behind the words that the kernel reads, in the same order.
  std::vector<std::optional<int64_t>> constants;
  std::vector<uint64_t> record;  // offsets in bytes: read at run time through `rec`
  bool one_row = false;          // rows is the constant 1, else Context.rows
  bool barrier_before = false;   // all threads meet before this call
  bool claimed = false;          // threads take over one another's tiles
  // Instead of a kernel, in phases of oneDNN: a matrix product.
  std::optional<DnnlStep> product = {};
  std::vector<size_t> ops = {};  // what it computes: indices into the function's ops, ascending
};

struct Phase {
  std::string name;  // exported symbol llmc_<name>: LlmcPhaseFn
  std::vector<KernelCall> calls;
  bool onednn = false;  // a step list rather than code
};

struct Program {
  std::vector<Phase> phases;
};

// The function that each call of each phase becomes: KERNEL.N, N counting the kernel's functions by their first use. Calls
// with the same kernel, constants and one_row have the same. A product's is empty.
std::vector<std::vector<std::string>> FunctionNames(const Program& program);

}  // namespace llmc
