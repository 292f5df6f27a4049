// Guards recipes read by rows: any slice equals the slice of the whole, packing, rope tables against transformers, and
// made-up weights.
#include "ir/weights.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "ir/blocks.h"
#include "ir/layout.h"
#include "ir/math_f64.h"
#include "ir/recipe.h"
#include "ir/rope_table.h"
#include "tests/ir/rope_oracle.h"
#include "tests/ir/tensors.h"

namespace llmc {
namespace {

Type Rows(DType dtype, std::vector<Dim> dims) { return {dtype, std::move(dims), Layout::Rows, -1}; }

int AddGlobal(Module& module, GlobalKind kind, const std::string& base, Type type, Recipe recipe = {}) {
  Global g;
  g.kind = kind;
  g.name = Name(base);
  g.type = std::move(type);
  g.recipe = std::move(recipe);
  module.globals.push_back(std::move(g));
  return static_cast<int>(module.globals.size()) - 1;
}
int AddConst(Module& module, const std::string& base, Type type, RecipeKind kind, std::vector<int> inputs,
             const Attrs& attrs = {}) {
  const int index = AddGlobal(module, GlobalKind::Const, base, std::move(type), {kind, std::move(inputs), attrs});
  CheckRecipe(module, static_cast<size_t>(index));
  return index;
}

std::vector<std::byte> ReadAll(const Module& module, const WeightSource& source, int global, int64_t begin,
                               int64_t end) {
  const Type& type = module.globals[static_cast<size_t>(global)].type;
  const int64_t unit = type.layout == Layout::Tiles16 ? 16 : 1;
  const int64_t rows = (end - begin + unit - 1) / unit * unit;
  std::vector<std::byte> out(static_cast<size_t>(rows * StoredRowBytes(type)) + 8, std::byte{0x5a});
  ReadRows(module, source, global, begin, end, out.data());
  for (size_t i = out.size() - 8; i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0x5a});  // nothing behind the rows
  out.resize(out.size() - 8);
  return out;
}
std::vector<std::byte> ReadWhole(const Module& module, const WeightSource& source, int global) {
  const Type& type = module.globals[static_cast<size_t>(global)].type;
  std::vector<std::byte> whole = ReadAll(module, source, global, 0, RowCount(type));
  EXPECT_EQ(static_cast<int64_t>(whole.size()), ByteSize(type));
  return whole;
}
std::vector<float> AsFloats(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST(RandomWeights, AnyRowCanBeMadeAlone) {
  const auto source = RandomWeights(42);
  for (const DType dtype : test::WeightTypes()) {
    Module module;
    const int w = AddGlobal(module, GlobalKind::Weight, "w", Rows(dtype, {Dim(9), Dim(256)}));
    const std::vector<std::byte> whole = ReadWhole(module, *source, w);
    const auto row = static_cast<std::ptrdiff_t>(StoredRowBytes(module.globals[0].type));
    for (int64_t r = 0; r < 9; ++r) {
      EXPECT_EQ(ReadAll(module, *source, w, r, r + 1),
                std::vector<std::byte>(whole.begin() + r * row, whole.begin() + (r + 1) * row));
    }
  }
}

// Runs of rows at equal distances, of matrices of every type and of vectors.
TEST(Recipes, RowsInRuns) {
  const auto source = RandomWeights(3);
  Attrs attrs;
  for (const auto& [name, value] : {std::pair{"begin", 2}, {"count", 3}, {"every", 5}, {"times", 4}})
    attrs.Set(name, int64_t{value});
  for (const DType dtype : test::WeightTypes()) {
    Module module;
    const int w = AddGlobal(module, GlobalKind::Weight, "w", Rows(dtype, {Dim(20), Dim(256)}));
    const int cut = AddConst(module, "cut", Rows(dtype, {Dim(12), Dim(256)}), RecipeKind::Rows, {w}, attrs);
    const std::vector<std::byte> whole = ReadWhole(module, *source, w);
    const auto row = static_cast<std::ptrdiff_t>(StoredRowBytes(module.globals[0].type));
    std::vector<std::byte> expected;
    for (const int64_t r : {2, 3, 4, 7, 8, 9, 12, 13, 14, 17, 18, 19})
      expected.insert(expected.end(), whole.begin() + r * row, whole.begin() + (r + 1) * row);
    EXPECT_EQ(ReadWhole(module, *source, cut), expected);
    EXPECT_EQ(ReadAll(module, *source, cut, 2, 8),
              std::vector<std::byte>(expected.begin() + 2 * row, expected.begin() + 8 * row));
  }
  Module module;
  const int w = AddGlobal(module, GlobalKind::Weight, "v", Rows(DType::BF16, {Dim(20)}));
  const int cut = AddConst(module, "cut", Rows(DType::BF16, {Dim(12)}), RecipeKind::Rows, {w}, attrs);
  const std::vector<std::byte> whole = ReadWhole(module, *source, w);
  const std::vector<std::byte> part = ReadWhole(module, *source, cut);
  EXPECT_EQ(std::vector<std::byte>(part.begin() + 6, part.begin() + 12),
            std::vector<std::byte>(whole.begin() + 14, whole.begin() + 20));
  attrs.Set("times", int64_t{5});  // beyond the last row
  EXPECT_THROW(AddConst(module, "far", Rows(DType::BF16, {Dim(15)}), RecipeKind::Rows, {w}, attrs), InputError);
  attrs.Set("times", int64_t{2});
  attrs.Set("every", int64_t{2});  // runs that overlap
  EXPECT_THROW(AddConst(module, "near", Rows(DType::BF16, {Dim(6)}), RecipeKind::Rows, {w}, attrs), InputError);
}

TEST(RandomWeights, DependOnSeedAndNameAlone) {
  Module module;
  const int a = AddGlobal(module, GlobalKind::Weight, "a", Rows(DType::F32, {Dim(4), Dim(32)}));
  const int b = AddGlobal(module, GlobalKind::Weight, "b", Rows(DType::F32, {Dim(4), Dim(32)}));
  const std::vector<std::byte> first = ReadWhole(module, *RandomWeights(1), a);
  EXPECT_EQ(ReadWhole(module, *RandomWeights(1), a), first);
  EXPECT_NE(ReadWhole(module, *RandomWeights(2), a), first);
  EXPECT_NE(ReadWhole(module, *RandomWeights(1), b), first);
}

TEST(RandomWeights, HaveTheirSpread) {
  Module module;
  const int w = AddGlobal(module, GlobalKind::Weight, "wq", Rows(DType::F32, {Dim(64), Dim(256)}));
  const int gain = AddGlobal(module, GlobalKind::Weight, "attn_norm", Rows(DType::F32, {Dim(512)}));
  const auto source = RandomWeights(3);
  double sum = 0;
  double squares = 0;
  const std::vector<float> matrix = AsFloats(ReadWhole(module, *source, w));
  for (const float x : matrix) {
    sum += static_cast<double>(x);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  EXPECT_NEAR(sum / static_cast<double>(matrix.size()), 0, 0.002);
  EXPECT_NEAR(squares / static_cast<double>(matrix.size()) * 256, 1, 0.05);
  for (const float x : AsFloats(ReadWhole(module, *source, gain))) EXPECT_NEAR(x, 1, 0.126);
}

TEST(Recipes, PartsOfMatricesAndVectors) {
  const auto source = RandomWeights(5);
  Module module;
  const int w = AddGlobal(module, GlobalKind::Weight, "w", Rows(DType::Q4_1, {Dim(20), Dim(64)}));
  const int bias = AddGlobal(module, GlobalKind::Weight, "b", Rows(DType::F32, {Dim(20)}));
  const Attrs range = test::With({{"begin", int64_t{3}}, {"count", int64_t{5}}});
  const int part = AddConst(module, "part", Rows(DType::Q4_1, {Dim(5), Dim(64)}), RecipeKind::Rows, {w}, range);
  const int part_bias = AddConst(module, "part_bias", Rows(DType::F32, {Dim(5)}), RecipeKind::Rows, {bias}, range);
  EXPECT_EQ(ReadWhole(module, *source, part), ReadAll(module, *source, w, 3, 8));
  EXPECT_EQ(ReadAll(module, *source, part, 2, 4), ReadAll(module, *source, w, 5, 7));
  const std::vector<float> all = AsFloats(ReadWhole(module, *source, bias));
  EXPECT_EQ(AsFloats(ReadWhole(module, *source, part_bias)), std::vector<float>(all.begin() + 3, all.begin() + 8));
}

TEST(Recipes, AddIsInF32) {
  const auto source = RandomWeights(5);
  Module module;
  const int w = AddGlobal(module, GlobalKind::Weight, "norm", Rows(DType::BF16, {Dim(12)}));
  const int plus =
      AddConst(module, "plus", Rows(DType::F32, {Dim(12)}), RecipeKind::Add, {w}, test::With({{"value", 1.0F}}));
  const std::vector<std::byte> raw = ReadWhole(module, *source, w);
  const std::vector<float> sum = AsFloats(ReadWhole(module, *source, plus));
  for (size_t i = 0; i < 12; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, raw.data() + 2 * i, 2);
    EXPECT_EQ(sum[i], Bf16ToF32(bits) + 1.0F);
  }
}

TEST(Recipes, NegExpAndRepeat) {
  const auto source = RandomWeights(5);
  Module module;
  const int w = AddGlobal(module, GlobalKind::Weight, "w", Rows(DType::BF16, {Dim(6)}));
  const int rate = AddConst(module, "rate", Rows(DType::F32, {Dim(6)}), RecipeKind::NegExp, {w});
  const int wide = AddConst(module, "wide", Rows(DType::F32, {Dim(18)}), RecipeKind::Repeat, {rate},
                            test::With({{"times", int64_t{3}}}));
  const std::vector<std::byte> raw = ReadWhole(module, *source, w);
  const std::vector<float> rates = AsFloats(ReadWhole(module, *source, rate));
  const std::vector<float> wides = AsFloats(ReadWhole(module, *source, wide));
  for (size_t i = 0; i < 6; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, raw.data() + 2 * i, 2);
    EXPECT_EQ(rates[i], static_cast<float>(-std::exp(static_cast<double>(Bf16ToF32(bits))))) << i;
    for (size_t j = 0; j < 3; ++j) EXPECT_EQ(wides[3 * i + j], rates[i]);
  }
  const auto refused = [&](RecipeKind kind, Type type, const Attrs& attrs) {
    EXPECT_THROW(AddConst(module, "bad", std::move(type), kind, {w}, attrs), InputError);
    module.globals.pop_back();
  };
  refused(RecipeKind::NegExp, Rows(DType::BF16, {Dim(6)}), {});
  refused(RecipeKind::Repeat, Rows(DType::BF16, {Dim(17)}), test::With({{"times", int64_t{3}}}));
  refused(RecipeKind::Repeat, Rows(DType::BF16, {Dim(6)}), test::With({{"times", int64_t{0}}}));
}

// What isn't finite reaches the result; where e^w is 0 it is.
TEST(Recipes, NegExpOfWhatIsNotFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  struct Source : WeightSource {
    void Read(const Global&, int64_t, int64_t, std::byte* out) const override {
      const float values[] = {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf, 1e30F};
      std::memcpy(out, values, sizeof values);
    }
  };
  Module module;
  const int w = AddGlobal(module, GlobalKind::Weight, "w", Rows(DType::F32, {Dim(4)}));
  const int rate = AddConst(module, "rate", Rows(DType::F32, {Dim(4)}), RecipeKind::NegExp, {w});
  const std::vector<float> rates = AsFloats(ReadWhole(module, Source(), rate));
  EXPECT_TRUE(std::isnan(rates[0]));
  EXPECT_EQ(rates[1], -kInf);
  EXPECT_LE(rates[2], 0.0F);
  EXPECT_GT(rates[2], -1e-37F);
  EXPECT_EQ(rates[3], -0x1p127F);
}

TEST(Recipes, CastAndQuantizeConvertByRows) {
  const auto source = RandomWeights(6);
  Module module;
  const int w = AddGlobal(module, GlobalKind::Weight, "w", Rows(DType::Q5_1, {Dim(6), Dim(64)}));
  const int f = AddGlobal(module, GlobalKind::Weight, "f", Rows(DType::F32, {Dim(6), Dim(64)}));
  for (const DType to : {DType::F32, DType::F16, DType::BF16}) {
    const int cast = AddConst(module, std::string("cast_") + std::string(InfoOf(to).text), Rows(to, {Dim(6), Dim(64)}),
                              RecipeKind::Cast, {w});
    std::vector<float> values(6 * 64);
    Dequantize(DType::Q5_1, ReadWhole(module, *source, w).data(), 6 * 64, values.data());
    std::vector<std::byte> want(static_cast<size_t>(RowBytes(to, 6 * 64)));
    QuantizeRow(to, values.data(), 6 * 64, want.data());
    EXPECT_EQ(ReadWhole(module, *source, cast), want);
  }
  for (const DType to : test::BlockTypes()) {
    if (InfoOf(to).block > 64) continue;
    const int q = AddConst(module, std::string("q_") + std::string(InfoOf(to).text), Rows(to, {Dim(6), Dim(64)}),
                           RecipeKind::Quantize, {f});
    const std::vector<float> values = AsFloats(ReadAll(module, *source, f, 2, 4));
    std::vector<std::byte> want(static_cast<size_t>(RowBytes(to, 2 * 64)));
    QuantizeRow(to, values.data(), 2 * 64, want.data());
    EXPECT_EQ(ReadAll(module, *source, q, 2, 4), want);
  }
}

// Row `row` of a packed const against row `from` of its part, for every row; and slices of tiles against the whole.
// Of matrices below one another each is transposed; twice is the matrix itself, and so is any slice.
TEST(Recipes, TransposeOfEachOfSeveral) {
  const auto source = RandomWeights(3);
  Module module;
  const int w = AddGlobal(module, GlobalKind::Weight, "w", Rows(DType::F32, {Dim(12), Dim(5)}));
  Attrs three;
  three.Set("times", int64_t{3});
  const int turned = AddConst(module, "t", Rows(DType::F32, {Dim(15), Dim(4)}), RecipeKind::Transpose, {w}, three);
  const int back = AddConst(module, "b", Rows(DType::F32, {Dim(12), Dim(5)}), RecipeKind::Transpose, {turned}, three);
  const std::vector<float> from = AsFloats(ReadWhole(module, *source, w));
  const std::vector<float> to = AsFloats(ReadWhole(module, *source, turned));
  for (size_t matrix = 0; matrix < 3; ++matrix) {
    for (size_t r = 0; r < 4; ++r) {
      for (size_t c = 0; c < 5; ++c) EXPECT_EQ(to[(matrix * 5 + c) * 4 + r], from[(matrix * 4 + r) * 5 + c]);
    }
  }
  EXPECT_EQ(AsFloats(ReadWhole(module, *source, back)), from);
  const std::vector<float> slice = AsFloats(ReadAll(module, *source, turned, 3, 11));
  EXPECT_EQ(slice, std::vector<float>(to.begin() + 12, to.begin() + 44));
  Attrs five;
  five.Set("times", int64_t{5});
  EXPECT_THROW(AddConst(module, "x", Rows(DType::F32, {Dim(25), Dim(3)}), RecipeKind::Transpose, {w}, five),
               InputError);
}

TEST(Recipes, PackPutsEachPartOnATile) {
  const auto source = RandomWeights(7);
  for (const DType dtype : test::WeightTypes()) {
    Module module;
    const int a = AddGlobal(module, GlobalKind::Weight, "a", Rows(dtype, {Dim(20), Dim(256)}));
    const int b = AddGlobal(module, GlobalKind::Weight, "b", Rows(dtype, {Dim(3), Dim(256)}));
    const int c = AddGlobal(module, GlobalKind::Weight, "c", Rows(dtype, {Dim(33), Dim(256)}));
    const int packed = AddConst(module, "packed", {dtype, {Dim(32 + 16 + 33), Dim(256)}, Layout::Tiles16, -1},
                                RecipeKind::Pack, {a, b, c});
    const std::vector<std::byte> whole = ReadWhole(module, *source, packed);
    std::vector<std::byte> row(static_cast<size_t>(RowBytes(dtype, 256)));
    const auto expect_row = [&](int64_t at, const std::vector<std::byte>& want) {
      UnpackRow(dtype, whole.data(), at, 256, row.data());
      EXPECT_EQ(row, want) << InfoOf(dtype).text << " " << at;
    };
    for (int64_t r = 0; r < 20; ++r) expect_row(r, ReadAll(module, *source, a, r, r + 1));
    for (int64_t r = 0; r < 3; ++r) expect_row(32 + r, ReadAll(module, *source, b, r, r + 1));
    for (int64_t r = 0; r < 33; ++r) expect_row(48 + r, ReadAll(module, *source, c, r, r + 1));
    for (const int64_t padding : {20, 31, 35, 47, 81, 95})
      expect_row(padding, std::vector<std::byte>(row.size(), std::byte{0}));
    const int64_t tile = TileBytes(dtype, 256);
    for (int64_t begin = 0; begin < 81; begin += 16) {
      for (const int64_t end : {begin + 16, int64_t{81}}) {
        if (end > 81) continue;
        const int64_t tiles = (end - begin + 15) / 16;
        EXPECT_EQ(
            ReadAll(module, *source, packed, begin, end),
            std::vector<std::byte>(whole.begin() + begin / 16 * tile, whole.begin() + (begin / 16 + tiles) * tile));
      }
    }
  }
}

TEST(Recipes, PackInterleavesTiles) {
  const auto source = RandomWeights(8);
  Module module;
  const int gate = AddGlobal(module, GlobalKind::Weight, "gate", Rows(DType::Q4_0, {Dim(24), Dim(32)}));
  const int up = AddGlobal(module, GlobalKind::Weight, "up", Rows(DType::Q4_0, {Dim(24), Dim(32)}));
  const int both = AddConst(module, "both", {DType::Q4_0, {Dim(32 + 24), Dim(32)}, Layout::Tiles16, -1},
                            RecipeKind::Pack, {gate, up}, test::With({{"interleave", true}}));
  const std::vector<std::byte> whole = ReadWhole(module, *source, both);
  std::vector<std::byte> row(18);
  for (int64_t r = 0; r < 24; ++r) {
    UnpackRow(DType::Q4_0, whole.data(), r / 16 * 32 + r % 16, 32, row.data());
    EXPECT_EQ(row, ReadAll(module, *source, gate, r, r + 1));
    UnpackRow(DType::Q4_0, whole.data(), r / 16 * 32 + 16 + r % 16, 32, row.data());
    EXPECT_EQ(row, ReadAll(module, *source, up, r, r + 1));
  }
}

TEST(Recipes, PackJoinsVectors) {
  const auto source = RandomWeights(9);
  Module module;
  const int a = AddGlobal(module, GlobalKind::Weight, "bq", Rows(DType::F32, {Dim(5)}));
  const int b = AddGlobal(module, GlobalKind::Weight, "bk", Rows(DType::F32, {Dim(3)}));
  const int both = AddConst(module, "both", Rows(DType::F32, {Dim(8)}), RecipeKind::Pack, {a, b});
  std::vector<float> want = AsFloats(ReadWhole(module, *source, a));
  const std::vector<float> second = AsFloats(ReadWhole(module, *source, b));
  want.insert(want.end(), second.begin(), second.end());
  EXPECT_EQ(AsFloats(ReadWhole(module, *source, both)), want);
}

TEST(Recipes, ConstsOfConsts) {
  const auto source = RandomWeights(9);
  Module module;
  const int w = AddGlobal(module, GlobalKind::Weight, "w", Rows(DType::BF16, {Dim(40), Dim(64)}));
  const int part = AddConst(module, "part", Rows(DType::BF16, {Dim(18), Dim(64)}), RecipeKind::Rows, {w},
                            test::With({{"begin", int64_t{7}}, {"count", int64_t{18}}}));
  const int q = AddConst(module, "q", Rows(DType::Q8_0, {Dim(18), Dim(64)}), RecipeKind::Quantize, {part});
  const int tiles =
      AddConst(module, "tiles", {DType::Q8_0, {Dim(18), Dim(64)}, Layout::Tiles16, -1}, RecipeKind::Pack, {q});
  const std::vector<std::byte> whole = ReadWhole(module, *source, tiles);
  std::vector<std::byte> row(68);
  UnpackRow(DType::Q8_0, whole.data(), 17, 64, row.data());
  EXPECT_EQ(row, ReadAll(module, *source, q, 17, 18));
}

TEST(Recipes, ACycleIsAFaultAndNotACrash) {
  Module module;
  Recipe recipe{RecipeKind::Cast, {0}, {}};
  AddGlobal(module, GlobalKind::Const, "loop", Rows(DType::F32, {Dim(2), Dim(2)}), recipe);
  std::vector<std::byte> out(16);
  EXPECT_THROW(ReadRows(module, *RandomWeights(1), 0, 0, 2, out.data()), InternalError);
}

Recipe RopeRecipe(std::vector<std::pair<std::string, AttrValue>> attrs) {
  return {RecipeKind::RopeTable, {}, test::With(std::move(attrs))};
}

TEST(RopeTable, FrequenciesAreThoseOfTransformers) {
  for (const test::RopeOracle& oracle : test::kRopeOracle) {
    const std::vector<double> got = RopeFrequencies(RopeRecipe(oracle.attrs), oracle.dim);
    ASSERT_EQ(got.size(), oracle.frequencies.size()) << oracle.name;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i] / oracle.frequencies[i], 1, 1e-14) << oracle.name << " " << i;
  }
}

