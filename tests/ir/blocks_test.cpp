// Guards the block formats: values of codes by hand, extreme codes, and the rounding of quantisation.
#include "ir/blocks.h"

#include <fstream>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "ir/block_format.h"
#include "ir/math.h"
#include "tests/ir/tensors.h"

namespace llmc {
namespace {

void SetHalf(std::byte* at, float value) {
  const uint16_t bits = F32ToF16(value);
  std::memcpy(at, &bits, 2);
}

std::vector<float> Values(DType dtype, const std::vector<std::byte>& block) {
  std::vector<float> out(32);
  Dequantize(dtype, block.data(), 32, out.data());
  return out;
}

// gguf-py's values of 512 weights (tools/golden/blocks.py), to the bit.
TEST(Blocks, ValuesAreThoseOfGgufPy) {
  for (const DType dtype : test::BlockTypes()) {
    const std::string path =
        std::string(LLMC_SOURCE_DIR) + "/tests/data/blocks/" + std::string(InfoOf(dtype).text) + ".bin";
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file) << path;
    std::vector<std::byte> blocks(static_cast<size_t>(RowBytes(dtype, 512)));
    std::vector<float> want(512);
    file.read(reinterpret_cast<char*>(blocks.data()), static_cast<std::streamsize>(blocks.size()));
    file.read(reinterpret_cast<char*>(want.data()), 512 * sizeof(float));
    ASSERT_EQ(file.gcount(), static_cast<std::streamsize>(512 * sizeof(float))) << path;
    std::vector<float> got(512);
    Dequantize(dtype, blocks.data(), 512, got.data());
    for (size_t k = 0; k < 512; ++k)
      ASSERT_EQ(math::ToBits(got[k]), math::ToBits(want[k])) << InfoOf(dtype).text << " weight " << k;
  }
}

// Codes written are codes read, whatever they are.
TEST(Blocks, CodesAreWrittenWhereTheyAreRead) {
  for (const DType dtype : test::BlockTypes()) {
    int bits = 0;
    for (const CodePlane& plane : BlockFormatOf(dtype).planes) bits += plane.bits;
    const auto top = static_cast<uint64_t>(dtype == DType::TQ1_0 ? 2 : (1 << bits) - 1);
    const int parts = InfoOf(dtype).block / kCodes;
    std::vector<std::byte> block(static_cast<size_t>(InfoOf(dtype).block_bytes));
    std::vector<uint8_t> raw(static_cast<size_t>(parts * kCodes));
    test::Random random(8);
    for (uint8_t& code : raw) code = static_cast<uint8_t>(random.Bits() % (top + 1));
    for (int j = 0; j < parts; ++j) WriteCodes(dtype, raw.data() + j * kCodes, j, block.data());
    for (int j = 0; j < parts; ++j) {
      uint8_t back[kCodes];
      ReadCodes(dtype, block.data(), j, back);
      for (int k = 0; k < kCodes; ++k)
        ASSERT_EQ(back[k], raw[static_cast<size_t>(j * kCodes + k)]) << InfoOf(dtype).text;
    }
  }
}

// Root mean square error of normal values relative to theirs: what each type can do, with little to spare.
TEST(Blocks, SearchedScalesKeepTheErrorSmall) {
  const std::map<DType, double> most = {
      {DType::Q2_K, 0.30},    {DType::Q3_K, 0.16},    {DType::Q4_K, 0.075}, {DType::Q5_K, 0.038}, {DType::Q6_K, 0.019},
      {DType::IQ4_NL, 0.075}, {DType::IQ4_XS, 0.078}, {DType::MXFP4, 0.13}, {DType::TQ1_0, 0.75}, {DType::TQ2_0, 0.75}};
  const std::vector<float> x = test::Random(12).Vector(8192, 0.02F);
  for (const auto& [dtype, limit] : most) {
    std::vector<std::byte> blocks(static_cast<size_t>(RowBytes(dtype, 8192)));
    QuantizeRow(dtype, x.data(), 8192, blocks.data());
    std::vector<float> back(x.size());
    Dequantize(dtype, blocks.data(), 8192, back.data());
    double error = 0;
    double size = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      error += std::pow(static_cast<double>(back[k]) - static_cast<double>(x[k]), 2);
      size += std::pow(static_cast<double>(x[k]), 2);
    }
    EXPECT_LT(std::sqrt(error / size), limit) << InfoOf(dtype).text;
  }
}

