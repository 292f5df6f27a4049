// llmc trace: what every op of a run computed.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/weights.h"
#include "tools/workbench/values.h"

namespace llmc {

struct TraceRow {
  OpValue value;                                           // of all positions; `type` has the rows of all calls
  double mean = 0, deviation = 0, least = 0, largest = 0;  // of the finite values
  size_t nonfinite = 0, first_nonfinite = 0;               // index of the first one
};

// A row per result of every op, in order of the first call.
std::vector<TraceRow> Trace(const Module& module, const WeightSource& weights, std::span<const int32_t> tokens,
                            int threads);

// Another engine's tensors beside ours.
struct Parted {
  std::string name, theirs;  // ours, and the file
  std::string problem;       // shapes that differ; empty: the values are compared
  double nmse = 0, max_abs = 0;
};
// Each *.npy of `folder` whose name (without .npy) is a value's, or that `map` names ("ours theirs" a line; # starts a
// comment), in the order of our rows. Leading dims of 1 of the other's shape don't count.
std::vector<Parted> CompareWith(const std::vector<TraceRow>& rows, const std::string& folder, const std::string& map);

}  // namespace llmc