// The factor that import gives a yarn recipe without one of its own: 0.1 ln(factor) + 1.
TEST(RopeTable, YarnsAttentionFactorNeedsNoLibm) {
  for (const test::RopeOracle& oracle : test::kRopeOracle) {
    if (std::get<std::string>(oracle.attrs[0].second) != "yarn") continue;
    const auto factor = static_cast<double>(std::get<float>(oracle.attrs[2].second));
    EXPECT_NEAR(0.1 * math::Ln(factor) + 1, oracle.attention_factor, 1e-15) << oracle.name;
  }
}

// CASES A02: llama3's divisors.
TEST(RopeTable, Llama3Divisors) {
  struct Case {
    int64_t dim;
    float factor;
    size_t first;
    std::vector<double> between;
    double last;
  };
  const Case cases[] = {{128, 8, 29, {1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327}, 3.068926e-07},
                        {64, 32, 15, {1.651329, 3.292263, 9.666730}, 9.418306e-08}};
  for (const Case& c : cases) {
    const std::vector<double> plain = RopeFrequencies(RopeRecipe({{"theta", 500000.0F}}), c.dim);
    const std::vector<double> scaled = RopeFrequencies(
        RopeRecipe(
            {{"theta", 500000.0F}, {"kind", std::string("llama3")}, {"factor", c.factor}, {"original", int64_t{8192}}}),
        c.dim);
    for (size_t i = 0; i < plain.size(); ++i) {
      const size_t at = i - c.first;
      const double divisor = i < c.first ? 1 : at < c.between.size() ? c.between[at] : static_cast<double>(c.factor);
      EXPECT_NEAR(plain[i] / scaled[i] / divisor, 1, 1e-6) << c.dim << " " << i;
    }
    EXPECT_NEAR(scaled.back() / c.last, 1, 1e-6);
  }
}

