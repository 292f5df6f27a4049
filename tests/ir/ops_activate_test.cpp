// Guards layer_norm, act, gated, xielu, soft_cap, scale, clamp, mul and position_embed: values by hand or against
// doubles, and every constraint. The activations' error bounds are in math_test.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "ir/math.h"
#include "tests/ir/tensors.h"

namespace llmc {
namespace {

using namespace test;

const Type kHalf = {DType::F16, {Dim("S"), Dim(4)}, Layout::Rows, -1};

OpCase One(OpKind kind, std::vector<std::pair<std::string, AttrValue>> attrs, Type x = F32Type({Dim("S"), Dim(4)})) {
  return {kind, {std::move(x)}, With(std::move(attrs))};
}
std::vector<float> EvalOne(OpKind kind, const std::vector<float>& x, const Attrs& attrs) {
  Owned in = F32({Dim(1), Dim(static_cast<int64_t>(x.size()))}, x);
  return Floats(Eval(kind, {&in}, attrs)[0]);
}

TEST(LayerNorm, IsNearTheExactValue) {
  const int64_t d = 77;
  const std::vector<float> v = test::Random(5).Vector(2 * d, 30), g = test::Random(6).Vector(d),
                           b = test::Random(7).Vector(d);
  Owned x = F32({Dim(2), Dim(d)}, v), gain = F32({Dim(d)}, g), bias = F32({Dim(d)}, b);
  const Attrs eps = With({{"eps", 1e-5F}});
  const std::vector<float> plain = Floats(Eval(OpKind::LayerNorm, {&x}, eps)[0]);
  const std::vector<float> gained = Floats(Eval(OpKind::LayerNorm, {&x, &gain}, eps)[0]);
  const std::vector<float> full = Floats(Eval(OpKind::LayerNorm, {&x, &gain, &bias}, eps)[0]);
  for (int64_t s = 0; s < 2; ++s) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < d; ++i) mean += v[static_cast<size_t>(s * d + i)] / static_cast<double>(d);
    for (int64_t i = 0; i < d; ++i)
      var += std::pow(v[static_cast<size_t>(s * d + i)] - mean, 2) / static_cast<double>(d);
    for (int64_t i = 0; i < d; ++i) {
      const auto at = static_cast<size_t>(s * d + i), of = static_cast<size_t>(i);
      const double want = (v[at] - mean) / std::sqrt(var + 1e-5);
      EXPECT_NEAR(plain[at], want, 1e-6);
      EXPECT_EQ(gained[at], plain[at] * g[of]);
      EXPECT_EQ(full[at], gained[at] + b[of]);
    }
  }
}

// A vector of H D elements is a gain for each head.
TEST(Norms, HeadsMayHaveTheirOwnGain) {
  const Attrs eps = With({{"eps", 1e-5F}});
  const std::vector<float> v = test::Random(8).Vector(24), g = test::Random(9).Vector(12);
  Owned x = F32({Dim(2), Dim(3), Dim(4)}, v), gain = F32({Dim(12)}, g);
  for (const OpKind kind : {OpKind::RmsNorm, OpKind::LayerNorm}) {
    const std::vector<float> y = Floats(Eval(kind, {&x, &gain}, eps)[0]), plain = Floats(Eval(kind, {&x}, eps)[0]);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], plain[i] * g[i % 12]);
  }
}

TEST(LayerNorm, Constraints) {
  const Type x = F32Type({Dim("S"), Dim(8)}), vector = F32Type({Dim(8)});
  OpCase good{OpKind::LayerNorm, {x, vector, vector}, With({{"eps", 1e-5F}})};
  EXPECT_EQ(good.Fault(), "");
  OpCase c1 = good, c2 = good, c3 = good;
  c1.operands[0] = F32Type({Dim(8)});
  c2.operands[1] = F32Type({Dim(7)});
  c3.operands[2] = F32Type({Dim(7)});
  ExpectFaults({{"C1", c1}, {"C2", c2}, {"C3", c3}, {"C4", OpCase(good).Set("eps", -1.0F)}});
  OpCase rms{OpKind::RmsNorm, {x, F32Type({Dim(16)})}, With({{"eps", 1e-5F}})};
  ExpectFaults({{"C2", rms}});
}

