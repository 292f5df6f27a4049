// Guards embed, norms, add, gated, round, reshape and last_rows: values by hand, order of sums, and every constraint.
#include <limits>

#include <gtest/gtest.h>

#include "ir/layout.h"
#include "ir/math.h"
#include "tests/ir/tensors.h"

namespace llmc {
namespace {

using namespace test;

TEST(Embed, TakesRowsOfAnyTypeInBothLayouts) {
  const int64_t d = 256;
  for (const DType dtype : test::WeightTypes()) {
    Owned table = Make({dtype, {Dim(20), Dim(d)}, Layout::Rows, -1});
    Owned tiles = Make({dtype, {Dim(20), Dim(d)}, Layout::Tiles16, -1});
    test::Random random(2);
    for (int64_t row = 0; row < 20; ++row) {
      QuantizeRow(dtype, random.Vector(d).data(), d, table.bytes.data() + row * RowBytes(dtype, d));
    }
    for (int64_t tile = 0; tile < 2; ++tile) {
      PackTile(dtype, table.bytes.data() + tile * 16 * RowBytes(dtype, d), RowBytes(dtype, d), tile == 0 ? 16 : 4, d,
               tiles.bytes.data() + tile * TileBytes(dtype, d));
    }
    std::vector<float> all(20 * d);
    Dequantize(dtype, table.bytes.data(), 20 * d, all.data());
    Owned tokens = I32({Dim(3)}, {19, 0, 7});
    const std::vector<float> x = Floats(Eval(OpKind::Embed, {&table, &tokens}, {})[0]);
    for (int64_t s = 0; s < 3; ++s) {
      const int64_t token = s == 0 ? 19 : s == 1 ? 0 : 7;
      for (int64_t i = 0; i < d; ++i)
        EXPECT_EQ(x[static_cast<size_t>(s * d + i)], all[static_cast<size_t>(token * d + i)]);
    }
    EXPECT_EQ(Floats(Eval(OpKind::Embed, {&tiles, &tokens}, {})[0]), x);
  }
}

TEST(Embed, Constraints) {
  const Type tokens{DType::I32, {Dim("S")}, Layout::Rows, -1};
  ExpectFaults({
      {"C1", {OpKind::Embed, {{DType::I32, {Dim(8), Dim(4)}, Layout::Rows, -1}, tokens}, {}}},
      {"C1", {OpKind::Embed, {F32Type({Dim(8)}), tokens}, {}}},
      {"C1", {OpKind::Embed, {{DType::F32, {Dim(8), Dim(4)}, Layout::Keys16, -1}, tokens}, {}}},
      {"C1", {OpKind::Embed, {{DType::Q8_0, {Dim(8), Dim(40)}, Layout::Rows, -1}, tokens}, {}}},
      {"C2", {OpKind::Embed, {F32Type({Dim(8), Dim(4)}), F32Type({Dim("S")})}, {}}},
      {"C2", {OpKind::Embed, {F32Type({Dim(8), Dim(4)}), {DType::I32, {}, Layout::Rows, -1}}, {}}},
  });
}

TEST(RmsNorm, ByHand) {
  Owned x = F32({Dim(2), Dim(2)}, {3, 4, 0, -0.0F});
  Owned gain = F32({Dim(2)}, {2, -1});
  const std::vector<float> y = Floats(Eval(OpKind::RmsNorm, {&x, &gain}, With({{"eps", 0.5F}}))[0]);
  const float r = 1.0F / std::sqrt(25.0F / 2.0F + 0.5F);
  EXPECT_EQ(y[0], (3 * r) * 2);
  EXPECT_EQ(y[1], (4 * r) * -1);
  EXPECT_EQ(y[2], 0.0F);
  EXPECT_FALSE(std::signbit(y[3]));  // -0 times a negative gain
}

// Element i goes to lane i mod 16; lanes are added by halves. A plain ascending sum gives another number.
TEST(RmsNorm, SumsInSixteenLanes) {
  const int64_t d = 50;
  const std::vector<float> v = test::Random(3).Vector(d, 100);
  Owned x = F32({Dim(1), Dim(d)}, v);
  Owned gain = F32({Dim(d)}, std::vector<float>(static_cast<size_t>(d), 1.0F));
  float lane[16] = {};
  for (size_t i = 0; i < v.size(); ++i) lane[i % 16] = std::fma(v[i], v[i], lane[i % 16]);
  for (const int w : {8, 4, 2, 1}) {
    for (int i = 0; i < w; ++i) lane[i] += lane[i + w];
  }
  const float r = 1.0F / std::sqrt(lane[0] / 50.0F + 1e-5F);
  const std::vector<float> y = Floats(Eval(OpKind::RmsNorm, {&x, &gain}, With({{"eps", 1e-5F}}))[0]);
  for (size_t i = 0; i < v.size(); ++i) EXPECT_EQ(y[i], v[i] * r);
}

TEST(RmsNorm, HeadsAreRowsOfTheirOwn) {
  Owned x = F32({Dim(2), Dim(3), Dim(4)}, test::Random(4).Vector(24));
  Owned flat = F32({Dim(6), Dim(4)}, Floats(x));
  Owned gain = F32({Dim(4)}, {1, 2, 3, 4});
  const Attrs eps = With({{"eps", 1e-6F}});
  EXPECT_EQ(Floats(Eval(OpKind::RmsNorm, {&x, &gain}, eps)[0]), Floats(Eval(OpKind::RmsNorm, {&flat, &gain}, eps)[0]));
}

TEST(RmsNorm, IsNearTheExactValue) {
  Owned x = F32({Dim(1), Dim(577)}, test::Random(5).Vector(577, 30));
  Owned gain = F32({Dim(577)}, test::Random(6).Vector(577));
  const std::vector<float> y = Floats(Eval(OpKind::RmsNorm, {&x, &gain}, With({{"eps", 1e-5F}}))[0]);
  double sum = 0;
  for (int i = 0; i < 577; ++i) sum += static_cast<double>(x.f32()[i]) * static_cast<double>(x.f32()[i]);
  for (int i = 0; i < 577; ++i) {
    const double want =
        static_cast<double>(x.f32()[i]) / std::sqrt(sum / 577 + 1e-5) * static_cast<double>(gain.f32()[i]);
    EXPECT_NEAR(static_cast<double>(y[static_cast<size_t>(i)]), want, 1e-6 * std::fabs(want) + 1e-12);
  }
}

TEST(RmsNorm, Constraints) {
  OpCase good{OpKind::RmsNorm, {F32Type({Dim("S"), Dim(8)}), F32Type({Dim(8)})}, {}};
  good.Set("eps", 1e-5F);
  EXPECT_EQ(good.Fault(), "");
  OpCase c1 = good;
  c1.operands[0] = F32Type({Dim(8)});
  OpCase c2 = good;
  c2.operands[1] = F32Type({Dim(7)});
  ExpectFaults(
      {{"C1", c1}, {"C2", c2}, {"C3", OpCase(good).Set("eps", -1.0F)}, {"C3", OpCase(good).Set("eps", std::nanf(""))}});
}

TEST(AddRmsNorm, IsAddThenRmsNormToTheBit) {
  Owned x = F32({Dim(3), Dim(70)}, test::Random(1).Vector(210));
  Owned delta = F32({Dim(3), Dim(70)}, test::Random(2).Vector(210, 0.001F));
  Owned gain = F32({Dim(70)}, test::Random(3).Vector(70));
  const Attrs eps = With({{"eps", 1e-5F}});
  std::vector<Owned> both = Eval(OpKind::AddRmsNorm, {&x, &delta, &gain}, eps);
  std::vector<Owned> sum = Eval(OpKind::Add, {&x, &delta}, {});
  EXPECT_EQ(both[0].bytes, sum[0].bytes);
  EXPECT_EQ(both[1].bytes, Eval(OpKind::RmsNorm, {&sum[0], &gain}, eps)[0].bytes);
}

TEST(AddRmsNorm, Constraints) {
  const Type x = F32Type({Dim("S"), Dim(8)});
  OpCase good{OpKind::AddRmsNorm, {x, x, F32Type({Dim(8)})}, {}};
  good.Set("eps", 1e-5F);
  EXPECT_EQ(good.Fault(), "");
  OpCase c1 = good;
  c1.operands[0] = F32Type({Dim("S"), Dim(2), Dim(4)});
  OpCase c2 = good;
  c2.operands[1] = F32Type({Dim("S"), Dim(4)});
  OpCase c3 = good;
  c3.operands[2] = F32Type({Dim(9)});
  ExpectFaults({{"C1", c1}, {"C2", c2}, {"C3", c3}, {"C4", OpCase(good).Set("eps", INFINITY)}});
}

TEST(Add, ByHandAndConstraints) {
  Owned a = F32({Dim(1), Dim(4)}, {1, -0.0F, 1e-45F, 0x1p24F});
  Owned b = F32({Dim(1), Dim(4)}, {2, -0.0F, 1e-45F, 1});
  const std::vector<float> sum = Floats(Eval(OpKind::Add, {&a, &b}, {})[0]);
  EXPECT_EQ(sum,
            (std::vector<float>{3, -0.0F, 2 * 1e-45F, 0x1p24F}));  // denormals are kept; 2^24 + 1 is a tie, to even
  EXPECT_TRUE(std::signbit(sum[1]));
  ExpectFaults({{"C1", {OpKind::Add, {{DType::F16, {Dim(4)}, Layout::Rows, -1}, F32Type({Dim(4)})}, {}}},
                {"C2", {OpKind::Add, {F32Type({Dim("S"), Dim(4)}), F32Type({Dim("S"), Dim(5)})}, {}}}});
}

TEST(Gated, ByHandAndConstraints) {
  Owned gate = F32({Dim(1), Dim(4)}, {0, -0.0F, 1, -200});
  Owned up = F32({Dim(1), Dim(4)}, {5, 5, 2, 1});
  const std::vector<float> h = Floats(Eval(OpKind::Gated, {&gate, &up}, {})[0]);
  EXPECT_EQ(h[0], 0.0F);
  EXPECT_TRUE(std::signbit(h[1]));
  EXPECT_NEAR(h[2], 2 * 0.7310585786F, 2e-7F);
  EXPECT_NEAR(h[3], 0.0F, 1e-34F);
  const Type ids{DType::I32, {Dim("S"), Dim(4)}, Layout::Rows, -1};
  const OpCase bad_type{OpKind::Gated, {ids, ids}, {}};
  const OpCase bad_pair{OpKind::Gated, {F32Type({Dim("S"), Dim(4)}), F32Type({Dim("S"), Dim(5)})}, {}};
  ExpectFaults({{"C1", bad_type}, {"C2", bad_pair}});
}

TEST(Round, ByHandAndConstraints) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<float, float>> cases = {
      {1.0F, 1.0F},
      {0x1.01p0F, 0x1p0F},     // a tie, to even: down
      {0x1.03p0F, 0x1.04p0F},  // and up
      {-0x1.03p0F, -0x1.04p0F},
      {0x1.010002p0F, 0x1.02p0F},
      {0x1.00fffep0F, 0x1p0F},
      {0x1.fffffep0F, 0x1p1F},  // into the next binade
      {0x1p-133F, 0x1p-133F},   // the least bf16
      {0x1p-134F, 0.0F},        // a tie with 0
      {0x1.8p-133F, 0x1p-132F},
      {0x1.fep127F, 0x1.fep127F},  // the largest
      {0x1.fefffep127F, 0x1.fep127F},
      {0x1.ffp127F, inf},
      {-0x1.fffffep127F, -inf},
      {inf, inf},
      {0.0F, 0.0F},
  };
  std::vector<float> x, y;
  for (const auto& [in, out] : cases) x.push_back(in), y.push_back(out);
  const auto n = static_cast<int64_t>(x.size());
  const Attrs to_bf16 = With({{"to", std::string("bf16")}});
  for (const std::vector<Dim>& dims :
       {std::vector<Dim>{Dim(1), Dim(n)}, std::vector<Dim>{Dim(2), Dim(2), Dim(n / 4)}}) {
    Owned in = F32(dims, x);
    EXPECT_EQ(Floats(Eval(OpKind::Round, {&in}, to_bf16)[0]), y);
  }
  Owned odd = F32({Dim(1), Dim(3)}, {-0.0F, std::numeric_limits<float>::quiet_NaN(), math::FromBits(0xff800001U)});
  const std::vector<float> rounded = Floats(Eval(OpKind::Round, {&odd}, to_bf16)[0]);
  EXPECT_TRUE(rounded[0] == 0 && std::signbit(rounded[0]));
  EXPECT_TRUE(std::isnan(rounded[1]));
  EXPECT_EQ(math::ToBits(rounded[2]), 0xffc00000U);  // a signalling NaN whose payload is in the lower half

