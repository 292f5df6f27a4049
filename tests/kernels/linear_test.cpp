// linear, plain and gated: every weight type, activations, row count, split, bias and K split, against scalar
// references.
#include "backends/kernels/thens.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/world.h"

namespace llmc::kernels_test {
namespace {

struct Case {
  Type type;
  bool a8;
  int64_t rows, k;
  std::vector<int64_t> n;
  bool interleave = false, bias = false;
  int64_t k_split = 1, grain = 1;
  Extreme extreme = Extreme::None;
  Over over = kTiles;
};

std::string Describe(const Case& c) {
  std::ostringstream out;
  out << "type " << c.type << " k " << c.k << " n";
  for (int64_t n : c.n) out << ' ' << n;
  out << (c.interleave ? " interleave" : "") << (c.bias ? " bias" : "") << " k_split " << c.k_split << " grain "
      << c.grain << " over " << c.over;
  return out.str();
}

// Rows of activations in both forms, with extreme codes where the case wants them.
std::vector<float> Activations(const Case& c, std::mt19937& random) {
  std::vector<float> x = RandomFloats(static_cast<size_t>(c.rows * c.k), random);
  if (c.extreme == Extreme::Codes) {
    for (float& v : x) v = v < 0 && random() % 8 == 0 ? -1.0f : 1.0f;
  }
  if (c.extreme == Extreme::Scales) {
    for (size_t i = 0; i < x.size(); ++i) x[i] *= i / 32 % 3 == 0 ? 0x1p-90f : i / 32 % 3 == 1 ? 0x1p-60f : 0x1p10f;
  }
  return x;
}

struct Inputs {
  std::vector<Matrix> parts;
  std::vector<uint8_t> tiles;
  std::vector<float> x, bias;
  std::vector<uint8_t> x_bytes;
  std::vector<Quantized> rows;
};
Inputs MakeInputs(const Case& c, std::mt19937& random) {
  Inputs in;
  int64_t total = 0;
  for (int64_t n : c.n) {
    in.parts.push_back(RandomMatrix(c.type, n, c.k, random, c.extreme));
    total += n;
  }
  if (c.interleave) {
    const size_t tiles = static_cast<size_t>((c.n[0] + 15) / 16), bytes = in.parts[0].tiles.size() / tiles;
    for (size_t t = 0; t < tiles; ++t) {
      for (const Matrix& part : in.parts)
        in.tiles.insert(in.tiles.end(), part.tiles.data() + t * bytes, part.tiles.data() + (t + 1) * bytes);
    }
  } else {
    for (const Matrix& part : in.parts) in.tiles.insert(in.tiles.end(), part.tiles.begin(), part.tiles.end());
  }
  in.x = Activations(c, random);
  for (int64_t s = 0; s < c.rows; ++s) {
    if (!c.a8) break;
    in.rows.push_back(Quantize(in.x.data() + s * c.k, c.k));
    in.x_bytes.insert(in.x_bytes.end(), in.rows.back().bytes.begin(), in.rows.back().bytes.end());
  }
  if (c.bias) in.bias = RandomFloats(static_cast<size_t>(total), random);
  return in;
}
float Output(const Case& c, const Inputs& in, int64_t s, size_t part, int64_t column) {
  const float sum = c.a8 ? LinearA8(in.rows[static_cast<size_t>(s)], in.parts[part], column, c.k_split)
                         : LinearF32(in.x.data() + s * c.k, in.parts[part], column, c.k_split);
  if (!c.bias) return sum;
  int64_t before = 0;
  for (size_t p = 0; p < part; ++p) before += c.n[p];
  return sum + in.bias[static_cast<size_t>(before + column)];
}

void CheckLinear(const Case& c, uint32_t seed) {
  std::mt19937 random(seed);
  const Inputs in = MakeInputs(c, random);
  World world;
  Call call(c.a8 ? "linear_a8" : "linear_f32", static_cast<uint32_t>(c.rows));
  call.Operand("x", c.a8 ? world.Put(kShared, in.x_bytes) : world.Put(kShared, in.x))
      .Operand("weight", world.Put(kWeights, in.tiles));
  if (c.bias) call.Operand("bias", world.Put(kWeights, in.bias));
  world.Reserve(kWeights, 64);
  std::vector<Place> out;
  for (size_t p = 0; p < c.n.size(); ++p) {
    out.push_back(world.Reserve(p == 1 ? kLogits : kShared, static_cast<size_t>(c.rows * c.n[p]) * 4));
    call.Operand("out" + std::to_string(p), out[p]).Constant("n" + std::to_string(p), c.n[p]);
  }
  world.Reserve(kShared, 64);
  call.Constant("k", c.k)
      .Constant("weight_type", c.type)
      .Constant("k_split", c.k_split)
      .Constant("interleave", c.interleave)
      .Constant("has_bias", c.bias);
  call.Divide(c.over, c.grain);
  World expected = world;
  for (size_t p = 0; p < c.n.size(); ++p) {
    std::vector<float> y;
    for (int64_t s = 0; s < c.rows; ++s) {
      for (int64_t j = 0; j < c.n[p]; ++j) y.push_back(Output(c, in, s, p, j));
    }
    expected.Write(out[p], y);
  }
  call.Check(world, expected, Describe(c));
}

void CheckGated(const Case& c, Type out_type, uint32_t seed) {
  std::mt19937 random(seed);
  const Inputs in = MakeInputs(c, random);
  World world;
  Call call(c.a8 ? "linear_a8" : "linear_f32", static_cast<uint32_t>(c.rows));
  call.Operand("x", c.a8 ? world.Put(kShared, in.x_bytes) : world.Put(kShared, in.x))
      .Operand("weight", world.Put(kWeights, in.tiles));
  if (c.bias) call.Operand("bias", world.Put(kWeights, in.bias));
  const int64_t n = c.n[0];
  const Place out = world.Reserve(kShared, static_cast<size_t>(c.rows * n) * 4);
  world.Reserve(kShared, 64);
  call.Operand("out0", out)
      .Constant("k", c.k)
      .Constant("n0", n)
      .Constant("n1", n)
      .Constant("interleave", 1)
      .Constant("pair", 1)
      .Constant("weight_type", c.type)
      .Constant("k_split", c.k_split);
  call.Constant("has_bias", c.bias).Constant("out_type", out_type).Divide(c.over, c.grain);
  World expected = world;
  std::vector<float> y;
  std::vector<uint8_t> bytes;
  for (int64_t s = 0; s < c.rows; ++s) {
    for (int64_t j = 0; j < n; ++j) y.push_back(Silu(Output(c, in, s, 0, j)) * Output(c, in, s, 1, j));
    if (out_type == kA8) {
      const Quantized q = Quantize(y.data() + s * n, n);
      bytes.insert(bytes.end(), q.bytes.begin(), q.bytes.end());
    }
  }
  out_type == kA8 ? expected.Write(out, bytes) : expected.Write(out, y);
  call.Check(world, expected, Describe(c) + " gated out " + std::to_string(out_type));
}

// One result through an activation and a second operand, stored as out_type.
void CheckSteps(const Case& c, Type out_type, uint32_t seed) {
  std::mt19937 random(seed);
  const Inputs in = MakeInputs(c, random);
  const int64_t n = c.n[0];
  const std::vector<float> other = RandomFloats(static_cast<size_t>(c.rows * n), random);
  World world;
  Call call(c.a8 ? "linear_a8" : "linear_f32", static_cast<uint32_t>(c.rows));
  call.Operand("x", c.a8 ? world.Put(kShared, in.x_bytes) : world.Put(kShared, in.x))
      .Operand("weight", world.Put(kWeights, in.tiles))
      .Operand("other", world.Put(kShared, other));
  if (c.bias) call.Operand("bias", world.Put(kWeights, in.bias));
  const Place out = world.Reserve(kShared, static_cast<size_t>(c.rows * n) * 4);
  world.Reserve(kShared, 64);
  call.Operand("out0", out).Constant("k", c.k).Constant("n0", n).Constant("weight_type", c.type);
  call.Constant("k_split", c.k_split).Constant("has_bias", c.bias).Constant("out_type", out_type);
  call.Constant("then0", kThenAct | static_cast<int64_t>(math::Activation::GeluTanh) << 8).Constant("then1", kThenAdd);
  World expected = world;
  std::vector<float> y;
  std::vector<uint8_t> bytes;
  for (int64_t s = 0; s < c.rows; ++s) {
    for (int64_t j = 0; j < n; ++j)
      y.push_back(math::GeluTanh(Output(c, in, s, 0, j)) + other[static_cast<size_t>(s * n + j)]);
    if (out_type != kA8) continue;
    const Quantized q = Quantize(y.data() + s * n, n);
    bytes.insert(bytes.end(), q.bytes.begin(), q.bytes.end());
  }
  out_type == kA8 ? expected.Write(out, bytes) : expected.Write(out, y);
  call.Divide(c.over, c.grain).Check(world, expected, Describe(c) + " steps out " + std::to_string(out_type));
}

constexpr Type kBlockTypes[] = {kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kIQ4_NL, kMXFP4};
constexpr Type kAllTypes[] = {kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kIQ4_NL, kMXFP4};
constexpr Type kSuperTypes[] = {kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kIQ4_XS, kTQ1_0, kTQ2_0};  // blocks of 256

TEST(Linear, A8EveryTypeAndRowCount) {
  uint32_t seed = 1;
  for (Type type : kBlockTypes) {
    for (int64_t rows : {1, 2, 3, 4, 5, 7, 16, 33}) CheckLinear({type, true, rows, 96, {40}}, ++seed);
    CheckLinear({type, true, 200, 64, {17}}, ++seed);
  }
}

TEST(Linear, A8LongRowsAndKSplit) {
  uint32_t seed = 100;
  for (Type type : kBlockTypes) {
    for (int64_t rows : {1, 6}) {
      CheckLinear({type, true, rows, 32 * 37, {20}}, ++seed);
      CheckLinear({type, true, rows, 32 * 12, {20}, false, false, 3}, ++seed);
      CheckLinear({type, true, rows, 32 * 72, {16}, false, true, 2}, ++seed);
    }
  }
}

TEST(Linear, A8ExtremeCodesAndScales) {
  uint32_t seed = 200;
  for (Type type : kBlockTypes) {
    for (int64_t rows : {1, 9}) {
      for (Extreme extreme : {Extreme::Codes, Extreme::Scales})
        CheckLinear({type, true, rows, 128, {48}, false, false, 1, 1, extreme}, ++seed);
    }
  }
}

TEST(Linear, F32EveryTypeAndRowCount) {
  uint32_t seed = 300;
  for (Type type : kAllTypes) {
    for (int64_t rows : {1, 2, 5, 6, 7, 13, 40}) CheckLinear({type, false, rows, 64, {40}}, ++seed);
    for (int64_t rows : {1, 8}) {
      CheckLinear({type, false, rows, 32 * 19, {16}}, ++seed);
      CheckLinear({type, false, rows, 128, {24}, false, true, 2}, ++seed);
      CheckLinear({type, false, rows, 96, {48}, false, false, 1, 1, Extreme::Scales}, ++seed);
    }
    CheckLinear({type, false, 200, 32, {17}}, ++seed);
  }
}

TEST(Linear, BlocksOf256) {
  uint32_t seed = 350;
  for (Type type : kSuperTypes) {
    for (bool a8 : {true, false}) {
      for (int64_t rows : {1, 2, 3, 4, 6, 8, 13}) CheckLinear({type, a8, rows, 512, {20}}, ++seed);
      for (int64_t rows : {1, 5}) {
        CheckLinear({type, a8, rows, 1536, {16}, false, true, 2}, ++seed);
        for (Extreme extreme : {Extreme::Codes, Extreme::Scales})
          CheckLinear({type, a8, rows, 256, {16}, false, false, 1, 1, extreme}, ++seed);
      }
      CheckLinear({type, a8, 26, 256, {40, 20}, false, true}, ++seed);
      CheckGated({type, a8, 3, 256, {32, 32}, true, true}, kF32, ++seed);
      CheckGated({type, a8, 1, 512, {32, 32}, true, false, 2, 2}, kA8, ++seed);
    }
  }
}

TEST(Linear, F32OddSizes) {
  uint32_t seed = 400;
  for (Type type : {kF32, kF16, kBF16}) {
    for (int64_t k : {1, 2, 3, 5, 16, 33, 257, 300}) {
      for (int64_t rows : {1, 3, 12}) CheckLinear({type, false, rows, k, {1 + k % 37}}, ++seed);
    }
  }
}

TEST(Linear, SplitsAndBias) {
  uint32_t seed = 500;
  for (bool a8 : {true, false}) {
    for (int64_t rows : {1, 5}) {
      for (bool bias : {false, true}) {
        CheckLinear({kQ4_1, a8, rows, 64, {48, 20, 20}, false, bias}, ++seed);
        CheckLinear({kQ4_0, a8, rows, 64, {16, 7}, false, bias, 1, 2}, ++seed);
        CheckLinear({kQ8_0, a8, rows, 64, {40, 40}, true, bias}, ++seed);
        CheckLinear({kQ8_0, a8, rows, 64, {72, 72}, true, bias, 1, 2}, ++seed);
        CheckLinear({kQ8_0, a8, rows, 64, {40}, false, bias, 1, 1, Extreme::None, kAll}, ++seed);
        CheckLinear({kQ5_1, a8, rows, 64, {40}, false, bias, 1, 1, Extreme::None, kOne}, ++seed);
      }
    }
  }
}

TEST(Linear, Steps) {
  uint32_t seed = 700;
  for (bool a8 : {true, false}) {
    for (int64_t rows : {1, 5, 200}) {
      CheckSteps({kQ8_0, a8, rows, 64, {40}, false, rows == 5}, kF32, ++seed);
      CheckSteps({kQ4_0, a8, rows, 64, {96}, false, rows == 5, 1, 2}, kA8, ++seed);
    }
  }
}

TEST(LinearGated, F32AndQuantized) {
  uint32_t seed = 600;
  for (Type type : kAllTypes) {
    for (bool a8 : {true, false}) {
      if (a8 && !InfoOf(type).is_block) continue;
      for (int64_t rows : {1, 3, 17}) {
        CheckGated({type, a8, rows, 64, {40, 40}, true, rows == 3}, kF32, ++seed);
        CheckGated({type, a8, rows, 64, {96, 96}, true, rows == 3, 2, 2}, kA8, ++seed);
      }
    }
  }
  CheckGated({kQ4_1, true, 200, 32, {64, 64}, true, false, 1, 2}, kA8, ++seed);
  CheckGated({kQ4_1, true, 1, 32, {64, 64}, true, false, 1, 1, Extreme::None, kAll}, kA8, ++seed);
}

}  // namespace
}  // namespace llmc::kernels_test
