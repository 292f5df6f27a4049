// Numbers of stored weights that aren't finite, found wherever they stand.
#include "ir/finite.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "ir/block_format.h"
#include "ir/blocks.h"
#include "ir/diag.h"
#include "ir/layout.h"
#include "ir/text.h"
#include "ir/weights.h"

namespace llmc {
namespace {

void PutHalf(std::vector<std::byte>& bytes, int64_t at, uint16_t half) {
  std::memcpy(bytes.data() + at, &half, sizeof half);
}

TEST(Finite, FloatsAtEveryPlace) {
  struct Case {
    DType dtype;
    uint32_t nan, infinity, largest;
  };
  for (const Case& c : {Case{DType::F32, 0x7f800001U, 0xff800000U, 0x7f7fffffU},
                        Case{DType::F16, 0xfc01U, 0x7c00U, 0xfbffU}, Case{DType::BF16, 0x7f81U, 0xff80U, 0x7f7fU}}) {
    const auto size = static_cast<size_t>(InfoOf(c.dtype).block_bytes);
    for (const int64_t n : {1, 7, 16, 255, 600, 1500}) {
      std::vector<std::byte> bytes(static_cast<size_t>(n) * size);
      for (int64_t i = 0; i < n; ++i) std::memcpy(&bytes[static_cast<size_t>(i) * size], &c.largest, size);
      EXPECT_FALSE(FindNotFinite(c.dtype, bytes.data(), n));
      for (int64_t at = 0; at < n; at += n > 100 ? 13 : 1) {
        std::vector<std::byte> bad = bytes;
        std::memcpy(&bad[static_cast<size_t>(at) * size], &c.nan, size);
        std::memcpy(&bad[static_cast<size_t>(n - 1) * size], at == n - 1 ? &c.nan : &c.infinity, size);
        const auto found = FindNotFinite(c.dtype, bad.data(), n);
        ASSERT_TRUE(found) << n << " " << at;
        EXPECT_EQ(found->at, at);
        EXPECT_EQ(found->what, "is NaN");
      }
    }
  }
}

TEST(Finite, ScalesAndMinimaOfEveryBlockType) {
  for (const DType dtype :
       {DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0, DType::Q2_K, DType::Q3_K, DType::Q4_K,
        DType::Q5_K, DType::Q6_K, DType::IQ4_NL, DType::IQ4_XS, DType::MXFP4, DType::TQ1_0, DType::TQ2_0}) {
    const DTypeInfo* info = &InfoOf(dtype);
    const BlockFormat& format = BlockFormatOf(dtype);
    constexpr int64_t kBlocks = 5;
    std::vector<float> values(static_cast<size_t>(kBlocks * info->block));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8.0F;
    std::vector<std::byte> bytes(static_cast<size_t>(kBlocks * info->block_bytes));
    QuantizeRow(dtype, values.data(), static_cast<int64_t>(values.size()), bytes.data());
    EXPECT_FALSE(FindNotFinite(dtype, bytes.data(), static_cast<int64_t>(values.size()))) << info->text;
    for (int64_t block = 0; block < kBlocks; ++block) {
      for (size_t field = 0; field < (format.has_min ? 2U : 1U); ++field) {
        std::vector<std::byte> bad = bytes;
        const int64_t at = block * info->block_bytes + format.head[field].at;
        if (format.head[field].bytes == 1) {
          bad[static_cast<size_t>(at)] = std::byte{255};
        } else {
          PutHalf(bad, at, 0xfc00);
        }
        const auto found = FindNotFinite(dtype, bad.data(), static_cast<int64_t>(values.size()));
        ASSERT_TRUE(found) << info->text;
        EXPECT_EQ(found->at, block) << info->text;
        EXPECT_EQ(found->what, std::string(field == 0 ? "has the scale " : "has the minimum ") +
                                   (format.head[field].bytes == 1 ? "NaN" : "infinite"))
            << info->text;
        // What the place says is what dequantising gives.
        std::vector<float> out(values.size());
        Dequantize(dtype, bad.data(), static_cast<int64_t>(out.size()), out.data());
        if (format.head[field].bytes == 1) continue;  // 2^127 is a float
        bool finite = true;
        for (int64_t i = block * info->block; i < (block + 1) * info->block; ++i)
          finite = finite && std::isfinite(out[static_cast<size_t>(i)]);
        EXPECT_FALSE(finite) << info->text;
      }
    }
  }
}

// A source of one number.
class Flat : public WeightSource {
 public:
  explicit Flat(float value) : value_(value) {}
  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    const std::vector<float> row(static_cast<size_t>(RowBytes(weight.type.dtype, weight.type.dims.back().value) / 4),
                                 value_);
    for (int64_t r = begin; r < end; ++r, out += row.size() * 4) std::memcpy(out, row.data(), row.size() * 4);
  }

 private:
  float value_;
};

// What a block type can't store isn't made into codes.
TEST(Finite, QuantizeRefusesWhatItsTypeCannotStore) {
  const Module module = Parse("module @m\nweight $w : f32[4, 64]\nconst $q : q8_0[4, 64] = quantize $w\n", "m");
  std::vector<std::byte> out(static_cast<size_t>(4 * RowBytes(DType::Q8_0, 64)));
  ReadRows(module, Flat(127.0F * 65504), 1, 0, 4, out.data());  // the largest scale
  for (const float value :
       {127.0F * 65520, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    try {
      ReadRows(module, Flat(value), 1, 2, 4, out.data());
      ADD_FAILURE() << value;
    } catch (const InputError& error) {
      EXPECT_EQ(error.diag().kind, DiagKind::BadValue);
      EXPECT_EQ(error.diag().place.file, "$w");
      EXPECT_NE(error.diag().message.find("row 2, block 0: q8_0 can't store it"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace llmc
