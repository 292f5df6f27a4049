// head_linear and concat against scalar references.
#include "tests/kernels/reference.h"
#include "tests/kernels/world.h"

namespace llmc::kernels_test {
namespace {

size_t Count(int64_t n) { return static_cast<size_t>(n); }

void CheckHeads(Type type, bool a8, int64_t rows, int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t k = 64, heads = 3;
  const Matrix w = RandomMatrix(type, heads * n, k, random);
  const std::vector<float> x = RandomFloats(Count(rows * heads * k), random);
  std::vector<uint8_t> x_bytes;
  std::vector<float> y;
  for (int64_t at = 0; at < rows * heads; ++at) {
    const Quantized codes = Quantize(x.data() + at * k, k);
    x_bytes.insert(x_bytes.end(), codes.bytes.begin(), codes.bytes.end());
    for (int64_t j = 0; j < n; ++j) {
      const int64_t row = at % heads * n + j;
      y.push_back(a8 ? LinearA8(codes, w, row, 1) : LinearF32(x.data() + at * k, w, row, 1));
    }
  }
  World world;
  Call call(a8 ? "head_a8" : "head_f32", static_cast<uint32_t>(rows));
  call.Operand("x", a8 ? world.Put(kShared, x_bytes) : world.Put(kShared, x));
  call.Operand("weight", world.Put(kWeights, w.tiles));
  world.Reserve(kWeights, 64);
  const Place out = world.Reserve(kShared, y.size() * 4);
  call.Operand("out0", out).Constant("k", k).Constant("n0", n).Constant("heads", heads).Constant("weight_type", type);
  World expected = world;
  expected.Write(out, y);
  const std::string what = "type " + std::to_string(type) + " n " + std::to_string(n);
  for (Over over : {kTiles, kAll, kOne}) call.Divide(over, 1).Check(world, expected, what);
}

TEST(Heads, AreProductsOfTheirOwn) {
  uint32_t seed = 0;
  for (int64_t rows : {1, 2, 7, 13}) {
    for (int64_t n : {16, 48}) {
      for (Type type : {kF32, kF16, kBF16, kQ4_1, kQ8_0}) CheckHeads(type, false, rows, n, ++seed);
      for (Type type : {kQ4_1, kQ5_0, kQ8_0}) CheckHeads(type, true, rows, n, ++seed);
    }
  }
  CheckHeads(kBF16, false, 250, 16, ++seed);  // more rows than are summed at once
  CheckHeads(kQ8_0, true, 250, 16, ++seed);
}

TEST(Heads, Concat) {
  std::mt19937 random(5);
  const int64_t rows = 5, heads = 3;
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{32, 16}, {12, 8}, {5, 1}, {1, 20}}) {
    for (int64_t tail_heads : {int64_t{1}, heads}) {
      const std::vector<float> x = RandomFloats(Count(rows * heads * a), random),
                               tail = RandomFloats(Count(rows * tail_heads * b), random);
      std::vector<float> y;
      for (int64_t at = 0; at < rows * heads; ++at) {
        y.insert(y.end(), x.begin() + at * a, x.begin() + (at + 1) * a);
        const int64_t from = (tail_heads == 1 ? at / heads : at) * b;
        y.insert(y.end(), tail.begin() + from, tail.begin() + from + b);
      }
      World world;
      Call call("concat", static_cast<uint32_t>(rows));
      call.Operand("x", world.Put(kShared, x)).Operand("tail", world.Put(kShared, tail));
      const Place out = world.Reserve(kShared, y.size() * 4);
      call.Operand("out", out).Constant("heads", heads).Constant("dim", a + b).Constant("x_dim", a);
      call.Constant("tail_heads", tail_heads);
      World expected = world;
      expected.Write(out, y);
      for (Over over : {kRows, kAll, kOne}) call.Divide(over, 1).Check(world, expected, "concat");
    }
  }
}

}  // namespace
}  // namespace llmc::kernels_test
