// embed, norm, map, gated, xielu and last_rows against scalar references.
#include "backends/kernels/thens.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/world.h"

namespace llmc::kernels_test {
namespace {

int64_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }
size_t Count(int64_t n) { return static_cast<size_t>(n); }

TEST(Rows, Embed) {
  std::mt19937 random(1);
  for (Type type : {kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kIQ4_NL,
                    kIQ4_XS, kMXFP4, kTQ1_0, kTQ2_0}) {
    for (Layout layout : {kLayoutRows, kTiles16}) {
      const int64_t block = InfoOf(type).block;
      for (int64_t dim : {block > 1 ? 2 * block : 37, block > 1 ? 3 * block : 48}) {
        const Matrix w = RandomMatrix(type, 43, dim, random, dim == 3 * block ? Extreme::Codes : Extreme::None);
        const std::vector<int32_t> tokens = {42, 0, 15, 16, 42, 7};
        const int64_t rows = static_cast<int64_t>(tokens.size());
        World world;
        Call call("embed", static_cast<uint32_t>(rows));
        world.Reserve(kWeights, 64);
        const Place out = world.Reserve(kShared, Count(rows * dim) * 4);
        world.Reserve(kShared, 64);
        call.Operand("table", world.Put(kWeights, layout == kTiles16 ? w.tiles : w.rows))
            .Operand("tokens", world.Put(kTokens, tokens));
        call.Operand("out", out).Constant("dim", dim).Constant("table_type", type).Constant("table_layout", layout);
        World expected = world;
        std::vector<float> y;
        for (int32_t t : tokens) y.insert(y.end(), w.values.begin() + t * dim, w.values.begin() + (t + 1) * dim);
        expected.Write(out, y);
        const std::string what = "type " + std::to_string(type) + " layout " + std::to_string(layout);
        call.Divide(kRows, 1).Check(world, expected, what);
        call.Divide(kTiles, 2).Check(world, expected, what);
        call.Divide(kAll, 1).Check(world, expected, what);
        world.pos = expected.pos = 30;
        y.assign(w.values.begin() + 37 * dim, w.values.begin() + (37 + rows) * dim);
        expected.Write(out, y);
        call.Constant("is_position_embed", 1).Constant("offset", 7).Divide(kRows, 1).Check(world, expected, what);
      }
    }
  }
}

// Rows whose magnitudes reach from subnormal to large, with zeros and ties.
std::vector<float> WideRows(int64_t rows, int64_t dim, std::mt19937& random) {
  std::vector<float> x = RandomFloats(Count(rows * dim), random);
  for (size_t i = 0; i < x.size(); ++i) {
    switch (i / 32 % 6) {
      case 0: x[i] = std::ldexp(x[i], -130); break;
      case 1: x[i] = 0.0f * x[i]; break;
      case 2: x[i] = static_cast<float>(static_cast<int>(random() % 255) - 127) * 0.5f; break;
      case 3: x[i] = std::ldexp(x[i], static_cast<int>(random() % 60) - 40); break;
      case 4: x[i] = std::ldexp(x[i], -79); break;
      default: break;
    }
  }
  return x;
}

// Of rows of `heads` vectors, with one gain for all.
Call Norm(int64_t rows, int64_t heads) {
  Call call("norm", static_cast<uint32_t>(rows));
  call.Constant("heads", heads).Constant("has_gain", 1).Constant("gain_heads", 1);
  return call;
}

TEST(Rows, Norms) {
  std::mt19937 random(2);
  for (int64_t dim : {32, 64, 96, 320, 576, 20, 7, 1}) {
    for (int64_t rows : {1, 5}) {
      for (bool wide : {false, true}) {
        const std::vector<float> x = wide ? WideRows(rows, dim, random) : RandomFloats(Count(rows * dim), random);
        const std::vector<float> delta = RandomFloats(x.size(), random), gain = RandomFloats(Count(dim), random);
        const float eps = wide ? 1e-6f : 1e-5f;
        std::vector<float> sum(x.size()), y, z;
        std::vector<uint8_t> y8, z8;
        for (size_t i = 0; i < x.size(); ++i) sum[i] = x[i] + delta[i];
        for (int64_t s = 0; s < rows; ++s) {
          const std::vector<float> a = RmsNorm(x.data() + s * dim, gain, eps),
                                   b = RmsNorm(sum.data() + s * dim, gain, eps);
          y.insert(y.end(), a.begin(), a.end());
          z.insert(z.end(), b.begin(), b.end());
          if (dim % 32 != 0) continue;
          const Quantized qa = Quantize(a.data(), dim), qb = Quantize(b.data(), dim);
          y8.insert(y8.end(), qa.bytes.begin(), qa.bytes.end());
          z8.insert(z8.end(), qb.bytes.begin(), qb.bytes.end());
        }
        World world;
        const Place at_x = world.Put(kShared, x), at_delta = world.Put(kShared, delta),
                    at_gain = world.Put(kWeights, gain);
        const Place at_sum = world.Reserve(kShared, x.size() * 4), out = world.Reserve(kShared, x.size() * 4);
        world.Reserve(kShared, 64);
        for (bool quantized : {false, true}) {
          if (quantized && dim % 32 != 0) continue;
          Call norm = Norm(rows, 1);
          norm.Operand("x", at_x)
              .Operand("gain", at_gain)
              .Operand("out", out)
              .Constant("out_type", quantized ? kA8 : kF32)
              .Constant("record", dim)
              .Constant("dim", dim)
              .Constant("eps", BitsOf(eps));
          World expected = world;
          quantized ? expected.Write(out, y8) : expected.Write(out, y);
          norm.Divide(kRows, 1).Check(world, expected, "dim " + std::to_string(dim));
          norm.Divide(kAll, 1).Check(world, expected, "dim " + std::to_string(dim));
          for (Place to : {at_sum, at_x, at_delta}) {
            Call add = Norm(rows, 1);
            add.Constant("has_delta", 1).Constant("out_type", quantized ? kA8 : kF32).Constant("record", dim);
            add.Operand("x", at_x)
                .Operand("delta", at_delta)
                .Operand("gain", at_gain)
                .Operand("sum", to)
                .Operand("out", out);
            add.Constant("dim", dim).Constant("eps", BitsOf(eps));
            expected = world;
            expected.Write(to, sum);
            quantized ? expected.Write(out, z8) : expected.Write(out, z);
            add.Divide(kRows, 2).Check(world, expected, "dim " + std::to_string(dim));
            add.Divide(kOne, 1).Check(world, expected, "dim " + std::to_string(dim));
          }
        }
      }
    }
  }
}

TEST(Rows, NormOfHeads) {
  std::mt19937 random(3);
  const int64_t rows = 3, heads = 6, dim = 24;
  const std::vector<float> x = RandomFloats(Count(rows * heads * dim), random), gain = RandomFloats(Count(dim), random);
  World world;
  const Place at_x = world.Put(kShared, x), at_gain = world.Put(kWeights, gain),
              out = world.Reserve(kShared, x.size() * 4);
  World expected = world;
  std::vector<float> y;
  for (int64_t i = 0; i < rows * heads; ++i) {
    const std::vector<float> row = RmsNorm(x.data() + i * dim, gain, 1e-6f);
    y.insert(y.end(), row.begin(), row.end());
  }
  expected.Write(out, y);
  Call call = Norm(rows, heads);
  call.Operand("x", at_x)
      .Operand("gain", at_gain)
      .Operand("out", out)
      .Constant("dim", dim)
      .Constant("eps", BitsOf(1e-6f));
  for (Over over : {kHeads, kRows, kAll, kOne})
    call.Divide(over, 2).Check(world, expected, "over " + std::to_string(over));
  expected = world;
  expected.Write(at_x, y);
  call.Operand("out", at_x).Divide(kHeads, 3).Check(world, expected, "in place");
}

TEST(Rows, Quantize) {
  std::mt19937 random(4);
  for (int64_t dim : {32, 96, 320}) {
    for (int64_t rows : {1, 40}) {
      const std::vector<float> x = WideRows(rows, dim, random);
      World world;
      const Place at_x = world.Put(kShared, x), out = world.Reserve(kShared, x.size() * 4);
      World expected = world;
      std::vector<uint8_t> bytes;
      for (int64_t s = 0; s < rows; ++s) {
        const Quantized q = Quantize(x.data() + s * dim, dim);
        bytes.insert(bytes.end(), q.bytes.begin(), q.bytes.end());
      }
      expected.Write(out, bytes);
      Call call("map", static_cast<uint32_t>(rows));
      call.Operand("x", at_x)
          .Operand("out", out)
          .Constant("dim", dim)
          .Constant("out_type", kA8)
          .Constant("record", dim);
      call.Divide(kRows, 1).Check(world, expected, "");
      call.Divide(kTiles, 2).Check(world, expected, "");
      call.Divide(kAll, 1).Check(world, expected, "");
    }
  }
}

// A block with a value that isn't finite has such a d, wherever the value stands; the others are as ever.
TEST(Rows, QuantizeWhatIsNotFinite) {
  std::mt19937 random(5);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const int64_t dim = 96;
  const std::vector<float> plain = RandomFloats(Count(dim), random, 3.0f);
  const Quantized expected = Quantize(plain.data(), dim);
  for (size_t at = 0; at < plain.size(); ++at) {
    for (float value :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(), kInf, -kInf}) {
      std::vector<float> x = plain;
      x[at] = value;
      for (const KernelEntry* table : {NativeKernels(), EmulatedKernels()}) {
        World world;
        const Place out = world.Reserve(kShared, x.size() * 4);
        Call call("map", 1);
        call.Operand("x", world.Put(kShared, x)).Operand("out", out).Constant("dim", dim);
        call.Constant("out_type", kA8).Constant("record", dim).Divide(kAll, 1);
        call.Run(table, world, 1);
        const auto bytes = world.Read<uint8_t>(out, expected.bytes.size());
        for (size_t block = 0; block < 3; ++block) {
          float d;
          std::memcpy(&d, &bytes[96 + 4 * block], 4);
          if (block == at / 32) {
            EXPECT_FALSE(std::isfinite(d)) << at << " " << value;
          } else {
            EXPECT_EQ(d, expected.d[block]);
            EXPECT_EQ(std::memcmp(&bytes[32 * block], &expected.bytes[32 * block], 32), 0);
          }
        }
      }
    }
  }
}

