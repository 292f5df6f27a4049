// What a block type's bytes say, 32 weights at a time, and how its tile is cut (ir/README.md, Layouts and Numerics).
// Everything about a block type but its arithmetic stands here; formats are those of ir/dtypes.def.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/type.h"

namespace llmc {

constexpr int kCodes = 32;  // codes that share d (and m) in every block type

// Bytes of a block that stand in the head of a tile's step: those of row r at 16 * (bytes of the fields before) + bytes
// * r.
struct HeadField {
  int at, bytes;
};
// Bits [low, low + bits) of every raw code: 64 * bits bytes for 32 codes of 16 rows. Byte 64 v + 4 r + i holds, from
// bit bits * f on, those of code 4 * (v * 8 / bits + f) + i of row r.
struct CodePlane {
  int bits, low;
};
struct BlockFormat {
  std::span<const HeadField> head;
  std::span<const CodePlane> planes;
  int head_bytes;   // of a step
  int plane_bytes;  // of 32 codes of a step, behind the head
  bool has_min;     // m isn't 0
  bool has_mins;    // `min` isn't 1, 1
  bool has_scales;  // `scale` isn't 1, 1
};
const BlockFormat& BlockFormatOf(DType dtype);

// w[k] = d * scale[k / 16] * code[k] + m * min[k / 16]: the products are exact.
struct BlockScales {
  float d = 0, m = 0;
  int scale[2] = {1, 1}, min[2] = {1, 1};
};

// Part j (32 weights) of a block. `raw`: the unsigned codes as the file has them, 32 bytes.
BlockScales ReadScales(DType dtype, const std::byte* block, int j);
void ReadCodes(DType dtype, const std::byte* block, int j, uint8_t* raw);
// The inverse of ReadCodes; of a block of 256 all parts must be written, in order, onto zero bytes.
void WriteCodes(DType dtype, const uint8_t* raw, int j, std::byte* block);
// The signed code that a raw one stands for.
int SignedCode(DType dtype, uint8_t raw);

}  // namespace llmc