  const auto round = [](Type type) {
    return OpCase{OpKind::Round, {std::move(type)}, {}}.Set("to", std::string("bf16"));
  };
  EXPECT_EQ(round(F32Type({Dim("S"), Dim(3)})).Infer()[0], F32Type({Dim("S"), Dim(3)}));
  ExpectFaults({{"C1", round({DType::A8, {Dim("S"), Dim(32)}, Layout::Rows, -1})},
                {"C1", round({DType::F32, {Dim(16), Dim(32)}, Layout::Tiles16, -1})},
                {"C1", round({DType::BF16, {Dim("S"), Dim(32)}, Layout::Rows, -1})}});
}

TEST(Reshape, Constraints) {
  const auto reshape = [](Type x, std::vector<Dim> to) {
    return OpCase{OpKind::Reshape, {std::move(x)}, {}}.Set("to", std::move(to));
  };
  const Type x = F32Type({Dim("S"), Dim(12)});
  EXPECT_EQ(reshape(x, {Dim("S"), Dim(3), Dim(4)}).Infer()[0], F32Type({Dim("S"), Dim(3), Dim(4)}));
  ExpectFaults({
      {"C1", reshape({DType::A8, {Dim("S"), Dim(32)}, Layout::Rows, -1}, {Dim("S"), Dim(32)})},
      {"C2", reshape(x, {Dim(12), Dim("S")})},
      {"C2", reshape(x, {})},
      {"C3", reshape(x, {Dim("S"), Dim(3), Dim(5)})},
      {"C3", reshape(x, {Dim("S"), Dim("S")})},
      {"C3", reshape(x, {Dim("S"), Dim(int64_t{1} << 62), Dim(int64_t{1} << 62)})},
  });
}

TEST(LastRows, ByHandAndConstraints) {
  Owned x = F32({Dim(3), Dim(2)}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Floats(Eval(OpKind::LastRows, {&x}, With({{"count", int64_t{1}}}))[0]), (std::vector<float>{5, 6}));
  EXPECT_EQ(Floats(Eval(OpKind::LastRows, {&x}, With({{"count", int64_t{3}}}))[0]), Floats(x));
  const auto last = [](Type type, int64_t count) {
    return OpCase{OpKind::LastRows, {std::move(type)}, {}}.Set("count", count);
  };
  ExpectFaults({{"C1", last(F32Type({Dim("S")}), 1)},
                {"C2", last(F32Type({Dim("S"), Dim(2)}), 0)},
                {"C2", last(F32Type({Dim("S"), Dim(2)}), 2)}});
}

// Every record states one letter per operand for each division.
TEST(Records, AreWhole) {
  for (const OpKind kind : {
#define OP(name, text) OpKind::name,
#include "ir/ops.def"
#undef OP
       }) {
    const OpDef& def = DefOf(kind);
    EXPECT_FALSE(def.summary.empty()) << OpText(kind);
    EXPECT_FALSE(def.results.empty()) << OpText(kind);
    EXPECT_NE(def.infer, nullptr) << OpText(kind);
    EXPECT_NE(def.eval, nullptr) << OpText(kind);
    for (const Division& division : def.divisions) {
      EXPECT_EQ(division.reads.size(), def.operands.size()) << OpText(kind);
      EXPECT_EQ(division.reads.find_first_not_of("ow"), std::string_view::npos) << OpText(kind);
    }
  }
}

}  // namespace
}  // namespace llmc