// A row of several records.
TEST(Rows, QuantizeByRecords) {
  std::mt19937 random(11);
  const int64_t rows = 3, dim = 192, record = 64;
  const std::vector<float> x = WideRows(rows, dim, random);
  World world;
  const Place at_x = world.Put(kShared, x), out = world.Reserve(kShared, x.size() * 4);
  World expected = world;
  std::vector<uint8_t> bytes;
  for (int64_t r = 0; r < rows * dim / record; ++r) {
    const Quantized q = Quantize(x.data() + r * record, record);
    bytes.insert(bytes.end(), q.bytes.begin(), q.bytes.end());
  }
  expected.Write(out, bytes);
  Call call("map", rows);
  call.Operand("x", at_x).Operand("out", out).Constant("dim", dim).Constant("out_type", kA8).Constant("record", record);
  for (Over over : {kRows, kTiles}) call.Divide(over, 2).Check(world, expected, "records");
}

// Ties of both parities, subnormals, the border to infinity, infinities and NaNs, with both signs.
std::vector<float> Bf16Edges() {
  std::vector<float> edges;
  for (uint32_t bits : {0u,          1u,          0x7fffu,     0x8000u,     0x8001u,     0x18000u,    0x7fffffu,
                        0x800000u,   0x3f807fffu, 0x3f808000u, 0x3f808001u, 0x3f818000u, 0x3fffffffu, 0x7f7f7fffu,
                        0x7f7f8000u, 0x7f7fffffu, 0x7f800000u, 0x7f800001u, 0x7fa54321u, 0x7fc00000u, 0x7fffffffu}) {
    edges.push_back(std::bit_cast<float>(bits));
    edges.push_back(std::bit_cast<float>(bits | 0x80000000u));
  }
  return edges;
}