// Values that a type can hold come back as they are, up to the rounding of its scales.
TEST(Blocks, LevelsAreFound) {
  for (const DType dtype : test::BlockTypes()) {
    if (dtype == DType::Q4_0) continue;  // its codes reach from -8 to 7
    std::vector<float> x(256);
    for (size_t k = 0; k < x.size(); ++k) x[k] = 0.25F * static_cast<float>(static_cast<int>(k % 3) - 1);
    std::vector<std::byte> blocks(static_cast<size_t>(RowBytes(dtype, 256)));
    QuantizeRow(dtype, x.data(), 256, blocks.data());
    std::vector<float> back(256);
    Dequantize(dtype, blocks.data(), 256, back.data());
    for (size_t k = 0; k < 256; ++k) ASSERT_NEAR(back[k], x[k], 0.02F) << InfoOf(dtype).text << " weight " << k;
  }
}

TEST(Blocks, NibblesAreCentredOnEight) {
  std::vector<std::byte> block(18);
  SetHalf(block.data(), 0.5F);
  for (int k = 0; k < 16; ++k) block[static_cast<size_t>(2 + k)] = static_cast<std::byte>(k | ((15 - k) << 4));
  const std::vector<float> w = Values(DType::Q4_0, block);
  for (int k = 0; k < 16; ++k) {
    EXPECT_EQ(w[static_cast<size_t>(k)], 0.5F * static_cast<float>(k - 8));
    EXPECT_EQ(w[static_cast<size_t>(k + 16)], 0.5F * static_cast<float>(7 - k));
  }
}

TEST(Blocks, MinimumIsAddedAfterTheRoundedProduct) {
  std::vector<std::byte> block(20, std::byte{0xff});
  SetHalf(block.data(), 0x1.554p-10F);
  SetHalf(block.data() + 2, -1.0F);
  for (const float w : Values(DType::Q4_1, block)) EXPECT_EQ(w, 0x1.554p-10F * 15.0F + -1.0F);
}

TEST(Blocks, FifthBitsRaiseCodesBySixteen) {
  std::vector<std::byte> block(22, std::byte{0});
  SetHalf(block.data(), 1.0F);
  block[2] = std::byte{1};     // k = 0
  block[5] = std::byte{0x80};  // k = 31
  const std::vector<float> w = Values(DType::Q5_0, block);
  EXPECT_EQ(w[0], 0.0F);
  EXPECT_EQ(w[1], -16.0F);
  EXPECT_EQ(w[31], 0.0F);
  std::vector<std::byte> with_min(24, std::byte{0xff});
  SetHalf(with_min.data(), 1.0F);
  SetHalf(with_min.data() + 2, 0.25F);
  EXPECT_EQ(Values(DType::Q5_1, with_min)[17], 31.25F);
}

TEST(Blocks, EightBitCodesGoDownToMinus128) {
  std::vector<std::byte> block(34, std::byte{0x80});
  SetHalf(block.data(), 2.0F);
  block[2] = std::byte{0x7f};
  const std::vector<float> w = Values(DType::Q8_0, block);
  EXPECT_EQ(w[0], 254.0F);
  EXPECT_EQ(w[31], -256.0F);
}

TEST(Blocks, HalvesAndBfloatsWiden) {
  const uint16_t halves[2] = {0x3c00, 0x0001};
  float out[2];
  Dequantize(DType::F16, reinterpret_cast<const std::byte*>(halves), 2, out);
  EXPECT_EQ(out[0], 1.0F);
  EXPECT_EQ(out[1], 0x1p-24F);
  Dequantize(DType::BF16, reinterpret_cast<const std::byte*>(halves), 1, out);
  EXPECT_EQ(out[0], 0x1p-7F);
}

