// Guards rope and kv_append: pairs, one rounding, the table's end, the cache's type and its end.
#include <gtest/gtest.h>

#include "tests/ir/tensors.h"

namespace llmc {
namespace {

using namespace test;

Type StateType(DType dtype, int64_t slots, int64_t heads, int64_t d) {
  return {dtype, {Dim(slots), Dim(heads), Dim(d)}, Layout::Rows, 0};
}

TEST(Rope, RotatesPairs) {
  // Row p: cos of two pairs, then sin.
  Owned table = F32({Dim(3), Dim(4)}, {1, 1, 0, 0, 0.5F, 0.25F, 2, 3, -1, 7, 5, 0.125F});
  Owned x = F32({Dim(2), Dim(1), Dim(5)}, {1, 2, 3, 4, 9, 10, 20, 30, 40, -0.0F});
  Owned pos = I32({}, {1});
  const std::vector<float> half =
      Floats(Eval(OpKind::Rope, {&x, &table, &pos}, With({{"pairs", std::string("half")}}))[0]);
  const std::vector<float> want_half = {
      1 * 0.5F - 3 * 2,    2 * 0.25F - 4 * 3,    3 * 0.5F + 1 * 2,    4 * 0.25F + 2 * 3,    9,
      10 * -1.0F - 30 * 5, 20 * 7 - 40 * 0.125F, 30 * -1.0F + 10 * 5, 40 * 7 + 20 * 0.125F, -0.0F};
  EXPECT_EQ(half, want_half);
  EXPECT_TRUE(std::signbit(half[9]));
  const std::vector<float> inter =
      Floats(Eval(OpKind::Rope, {&x, &table, &pos}, With({{"pairs", std::string("interleaved")}}))[0]);
  EXPECT_EQ(inter[0], 1 * 0.5F - 2 * 2);
  EXPECT_EQ(inter[1], 2 * 0.5F + 1 * 2);
  EXPECT_EQ(inter[2], 3 * 0.25F - 4 * 3);
  EXPECT_EQ(inter[3], 4 * 0.25F + 3 * 3);
  EXPECT_EQ(inter[4], 9);
}

TEST(Rope, RoundsOnceByFmaWithTheProductOfCosRoundedFirst) {
  const float a = 1.1F;
  const float b = 3.7F;
  const float cos = 0.3F;
  const float sin = 0.9F;
  Owned table = F32({Dim(1), Dim(2)}, {cos, sin});
  Owned x = F32({Dim(1), Dim(1), Dim(2)}, {a, b});
  Owned pos = I32({}, {0});
  const std::vector<float> y =
      Floats(Eval(OpKind::Rope, {&x, &table, &pos}, With({{"pairs", std::string("half")}}))[0]);
  EXPECT_EQ(y[0], std::fma(b, -sin, a * cos));
  EXPECT_EQ(y[1], std::fma(a, sin, b * cos));
}

TEST(Rope, BeyondTheTableIsAnError) {
  Owned table = F32({Dim(2), Dim(2)}, {1, 0, 1, 0});
  Owned x = F32({Dim(2), Dim(1), Dim(2)}, {1, 2, 3, 4});
  for (const int32_t position : {1, 2, 2147483647, -1}) {
    Owned pos = I32({}, {position});
    EXPECT_THROW(Eval(OpKind::Rope, {&x, &table, &pos}, With({{"pairs", std::string("half")}})), InputError)
        << position;
  }
}

TEST(Rope, Constraints) {
  const Type scalar{DType::I32, {}, Layout::Rows, -1};
  OpCase good{OpKind::Rope, {F32Type({Dim("S"), Dim(2), Dim(8)}), F32Type({Dim(16), Dim(8)}), scalar}, {}};
  good.Set("pairs", std::string("half"));
  EXPECT_EQ(good.Fault(), "");
  ExpectFaults({
      {"C1", Replaced(good, 0, F32Type({Dim("S"), Dim(16)}))},
      {"C2", Replaced(good, 1, F32Type({Dim(16), Dim(10)}))},
      {"C2", Replaced(good, 1, F32Type({Dim(16), Dim(3)}))},
      {"C2", Replaced(good, 1, {DType::F16, {Dim(16), Dim(8)}, Layout::Rows, -1})},
      {"C3", Replaced(good, 2, {DType::F32, {}, Layout::Rows, -1})},
  });
  EXPECT_NE(OpCase(good).Set("pairs", std::string("both")).Fault(), "");
}

TEST(KvAppend, RoundsToTheCachesTypeAndWrapsAround) {
  Owned state = Make(StateType(DType::F16, 4, 1, 2));
  Owned x = F32({Dim(3), Dim(1), Dim(2)}, {1, 2049, 1e6F, 0x1p-25F, -0.0F, 0x1.8p-24F});
  Owned pos = I32({}, {7});  // slots 3, 0, 1
  Eval(OpKind::KvAppend, {&state, &x, &pos}, {});
  const auto* h = reinterpret_cast<const uint16_t*>(state.bytes.data());
  EXPECT_EQ(std::vector<uint16_t>(h, h + 8), (std::vector<uint16_t>{0x7c00, 0, 0x8000, 2, 0, 0, 0x3c00, 0x6800}));
}

TEST(KvAppend, Constraints) {
  const Type scalar{DType::I32, {}, Layout::Rows, -1};
  const OpCase good{
      OpKind::KvAppend, {StateType(DType::F16, 8, 2, 4), F32Type({Dim("S"), Dim(2), Dim(4)}), scalar}, {}};
  EXPECT_EQ(good.Fault(), "");
  OpCase many = good;
  many.rows_max = 9;
  ExpectFaults({
      {"C1", Replaced(good, 0, F32Type({Dim(8), Dim(2), Dim(4)}))},
      {"C1", Replaced(good, 0, StateType(DType::Q4_0, 8, 2, 32))},
      {"C2", Replaced(good, 1, F32Type({Dim("S"), Dim(4), Dim(4)}))},
      {"C2", Replaced(good, 1, F32Type({Dim("S"), Dim(8)}))},
      {"C3", Replaced(good, 2, F32Type({}))},
      {"C4", many},
  });
}

}  // namespace
}  // namespace llmc
