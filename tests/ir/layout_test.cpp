// Guards the packed byte formats: where each code goes, by hand, and that unpacking is the exact inverse for every type
// and odd shapes.
#include "ir/layout.h"

#include <gtest/gtest.h>

#include "ir/ops/common.h"
#include "tests/ir/tensors.h"

namespace llmc {
namespace {

std::vector<std::byte> RandomBytes(int64_t n, uint64_t seed) {
  test::Random random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(n));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.Bits() & 255U);
  return bytes;
}

TEST(Layout, UnpackRowIsTheInverseOfPackTile) {
  for (const DType dtype : test::WeightTypes()) {
    if (dtype == DType::TQ1_0) continue;  // below
    for (const int64_t k : {int64_t{1}, int64_t{2}, int64_t{7}, int64_t{32}, int64_t{96}, int64_t{512}}) {
      if (k % InfoOf(dtype).block != 0) continue;
      for (const int n : {1, 5, 16}) {
        const int64_t row_bytes = RowBytes(dtype, k);
        const std::vector<std::byte> rows = RandomBytes(row_bytes * n, 7);
        std::vector<std::byte> tile(static_cast<size_t>(TileBytes(dtype, k)), std::byte{0xee});
        PackTile(dtype, rows.data(), row_bytes, n, k, tile.data());
        for (int64_t row = 0; row < kTileRows; ++row) {
          std::vector<std::byte> back(static_cast<size_t>(row_bytes), std::byte{0xee});
          UnpackRow(dtype, tile.data(), row, k, back.data());
          for (int64_t i = 0; i < row_bytes; ++i) {
            const std::byte want = row < n ? rows[static_cast<size_t>(row * row_bytes + i)] : std::byte{0};
            ASSERT_EQ(back[static_cast<size_t>(i)], want) << InfoOf(dtype).text << " k " << k << " row " << row;
          }
        }
      }
    }
  }
}

// A tile of tq1_0 holds the trits in two bits each: what comes back says the same, in a quantiser's bytes.
TEST(Layout, TritsComeBackAsAQuantiserWritesThem) {
  const int64_t k = 512;
  const int64_t row_bytes = RowBytes(DType::TQ1_0, k);
  std::vector<std::byte> row(static_cast<size_t>(row_bytes));
  QuantizeRow(DType::TQ1_0, test::Random(3).Vector(k).data(), k, row.data());
  std::vector<std::byte> tile(static_cast<size_t>(TileBytes(DType::TQ1_0, k)));
  EXPECT_EQ(TileBytes(DType::TQ1_0, k), TileBytes(DType::TQ2_0, k));
  PackTile(DType::TQ1_0, row.data(), row_bytes, 1, k, tile.data());
  std::vector<std::byte> back(row.size());
  UnpackRow(DType::TQ1_0, tile.data(), 0, k, back.data());
  EXPECT_EQ(back, row);
  UnpackRow(DType::TQ1_0, tile.data(), 9, k, back.data());  // padding
  EXPECT_EQ(back, std::vector<std::byte>(row.size()));
}

TEST(Layout, TilesHaveTheBytesOfTheirRows) {
  for (const DType dtype : test::BlockTypes()) {
    const DType rows = dtype == DType::TQ1_0 ? DType::TQ2_0 : dtype;
    EXPECT_EQ(TileBytes(dtype, 256), 16 * RowBytes(rows, 256)) << InfoOf(dtype).text;
  }
}

TEST(Layout, TileSizesMatchTypes) {
  for (const DType dtype : test::WeightTypes()) {
    const Type type{dtype, {Dim(20), Dim(256)}, Layout::Tiles16, -1};
    EXPECT_EQ(ByteSize(type), 2 * TileBytes(dtype, 256)) << InfoOf(dtype).text;
  }
  EXPECT_EQ(ByteSize({DType::F16, {Dim(3), Dim(5)}, Layout::Tiles16, -1}), TileBytes(DType::F16, 5));
}

