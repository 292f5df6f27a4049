// Guards quantize: codes, scales and sums by hand, extremes, every constraint.
#include <gtest/gtest.h>

#include "ir/ops/activations.h"
#include "tests/ir/tensors.h"

namespace llmc {
namespace {

using namespace test;

Owned Quantized(Owned& x) { return Eval(OpKind::Quantize, {&x}, {})[0]; }

TEST(Quantize, ByHand) {
  std::vector<float> v(64, 0.0F);
  v[0] = 127.0F;
  v[1] = 0.5F;  // ties to even
  v[2] = 1.5F;
  v[3] = -2.5F;
  v[4] = -127.0F;
  v[5] = -0.0F;
  v[32] = 0x1p-81F;  // flushed
  Owned x = F32({Dim(1), Dim(64)}, v);
  Owned q = Quantized(x);
  const ops::ActivationRow a = ops::RowOf(q.bytes.data(), 0, 64);
  EXPECT_EQ(std::vector<int>(a.codes, a.codes + 6), (std::vector<int>{127, 0, 2, -2, -127, 0}));
  EXPECT_EQ(a.d[0], 127.0F * 0x1.020408p-7F);
  EXPECT_EQ(a.sums[0], 0);
  EXPECT_EQ(a.sums[1], 0);
  EXPECT_EQ(a.d[1], 0.0F);
  EXPECT_EQ(a.s[1], 0.0F);
  EXPECT_EQ(a.codes[32], 0);
}

TEST(Quantize, ScaleTimesSumIsRoundedOnce) {
  test::Random random(4);
  Owned x = F32({Dim(5), Dim(96)}, random.Vector(5 * 96, 3.0F));
  Owned q = Quantized(x);
  for (int64_t row = 0; row < 5; ++row) {
    const ops::ActivationRow a = ops::RowOf(q.bytes.data(), row, 96);
    for (int block = 0; block < 3; ++block) {
      int sum = 0;
      int first = 0;
      for (int i = 0; i < 32; ++i) {
        const auto code = static_cast<int>(a.codes[block * 32 + i]);
        sum += code;
        if (i < 16) first += code;
        EXPECT_LE(std::abs(code), 127);
        EXPECT_NEAR(static_cast<float>(code) * a.d[block], x.f32()[row * 96 + block * 32 + i], a.d[block] * 0.5001F);
      }
      EXPECT_EQ(a.sums[2 * block], sum);
      EXPECT_EQ(a.sums[2 * block + 1], first);
      EXPECT_EQ(a.s[block], a.d[block] * static_cast<float>(sum));
    }
  }
}

TEST(Quantize, ExtremesStayWithinCodes) {
  for (const float size : {3.4e38F, 1e-20F, 0x1p-79F, 0x1p-80F, 1e-45F, 1.0F}) {
    Owned x = F32({Dim(1), Dim(32)}, std::vector<float>(32, -size));
    Owned q = Quantized(x);
    const ops::ActivationRow a = ops::RowOf(q.bytes.data(), 0, 32);
    const bool kept = size > 0x1p-80F;
    for (int i = 0; i < 32; ++i) EXPECT_EQ(a.codes[i], kept ? -127 : 0) << size;
    EXPECT_EQ(a.d[0] > 0, kept);
  }
}

TEST(Quantize, Constraints) {
  ExpectFaults({
      {"C1", {OpKind::Quantize, {F32Type({Dim("S"), Dim(2), Dim(2), Dim(32)})}, {}}},
      {"C2", {OpKind::Quantize, {F32Type({Dim("S"), Dim(48)})}, {}}},
      {"C2", {OpKind::Quantize, {F32Type({Dim("S"), Dim("S")})}, {}}},
  });
}

}  // namespace
}  // namespace llmc