TEST(Blocks, QuantisedValuesAreWithinHalfAStep) {
  test::Random random(5);
  for (const DType dtype : {DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0}) {
    for (int trial = 0; trial < 50; ++trial) {
      const std::vector<float> x = random.Vector(32, trial % 2 == 0 ? 1.0F : 0.01F);
      std::vector<std::byte> block(static_cast<size_t>(InfoOf(dtype).block_bytes));
      QuantizeRow(dtype, x.data(), 32, block.data());
      uint16_t bits = 0;
      std::memcpy(&bits, block.data(), 2);
      const float step = std::fabs(F16ToF32(bits));
      const std::vector<float> back = Values(dtype, block);
      for (size_t k = 0; k < 32; ++k) {
        // The extreme opposite to q4_0's and q5_0's full code is cut by up to a step; halves of d and m add their
        // rounding.
        const float most = dtype == DType::Q4_0 || dtype == DType::Q5_0 ? 1.0F : 0.5F;
        ASSERT_LE(std::fabs(back[k] - x[k]), step * most * 1.02F + 1e-3F * std::fabs(x[k])) << InfoOf(dtype).text;
      }
    }
  }
}

TEST(Blocks, QuantiseEightBitByHand) {
  std::vector<float> x(32, 0.0F);
  x[0] = 127.0F;  // d = 1
  x[1] = 0.5F;    // ties go away from zero
  x[2] = -2.5F;
  x[3] = 0.49999997F;
  x[4] = -127.0F;
  std::vector<std::byte> block(34);
  QuantizeRow(DType::Q8_0, x.data(), 32, block.data());
  const std::vector<float> w = Values(DType::Q8_0, block);
  EXPECT_EQ(w[0], 127.0F);
  EXPECT_EQ(w[1], 1.0F);
  EXPECT_EQ(w[2], -3.0F);
  EXPECT_EQ(w[3], 0.0F);
  EXPECT_EQ(w[4], -127.0F);
}

TEST(Blocks, QuantiseFourBitsByHand) {
  std::vector<float> x(32, 0.0F);
  x[0] = -8.0F;  // the extreme keeps its sign: d = 1, code 0
  x[1] = 7.0F;
  x[2] = 8.0F;  // beyond the last code
  x[17] = 1.4F;
  std::vector<std::byte> block(18);
  QuantizeRow(DType::Q4_0, x.data(), 32, block.data());
  const std::vector<float> w = Values(DType::Q4_0, block);
  EXPECT_EQ(w[0], -8.0F);
  EXPECT_EQ(w[1], 7.0F);
  EXPECT_EQ(w[2], 7.0F);
  EXPECT_EQ(w[17], 1.0F);
}

TEST(Blocks, ZerosQuantiseToZeros) {
  const std::vector<float> x(256, 0.0F);
  for (const DType dtype : test::BlockTypes()) {
    std::vector<std::byte> blocks(static_cast<size_t>(RowBytes(dtype, 256)));
    QuantizeRow(dtype, x.data(), 256, blocks.data());
    std::vector<float> back(256, 1.0F);
    Dequantize(dtype, blocks.data(), 256, back.data());
    for (const float w : back) EXPECT_EQ(w, 0.0F) << InfoOf(dtype).text;
  }
}

TEST(Blocks, NotANumberDoesNotBreakQuantisation) {
  std::vector<float> x(256, 1.0F);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  x[4] = std::numeric_limits<float>::infinity();
  x[40] = -std::numeric_limits<float>::infinity();
  x[80] = std::numeric_limits<float>::max();
  x[120] = std::numeric_limits<float>::denorm_min();
  for (const DType dtype : test::BlockTypes()) {
    std::vector<std::byte> blocks(static_cast<size_t>(RowBytes(dtype, 256)));
    QuantizeRow(dtype, x.data(), 256, blocks.data());
  }
}

}  // namespace
}  // namespace llmc