TEST(Act, ComputesWhatItsNameSays) {
  const std::vector<float> x = {-3, -0.5F, -0.0F, 0, 0.25F, 2, 9};
  const std::vector<std::pair<std::string, std::function<double(double)>>> kinds = {
      {"silu", [](double v) { return v / (1 + std::exp(-v)); }},
      {"gelu", [](double v) { return 0.5 * v * std::erfc(-v / std::sqrt(2.0)); }},
      {"gelu_tanh",
       [](double v) { return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))); }},
      {"relu", [](double v) { return std::max(v, 0.0); }},
      {"relu2", [](double v) { return std::pow(std::max(v, 0.0), 2); }},
      {"sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"tanh", [](double v) { return std::tanh(v); }},
      {"softplus", [](double v) { return std::log1p(std::exp(v)); }},
      {"exp", [](double v) { return std::exp(v); }},
  };
  EXPECT_EQ(static_cast<int64_t>(kinds.size()), math::kActivations);
  for (const auto& [name, exact] : kinds) {
    const std::vector<float> y = EvalOne(OpKind::Act, x, With({{"kind", name}}));
    Owned gate = F32({Dim(1), Dim(7)}, x), up = F32({Dim(1), Dim(7)}, std::vector<float>(7, 3.0F));
    const std::vector<float> h = Floats(Eval(OpKind::Gated, {&gate, &up}, With({{"act", name}}))[0]);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], exact(x[i]), 1e-6 * std::max(1.0, std::fabs(exact(x[i])))) << name << " of " << x[i];
      EXPECT_EQ(h[i], y[i] * 3.0F) << name;
    }
  }
  ExpectFaults({{"C1", One(OpKind::Act, {{"kind", std::string("relu")}}, kHalf)}});
}

TEST(Gated, ClampedSwiglu) {
  Owned gate = F32({Dim(1), Dim(4)}, {-20, 1, 9, 0.5F}), up = F32({Dim(1), Dim(4)}, {1, -9, 9, 0.25F});
  const Attrs attrs = With({{"act", std::string("swiglu_clamped")}, {"alpha", 1.702F}, {"limit", 7.0F}});
  const std::vector<float> h = Floats(Eval(OpKind::Gated, {&gate, &up}, attrs)[0]);
  const auto glu = [](double g, double u) { return (u + 1) * g / (1 + std::exp(-1.702 * g)); };
  const double want[] = {glu(-20, 1), glu(1, -7), glu(7, 7), glu(0.5, 0.25)};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(h[i], want[i], 1e-5 * std::max(1e-3, std::fabs(want[i])));
  const Type x = F32Type({Dim("S"), Dim(4)});
  ExpectFaults({{"C3", OpCase{OpKind::Gated, {x, x}, With({{"alpha", INFINITY}})}},
                {"C3", OpCase{OpKind::Gated, {x, x}, With({{"limit", -1.0F}})}}});
}

TEST(Xielu, ByHandAndConstraints) {
  const std::vector<float> x = {-30, -2, -0.01F, 0, 0.5F, 3};
  Owned rows = F32({Dim(1), Dim(6)}, x), numbers = F32({Dim(4)}, {0.8F, 0.3F, 0.5F, -1e-6F});
  const std::vector<float> y = Floats(Eval(OpKind::Xielu, {&rows, &numbers}, {})[0]);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double want = v > 0 ? 0.8 * v * v + 0.5 * v : 0.3 * (std::expm1(std::min(v, -1e-6)) - v) + 0.5 * v;
    EXPECT_NEAR(y[i], want, 4e-7 * std::max(1.0, std::fabs(want)));
  }
  const Type type = F32Type({Dim("S"), Dim(4)}), four = F32Type({Dim(4)});
  ExpectFaults({{"C1", OpCase{OpKind::Xielu, {kHalf, four}, {}}}, {"C2", OpCase{OpKind::Xielu, {type, type}, {}}}});
}