TEST(Rows, RoundToBf16) {
  std::mt19937 random(6);
  const std::vector<float> edges = Bf16Edges();
  for (int64_t dim : {1, 15, 16, 40, 96, 577}) {
    for (int64_t rows : {1, 7, 40}) {
      std::vector<float> x(Count(rows * dim)), y;
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = i % 3 == 0 ? edges[i / 3 % edges.size()] : std::bit_cast<float>(static_cast<uint32_t>(random()));
      for (float v : x) y.push_back(RoundToBf16(v));
      World world;
      const Place at_x = world.Put(kShared, x), out = world.Reserve(kShared, x.size() * 4);
      world.Reserve(kShared, 64);
      World expected = world;
      expected.Write(out, y);
      Call call("map", static_cast<uint32_t>(rows));
      call.Operand("x", at_x).Operand("out", out).Constant("dim", dim).Constant("then0", kThenRound);
      for (Over over : {kRows, kTiles, kAll, kOne})
        call.Divide(over, 1).Check(world, expected, "over " + std::to_string(over));
      expected = world;
      expected.Write(at_x, y);
      call.Operand("out", at_x).Divide(kTiles, 2).Check(world, expected, "in place");
    }
  }
}

TEST(Rows, ElementWise) {
  std::mt19937 random(5);
  for (int64_t dim : {1, 15, 16, 40, 96}) {
    for (int64_t rows : {1, 7}) {
      std::vector<float> a = RandomFloats(Count(rows * dim), random, 20.0f), b = RandomFloats(a.size(), random);
      const float edges[] = {-86.6f, -87.0f, -120.0f, -1e30f, 1e30f, 0.0f, -0.0f, 0x1p-140f};
      for (size_t i = 0; i < a.size(); i += 5) a[i] = edges[i / 5 % 8];
      World world;
      const Place at_a = world.Put(kShared, a), at_b = world.Put(kShared, b),
                  out = world.Reserve(kShared, a.size() * 4);
      std::vector<float> sum, product;
      for (size_t i = 0; i < a.size(); ++i) {
        sum.push_back(a[i] + b[i]);
        product.push_back(Silu(a[i]) * b[i]);
      }
      for (Over over : {kRows, kTiles, kAll, kOne}) {
        World expected = world;
        expected.Write(out, sum);
        Call add("map", static_cast<uint32_t>(rows));
        add.Operand("x", at_a)
            .Operand("other", at_b)
            .Operand("out", out)
            .Constant("dim", dim)
            .Constant("then0", kThenAdd)
            .Divide(over, 1)
            .Check(world, expected, "");
        expected.Write(out, product);
        Call gated("gated", static_cast<uint32_t>(rows));
        gated.Operand("gate", at_a)
            .Operand("up", at_b)
            .Operand("out", out)
            .Constant("dim", dim)
            .Divide(over, 1)
            .Check(world, expected, "");
        for (int64_t count : {int64_t{1}, rows}) {
          expected = world;
          expected.Write(out, std::vector<float>(a.end() - count * dim, a.end()));
          Call last("last_rows", static_cast<uint32_t>(rows));
          last.Operand("x", at_a)
              .Operand("out", out)
              .Constant("dim", dim)
              .Constant("count", count)
              .Divide(over, 1)
              .Check(world, expected, "");
        }
      }
    }
  }
}

