// tiles16, packed and unpacked (byte formats in ir/layout.h). A step of a tile is `TileStepK` elements of 16 rows.
#include "ir/layout.h"

#include <cstring>

#include "ir/block_format.h"
#include "ir/diag.h"

namespace llmc {
namespace {

uint32_t WordAt(const void* p) {
  uint32_t v = 0;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Four codes at a time: a word holds codes 4g .. 4g + 3, a byte each.
constexpr uint32_t Each(uint32_t byte) { return byte * 0x01010101U; }
constexpr int kGroups = kCodes / 4;

// Codes of part j of a row's block to its words of the planes, and back.
void PackCodes(const BlockFormat& format, const uint8_t* raw, int row, std::byte* to) {
  for (const CodePlane& plane : format.planes) {
    const int fields = 8 / plane.bits;
    for (int v = 0; v < plane.bits; ++v, to += 64) {
      uint32_t word = 0;
      for (int f = 0; f < fields; ++f) {
        const uint32_t codes = WordAt(raw + 4 * (v * fields + f));
        word |= ((codes >> plane.low) & Each((1U << plane.bits) - 1)) << (plane.bits * f);
      }
      std::memcpy(to + 4 * row, &word, sizeof word);
    }
  }
}
void UnpackCodes(const BlockFormat& format, const std::byte* from, int row, uint8_t* raw) {
  uint32_t words[kGroups] = {};
  for (const CodePlane& plane : format.planes) {
    const int fields = 8 / plane.bits;
    for (int v = 0; v < plane.bits; ++v, from += 64) {
      const uint32_t word = WordAt(from + 4 * row);
      for (int f = 0; f < fields; ++f) {
        words[v * fields + f] |= ((word >> (plane.bits * f)) & Each((1U << plane.bits) - 1)) << plane.low;
      }
    }
  }
  std::memcpy(raw, words, sizeof words);
}

void PackBlock(DType dtype, const BlockFormat& format, const std::byte* block, int row, std::byte* step) {
  std::byte* to = step;
  for (const HeadField& field : format.head) {
    std::memcpy(to + static_cast<ptrdiff_t>(field.bytes) * row, block + field.at, static_cast<size_t>(field.bytes));
    to += static_cast<ptrdiff_t>(kTileRows) * field.bytes;
  }
  for (int j = 0; j < InfoOf(dtype).block / kCodes; ++j, to += format.plane_bytes) {
    uint8_t raw[kCodes];
    ReadCodes(dtype, block, j, raw);
    PackCodes(format, raw, row, to);
  }
}

void UnpackBlock(DType dtype, const BlockFormat& format, const std::byte* step, int row, std::byte* block) {
  std::memset(block, 0, static_cast<size_t>(InfoOf(dtype).block_bytes));
  UnpackHead(dtype, step, row, block);
  const std::byte* from = step + format.head_bytes;
  for (int j = 0; j < InfoOf(dtype).block / kCodes; ++j, from += format.plane_bytes) {
    uint8_t raw[kCodes];
    UnpackCodes(format, from, row, raw);
    WriteCodes(dtype, raw, j, block);
  }
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
    default: {
      const BlockFormat& format = BlockFormatOf(dtype);
      return format.head_bytes + int64_t{format.plane_bytes} * (InfoOf(dtype).block / kCodes);
    }
  }
}

int64_t TileBytes(DType dtype, int64_t k) {
  return (k + TileStepK(dtype) - 1) / TileStepK(dtype) * TileStepBytes(dtype);
}

void UnpackHead(DType dtype, const std::byte* step, int row, std::byte* block) {
  for (const HeadField& field : BlockFormatOf(dtype).head) {
    std::memcpy(block + field.at, step + static_cast<ptrdiff_t>(field.bytes) * row, static_cast<size_t>(field.bytes));
    step += static_cast<ptrdiff_t>(kTileRows) * field.bytes;
  }
}

void PackTile(DType dtype, const std::byte* rows, int64_t row_bytes, int n_rows, int64_t k, std::byte* tile) {
  LLMC_CHECK(n_rows >= 0 && n_rows <= kTileRows, "PackTile: " + std::to_string(n_rows) + " rows");
  const int64_t step_bytes = TileStepBytes(dtype);
  std::memset(tile, 0, static_cast<size_t>(TileBytes(dtype, k)));
  if (InfoOf(dtype).cls == DTypeClass::FLOAT) {
    // A step is a word of each row: one element of 32 bits or two of 16, of which an odd K leaves half a word.
    const int64_t bytes = k * InfoOf(dtype).block_bytes;
    for (int64_t step = 0; step < bytes / 4; ++step) {
      for (int row = 0; row < n_rows; ++row)
        std::memcpy(tile + step * step_bytes + 4 * row, rows + row * row_bytes + 4 * step, 4);
    }
    for (int row = 0; bytes % 4 != 0 && row < n_rows; ++row) {
      std::memcpy(tile + bytes / 4 * step_bytes + 4 * row, rows + row * row_bytes + bytes / 4 * 4, 2);
    }
    return;
  }
  const BlockFormat& format = BlockFormatOf(dtype);
  const int64_t block_bytes = InfoOf(dtype).block_bytes;
  for (int64_t step = 0; step < k / TileStepK(dtype); ++step) {
    for (int row = 0; row < n_rows; ++row) {
      PackBlock(dtype, format, rows + row * row_bytes + step * block_bytes, row, tile + step * step_bytes);
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
  const BlockFormat& format = BlockFormatOf(dtype);
  const int64_t block_bytes = InfoOf(dtype).block_bytes;
  for (int64_t step = 0; step < k / TileStepK(dtype); ++step) {
    UnpackBlock(dtype, format, tile + step * step_bytes, lane, out + step * block_bytes);
  }
}

}  // namespace llmc
