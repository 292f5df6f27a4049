// Byte formats of the packed layouts, shared by packing, the interpreter and the kernels' tests.
// tiles16 of [N, K]: tiles of 16 rows, each K-block after the other; padding rows are zero bytes. The table of bytes
// per step and type is in ir/README.md, Layouts.
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
// Row `row` of a tiles16 matrix, back in rows layout: exact inverse of PackTile. (Of tq1_0, whose tiles hold the trits,
// the bytes come back as a quantiser writes them.)
void UnpackRow(DType dtype, const std::byte* tiles, int64_t row, int64_t k, std::byte* out);
// The bytes of row `row` that stand in the head of a step (scales), where a block has them; `block` is else untouched.
void UnpackHead(DType dtype, const std::byte* step, int row, std::byte* block);

}  // namespace llmc