// Row 3's codes are k = 0..15 in the low nibbles and 15..0 in the high ones: word j, byte 4 * 3 + i holds codes 8j + i
// and 8j + 4 + i.
TEST(Layout, NibblesOfATile) {
  std::vector<std::byte> rows(16 * 20);
  std::byte* row = rows.data() + 3 * 20;
  row[0] = std::byte{0x34};
  row[1] = std::byte{0x12};
  row[2] = std::byte{0x78};
  row[3] = std::byte{0x56};
  for (int k = 0; k < 16; ++k) row[4 + k] = static_cast<std::byte>(k | ((15 - k) << 4));
  std::vector<std::byte> tile(320);
  PackTile(DType::Q4_1, rows.data(), 20, 16, 32, tile.data());
  EXPECT_EQ(tile[6], std::byte{0x34});
  EXPECT_EQ(tile[7], std::byte{0x12});
  EXPECT_EQ(tile[32 + 6], std::byte{0x78});
  const auto code = [](int k) { return k < 16 ? k : 31 - k; };
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 4; ++i) {
      const int want = code(8 * j + i) | (code(8 * j + 4 + i) << 4);
      EXPECT_EQ(std::to_integer<int>(tile[static_cast<size_t>(64 + 64 * j + 12 + i)]), want);
    }
  }
}

TEST(Layout, BytesOfAnEightBitTile) {
  std::vector<std::byte> rows(16 * 34);
  for (int r = 0; r < 16; ++r) {
    for (int k = 0; k < 32; ++k) rows[static_cast<size_t>(34 * r + 2 + k)] = static_cast<std::byte>(r * 16 + k - 128);
  }
  std::vector<std::byte> tile(544);
  PackTile(DType::Q8_0, rows.data(), 34, 16, 32, tile.data());
  for (int g = 0; g < 8; ++g) {
    for (int r = 0; r < 16; ++r) {
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(tile[static_cast<size_t>(32 + 64 * g + 4 * r + i)], static_cast<std::byte>(r * 16 + 4 * g + i - 128));
      }
    }
  }
}

// Byte 4 r + i of the single bits holds in bit g that of code 4 g + i.
TEST(Layout, FifthBitsOfATile) {
  std::vector<std::byte> rows(16 * 22);
  for (const int k : {0, 5, 31}) rows[static_cast<size_t>(22 * 2 + 2 + k / 8)] |= static_cast<std::byte>(1 << (k % 8));
  std::vector<std::byte> tile(352);
  PackTile(DType::Q5_0, rows.data(), 22, 16, 32, tile.data());
  for (int byte = 0; byte < 64; ++byte) {
    const int want = byte == 8 ? 1 << 0 : byte == 9 ? 1 << 1 : byte == 11 ? 1 << 7 : 0;
    EXPECT_EQ(tile[static_cast<size_t>(32 + byte)], static_cast<std::byte>(want)) << byte;
  }
}

// q6_k, row 1: where scales, upper two bits and nibbles of block 5 go. Code k of the block is 2 k.
TEST(Layout, SixBitsOfATile) {
  std::vector<std::byte> rows(16 * 210);
  std::byte* row = rows.data() + 210;
  for (int i = 0; i < 16; ++i) row[192 + i] = static_cast<std::byte>(i - 8);
  row[208] = std::byte{0x34};
  row[209] = std::byte{0x12};
  for (int k = 0; k < 32;
       ++k) {  // weights 160 .. 191 lie in bytes 96 .. 127, low nibbles, and 160 .. 191, bits 2 and 3
    row[64 + 32 + k] = static_cast<std::byte>(2 * k & 15);
    row[128 + 32 + k] = static_cast<std::byte>((2 * k >> 4) << 2);
  }
  std::vector<std::byte> tile(3360);
  PackTile(DType::Q6_K, rows.data(), 210, 16, 256, tile.data());
  EXPECT_EQ(tile[2], std::byte{0x34});
  EXPECT_EQ(tile[3], std::byte{0x12});
  for (int block = 0; block < 8; ++block) {
    for (int half = 0; half < 2; ++half) {
      EXPECT_EQ(tile[static_cast<size_t>(32 + 32 * block + 2 + half)], static_cast<std::byte>(2 * block + half - 8));
    }
  }
  const std::byte* block = tile.data() + 288 + 5 * 384;
  for (int k = 0; k < 32; ++k) {
    const int upper = std::to_integer<int>(block[64 * (k / 16) + 4 + k % 4]) >> (2 * (k / 4 % 4)) & 3;
    const int lower = std::to_integer<int>(block[128 + 64 * (k / 8) + 4 + k % 4]) >> (4 * (k / 4 % 2)) & 15;
    EXPECT_EQ(upper * 16 + lower, 2 * k);
  }
}

