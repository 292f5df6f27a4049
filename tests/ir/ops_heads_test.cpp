// Guards head_linear, concat, and attention over values of another width: against linear, by hand, and every constraint.
#include <gtest/gtest.h>

#include "ir/blocks.h"
#include "ir/layout.h"
#include "ir/math_f64.h"
#include "tests/ir/tensors.h"

namespace llmc {
namespace {

using namespace test;

TEST(HeadLinear, IsLinearWithTheHeadsOwnRows) {
  const int64_t k = 64, n = 32, heads = 3, rows = 2;
  for (const DType dtype : {DType::F32, DType::BF16, DType::Q4_1, DType::Q8_0}) {
    Owned weight = Make({dtype, {Dim(heads * n), Dim(k)}, Layout::Rows, -1});
    Owned tiles = Make({dtype, {Dim(heads * n), Dim(k)}, Layout::Tiles16, -1});
    test::Random random(3);
    const int64_t bytes = RowBytes(dtype, k);
    for (int64_t r = 0; r < heads * n; ++r)
      QuantizeRow(dtype, random.Vector(k).data(), k, weight.bytes.data() + r * bytes);
    for (int64_t t = 0; t < heads * n / 16; ++t)
      PackTile(dtype, weight.bytes.data() + t * 16 * bytes, bytes, 16, k, tiles.bytes.data() + t * TileBytes(dtype, k));
    Owned x = F32({Dim(rows), Dim(heads), Dim(k)}, test::Random(5).Vector(rows * heads * k));
    std::vector<Owned> inputs = {x};
    if (InfoOf(dtype).cls == DTypeClass::BLOCK) inputs.push_back(std::move(Eval(OpKind::Quantize, {&x}, {})[0]));
    for (Owned& input : inputs) {
      const std::vector<float> y = Floats(Eval(OpKind::HeadLinear, {&input, &weight}, {})[0]);
      EXPECT_EQ(Floats(Eval(OpKind::HeadLinear, {&input, &tiles}, {})[0]), y);
      const auto record = static_cast<int64_t>(input.bytes.size()) / (rows * heads);
      for (int64_t at = 0; at < rows * heads; ++at) {
        Owned row = Make({input.type.dtype, {Dim(1), Dim(k)}, Layout::Rows, -1});
        std::memcpy(row.bytes.data(), input.bytes.data() + at * record, row.bytes.size());
        Owned own = Make({dtype, {Dim(n), Dim(k)}, Layout::Rows, -1});
        std::memcpy(own.bytes.data(), weight.bytes.data() + at % heads * n * bytes, own.bytes.size());
        EXPECT_EQ(std::vector<float>(y.begin() + at * n, y.begin() + (at + 1) * n),
                  Floats(Eval(OpKind::Linear, {&row, &own}, {})[0]))
            << InfoOf(dtype).text << " " << at;
      }
    }
  }
}

TEST(HeadLinear, Constraints) {
  const OpCase good{OpKind::HeadLinear, {F32Type({Dim("S"), Dim(4), Dim(32)}), F32Type({Dim(64), Dim(32)})}, {}};
  EXPECT_EQ(good.Infer()[0], F32Type({Dim("S"), Dim(4), Dim(16)}));
  const auto with = [&](size_t i, Type type) {
    OpCase c = good;
    c.operands[i] = std::move(type);
    return c;
  };
  ExpectFaults({{"C1", with(0, F32Type({Dim("S"), Dim(32)}))},
                {"C2", with(1, F32Type({Dim(64), Dim(31)}))},
                {"C2", with(1, {DType::I32, {Dim(64), Dim(32)}, Layout::Rows, -1})},
                {"C3", with(0, {DType::A8, {Dim("S"), Dim(4), Dim(32)}, Layout::Rows, -1})},
                {"C4", with(1, F32Type({Dim(66), Dim(32)}))},
                {"C4", with(1, F32Type({Dim(32), Dim(32)}))}});
}

TEST(Concat, ByHandAndConstraints) {
  Owned x = F32({Dim(1), Dim(2), Dim(2)}, {1, 2, 3, 4}), own = F32({Dim(1), Dim(2), Dim(1)}, {5, 6});
  EXPECT_EQ(Floats(Eval(OpKind::Concat, {&x, &own}, {})[0]), (std::vector<float>{1, 2, 5, 3, 4, 6}));
  Owned two = F32({Dim(2), Dim(2), Dim(1)}, {1, 2, 3, 4}), all = F32({Dim(2), Dim(1), Dim(2)}, {7, 8, 9, 10});
  EXPECT_EQ(Floats(Eval(OpKind::Concat, {&two, &all}, {})[0]),
            (std::vector<float>{1, 7, 8, 2, 7, 8, 3, 9, 10, 4, 9, 10}));
  const Type heads = F32Type({Dim("S"), Dim(4), Dim(3)}), flat = F32Type({Dim("S"), Dim(4)});
  ExpectFaults({{"C1", OpCase{OpKind::Concat, {flat, heads}, {}}},
                {"C2", OpCase{OpKind::Concat, {heads, flat}, {}}},
                {"C2", OpCase{OpKind::Concat, {heads, F32Type({Dim("S"), Dim(2), Dim(3)})}, {}}}});
}

// The first elements of values give the first elements of the results, and a state may be both.
TEST(Attention, SumsTheFirstElementsOfValues) {
  const int64_t n = 70, heads = 3, d = 24, width = 16;
  const auto state = [&](int64_t dim, int index) {
    return Make({DType::F16, {Dim(n), Dim(1), Dim(dim)}, Layout::Heads, index});
  };
  test::Random random(9);
  Owned q = F32({Dim(n), Dim(heads), Dim(d)}, random.Vector(n * heads * d));
  const std::vector<float> rows = random.Vector(n * d);
  std::vector<float> cut;
  for (int64_t p = 0; p < n; ++p) cut.insert(cut.end(), rows.begin() + p * d, rows.begin() + p * d + width);
  Owned at = I32({}, {0}), all = F32({Dim(n), Dim(1), Dim(d)}, rows), first = F32({Dim(n), Dim(1), Dim(width)}, cut);
  Owned keys = state(d, 0), values = state(width, 1);
  Eval(OpKind::KvAppend, {&keys, &all, &at}, {});
  Eval(OpKind::KvAppend, {&values, &first, &at}, {});
  const Attrs scaled = With({{"scale", math::AttentionScale(d)}});
  const Attrs some = With({{"scale", math::AttentionScale(d)}, {"values", width}});
  const std::vector<float> whole = Floats(Eval(OpKind::Attention, {&q, &keys, &keys, &at}, scaled)[0]);
  std::vector<float> want;
  for (int64_t row = 0; row < n * heads; ++row)
    want.insert(want.end(), whole.begin() + row * d, whole.begin() + row * d + width);
  EXPECT_EQ(Floats(Eval(OpKind::Attention, {&q, &keys, &keys, &at}, some)[0]), want);
  EXPECT_EQ(Floats(Eval(OpKind::Attention, {&q, &keys, &values, &at}, scaled)[0]), want);
  Owned partials = std::move(Eval(OpKind::AttentionGroups, {&q, &keys, &keys, &at}, some)[0]);
  EXPECT_EQ(Floats(Eval(OpKind::AttentionMerge, {&partials, &at}, {})[0]), want);
}

TEST(Attention, ValuesMustBeThere) {
  const Type q = F32Type({Dim("S"), Dim(4), Dim(32)}), pos{DType::I32, {}, Layout::Rows, -1};
  const auto state = [](DType dtype, int64_t d) { return Type{dtype, {Dim(8), Dim(1), Dim(d)}, Layout::Rows, 0}; };
  const OpCase good{OpKind::Attention,
                    {q, state(DType::F16, 32), state(DType::F16, 20), pos},
                    With({{"scale", 1.0F}, {"values", int64_t{20}}})};
  EXPECT_EQ(good.Infer()[0], F32Type({Dim("S"), Dim(4), Dim(20)}));
  OpCase blocks = good;
  blocks.operands = {q, state(DType::Q8_0, 32), state(DType::Q8_0, 64), pos};
  ExpectFaults({{"C9", OpCase(good).Set("values", int64_t{21})},
                {"C9", OpCase(good).Set("values", int64_t{-1})},
                {"C9", OpCase(blocks).Set("values", int64_t{20})}});
}

}  // namespace
}  // namespace llmc
