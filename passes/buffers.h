// What a scheduled function keeps in the arenas: plan-memory gives it places, and reports show them.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace llmc {

inline constexpr int64_t kBufferAlign = 64;  // a cache line, and the widest vector

struct Buffer {
  ValueId value;  // -1: the scratch of op `op`
  size_t op;      // the op that makes it
  Space space;
  int first, last;      // steps between which it is needed, both included
  int64_t bytes;        // at the function's largest number of rows, a multiple of kBufferAlign
  int64_t offset = -1;  // in the arena of its space; -1: not planned yet
};

// One buffer per scratch and per value with storage of its own, in the order of definition; a view extends the life of
// the value that it views. root: the value whose storage each value has.
std::vector<Buffer> BuffersOf(const Module& module, const Func& func, std::vector<ValueId>& root);

}  // namespace llmc
