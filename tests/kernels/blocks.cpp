// Random blocks and what they say, by ir/block_format, ir/blocks and ir/layout.
#include "tests/kernels/blocks.h"

#include <algorithm>
#include <cstring>

#include "ir/block_format.h"
#include "ir/blocks.h"
#include "ir/layout.h"

namespace llmc::kernels_test {

BlockSize CodesOfBlock(int64_t type) {
  const DTypeInfo& info = InfoOf(static_cast<DType>(type));
  return {info.block, info.block_bytes};
}

Blocks RandomBlocks(int64_t type, int64_t n, int64_t k, std::mt19937& random, bool extreme_codes, bool extreme_scales,
                    const std::function<uint16_t()>& scale) {
  const auto dtype = static_cast<DType>(type);
  const DTypeInfo& info = InfoOf(dtype);
  const BlockFormat& format = BlockFormatOf(dtype);
  Blocks w;
  w.rows.resize(static_cast<size_t>(n * RowBytes(dtype, k)));
  for (uint8_t& byte : w.rows)
    byte = static_cast<uint8_t>(extreme_codes ? (random() % 4 != 0 ? 255 : 0) : random() & 255);
  const size_t halves = dtype == DType::MXFP4 ? 0 : format.has_min ? 2 : 1;
  for (size_t at = 0; at < w.rows.size(); at += static_cast<size_t>(info.block_bytes)) {
    for (size_t field = 0; field < halves; ++field) {
      const uint16_t bits = scale();
      std::memcpy(w.rows.data() + at + format.head[field].at, &bits, 2);
    }
    const uint8_t extremes[] = {0, 1, 2, 3, 190};
    if (dtype == DType::MXFP4)
      w.rows[at] = extreme_scales ? extremes[random() % 5] : static_cast<uint8_t>(115 + random() % 10);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(w.rows.data());
  w.values.resize(static_cast<size_t>(n * k));
  Dequantize(dtype, bytes, n * k, w.values.data());
  const int parts = info.block / kCodes;
  for (int64_t b = 0; b < n * k / kCodes; ++b) {
    const std::byte* block = bytes + b / parts * info.block_bytes;
    const int part = static_cast<int>(b % parts);
    const BlockScales scales = ReadScales(dtype, block, part);
    uint8_t raw[kCodes];
    ReadCodes(dtype, block, part, raw);
    for (const uint8_t code : raw) w.codes.push_back(SignedCode(dtype, code));
    w.d.push_back(scales.d);
    w.m.push_back(scales.m);
    w.scale.insert(w.scale.end(), scales.scale, scales.scale + 2);
    w.min.insert(w.min.end(), scales.min, scales.min + 2);
  }
  for (int64_t r = 0; r < n; r += kTileRows) {
    const size_t at = w.tiles.size();
    w.tiles.resize(at + static_cast<size_t>(TileBytes(dtype, k)));
    PackTile(dtype, bytes + r * RowBytes(dtype, k), RowBytes(dtype, k),
             static_cast<int>(std::min<int64_t>(kTileRows, n - r)), k,
             reinterpret_cast<std::byte*>(w.tiles.data() + at));
  }
  return w;
}

}  // namespace llmc::kernels_test
