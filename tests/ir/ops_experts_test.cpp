// Guards route, expert_linear and combine: choices by hand, against linear, and every constraint.
#include <cmath>

#include <gtest/gtest.h>

#include "ir/blocks.h"
#include "ir/layout.h"
#include "tests/ir/tensors.h"

namespace llmc {
namespace {

using namespace test;

std::string Ident(const char* text) { return text; }

struct Chosen {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};
Chosen Route(const std::vector<float>& logits, std::vector<std::pair<std::string, AttrValue>> attrs,
             const std::vector<float>& bias = {}) {
  Owned x = F32({Dim(1), Dim(static_cast<int64_t>(logits.size()))}, logits);
  Owned b = F32({Dim(static_cast<int64_t>(bias.size()))}, bias);
  std::vector<Owned*> operands = {&x};
  if (!bias.empty()) operands.push_back(&b);
  const std::vector<Owned> out = Eval(OpKind::Route, operands, With(std::move(attrs)));
  Chosen chosen;
  chosen.ids.resize(out[0].bytes.size() / 4);
  std::memcpy(chosen.ids.data(), out[0].bytes.data(), out[0].bytes.size());
  chosen.weights = Floats(out[1]);
  return chosen;
}
void ExpectNear(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
}

TEST(Route, ScoresAndOrders) {
  const std::vector<float> logits = {0.5F, 2, -1, 2, 1};
  double sum = 0;
  for (float l : logits) sum += std::exp(l);
  const Chosen softmax = Route(logits, {{"used", int64_t{3}}, {"score", Ident("softmax")}});
  EXPECT_EQ(softmax.ids, (std::vector<int32_t>{1, 3, 4}));  // of equals the first
  ExpectNear(softmax.weights, {std::exp(2) / sum, std::exp(2) / sum, std::exp(1) / sum});
  const Chosen normed =
      Route(logits, {{"used", int64_t{2}}, {"score", Ident("softmax")}, {"norm", Ident("add")}, {"scale", 3.0F}});
  ExpectNear(normed.weights, {1.5, 1.5});
  const Chosen chosen = Route(logits, {{"used", int64_t{2}}, {"score", Ident("softmax_of_chosen")}});
  ExpectNear(chosen.weights, {0.5, 0.5});
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  // The bias counts for the choice alone.
  const Chosen biased = Route(logits, {{"used", int64_t{2}}, {"score", Ident("sigmoid")}}, {0, 0, 9, 0.01F, 0});
  EXPECT_EQ(biased.ids, (std::vector<int32_t>{2, 3}));
  ExpectNear(biased.weights, {sigmoid(-1), sigmoid(2)});
  const Chosen least =
      Route(logits, {{"used", int64_t{2}}, {"score", Ident("sigmoid")}, {"norm", Ident("least")}, {"norm_by", 4.0F}});
  ExpectNear(least.weights, {sigmoid(2) / 4, sigmoid(2) / 4});
}

TEST(Route, GroupsAreKeptByTheirBestOrTheirTwoBest) {
  // Groups of two: best 3, 2.9, 1; the two best 3.1, 5.7, 2.
  const std::vector<float> logits = {3, 0.1F, 2.9F, 2.8F, 1, 1};
  const auto attrs = [](const char* by, int64_t keep) {
    return std::vector<std::pair<std::string, AttrValue>>{{"used", int64_t{2}},
                                                          {"score", Ident("softmax_of_chosen")},
                                                          {"groups", int64_t{3}},
                                                          {"keep", keep},
                                                          {"by", Ident(by)}};
  };
  EXPECT_EQ(Route(logits, attrs("max", 1)).ids, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(Route(logits, attrs("sum2", 1)).ids, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(Route(logits, attrs("max", 2)).ids, (std::vector<int32_t>{0, 2}));
}

TEST(Route, WhatIsNotFiniteIsSeen) {
  for (const char* score : {"softmax", "sigmoid", "softmax_of_chosen"}) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      const Chosen chosen = Route({1, bad, 2, 0}, {{"used", int64_t{2}}, {"score", Ident(score)}});
      for (size_t j = 0; j < 2; ++j) {
        EXPECT_FALSE(std::isfinite(chosen.weights[j])) << score << bad;
        EXPECT_TRUE(chosen.ids[j] >= 0 && chosen.ids[j] < 4);
      }
    }
  }
}

TEST(Route, Constraints) {
  const auto route = [](int64_t used, int64_t groups = 1, int64_t keep = 1) {
    return OpCase{OpKind::Route,
                  {F32Type({Dim("S"), Dim(8)}), F32Type({Dim(8)})},
                  With({{"used", used}, {"score", Ident("softmax")}, {"groups", groups}, {"keep", keep}})};
  };
  EXPECT_EQ(route(2).Fault(), "");
  OpCase c1 = route(2), c2 = route(2);
  c1.operands[0] = F32Type({Dim("S"), Dim(2), Dim(4)});
  c2.operands[1] = F32Type({Dim(7)});
  ExpectFaults({{"C1", c1},
                {"C2", c2},
                {"C3", route(2, 3)},
                {"C3", route(2, 2, 3)},
                {"C3", OpCase(route(1, 8)).Set("by", Ident("sum2"))},
                {"C4", route(0)},
                {"C4", route(5, 2, 1)},
                {"C5", OpCase(route(2)).Set("scale", INFINITY)},
                {"C5", OpCase(route(2)).Set("norm_by", -1.0F)}});
}

// A weight [E N, K] of any kind, in rows and in tiles.
struct Experts {
  Owned rows, tiles;
  Experts(DType dtype, int64_t n, int64_t k, uint64_t seed)
      : rows(Make({dtype, {Dim(n), Dim(k)}, Layout::Rows, -1})),
        tiles(Make({dtype, {Dim(n), Dim(k)}, Layout::Tiles16, -1})) {
    test::Random random(seed);
    const int64_t bytes = RowBytes(dtype, k);
    for (int64_t r = 0; r < n; ++r) QuantizeRow(dtype, random.Vector(k).data(), k, rows.bytes.data() + r * bytes);
    for (int64_t t = 0; t < n / 16; ++t)
      PackTile(dtype, rows.bytes.data() + t * 16 * bytes, bytes, 16, k, tiles.bytes.data() + t * TileBytes(dtype, k));
  }
  Owned One(int64_t expert, int64_t n) const {
    Owned one = Make({rows.type.dtype, {Dim(n), rows.type.dims[1]}, Layout::Rows, -1});
    std::memcpy(one.bytes.data(), rows.bytes.data() + expert * static_cast<int64_t>(one.bytes.size()),
                one.bytes.size());
    return one;
  }
};

TEST(ExpertLinear, IsLinearWithTheChosenWeights) {
  const int64_t k = 64, n = 32;
  for (const DType dtype : {DType::F32, DType::BF16, DType::Q4_1, DType::Q8_0}) {
    Experts experts(dtype, 4 * n, k, 3);
    Owned ids = I32({Dim(3), Dim(2)}, {3, 0, 1, 3, 2, 2});
    Owned bias = F32({Dim(4 * n)}, test::Random(4).Vector(4 * n));
    const Attrs four = With({{"experts", int64_t{4}}});
    for (const bool each : {false, true}) {
      Owned x = each ? F32({Dim(3), Dim(2), Dim(k)}, test::Random(5).Vector(6 * k))
                     : F32({Dim(3), Dim(k)}, test::Random(5).Vector(3 * k));
      std::vector<Owned> inputs = {x};
      if (InfoOf(dtype).cls == DTypeClass::BLOCK) inputs.push_back(std::move(Eval(OpKind::Quantize, {&x}, {})[0]));
      for (Owned& input : inputs) {
        const std::vector<float> y = Floats(Eval(OpKind::ExpertLinear, {&input, &experts.rows, &ids, &bias}, four)[0]);
        EXPECT_EQ(Floats(Eval(OpKind::ExpertLinear, {&input, &experts.tiles, &ids, &bias}, four)[0]), y);
        const auto row_bytes = static_cast<int64_t>(input.bytes.size()) / (each ? 6 : 3);
        for (int64_t at = 0; at < 6; ++at) {
          Owned row = Make({input.type.dtype, {Dim(1), Dim(k)}, Layout::Rows, -1});
          std::memcpy(row.bytes.data(), input.bytes.data() + (each ? at : at / 2) * row_bytes, row.bytes.size());
          const int32_t expert = reinterpret_cast<const int32_t*>(ids.bytes.data())[at];
          Owned one = experts.One(expert, n);
          const std::vector<float> all = Floats(bias);
          Owned of = F32({Dim(n)}, {all.begin() + expert * n, all.begin() + (expert + 1) * n});
          const std::vector<float> want = Floats(Eval(OpKind::Linear, {&row, &one, &of}, {})[0]);
          EXPECT_EQ(std::vector<float>(y.begin() + at * n, y.begin() + (at + 1) * n), want)
              << InfoOf(dtype).text << each << at;
        }
      }
    }
  }
}

TEST(ExpertLinear, Constraints) {
  const Type x = F32Type({Dim("S"), Dim(32)}), ids{DType::I32, {Dim("S"), Dim(2)}, Layout::Rows, -1};
  const OpCase good{
      OpKind::ExpertLinear, {x, F32Type({Dim(64), Dim(32)}), ids, F32Type({Dim(64)})}, With({{"experts", int64_t{4}}})};
  EXPECT_EQ(good.Infer()[0], F32Type({Dim("S"), Dim(2), Dim(16)}));
  const auto with = [&](size_t i, Type type) {
    OpCase c = good;
    c.operands[i] = std::move(type);
    return c;
  };
  ExpectFaults({{"C1", with(2, F32Type({Dim("S"), Dim(2)}))},
                {"C2", with(0, F32Type({Dim("S"), Dim(3), Dim(32)}))},
                {"C3", with(1, F32Type({Dim(64), Dim(31)}))},
                {"C4", with(0, {DType::A8, {Dim("S"), Dim(32)}, Layout::Rows, -1})},
                {"C5", OpCase(good).Set("experts", int64_t{3})},
                {"C5", OpCase(good).Set("experts", int64_t{8})},
                {"C6", OpCase(good).Set("interleave", true).Set("experts", int64_t{2})},
                {"C7", with(3, F32Type({Dim(16)}))}});
}

TEST(Combine, ByHandAndConstraints) {
  Owned x = F32({Dim(1), Dim(2), Dim(3)}, {1, 2, 3, 10, 20, 30}), w = F32({Dim(1), Dim(2)}, {0.5F, 0.25F});
  EXPECT_EQ(Floats(Eval(OpKind::Combine, {&x, &w}, {})[0]), (std::vector<float>{3, 6, 9}));
  const Type three = F32Type({Dim("S"), Dim(2), Dim(3)}), two = F32Type({Dim("S"), Dim(2)});
  ExpectFaults({{"C1", OpCase{OpKind::Combine, {two, two}, {}}},
                {"C2", OpCase{OpKind::Combine, {three, F32Type({Dim("S"), Dim(3)})}, {}}}});
}

}  // namespace
}  // namespace llmc