// A step's constant.
int64_t ThenOf(Then then, float parameter) { return then | BitsOf(parameter) << 8; }

// Values around every cut and fit of the activations.
std::vector<float> ActivationInputs(size_t count, std::mt19937& random) {
  const float edges[] = {-1e30f, -130.0f, -100.0f, -87.5f, -86.6f, -16.0f, -14.0f, -1.0f, -1e-6f, -0x1p-140f, -0.0f,
                         0.0f,   1e-7f,   0.3f,    0.35f,  1.0f,   7.0f,   16.5f,  86.4f, 86.6f,  125.5f,     1e30f};
  std::vector<float> x = RandomFloats(count, random, 12.0f);
  for (size_t i = 0; i < x.size(); i += 3) x[i] = edges[i / 3 % std::size(edges)];
  return x;
}

TEST(Rows, Activations) {
  std::mt19937 random(8);
  const int64_t dim = 96, rows = 3;
  const std::vector<float> x = ActivationInputs(Count(rows * dim), random), up = RandomFloats(x.size(), random, 9.0f);
  World world;
  const Place at_x = world.Put(kShared, x), at_up = world.Put(kShared, up), out = world.Reserve(kShared, x.size() * 4);
  const Place at_numbers = world.Put(kWeights, std::vector<float>{0.8f, 0.3f, 0.5f, -1e-6f});
  const auto check = [&](Call call, const auto& value, const std::string& what) {
    std::vector<float> y;
    for (size_t i = 0; i < x.size(); ++i) y.push_back(value(i));
    World expected = world;
    expected.Write(out, y);
    call.Operand("out", out).Constant("dim", dim).Divide(kTiles, 1).Check(world, expected, what);
  };
  Call map("map", rows), gated("gated", rows), xielu("xielu", rows);
  map.Operand("x", at_x);
  gated.Operand("gate", at_x).Operand("up", at_up);
  xielu.Operand("x", at_x).Operand("numbers", at_numbers);
  for (int64_t kind = 0; kind < math::kActivations; ++kind) {
    const auto act = [&](size_t i) { return math::Activate(static_cast<math::Activation>(kind), x[i]); };
    const std::string what = "activation " + std::to_string(kind);
    check(map.Constant("then0", kThenAct | kind << 8), act, what);
    check(gated.Constant("act", kind), [&](size_t i) { return act(i) * up[i]; }, what);
  }
  gated.Constant("act", math::kActivations).Constant("alpha", BitsOf(1.702f)).Constant("limit", BitsOf(7.0f));
  check(gated, [&](size_t i) { return math::SwigluClamped(x[i], up[i], 1.702f, 7.0f); }, "clamped");
  const math::Xielu constants{0.8f, 0.3f, 0.5f, -1e-6f};
  check(xielu, [&](size_t i) { return math::ApplyXielu(x[i], constants); }, "xielu");
}

