// route, expert and combine against scalar references.
#include "ir/math.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/world.h"

namespace llmc::kernels_test {
namespace {

int64_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }
size_t Count(int64_t n) { return static_cast<size_t>(n); }

struct Case {
  Type type;
  bool a8, each, interleave, pair;
  Type out_type = kF32;
  int64_t rows = 1;
};

void CheckExperts(const Case& c, uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t k = 64, n = 64, experts = 5, used = 2, parts = c.interleave ? 2 : 1, all = c.rows * used;
  std::vector<Matrix> gates, ups;
  std::vector<uint8_t> tiles;
  for (int64_t e = 0; e < experts; ++e) {
    gates.push_back(RandomMatrix(c.type, n, k, random));
    ups.push_back(RandomMatrix(c.type, n, k, random));
    const size_t bytes = gates.back().tiles.size() / Count(n / 16);
    for (size_t t = 0; t < Count(n / 16); ++t) {
      const auto put = [&](const Matrix& m) {
        tiles.insert(tiles.end(), m.tiles.data() + t * bytes, m.tiles.data() + (t + 1) * bytes);
      };
      put(gates.back());
      if (c.interleave) put(ups.back());
    }
  }
  std::vector<int32_t> ids;
  for (int64_t at = 0; at < all; ++at) ids.push_back(static_cast<int32_t>(random() % experts));
  const int64_t x_rows = c.each ? all : c.rows;
  const std::vector<float> x = RandomFloats(Count(x_rows * k), random),
                           bias = RandomFloats(Count(parts * experts * n), random);
  std::vector<Quantized> codes;
  std::vector<uint8_t> x_bytes;
  for (int64_t r = 0; c.a8 && r < x_rows; ++r) {
    codes.push_back(Quantize(x.data() + r * k, k));
    x_bytes.insert(x_bytes.end(), codes.back().bytes.begin(), codes.back().bytes.end());
  }
  std::vector<float> out[2];
  std::vector<uint8_t> bytes;
  for (int64_t at = 0; at < all; ++at) {
    const int64_t row = c.each ? at : at / used, e = ids[Count(at)];
    const auto sum = [&](const std::vector<Matrix>& of, int64_t part, int64_t column) {
      const Matrix& m = of[Count(e)];
      const float s = c.a8 ? LinearA8(codes[Count(row)], m, column, 1) : LinearF32(x.data() + row * k, m, column, 1);
      return s + bias[Count((part * experts + e) * n + column)];
    };
    for (int64_t j = 0; j < n; ++j) {
      const float gate = sum(gates, 0, j), up = c.interleave ? sum(ups, 1, j) : 0;
      out[0].push_back(c.pair ? math::GeluTanh(gate) * up : gate);
      out[1].push_back(up);
    }
    if (c.out_type != kA8) continue;
    const Quantized q = Quantize(out[0].data() + at * n, n);
    bytes.insert(bytes.end(), q.bytes.begin(), q.bytes.end());
  }
  World world;
  Call call(c.a8 ? "expert_a8" : "expert_f32", static_cast<uint32_t>(c.rows));
  call.Operand("x", c.a8 ? world.Put(kShared, x_bytes) : world.Put(kShared, x)).Operand("ids", world.Put(kShared, ids));
  call.Operand("weight", world.Put(kWeights, tiles)).Operand("bias", world.Put(kWeights, bias));
  world.Reserve(kWeights, 64);
  const Place at_out[2] = {world.Reserve(kShared, out[0].size() * 4), world.Reserve(kShared, out[1].size() * 4)};
  for (int i = 0; i < 2; ++i) call.Operand("out" + std::to_string(i), at_out[i]);
  call.Constant("k", k).Constant("n0", n).Constant("used", used).Constant("experts", experts).Constant("each", c.each);
  call.Constant("weight_type", c.type).Constant("interleave", c.interleave).Constant("has_bias", 1);
  call.Constant("pair", c.pair).Constant("act", static_cast<int64_t>(math::Activation::GeluTanh));
  call.Constant("out_type", c.out_type);
  World expected = world;
  c.out_type == kA8 ? expected.Write(at_out[0], bytes) : expected.Write(at_out[0], out[0]);
  if (c.interleave && !c.pair) expected.Write(at_out[1], out[1]);
  const std::string what = "type " + std::to_string(c.type) + (c.each ? " each" : "") + (c.pair ? " pair" : "");
  for (Over over : {kTiles, kAll, kOne}) call.Divide(over, c.out_type == kA8 ? 2 : 1).Check(world, expected, what);
}

TEST(Experts, AreProductsOfTheChosen) {
  uint32_t seed = 0;
  for (int64_t rows : {1, 7, 40}) {
    for (bool a8 : {false, true}) {
      for (Type type : {kQ4_1, kQ8_0}) {
        CheckExperts({type, a8, false, true, true, kF32, rows}, ++seed);
        CheckExperts({type, a8, false, true, true, kA8, rows}, ++seed);
        CheckExperts({type, a8, true, false, false, kF32, rows}, ++seed);
      }
    }
    CheckExperts({kBF16, false, true, true, false, kF32, rows}, ++seed);
    CheckExperts({kF32, false, false, false, false, kA8, rows}, ++seed);
  }
}

TEST(Experts, RouteSoftmaxAndCombine) {
  std::mt19937 random(3);
  const int64_t rows = 5, columns = 37, used = 4, dim = 50;
  const std::vector<float> logits = RandomFloats(Count(rows * columns), random, 4.0f),
                           x = RandomFloats(Count(rows * used * dim), random);
  std::vector<int32_t> ids;
  std::vector<float> weights, y;
  for (int64_t s = 0; s < rows; ++s) {
    std::vector<float> p(logits.begin() + s * columns, logits.begin() + (s + 1) * columns);
    const float most = *std::max_element(p.begin(), p.end());
    float sum = 0, all = 0, chosen = 0;
    for (float& v : p) sum = sum + (v = math::Exp(v - most));
    for (float& v : p) v = v / sum, all = all + v;
    std::vector<float> left = p, w;
    for (int64_t j = 0; j < used; ++j) {
      const auto best = std::max_element(left.begin(), left.end());
      ids.push_back(static_cast<int32_t>(best - left.begin()));
      w.push_back(*best);
      chosen = chosen + *best;
      *best = -1;
    }
    for (float v : w) weights.push_back(std::fma(all, 0.0f, v / (chosen + 1e-6f) * 2.5f));
    for (int64_t i = 0; i < dim; ++i) {
      float v = 0;
      for (int64_t j = 0; j < used; ++j)
        v = std::fma(weights[Count(s * used + j)], x[Count((s * used + j) * dim + i)], v);
      y.push_back(v);
    }
  }
  World world;
  const Place at_ids = world.Reserve(kShared, ids.size() * 4), at_weights = world.Reserve(kShared, weights.size() * 4);
  const Place at_x = world.Put(kShared, x), out = world.Reserve(kShared, y.size() * 4);
  Call route("route", rows);
  route.Operand("logits", world.Put(kShared, logits)).Operand("ids", at_ids).Operand("weights", at_weights);
  route.Constant("columns", columns).Constant("used", used).Constant("groups", 1).Constant("keep", 1);
  route.Constant("norm", 1).Constant("norm_by", BitsOf(1e-6f)).Constant("scale", BitsOf(2.5f));
  World expected = world;
  expected.Write(at_ids, ids);
  expected.Write(at_weights, weights);
  for (Over over : {kRows, kAll}) route.Divide(over, 1).Check(world, expected, "route");
  world = expected;
  expected.Write(out, y);
  Call combine("combine", rows);
  combine.Operand("x", at_x).Operand("weights", at_weights).Operand("out", out);
  combine.Constant("dim", dim).Constant("parts", used);
  for (Over over : {kRows, kTiles}) combine.Divide(over, 1).Check(world, expected, "combine");
}

}  // namespace
}  // namespace llmc::kernels_test
