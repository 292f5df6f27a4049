// NPY 1.0 files: f32, little-endian, C order, two dimensions.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "runtime/plan_io.h"

namespace llmc {

// Rows are appended as they come; the file has its name once Finish has returned (devices and pipes are written in
// place).
class NpyWriter {
 public:
  // Throws PlanError when the file can't be created.
  NpyWriter(const std::string& path, uint64_t rows, uint64_t columns);

  void Append(std::span<const float> row);
  void Finish();  // after exactly `rows` rows

 private:
  OutputFile file_;
  uint64_t columns_, rows_left_;
};

// The header for this shape: a multiple of 64 bytes.
std::string NpyHeader(uint64_t rows, uint64_t columns);

}  // namespace llmc