TEST(SoftCap, ByHandAndConstraints) {
  const std::vector<float> x = {-1e9F, -40, -0.001F, 0, 12, 1e9F};
  const std::vector<float> y = EvalOne(OpKind::SoftCap, x, With({{"cap", 30.0F}}));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], 30 * std::tanh(x[i] / 30.0), 5e-7 * std::fabs(y[i]));
  EXPECT_EQ(y[0], -30.0F);
  EXPECT_EQ(y[5], 30.0F);
  ExpectFaults({{"C1", One(OpKind::SoftCap, {{"cap", 30.0F}}, kHalf)},
                {"C2", One(OpKind::SoftCap, {{"cap", 0.0F}})},
                {"C2", One(OpKind::SoftCap, {{"cap", INFINITY}})}});
}

TEST(ScaleClampMul, ByHandAndConstraints) {
  const std::vector<float> x = {-3, 0.1F, 5};
  EXPECT_EQ(EvalOne(OpKind::Scale, x, With({{"factor", 0.1F}})),
            (std::vector<float>{-3 * 0.1F, 0.1F * 0.1F, 5 * 0.1F}));
  EXPECT_EQ(EvalOne(OpKind::Clamp, x, With({{"limit", 2.5F}})), (std::vector<float>{-2.5F, 0.1F, 2.5F}));
  EXPECT_EQ(EvalOne(OpKind::AtLeast, x, With({{"least", 0.25F}})), (std::vector<float>{0.25F, 0.25F, 5}));
  EXPECT_TRUE(std::isnan(EvalOne(OpKind::AtLeast, {NAN}, With({{"least", 1.0F}}))[0]));
  Owned a = F32({Dim(1), Dim(3)}, x), b = F32({Dim(1), Dim(3)}, {2, 3, 4});
  EXPECT_EQ(Floats(Eval(OpKind::Mul, {&a, &b}, {})[0]), (std::vector<float>{-6, 0.1F * 3, 20}));
  const Type two = F32Type({Dim("S"), Dim(4)});
  ExpectFaults({{"C1", One(OpKind::Scale, {{"factor", 1.0F}}, kHalf)},
                {"C2", One(OpKind::Scale, {{"factor", INFINITY}})},
                {"C1", One(OpKind::Clamp, {{"limit", 1.0F}}, kHalf)},
                {"C2", One(OpKind::Clamp, {{"limit", 0.0F}})},
                {"C1", One(OpKind::AtLeast, {{"least", 1.0F}}, kHalf)},
                {"C2", One(OpKind::AtLeast, {{"least", NAN}})},
                {"C1", OpCase{OpKind::Mul, {kHalf, kHalf}, {}}},
                {"C2", OpCase{OpKind::Mul, {two, F32Type({Dim("S"), Dim(5)})}, {}}},
                // A row is a weight's or a const's: a value of the function is divided among threads.
                {"C2", OpCase{OpKind::Mul, {two, F32Type({Dim(4)})}, {}}}});
}

TEST(PositionEmbed, ByHandAndConstraints) {
  Owned table = F32({Dim(5), Dim(2)}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), tokens = I32({Dim(2)}, {0, 0}),
        pos = I32({}, {1});
  const Attrs offset = With({{"offset", int64_t{2}}});
  EXPECT_EQ(Floats(Eval(OpKind::PositionEmbed, {&table, &tokens, &pos}, offset)[0]), (std::vector<float>{6, 7, 8, 9}));
  const Type ids{DType::I32, {Dim("S")}, Layout::Rows, -1}, scalar{DType::I32, {}, Layout::Rows, -1};
  OpCase good{OpKind::PositionEmbed, {F32Type({Dim(10), Dim(4)}), ids, scalar}, offset};
  good.context = 8;
  EXPECT_EQ(good.Fault(), "");
  OpCase c1 = good, c2 = good, c3 = good, c4 = good;
  c1.operands[0] = F32Type({Dim(4)});
  c2.operands[1] = F32Type({Dim("S")});
  c3.operands[2] = F32Type({Dim("S")});
  c4.context = 9;
  ExpectFaults({{"C1", c1}, {"C2", c2}, {"C3", c3}, {"C4", c4}, {"C4", OpCase(good).Set("offset", int64_t{-1})}});
}

}  // namespace
}  // namespace llmc