TEST(Layout, FloatsOfATile) {
  std::vector<std::byte> rows = RandomBytes(16 * 6, 3);  // 16 rows of 3 halves
  std::vector<std::byte> tile(128);
  PackTile(DType::F16, rows.data(), 6, 16, 3, tile.data());
  for (int r = 0; r < 16; ++r) {
    for (int byte = 0; byte < 6; ++byte) {
      const int step = byte / 4;
      EXPECT_EQ(tile[static_cast<size_t>(64 * step + 4 * r + byte % 4)], rows[static_cast<size_t>(6 * r + byte)]);
    }
    EXPECT_EQ(tile[static_cast<size_t>(64 + 4 * r + 2)], std::byte{0});  // odd K: the partner of the last element
    EXPECT_EQ(tile[static_cast<size_t>(64 + 4 * r + 3)], std::byte{0});
  }
}

// A cache's element is found in each layout where ir/layout.h and ir/type.h say.
TEST(Layout, CacheLayouts) {
  for (const Layout layout : {Layout::Rows, Layout::Keys16, Layout::Heads}) {
    test::Owned t = test::Make({DType::F32, {Dim(20), Dim(2), Dim(3)}, layout, 0});
    ops::Cache cache(t.tensor());
    for (int slot = 0; slot < 20; ++slot) {
      for (int h = 0; h < 2; ++h) {
        const auto first = static_cast<float>(slot * 100 + h * 10);
        const float row[3] = {first, first + 1, first + 2};
        cache.Set(slot, h, row);
      }
    }
    for (int slot = 0; slot < 20; ++slot) {
      for (int h = 0; h < 2; ++h) {
        for (int d = 0; d < 3; ++d) {
          int at = (slot * 2 + h) * 3 + d;
          if (layout == Layout::Heads) at = (h * 20 + slot) * 3 + d;
          if (layout == Layout::Keys16) at = ((h * 2 + slot / 16) * 3 + d) * 16 + slot % 16;
          EXPECT_EQ(t.f32()[at], static_cast<float>(slot * 100 + h * 10 + d));
        }
      }
    }
  }
}

// q8_0: blocks as the file has them by head, and 16 slots' d and codes side by side.
TEST(Layout, CacheOfBlocks) {
  for (const Layout layout : {Layout::Rows, Layout::Keys16, Layout::Heads}) {
    test::Owned t = test::Make({DType::Q8_0, {Dim(20), Dim(2), Dim(64)}, layout, 0});
    ops::Cache cache(t.tensor());
    const auto value = [](int slot, int h, int i) {  // d = 2^(slot mod 4): codes are whole
      const int code = i % 32 == 0 ? 127 : (slot * 31 + h * 7 + i * 5) % 255 - 127;
      return static_cast<float>(code << (slot % 4));
    };
    for (int slot = 0; slot < 20; ++slot) {
      for (int h = 0; h < 2; ++h) {
        std::vector<float> row(64);
        for (int i = 0; i < 64; ++i) row[static_cast<size_t>(i)] = value(slot, h, i);
        cache.Set(slot, h, row.data());
      }
    }
    for (int slot = 0; slot < 20; ++slot) {
      for (int h = 0; h < 2; ++h) {
        for (int i = 0; i < 64; ++i) {
          ASSERT_EQ(cache.Get(slot, h, i), value(slot, h, i));
          size_t at = static_cast<size_t>(((slot * 2 + h) * 2 + i / 32) * 34 + 2 + i % 32);
          if (layout == Layout::Heads) at = static_cast<size_t>(((h * 20 + slot) * 2 + i / 32) * 34 + 2 + i % 32);
          if (layout == Layout::Keys16)
            at = static_cast<size_t>(((h * 2 + slot / 16) * 2 + i / 32) * 544 + 32 + i % 32 * 16 + slot % 16);
          ASSERT_EQ(static_cast<int8_t>(t.bytes[at]) << (slot % 4), static_cast<int>(value(slot, h, i)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace llmc
