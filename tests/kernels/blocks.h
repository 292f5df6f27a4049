// Blocks whose bytes are ir's to read (its tests hold them against gguf-py), for the kernels' reference. Types are
// DType's numbers: the names of ir and of the kernels don't go together.
#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace llmc::kernels_test {

struct BlockSize {
  int codes, bytes;
};
BlockSize CodesOfBlock(int64_t type);

struct Blocks {
  std::vector<uint8_t> rows, tiles;
  std::vector<float> values, d, m;     // [n, k]; [n, k / 32]
  std::vector<int> codes, scale, min;  // [n, k]; integers of 16 codes [n, k / 16]
};
// Random bytes, but for f16 scales, which `scale` gives, and exponents.
Blocks RandomBlocks(int64_t type, int64_t n, int64_t k, std::mt19937& random, bool extreme_codes, bool extreme_scales,
                    const std::function<uint16_t()>& scale);

}  // namespace llmc::kernels_test