// Three steps one after another, with a second operand of all rows or of one, stored as f32 and as a8.
TEST(Rows, Steps) {
  std::mt19937 random(9);
  for (int64_t dim : {96, 41}) {
    for (bool row : {false, true}) {
      const int64_t rows = 3;
      const std::vector<float> x = RandomFloats(Count(rows * dim), random, 4.0f),
                               other = RandomFloats(row ? Count(dim) : x.size(), random);
      World world;
      const Place at_x = world.Put(kShared, x), at_other = world.Put(kWeights, other);
      world.Reserve(kWeights, 64);
      const Place out = world.Reserve(kShared, x.size() * 4);
      world.Reserve(kShared, 64);
      std::vector<float> y;
      std::vector<uint8_t> bytes;
      for (size_t i = 0; i < x.size(); ++i) {
        const float clamped = std::max(-2.5f, std::min(2.5f, x[i])), scaled = clamped * 0.3f;
        y.push_back(math::SoftCap(row ? scaled * other[i % other.size()] : scaled + other[i], 0.5f));
      }
      for (int64_t s = 0; dim % 32 == 0 && s < rows; ++s) {
        const Quantized q = Quantize(y.data() + s * dim, dim);
        bytes.insert(bytes.end(), q.bytes.begin(), q.bytes.end());
      }
      std::vector<float> scaled;
      for (size_t i = 0; i < x.size(); ++i) scaled.push_back(std::max(-2.5f, std::min(2.5f, x[i])) * 0.3f);
      Call call("map", rows);
      call.Operand("x", world.Put(kShared, scaled)).Operand("other", at_other).Operand("out", out);
      call.Constant("then0", row ? kThenMul : kThenAdd).Constant("then1", ThenOf(kThenSoftCap, 0.5f));
      call.Constant("dim", dim).Constant("other_row", row);
      for (Type type : {kF32, kA8}) {
        if (type == kA8 && dim % 32 != 0) continue;
        World expected = world;
        type == kA8 ? expected.Write(out, bytes) : expected.Write(out, y);
        for (Over over : {kRows, kTiles})
          call.Constant("out_type", type)
              .Constant("record", dim)
              .Divide(over, 2)
              .Check(world, expected, "dim " + std::to_string(dim));
      }
      World expected = world;
      expected.Write(out, scaled);
      Call two("map", rows);
      two.Operand("x", at_x).Operand("out", out).Constant("dim", dim).Constant("then0", ThenOf(kThenClamp, 2.5f));
      two.Constant("then1", ThenOf(kThenScale, 0.3f)).Divide(kRows, 1).Check(world, expected, "clamp and scale");
    }
  }
}

