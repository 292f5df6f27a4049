// NPY files written by other programs: f32 or f64, little-endian, C order.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace llmc {

struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<float> values;  // f64 is rounded to f32
};

// Throws InputError that names the file and the rule: no NPY of version 1 to 3, another type or order, a header or data
// that are cut, more than 2^31 values.
NpyArray ReadNpy(const std::string& path);

}  // namespace llmc