// The same divisors as a tensor give the same frequencies to f32's rounding, and exactly the ones that the tensor says.
TEST(RopeTable, DivisorsAsATensor) {
  const Recipe recipe = RopeRecipe({{"theta", 500000.0F}});
  const std::vector<double> plain = RopeFrequencies(recipe, 8);
  const std::vector<float> divisors = {1.0F, 1.5F, 8.0F, 3.0F};
  const std::vector<double> divided = RopeFrequencies(recipe, divisors);
  ASSERT_EQ(divided.size(), plain.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(divided[i], plain[i] / static_cast<double>(divisors[i]));
  for (const float bad :
       {0.0F, -1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THROW(RopeFrequencies(recipe, std::vector<float>{1.0F, bad}), InputError);
  }
}

// CASES E16, and every table entry against long double: positions are exact integers up to a million.
TEST(RopeTable, CosinesOfFarPositions) {
  const Recipe recipe = RopeRecipe({{"theta", 10000.0F}});
  const std::vector<double> frequencies = RopeFrequencies(recipe, 64);
  for (const int64_t position : {0, 1, 256, 257, 4095, 15962, 131072, 999999}) {
    float row[64];
    RopeTableRows(recipe, 64, position, position + 1, row);
    for (size_t i = 0; i < 32; ++i) {
      const long double angle =
          static_cast<long double>(position) * std::pow(10000.0L, -2.0L * static_cast<long double>(i) / 64);
      EXPECT_NEAR(static_cast<double>(row[i]), static_cast<double>(std::cos(angle)), 3.1e-8) << position << " " << i;
      EXPECT_NEAR(static_cast<double>(row[32 + i]), static_cast<double>(std::sin(angle)), 3.1e-8)
          << position << " " << i;
    }
  }
  float row[2][64];
  RopeTableRows(recipe, 64, 256, 258, row[0]);
  EXPECT_NE(row[0][0], row[1][0]);
  RopeTableRows(recipe, 64, 15962, 15963, row[0]);
  EXPECT_NEAR(row[0][0], -0.908016F, 5e-7F);
}

TEST(RopeTable, AttentionFactorScalesBothHalves) {
  float plain[8];
  float scaled[8];
  RopeTableRows(RopeRecipe({{"theta", 100.0F}}), 8, 5, 6, plain);
  RopeTableRows(RopeRecipe({{"theta", 100.0F}, {"attention_factor", 2.0F}}), 8, 5, 6, scaled);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(scaled[i], plain[i] * 2);
}

TEST(RopeTable, SlicesEqualTheWhole) {
  Module module;
  const int table = AddConst(module, "table", Rows(DType::F32, {Dim(40), Dim(16)}), RecipeKind::RopeTable, {},
                             test::With({{"theta", 10000.0F}}));
  const auto source = RandomWeights(1);
  const std::vector<float> whole = AsFloats(ReadWhole(module, *source, table));
  EXPECT_EQ(AsFloats(ReadAll(module, *source, table, 7, 9)),
            std::vector<float>(whole.begin() + 7 * 16, whole.begin() + 9 * 16));
}

TEST(RopeTable, RefusesParametersThatMakeNoSense) {
  const auto kind = [](const char* name) { return std::pair<std::string, AttrValue>{"kind", std::string(name)}; };
  const std::vector<std::vector<std::pair<std::string, AttrValue>>> bad = {
      {{"theta", 0.0F}},
      {{"theta", -10000.0F}},
      {{"theta", std::nanf("")}},
      {{"theta", INFINITY}},
      {{"theta", 100.0F}, kind("linear"), {"factor", 0.0F}},
      {{"theta", 100.0F}, kind("llama3"), {"factor", 8.0F}},
      {{"theta", 100.0F}, kind("llama3"), {"factor", 8.0F}, {"original", int64_t{8192}}, {"low", 4.0F}},
      {{"theta", 100.0F}, kind("yarn"), {"factor", 8.0F}},
      {{"theta", 1.0F}, kind("yarn"), {"factor", 8.0F}, {"original", int64_t{8192}}},
      {{"theta", 100.0F}, kind("yarn"), {"factor", 8.0F}, {"original", int64_t{8192}}, {"beta_slow", 0.0F}},
  };
  for (const auto& attrs : bad) {
    try {
      RopeFrequencies(RopeRecipe(attrs), 16);
      ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
      EXPECT_EQ(error.diag().kind, DiagKind::BadAttribute);
    }
  }
  float row[2];
  EXPECT_THROW(RopeTableRows(RopeRecipe({{"theta", 1.0F}}), 2, (int64_t{1} << 24) + 1, (int64_t{1} << 24) + 2, row),
               InputError);
}

}  // namespace
}  // namespace llmc
