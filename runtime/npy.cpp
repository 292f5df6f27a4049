// The format is numpy's (numpy.lib.format): magic, version 1.0, u16 header length, a Python dict padded with spaces to
// a multiple of 64 bytes.
#include "runtime/npy.h"

#include <stdexcept>

namespace llmc {

std::string NpyHeader(uint64_t rows, uint64_t columns) {
  std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                     std::to_string(columns) + "), }";
  constexpr size_t kPrefix = 10;
  dict.append(63 - (kPrefix + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 255);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

NpyWriter::NpyWriter(const std::string& path, uint64_t rows, uint64_t columns)
    : file_(path, OutputFile::Devices::InPlace), columns_(columns), rows_left_(rows) {
  const std::string header = NpyHeader(rows, columns);
  file_.Write(header.data(), header.size());
}

void NpyWriter::Append(std::span<const float> row) {
  if (row.size() != columns_ || rows_left_ == 0) throw std::logic_error("NpyWriter: a row that was not announced");
  --rows_left_;
  file_.Write(row.data(), row.size_bytes());
}

void NpyWriter::Finish() {
  if (rows_left_ != 0) throw std::logic_error("NpyWriter: rows are missing");
  file_.Publish(false);
}

}  // namespace llmc