std::vector<float> LayerNorm(const float* x, int64_t dim, const float* gain, const float* bias, float eps) {
  std::vector<float> lanes(16, 0.0f), squares(16, 0.0f), y(Count(dim));
  for (size_t i = 0; i < y.size(); ++i) lanes[i % 16] = lanes[i % 16] + x[i];
  const float mean = TreeSum(lanes) / static_cast<float>(dim);
  for (size_t i = 0; i < y.size(); ++i) squares[i % 16] = std::fma(x[i] - mean, x[i] - mean, squares[i % 16]);
  const float r = 1.0f / std::sqrt(TreeSum(squares) / static_cast<float>(dim) + eps);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = (x[i] - mean) * r;
    if (gain != nullptr) y[i] = y[i] * gain[i];
    if (bias != nullptr) y[i] = y[i] + bias[i];
  }
  return y;
}

// With and without gain and bias, one for all heads or one each; and a plain rms norm without gain.
TEST(Rows, LayerNorms) {
  std::mt19937 random(10);
  for (int64_t dim : {64, 33, 7}) {
    for (int64_t heads : {1, 3}) {
      for (int vectors : {0, 1, 2}) {
        for (bool per_head : {false, true}) {
          const int64_t rows = 2, of = per_head ? heads : 1;
          const std::vector<float> x = RandomFloats(Count(rows * heads * dim), random, 3.0f),
                                   gain = RandomFloats(Count(of * dim), random),
                                   bias = RandomFloats(gain.size(), random);
          World world;
          Call call("norm", rows);
          const Place out = world.Reserve(kShared, x.size() * 4);
          call.Operand("x", world.Put(kShared, x)).Operand("out", out);
          if (vectors > 0) call.Operand("gain", world.Put(kWeights, gain));
          if (vectors > 1) call.Operand("bias", world.Put(kWeights, bias));
          world.Reserve(kWeights, 64);
          call.Constant("heads", heads).Constant("dim", dim).Constant("eps", BitsOf(1e-5f)).Constant("gain_heads", of);
          call.Constant("has_gain", vectors > 0).Constant("has_bias", vectors > 1).Constant("is_layer_norm", 1);
          std::vector<float> y;
          for (int64_t i = 0; i < rows * heads; ++i) {
            const int64_t at = i % of * dim;
            const std::vector<float> head = LayerNorm(x.data() + i * dim, dim, vectors > 0 ? gain.data() + at : nullptr,
                                                      vectors > 1 ? bias.data() + at : nullptr, 1e-5f);
            y.insert(y.end(), head.begin(), head.end());
          }
          World expected = world;
          expected.Write(out, y);
          for (Over over : {kRows, kHeads}) call.Divide(over, 1).Check(world, expected, "dim " + std::to_string(dim));
        }
      }
    }
  }
}

}  // namespace
}  // namespace llmc::kernels_test
