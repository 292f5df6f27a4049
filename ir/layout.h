// Byte formats of the packed layouts (ir/README.md, Layouts), shared by packing, the interpreter and the kernels'
// tests. tiles16 of [N, K]: tiles of 16 rows, each K-block after the other; padding rows are zero bytes. Per tile:
//   f32    per k:        64 B: 16 x f32, row r in lane r
//   f16/bf16 per 2 k:    64 B: 32-bit lane r holds (k, k+1) of row r; odd K: the last k+1 is 0
//   q8_0   per 32 k:    544 B: 16 x f16 d; 8 x 64 B, byte 64*g + 4*r + i = code(row r, k = 4g + i), signed as in the
//   file q4_0   per 32 k:    288 B: 16 x f16 d; 4 x 64 B, byte 64*j + 4*r + i: low nibble code(r, 8j + i), high nibble
//   code(r, 8j + 4 + i), unsigned 0..15 q4_1   per 32 k:    320 B: 16 x f16 d; 16 x f16 m; codes as q4_0 q5_0   per 32
//   k:    352 B: 16 x f16 d; 16 x u32 of fifth bits (bit k of word r); codes as q4_0 q5_1   per 32 k:    384 B: 16 x
//   f16 d; 16 x f16 m; fifth bits; codes
#pragma once
#include <cstddef>
#include <cstdint>

#include "ir/type.h"

namespace llmc {

constexpr int kTileRows = 16;
// K elements per step of a tile, and bytes per step.
int64_t TileStepK(DType dtype);
int64_t TileStepBytes(DType dtype);
int64_t TileBytes(DType dtype, int64_t k);

// Packs up to 16 rows (rows layout, `row_bytes` apart; n_rows < 16: the rest is zero) of K elements into one tile.
void PackTile(DType dtype, const std::byte* rows, int64_t row_bytes, int n_rows, int64_t k, std::byte* tile);
// Row `row` of a tiles16 matrix, back in rows layout: exact inverse of PackTile.
void UnpackRow(DType dtype, const std::byte* tiles, int64_t row, int64_t k, std::byte* out);

}  // namespace llmc
