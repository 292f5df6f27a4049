// The format is numpy's (numpy.lib.format): magic, version 1.0, u16 header length, a Python dict padded with spaces to
// a multiple of 64 bytes.
#include "runtime/npy.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/plan_error.h"

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

NpyWriter::NpyWriter(std::string path, uint64_t rows, uint64_t columns)
    : path_(std::move(path)), columns_(columns), rows_left_(rows) {
  struct stat info{};
  // A rename would put a file in the place of a device, or of a link such as /dev/stdout.
  const bool exists = stat(path_.c_str(), &info) == 0;
  const bool in_place = exists && !S_ISREG(info.st_mode);
  char resolved[PATH_MAX];
  target_ = exists && realpath(path_.c_str(), resolved) != nullptr ? resolved : path_;
  if (!in_place) temporary_ = target_ + "." + std::to_string(getpid()) + ".tmp";
  file_ = std::fopen((in_place ? path_ : temporary_).c_str(), "wbe");
  if (file_ == nullptr) {
    temporary_.clear();
    Fail("can't create the file");
  }
  const std::string header = NpyHeader(rows, columns);
  Write(header.data(), header.size());
}

NpyWriter::~NpyWriter() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void NpyWriter::Fail(const char* what) const { throw PlanError(path_ + ": " + what + ": " + std::strerror(errno)); }

void NpyWriter::Write(const void* bytes, size_t size) {
  if (std::fwrite(bytes, 1, size, file_) != size) Fail("can't write");
}

void NpyWriter::Append(std::span<const float> row) {
  if (row.size() != columns_ || rows_left_ == 0) throw std::logic_error("NpyWriter: a row that was not announced");
  --rows_left_;
  Write(row.data(), row.size_bytes());
}

void NpyWriter::Finish() {
  if (rows_left_ != 0) throw std::logic_error("NpyWriter: rows are missing");
  FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0) Fail("can't write");
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) Fail("can't rename the file into place");
  temporary_.clear();
}

}  // namespace llmc
