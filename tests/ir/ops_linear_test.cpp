// Guards linear: sums to the bit against a literal transcription, extreme codes, odd shapes, splits,
// threads, and every constraint.
#include <gtest/gtest.h>

#include "ir/block_format.h"
#include "ir/layout.h"
#include "ir/ops/activations.h"
#include "ir/ops/linear_eval.h"
#include "tests/ir/tensors.h"

namespace llmc {
namespace {

using namespace test;

// A weight in rows layout from random values; block codes are quantised from them.
Owned RandomWeight(DType dtype, int64_t n, int64_t k, uint64_t seed) {
  Owned w = Make({dtype, {Dim(n), Dim(k)}, Layout::Rows, -1});
  test::Random random(seed);
  for (int64_t row = 0; row < n; ++row) {
    const std::vector<float> values = random.Vector(k);
    QuantizeRow(dtype, values.data(), k, w.bytes.data() + row * RowBytes(dtype, k));
  }
  return w;
}

// The parts below one another, each on a tile.
Owned Pack(const std::vector<Owned*>& parts, bool interleave = false) {
  const DType dtype = parts[0]->type.dtype;
  const int64_t k = parts[0]->type.dims[1].value;
  int64_t rows = 0;
  for (const Owned* part : parts) rows = (rows + 15) / 16 * 16 + part->type.dims[0].value;
  Owned packed = Make({dtype, {Dim(rows), Dim(k)}, Layout::Tiles16, -1});
  int64_t tile = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const int64_t n = parts[p]->type.dims[0].value;
    for (int64_t row = 0; row < n; row += 16, ++tile) {
      const int64_t at = interleave ? row / 16 * 2 + static_cast<int64_t>(p) : tile;
      PackTile(dtype, parts[p]->bytes.data() + row * RowBytes(dtype, k), RowBytes(dtype, k),
               static_cast<int>(std::min<int64_t>(16, n - row)), k, packed.bytes.data() + at * TileBytes(dtype, k));
    }
  }
  return packed;
}

std::vector<float> Dequantized(const Owned& w) {
  std::vector<float> out(static_cast<size_t>(ElementCount(w.type)));
  Dequantize(w.type.dtype, w.bytes.data(), ElementCount(w.type), out.data());
  return out;
}

// The parts of a8's definition that blocks with scales for 16 codes have more than others.
struct Halves {
  int scale[2];
  int min[2];
};

// d, m and signed code of element (row, k) of a block weight in rows layout, decoded independently of ir/layout and
// ir/blocks.
struct Code {
  float d, m;
  int code;
};
Code CodeOf(const Owned& w, int64_t row, int64_t k) {
  const DTypeInfo& info = InfoOf(w.type.dtype);
  const std::byte* block = w.bytes.data() + (row * w.type.dims[1].value + k) / 32 * info.block_bytes;
  const auto at = static_cast<size_t>(k % 32);
  const auto byte = [&](size_t i) { return std::to_integer<int>(block[i]); };
  const auto half = [&](size_t i) { return F16ToF32(static_cast<uint16_t>(byte(i) | (byte(i + 1) << 8))); };
  const auto nibble = [&](size_t codes) { return at < 16 ? byte(codes + at) & 15 : byte(codes + at - 16) >> 4; };
  const auto fifth = [&](size_t bits) { return ((byte(bits + at / 8) >> (at % 8)) & 1) * 16; };
  switch (w.type.dtype) {
    case DType::Q4_0: return {half(0), 0, nibble(2) - 8};
    case DType::Q4_1: return {half(0), half(2), nibble(4)};
    case DType::Q5_0: return {half(0), 0, (nibble(6) | fifth(2)) - 16};
    case DType::Q5_1: return {half(0), half(2), nibble(8) | fifth(4)};
    case DType::Q8_0: return {half(0), 0, static_cast<int8_t>(byte(2 + at))};
    default: break;
  }
  // The others by what blocks_test.cpp holds against gguf-py.
  const std::byte* own = w.bytes.data() + (row * w.type.dims[1].value + k) / info.block * info.block_bytes;
  const int part = static_cast<int>(k % info.block / 32);
  const BlockScales scales = ReadScales(w.type.dtype, own, part);
  uint8_t raw[32];
  ReadCodes(w.type.dtype, own, part, raw);
  return {scales.d, scales.m, SignedCode(w.type.dtype, raw[at])};
}
Halves HalvesOf(const Owned& w, int64_t row, int64_t k) {
  const DTypeInfo& info = InfoOf(w.type.dtype);
  const std::byte* block = w.bytes.data() + (row * w.type.dims[1].value + k) / info.block * info.block_bytes;
  const auto byte = [&](int64_t i) { return std::to_integer<int>(block[i]); };
  const int64_t i = k % info.block / 16;
  switch (w.type.dtype) {
    case DType::Q2_K: return {{byte(i) & 15, byte(i + 1) & 15}, {byte(i) >> 4, byte(i + 1) >> 4}};
    case DType::Q6_K: return {{static_cast<int8_t>(byte(192 + i)), static_cast<int8_t>(byte(193 + i))}, {}};
    case DType::Q3_K: {
      const auto six = [&](int64_t n) {
        return ((n < 8 ? byte(96 + n) & 15 : byte(88 + n) >> 4) | ((byte(104 + n % 4) >> (n / 4 * 2) & 3) << 4)) - 32;
      };
      return {{six(i), six(i + 1)}, {}};
    }
    default: return {{1, 1}, {}};
  }
}

// ir/README.md, Numerics, word by word.
std::vector<float> LinearByDefinition(Owned& x, const Owned& w, int64_t k_split = 1) {
  const int64_t rows = x.type.dims[0].value;
  const int64_t k = x.type.dims[1].value;
  const int64_t n = w.type.dims[0].value;
  const std::vector<float> dense = Dequantized(w);
  std::vector<float> y;
  for (int64_t s = 0; s < rows; ++s) {
    for (int64_t row = 0; row < n; ++row) {
      float total = 0;
      for (int64_t split = 0; split < k_split; ++split) {
        const int64_t begin = k / k_split * split;
        const int64_t end = k / k_split * (split + 1);
        float acc = 0;
        if (x.type.dtype == DType::F32) {
          for (int64_t i = begin; i < end; ++i)
            acc = std::fma(x.f32()[s * k + i], dense[static_cast<size_t>(row * k + i)], acc);
        } else {
          const ops::ActivationRow a = ops::RowOf(x.bytes.data(), s, k);
          for (int64_t block = begin / 32; block < end / 32; ++block) {
            int32_t dot = 0;
            int32_t mins = 0;
            const Halves halves = HalvesOf(w, row, block * 32);
            for (int64_t i = 0; i < 32; ++i) {
              dot += halves.scale[i / 16] * CodeOf(w, row, block * 32 + i).code * a.codes[block * 32 + i];
              mins += halves.min[i / 16] * a.codes[block * 32 + i];
            }
            const Code scale = CodeOf(w, row, block * 32);
            switch (w.type.dtype) {
              case DType::Q2_K: acc = std::fma(scale.m * a.d[block], static_cast<float>(mins), acc); break;
              case DType::Q4_1:
              case DType::Q5_1:
              case DType::Q4_K:
              case DType::Q5_K: acc = std::fma(scale.m, a.s[block], acc); break;
              default: break;
            }
            acc = std::fma(scale.d * a.d[block], static_cast<float>(dot), acc);
          }
        }
        total = split == 0 ? acc : total + acc;
      }
      y.push_back(total);
    }
  }
  return y;
}

Owned Quantized(Owned& x) { return Eval(OpKind::Quantize, {&x}, {})[0]; }

TEST(Linear, EqualsItsDefinitionToTheBit) {
  for (const DType dtype : test::WeightTypes()) {
    const bool blocks = InfoOf(dtype).cls == DTypeClass::BLOCK;
    for (const int64_t k : {int64_t{32}, int64_t{352}, int64_t{1}, int64_t{259}, int64_t{768}}) {
      if (k % InfoOf(dtype).block != 0 || (k == 768 && InfoOf(dtype).block < 256)) continue;
      for (const int64_t rows : {1, 2, 4, 7}) {
        Owned x = F32({Dim(rows), Dim(k)}, test::Random(11).Vector(rows * k));
        Owned w = RandomWeight(dtype, 37, k, 3);
        Owned tiles = Pack({&w});
        const std::vector<float> want = LinearByDefinition(x, w);
        EXPECT_EQ(Floats(Eval(OpKind::Linear, {&x, &w}, {})[0]), want) << InfoOf(dtype).text << " " << k;
        EXPECT_EQ(Floats(Eval(OpKind::Linear, {&x, &tiles}, {})[0]), want) << InfoOf(dtype).text << " " << k;
        if (!blocks) continue;
        Owned q = Quantized(x);
        const std::vector<float> want_q = LinearByDefinition(q, w);
        EXPECT_EQ(Floats(Eval(OpKind::Linear, {&q, &w}, {})[0]), want_q) << InfoOf(dtype).text << " " << k;
        EXPECT_EQ(Floats(Eval(OpKind::Linear, {&q, &tiles}, {})[0]), want_q) << InfoOf(dtype).text << " " << k;
      }
    }
  }
}

// Bytes of any kind, scales apart: codes and scales that no quantiser writes.
TEST(Linear, AnyBytesFollowTheDefinition) {
  const int64_t k = 512;
  for (const DType dtype : test::BlockTypes()) {
    Owned w = RandomWeight(dtype, 16, k, 5);
    Owned any = Make(w.type);
    test::Random random(6);
    const auto size = static_cast<size_t>(InfoOf(dtype).block_bytes);
    for (size_t i = 0; i < any.bytes.size(); ++i) any.bytes[i] = static_cast<std::byte>(random.Bits() & 255U);
    // f16 scales stay those of a quantiser: finite.
    for (size_t block = 0; block < any.bytes.size(); block += size) {
      for (const HeadField& field : BlockFormatOf(dtype).head.first(BlockFormatOf(dtype).head.size() > 1 ? 2 : 1)) {
        std::copy_n(w.bytes.begin() + static_cast<std::ptrdiff_t>(block) + field.at, field.bytes,
                    any.bytes.begin() + static_cast<std::ptrdiff_t>(block) + field.at);
      }
    }
    Owned tiles = Pack({&any});
    Owned x = F32({Dim(5), Dim(k)}, test::Random(12).Vector(5 * k));
    Owned q = Quantized(x);
    for (Owned* a : {&x, &q}) {
      const std::vector<float> want = LinearByDefinition(*a, any);
      EXPECT_EQ(Floats(Eval(OpKind::Linear, {a, &any}, {})[0]), want) << InfoOf(dtype).text;
      EXPECT_EQ(Floats(Eval(OpKind::Linear, {a, &tiles}, {})[0]), want) << InfoOf(dtype).text;
    }
  }
}

// The largest integer that a dot can be, q6_k's: it must be exact in f32.
TEST(Linear, ScaledDotsAreExact) {
  Owned w = Make({DType::Q6_K, {Dim(1), Dim(256)}, Layout::Rows, -1});
  for (int i = 0; i < 16; ++i) w.bytes[static_cast<size_t>(192 + i)] = std::byte{0x80};  // codes are -32, scales -128
  w.bytes[192] = std::byte{0x7f};
  w.bytes[209] = std::byte{0x3c};
  Owned x = Make({DType::A8, {Dim(1), Dim(256)}, Layout::Rows, -1});
  const ops::ActivationRow a = ops::RowOf(x.bytes.data(), 0, 256);
  std::fill_n(a.codes, 256, int8_t{127});
  a.codes[0] = 126;
  a.d[0] = 1;
  EXPECT_EQ(Floats(Eval(OpKind::Linear, {&x, &w}, {})[0])[0],
            static_cast<float>(-32 * 127 * (16 * 127 - 1) + 32 * 128 * 16 * 127));
  a.d[0] = 0;
  a.d[7] = 1;
  EXPECT_EQ(Floats(Eval(OpKind::Linear, {&x, &w}, {})[0])[0], 32.0F * 32 * 128 * 127);
}

TEST(Linear, IsNearTheExactProduct) {
  const int64_t k = 512;
  Owned x = F32({Dim(3), Dim(k)}, test::Random(1).Vector(3 * k));
  for (const DType dtype : test::WeightTypes()) {
    Owned w = RandomWeight(dtype, 20, k, 2);
    const std::vector<float> dense = Dequantized(w);
    const std::vector<float> y = Floats(Eval(OpKind::Linear, {&x, &w}, {})[0]);
    for (int64_t s = 0; s < 3; ++s) {
      for (int64_t n = 0; n < 20; ++n) {
        double sum = 0;
        double size = 0;
        for (int64_t i = 0; i < k; ++i) {
          const double term =
              static_cast<double>(x.f32()[s * k + i]) * static_cast<double>(dense[static_cast<size_t>(n * k + i)]);
          sum += term;
          size += std::fabs(term);
        }
        EXPECT_NEAR(static_cast<double>(y[static_cast<size_t>(s * 20 + n)]), sum, 2e-5 * size);
      }
    }
  }
}

TEST(Linear, ExtremeCodesAreExact) {
  const int64_t k = 64;
  for (const int sign : {1, -1}) {
    Owned x = F32({Dim(1), Dim(k)}, std::vector<float>(k, static_cast<float>(sign) * 127.0F));
    Owned q = Quantized(x);
    const float d = 127.0F * 0x1.020408p-7F;
    // Every code of q8_0 is -128, every nibble 15, d = 1 and m = 1.
    for (const DType dtype : {DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1}) {
      Owned w = Make({dtype, {Dim(16), Dim(k)}, Layout::Rows, -1});
      const int block = InfoOf(dtype).block_bytes;
      const bool has_min = dtype == DType::Q4_1 || dtype == DType::Q5_1;
      for (size_t i = 0; i < w.bytes.size(); i += static_cast<size_t>(block)) {
        std::fill_n(w.bytes.begin() + static_cast<std::ptrdiff_t>(i), block,
                    dtype == DType::Q8_0 ? std::byte{0x80} : std::byte{0xff});
        for (const size_t at : {size_t{0}, has_min ? size_t{2} : size_t{0}}) {
          w.bytes[i + at] = std::byte{0x00};
          w.bytes[i + at + 1] = std::byte{0x3c};
        }
      }
      const int code = dtype == DType::Q8_0 ? -128 : dtype == DType::Q4_0 ? 7 : dtype == DType::Q5_1 ? 31 : 15;
      const auto dot = static_cast<float>(32 * code * 127 * sign);
      const float s = d * static_cast<float>(32 * 127 * sign);
      float want = 0;
      for (int b = 0; b < 2; ++b) {
        if (has_min) want = std::fma(1.0F, s, want);
        want = std::fma(d, dot, want);
      }
      Owned tiles = Pack({&w});
      EXPECT_EQ(Floats(Eval(OpKind::Linear, {&q, &w}, {})[0]), std::vector<float>(16, want)) << InfoOf(dtype).text;
      EXPECT_EQ(Floats(Eval(OpKind::Linear, {&q, &tiles}, {})[0]), std::vector<float>(16, want)) << InfoOf(dtype).text;
    }
  }
}

TEST(Linear, MinimumComesBeforeTheDot) {
  // acc = fma(m, s, 0) = 2^25; then the dot adds 1, which is lost, block after block. The other order would keep 2 of
  // them.
  Owned w = Make({DType::Q4_1, {Dim(1), Dim(32)}, Layout::Rows, -1});
  w.bytes[1] = std::byte{0x3c};
  w.bytes[3] = std::byte{0x78};  // m = 2^15
  w.bytes[4] = std::byte{1};
  Owned x = Make({DType::A8, {Dim(1), Dim(32)}, Layout::Rows, -1});
  const ops::ActivationRow a = ops::RowOf(x.bytes.data(), 0, 32);
  a.codes[0] = 1;
  a.d[0] = 1;
  a.s[0] = 1024;
  a.sums[0] = 1;
  EXPECT_EQ(Floats(Eval(OpKind::Linear, {&x, &w}, {})[0])[0], 0x1p25F);
}

// Every half as a weight: subnormals, infinities and NaNs widen as F16ToF32 does.
TEST(Linear, EveryHalfWidens) {
  Owned w = Make({DType::F16, {Dim(65536), Dim(1)}, Layout::Rows, -1});
  for (uint32_t h = 0; h < 65536; ++h) {
    const auto bits = static_cast<uint16_t>(h);
    std::memcpy(w.bytes.data() + 2 * h, &bits, 2);
  }
  Owned tiles = Pack({&w});
  Owned x = F32({Dim(1), Dim(1)}, {1});
  for (Owned* weight : {&w, &tiles}) {
    const std::vector<float> y = Floats(Eval(OpKind::Linear, {&x, weight}, {})[0]);
    for (uint32_t h = 0; h < 65536; ++h) {
      const float want = F16ToF32(static_cast<uint16_t>(h));
      ASSERT_TRUE(y[h] == want || (std::isnan(want) && std::isnan(y[h]))) << h;
    }
  }
}

TEST(Linear, SplitsEqualSeparateProducts) {
  const int64_t k = 64;
  Owned x = F32({Dim(3), Dim(k)}, test::Random(21).Vector(3 * k));
  for (const DType dtype : {DType::F32, DType::F16, DType::Q4_1}) {
    Owned a = RandomWeight(dtype, 20, k, 1);
    Owned b = RandomWeight(dtype, 5, k, 2);
    Owned c = RandomWeight(dtype, 16, k, 3);
    Owned packed = Pack({&a, &b, &c});
    EXPECT_EQ(packed.type.dims[0].value, 32 + 16 + 16);
    const Attrs split = With({{"split", std::vector<Dim>{Dim(20), Dim(5), Dim(16)}}});
    const std::vector<Owned> parts = Eval(OpKind::Linear, {&x, &packed}, split);
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_EQ(Floats(parts[0]), Floats(Eval(OpKind::Linear, {&x, &a}, {})[0]));
    EXPECT_EQ(Floats(parts[1]), Floats(Eval(OpKind::Linear, {&x, &b}, {})[0]));
    EXPECT_EQ(Floats(parts[2]), Floats(Eval(OpKind::Linear, {&x, &c}, {})[0]));

    Owned a2 = RandomWeight(dtype, 20, k, 4);
    Owned mixed = Pack({&a, &a2}, true);
    const Attrs pair = With({{"split", std::vector<Dim>{Dim(20), Dim(20)}}, {"interleave", true}});
    const std::vector<Owned> halves = Eval(OpKind::Linear, {&x, &mixed}, pair);
    EXPECT_EQ(Floats(halves[0]), Floats(Eval(OpKind::Linear, {&x, &a}, {})[0]));
    EXPECT_EQ(Floats(halves[1]), Floats(Eval(OpKind::Linear, {&x, &a2}, {})[0]));
  }
}

TEST(Linear, SplitOfRowsHasNoPadding) {
  Owned x = F32({Dim(1), Dim(8)}, test::Random(2).Vector(8));
  Owned w = RandomWeight(DType::F32, 25, 8, 1);
  const std::vector<float> all = Floats(Eval(OpKind::Linear, {&x, &w}, {})[0]);
  const std::vector<Owned> parts = Eval(OpKind::Linear, {&x, &w}, With({{"split", std::vector<Dim>{Dim(20), Dim(5)}}}));
  EXPECT_EQ(Floats(parts[0]), std::vector<float>(all.begin(), all.begin() + 20));
  EXPECT_EQ(Floats(parts[1]), std::vector<float>(all.begin() + 20, all.end()));
}

TEST(Linear, BiasIsAddedLastAndHasNoPadding) {
  const int64_t k = 32;
  Owned x = F32({Dim(2), Dim(k)}, test::Random(8).Vector(2 * k));
  Owned a = RandomWeight(DType::Q8_0, 3, k, 1);
  Owned b = RandomWeight(DType::Q8_0, 17, k, 2);
  Owned packed = Pack({&a, &b});
  Owned bias = F32({Dim(20)}, test::Random(9).Vector(20));
  const Attrs split = With({{"split", std::vector<Dim>{Dim(3), Dim(17)}}});
  const std::vector<Owned> plain = Eval(OpKind::Linear, {&x, &packed}, split);
  const std::vector<Owned> biased = Eval(OpKind::Linear, {&x, &packed, &bias}, split);
  for (size_t part = 0; part < 2; ++part) {
    const std::vector<float> without = Floats(plain[part]);
    const size_t n = part == 0 ? 3 : 17;
    for (size_t i = 0; i < without.size(); ++i) {
      EXPECT_EQ(Floats(biased[part])[i], without[i] + bias.f32()[(part == 0 ? 0 : 3) + i % n]);
    }
  }
}

TEST(Linear, KSplitSumsEqualRanges) {
  for (const DType dtype : {DType::F32, DType::F16, DType::Q4_1, DType::Q8_0, DType::Q2_K, DType::Q5_K}) {
    const int64_t k = InfoOf(dtype).block == 256 ? 3072 : 1152;
    Owned x = F32({Dim(5), Dim(k)}, test::Random(6).Vector(5 * k));
    Owned w = RandomWeight(dtype, 18, k, 7);
    for (const int64_t n : {2, 3, 4}) {
      EXPECT_EQ(Floats(Eval(OpKind::Linear, {&x, &w}, With({{"k_split", n}}))[0]), LinearByDefinition(x, w, n));
      if (InfoOf(dtype).block == 1) continue;
      Owned q = Quantized(x);
      EXPECT_EQ(Floats(Eval(OpKind::Linear, {&q, &w}, With({{"k_split", n}}))[0]), LinearByDefinition(q, w, n));
    }
  }
}

TEST(Linear, ThreadsDoNotChangeBits) {
  Owned x = F32({Dim(9), Dim(512)}, test::Random(3).Vector(9 * 512));
  Owned w = RandomWeight(DType::Q4_0, 3000, 512, 4);
  Owned tiles = Pack({&w});
  const std::vector<float> one = Floats(Eval(OpKind::Linear, {&x, &tiles}, {}, 1)[0]);
  for (const int threads : {2, 3, 7}) EXPECT_EQ(Floats(Eval(OpKind::Linear, {&x, &tiles}, {}, threads)[0]), one);
}

// The version for any CPU and the one for this CPU, for every pair of types.
TEST(Linear, VersionsForCpusAgreeToTheBit) {
  const int64_t k = 512;
  const int64_t rows = 6;
  Owned x = F32({Dim(rows), Dim(k)}, test::Random(17).Vector(rows * k));
  Owned q = Quantized(x);
  std::vector<float> codes;
  std::vector<float> d;
  std::vector<float> sums;
  std::vector<float> halves[2];
  for (int64_t row = 0; row < rows; ++row) {
    const ops::ActivationRow a = ops::RowOf(q.bytes.data(), row, k);
    codes.insert(codes.end(), a.codes, a.codes + k);
    d.insert(d.end(), a.d, a.d + k / 32);
    sums.insert(sums.end(), a.s, a.s + k / 32);
    for (int64_t b = 0; b < k / 32; ++b) {
      halves[0].push_back(a.sums[2 * b + 1]);
      halves[1].push_back(static_cast<float>(a.sums[2 * b] - a.sums[2 * b + 1]));
    }
  }
  for (const DType dtype : test::WeightTypes()) {
    Owned w = RandomWeight(dtype, 16, k, 9);
    Owned tiles = Pack({&w});
    for (const bool tiled : {false, true}) {
      for (const bool quantised : {false, true}) {
        if (quantised && InfoOf(dtype).block == 1) continue;
        ops::LinearCall call{x.f32(), nullptr, nullptr, nullptr, nullptr, rows, k, 1, dtype, tiled};
        if (quantised) {
          call = {codes.data(), d.data(), sums.data(), halves[0].data(), halves[1].data(), rows, k, 1, dtype, tiled};
        }
        std::vector<float> y[2];
        for (const bool portable : {false, true}) {
          y[portable].resize(rows * 16);
          const ops::LinearUnit unit{tiled ? tiles.bytes.data() : w.bytes.data(), 16, y[portable].data(), 16, nullptr};
          ops::EvalLinearUnits(call, {&unit, 1}, portable);
        }
        EXPECT_EQ(y[0], y[1]) << InfoOf(dtype).text << tiled << quantised;
      }
    }
  }
}

TEST(Linear, RowsDoNotDependOnTheirNeighbours) {
  Owned x = F32({Dim(6), Dim(96)}, test::Random(13).Vector(6 * 96));
  Owned w = RandomWeight(DType::Q5_1, 33, 96, 4);
  Owned q = Quantized(x);
  const std::vector<float> all = Floats(Eval(OpKind::Linear, {&q, &w}, {})[0]);
  for (int64_t row = 0; row < 6; ++row) {
    Owned one = F32({Dim(1), Dim(96)}, std::vector<float>(x.f32() + row * 96, x.f32() + row * 96 + 96));
    Owned one_q = Quantized(one);
    EXPECT_EQ(Floats(Eval(OpKind::Linear, {&one_q, &w}, {})[0]),
              std::vector<float>(all.begin() + row * 33, all.begin() + row * 33 + 33));
  }
}

TEST(Linear, Constraints) {
  const Type x = F32Type({Dim("S"), Dim(64)});
  const Type a8{DType::A8, {Dim("S"), Dim(64)}, Layout::Rows, -1};
  const Type w{DType::Q4_0, {Dim(48), Dim(64)}, Layout::Rows, -1};
  Type tiles = w;
  tiles.layout = Layout::Tiles16;
  const auto linear = [](std::vector<Type> operands) { return OpCase{OpKind::Linear, std::move(operands), {}}; };
  const auto list = [](std::vector<Dim> dims) { return AttrValue(std::move(dims)); };
  EXPECT_EQ(linear({a8, tiles}).Fault(), "");
  EXPECT_EQ(linear({a8, tiles}).Set("split", list({Dim(32), Dim(16)})).Fault(), "");
  EXPECT_EQ(linear({a8, tiles}).Set("split", list({Dim(20), Dim(16)})).Fault(), "");
  ExpectFaults({
      {"C1", linear({{DType::F16, {Dim("S"), Dim(64)}, Layout::Rows, -1}, w})},
      {"C1", linear({F32Type({Dim("S"), Dim(2), Dim(32)}), w})},
      {"C2", linear({x, {DType::Q4_0, {Dim(48), Dim(96)}, Layout::Rows, -1}})},
      {"C2", linear({x, {DType::I32, {Dim(48), Dim(64)}, Layout::Rows, -1}})},
      {"C2", linear({x, {DType::F32, {Dim(48), Dim(64)}, Layout::Heads, -1}})},
      {"C2", linear({x, F32Type({Dim(64)})})},
      {"C3", linear({a8, F32Type({Dim(48), Dim(64)})})},
      {"C4", linear({x, w}).Set("split", list({Dim(20), Dim(20)}))},
      {"C4", linear({x, tiles}).Set("split", list({Dim(20), Dim(28)}))},
      {"C4", linear({x, w}).Set("split", list({}))},
      {"C4", linear({x, w}).Set("split", list({Dim(0), Dim(48)}))},
      {"C4", linear({x, w}).Set("split", list({Dim("S"), Dim(48)}))},
      {"C5", linear({x, w}).Set("split", list({Dim(24), Dim(24)})).Set("interleave", true)},
      {"C5", linear({x, tiles}).Set("split", list({Dim(32), Dim(16)})).Set("interleave", true)},
      {"C6", linear({x, w}).Set("k_split", int64_t{0})},
      {"C6", linear({x, w}).Set("k_split", int64_t{3})},
      {"C6", linear({x, w}).Set("k_split", int64_t{4})},
      {"C7", linear({x, w, F32Type({Dim(47)})})},
      {"C7", linear({x, w, {DType::F16, {Dim(48)}, Layout::Rows, -1}})},
  });
}

TEST(Linear, CostCountsWorkAndBytes) {
  Module module;
  Func func;
  Op op;
  op.kind = OpKind::Linear;
  const InferContext c{
      module, func, op, {F32Type({Dim("S"), Dim(64)}), {DType::Q4_0, {Dim(48), Dim(64)}, Layout::Rows, -1}}};
  const Cost cost = DefOf(OpKind::Linear).cost(c, 3, 10);
  EXPECT_EQ(cost.weight_macs, 3 * 48 * 64);
  EXPECT_EQ(cost.weight_bytes, 48 * 36);
}

}  // namespace
}  // namespace llmc
