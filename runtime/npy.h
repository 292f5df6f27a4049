// NPY 1.0 files: f32, little-endian, C order, two dimensions.
#pragma once
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

namespace llmc {

// Rows are appended as they come; the file has its name once Finish has returned (devices and pipes are written in
// place).
class NpyWriter {
 public:
  // Throws PlanError when the file can't be created.
  NpyWriter(std::string path, uint64_t rows, uint64_t columns);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  void Append(std::span<const float> row);
  void Finish();  // after exactly `rows` rows

 private:
  void Write(const void* bytes, size_t size);
  [[noreturn]] void Fail(const char* what) const;

  std::string path_, target_;  // target_: path_ without links
  std::string temporary_;      // empty: written in place
  FILE* file_ = nullptr;
  uint64_t columns_, rows_left_;
};

// The header for this shape: a multiple of 64 bytes.
std::string NpyHeader(uint64_t rows, uint64_t columns);

}  // namespace llmc
