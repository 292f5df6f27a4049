// rope and kv_append against scalar references.
#include "tests/kernels/reference.h"
#include "tests/kernels/world.h"

namespace llmc::kernels_test {
namespace {

size_t Count(int64_t n) { return static_cast<size_t>(n); }

TEST(Rows, Rope) {
  std::mt19937 random(6);
  const std::pair<int64_t, int64_t> sizes[] = {{64, 64}, {64, 32}, {16, 16},   {20, 20}, {20, 10},
                                               {80, 80}, {96, 24}, {128, 128}, {7, 2}};
  for (const auto& [dim, rotary] : sizes) {
    for (int64_t rows : {1, 5}) {
      const int64_t heads = 4;
      const std::vector<float> x = RandomFloats(Count(rows * heads * dim), random);
      World world;
      world.pos = 11;
      const std::vector<float> table = RandomFloats(Count(20 * rotary), random);
      const Place at_x = world.Put(kShared, x), at_table = world.Put(kWeights, table),
                  out = world.Reserve(kShared, x.size() * 4);
      for (int64_t pairs : {0, 1}) {
        std::vector<float> y = x;
        for (int64_t s = 0; s < rows; ++s) {
          const float* row = table.data() + (11 + s) * rotary;
          for (int64_t h = 0; h < heads; ++h) {
            for (int64_t i = 0; i < rotary / 2; ++i) {
              const size_t base = Count((s * heads + h) * dim);
              const size_t ia = base + Count(pairs ? 2 * i : i), ib = base + Count(pairs ? 2 * i + 1 : i + rotary / 2);
              const float a = x[ia], b = x[ib], cos = row[i], sin = row[rotary / 2 + i];
              y[ia] = std::fma(b, -sin, a * cos);
              y[ib] = std::fma(a, sin, b * cos);
            }
          }
        }
        Call call("rope", static_cast<uint32_t>(rows));
        call.Operand("x", at_x)
            .Operand("table", at_table)
            .Constant("heads", heads)
            .Constant("dim", dim)
            .Constant("rotary", rotary);
        call.Constant("pairs", pairs);
        for (Over over : {kRows, kHeads, kAll}) {
          for (Place to : {out, at_x}) {
            if (over == kAll && to.offset == at_x.offset) continue;  // every thread would rotate again
            World expected = world;
            expected.Write(to, y);
            call.Operand("out", to).Divide(over, 1).Check(
                world, expected, "dim " + std::to_string(dim) + " pairs " + std::to_string(pairs));
          }
        }
      }
    }
  }
}

size_t CacheAt(Layout layout, int64_t slots, int64_t heads, int64_t dim, int64_t slot, int64_t h, int64_t d) {
  switch (layout) {
    case kKeys16: return Count(((h * ((slots + 15) / 16) + slot / 16) * dim + d) * 16 + slot % 16);
    case kLayoutHeads: return Count((h * slots + slot) * dim + d);
    default: return Count((slot * heads + h) * dim + d);
  }
}

TEST(Rows, KvAppend) {
  std::mt19937 random(7);
  for (int64_t dim : {64, 20}) {
    for (int64_t slots : {64, 21}) {
      for (Layout layout : {kLayoutRows, kKeys16, kLayoutHeads}) {
        for (Type type : {kF32, kF16, kQ8_0}) {
          if (type == kQ8_0 && dim % 32 != 0) continue;
          const int64_t heads = 3, rows = 17;
          std::vector<float> x = RandomFloats(Count(rows * heads * dim), random);
          const float edges[] = {0x1p-24f, 0x1.8p-25f, 0x1p-25f, 65504.0f, -65519.0f, 0x1.004p0f, 0x1.00cp0f, -0.0f};
          for (size_t i = 0; i < x.size(); i += 7) x[i] = edges[i / 7 % 8];
          World world;
          world.pos = 60;
          const size_t elements = Count((slots + 15) / 16 * 16 * heads * dim);
          const size_t bytes = type == kQ8_0 ? elements / 32 * 34 : elements * (type == kF32 ? 4 : 2);
          const Place at_x = world.Put(kShared, x), state = world.Reserve(kStates, bytes);
          World expected = world;
          std::vector<float> full = world.Read<float>(state, type == kF32 ? elements : 0);
          std::vector<uint8_t> blocks = world.Read<uint8_t>(state, type == kQ8_0 ? bytes : 0);
          std::vector<uint16_t> half = world.Read<uint16_t>(state, type == kF16 ? elements : 0);
          for (int64_t s = 0; s < rows; ++s) {
            for (int64_t h = 0; h < heads; ++h) {
              for (int64_t b = 0; type == kQ8_0 && b < dim / 32; ++b) {
                std::vector<float> in(x.begin() + (s * heads + h) * dim + 32 * b,
                                      x.begin() + (s * heads + h) * dim + 32 * b + 32);
                PutCacheBlock(blocks, layout, slots, heads, dim, (60 + s) % slots, h, b, in.data());
              }
              for (int64_t d = 0; type != kQ8_0 && d < dim; ++d) {
                const float v = x[Count((s * heads + h) * dim + d)];
                const size_t at = CacheAt(layout, slots, heads, dim, (60 + s) % slots, h, d);
                type == kF32 ? void(full[at] = v) : void(half[at] = ToHalf(v));
              }
            }
          }
          if (type == kF32) expected.Write(state, full);
          if (type == kF16) expected.Write(state, half);
          if (type == kQ8_0) expected.Write(state, blocks);
          Call call("kv_append", static_cast<uint32_t>(rows));
          call.Operand("x", at_x)
              .Operand("state", state)
              .Constant("heads", heads)
              .Constant("dim", dim)
              .Constant("slots", slots);
          call.Constant("state_type", type).Constant("state_layout", layout);
          for (Over over : {kHeads, kRows, kAll, kOne})
            call.Divide(over, 1).Check(world, expected, "layout " + std::to_string(layout));
        }
      }
    }
  }
}

}  // namespace
}  // namespace llmc::kernels_test
