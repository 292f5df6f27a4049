// tiles16, packed and unpacked (byte formats in ir/layout.h). A step of a tile is `TileStepK` elements of 16 rows.
#include "ir/layout.h"

#include <cstring>

#include "ir/diag.h"

namespace llmc {
namespace {

// Parts of a step and of a block in rows layout. Scales are f16; a 5-bit type has a word of fifth bits per row.
struct BlockParts {
  int scales;      // f16 values per row: d, or d and m
  bool fifth;      // has a u32 of fifth bits
  int code_bytes;  // per row: 32, or 16 for nibbles
  int fifth_at() const { return 2 * scales; }
  int codes_at() const { return fifth_at() + (fifth ? 4 : 0); }  // in a block; times 16 in a tile step
};

BlockParts PartsOf(DType dtype) {
  switch (dtype) {
    case DType::Q8_0: return {1, false, 32};
    case DType::Q4_0: return {1, false, 16};
    case DType::Q4_1: return {2, false, 16};
    case DType::Q5_0: return {1, true, 16};
    case DType::Q5_1: return {2, true, 16};
    default: LLMC_CHECK(false, "no tiles16 of " + std::string(InfoOf(dtype).text));
  }
}

// In a block, nibbles k and k + 16 share byte k; in a tile, nibbles 8j + i and 8j + 4 + i share byte i of word j.
std::byte Nibble(const std::byte* codes, int k) { return (k < 16 ? codes[k] : codes[k - 16] >> 4) & std::byte{15}; }

void PackBlock(const BlockParts& parts, const std::byte* block, int row, std::byte* step) {
  for (int s = 0; s < parts.scales; ++s) std::memcpy(step + 32 * s + 2 * row, block + 2 * s, 2);
  if (parts.fifth) std::memcpy(step + 16 * parts.fifth_at() + 4 * row, block + parts.fifth_at(), 4);
  const std::byte* codes = block + parts.codes_at();
  std::byte* tile_codes = step + 16 * parts.codes_at();
  for (int word = 0; word < parts.code_bytes / 4; ++word) {
    std::byte* to = tile_codes + 64 * word + 4 * row;
    if (parts.code_bytes == 32) {
      std::memcpy(to, codes + 4 * word, 4);
    } else {
      for (int i = 0; i < 4; ++i) to[i] = Nibble(codes, 8 * word + i) | (Nibble(codes, 8 * word + 4 + i) << 4);
    }
  }
}

void UnpackBlock(const BlockParts& parts, const std::byte* step, int row, std::byte* block) {
  for (int s = 0; s < parts.scales; ++s) std::memcpy(block + 2 * s, step + 32 * s + 2 * row, 2);
  if (parts.fifth) std::memcpy(block + parts.fifth_at(), step + 16 * parts.fifth_at() + 4 * row, 4);
  std::byte* codes = block + parts.codes_at();
  const std::byte* tile_codes = step + 16 * parts.codes_at();
  if (parts.code_bytes == 32) {
    for (int word = 0; word < 8; ++word) std::memcpy(codes + 4 * word, tile_codes + 64 * word + 4 * row, 4);
    return;
  }
  const auto nibble = [&](int k) {
    const std::byte both = tile_codes[64 * (k / 8) + 4 * row + k % 4];
    return (k % 8 < 4 ? both : both >> 4) & std::byte{15};
  };
  for (int k = 0; k < 16; ++k) codes[k] = nibble(k) | (nibble(k + 16) << 4);
}

}  // namespace

int64_t TileStepK(DType dtype) {
  switch (dtype) {
    case DType::F32: return 1;
    case DType::F16:
    case DType::BF16: return 2;
    default: return InfoOf(dtype).block;
  }
}

int64_t TileStepBytes(DType dtype) {
  switch (dtype) {
    case DType::F32:
    case DType::F16:
    case DType::BF16: return 64;
    default: return int64_t{kTileRows} * InfoOf(dtype).block_bytes;
  }
}

int64_t TileBytes(DType dtype, int64_t k) {
  return (k + TileStepK(dtype) - 1) / TileStepK(dtype) * TileStepBytes(dtype);
}

void PackTile(DType dtype, const std::byte* rows, int64_t row_bytes, int n_rows, int64_t k, std::byte* tile) {
  LLMC_CHECK(n_rows >= 0 && n_rows <= kTileRows, "PackTile: " + std::to_string(n_rows) + " rows");
  const int64_t step_bytes = TileStepBytes(dtype);
  std::memset(tile, 0, static_cast<size_t>(TileBytes(dtype, k)));
  if (InfoOf(dtype).cls == DTypeClass::FLOAT) {
    const int64_t element = InfoOf(dtype).block_bytes;
    const int64_t per_step = TileStepK(dtype);
    for (int row = 0; row < n_rows; ++row) {
      for (int64_t i = 0; i < k; ++i) {
        std::byte* to = tile + i / per_step * step_bytes + 4 * row + i % per_step * element;
        std::memcpy(to, rows + row * row_bytes + i * element, static_cast<size_t>(element));
      }
    }
    return;
  }
  const BlockParts parts = PartsOf(dtype);
  const int64_t block_bytes = InfoOf(dtype).block_bytes;
  for (int64_t step = 0; step < k / TileStepK(dtype); ++step) {
    for (int row = 0; row < n_rows; ++row) {
      PackBlock(parts, rows + row * row_bytes + step * block_bytes, row, tile + step * step_bytes);
    }
  }
}

void UnpackRow(DType dtype, const std::byte* tiles, int64_t row, int64_t k, std::byte* out) {
  const std::byte* tile = tiles + row / kTileRows * TileBytes(dtype, k);
  const int lane = static_cast<int>(row % kTileRows);
  const int64_t step_bytes = TileStepBytes(dtype);
  if (InfoOf(dtype).cls == DTypeClass::FLOAT) {
    const int64_t element = InfoOf(dtype).block_bytes;
    const int64_t per_step = TileStepK(dtype);
    for (int64_t i = 0; i < k; ++i) {
      const std::byte* from = tile + i / per_step * step_bytes + 4 * lane + i % per_step * element;
      std::memcpy(out + i * element, from, static_cast<size_t>(element));
    }
    return;
  }
  const BlockParts parts = PartsOf(dtype);
  const int64_t block_bytes = InfoOf(dtype).block_bytes;
  for (int64_t step = 0; step < k / TileStepK(dtype); ++step) {
    UnpackBlock(parts, tile + step * step_bytes, lane, out + step * block_bytes);
  }
}

}  // namespace llmc
