// conv1d and delta_rule against scalar references: whole spaces, at the start of a sequence and in it, by threads.
#include "tests/kernels/reference.h"
#include "tests/kernels/world.h"

namespace llmc::kernels_test {
namespace {

size_t Count(int64_t n) { return static_cast<size_t>(n); }

TEST(Recurrent, Conv1d) {
  std::mt19937 random(21);
  for (const int64_t dim : {64, 20, 7}) {
    for (const int64_t taps : {2, 3, 4}) {
      for (const int64_t rows : {1, 2, 9}) {
        for (const uint32_t pos : {0u, 1u, 6u}) {
          for (const bool has_bias : {false, true}) {
            const std::vector<float> x = RandomFloats(Count(rows * dim), random),
                                     w = RandomFloats(Count(taps * dim), random),
                                     bias = RandomFloats(Count(dim), random);
            std::vector<float> ring = RandomFloats(Count((taps - 1) * dim), random), y(x.size());
            World world;
            world.pos = pos;
            const Place at_x = world.Put(kShared, x), at_w = world.Put(kWeights, w),
                        at_bias = world.Put(kWeights, bias), state = world.Put(kStates, ring),
                        out = world.Reserve(kShared, 4 * y.size());
            for (int64_t s = 0; s < rows; ++s) {
              const int64_t at = pos + s;
              for (int64_t i = 0; i < dim; ++i) {
                float sum = 0;
                for (int64_t p = std::max<int64_t>(0, at - taps + 1); p <= at; ++p) {
                  const float in = p == at ? x[Count(s * dim + i)] : ring[Count(p % (taps - 1) * dim + i)];
                  sum = std::fma(w[Count((p - at + taps - 1) * dim + i)], in, sum);
                }
                y[Count(s * dim + i)] = has_bias ? sum + bias[Count(i)] : sum;
              }
              for (int64_t i = 0; i < dim; ++i) ring[Count(at % (taps - 1) * dim + i)] = x[Count(s * dim + i)];
            }
            World expected = world;
            expected.Write(out, y);
            expected.Write(state, ring);
            Call call("conv1d", static_cast<uint32_t>(rows));
            call.Operand("state", state).Operand("x", at_x).Operand("weight", at_w).Operand("bias", at_bias);
            call.Operand("out", out).Operand("other", at_x).Constant("dim", dim).Constant("taps", taps);
            call.Constant("has_bias", has_bias).Constant("record", dim);
            for (const Over over : {kTiles, kOne})
              call.Divide(over, 1).Check(world, expected,
                                         "dim " + std::to_string(dim) + " taps " + std::to_string(taps));
          }
        }
      }
    }
  }
}

float ColumnSum(const float* x, const float* h, int64_t n, int64_t stride) {
  float lane[4] = {};
  for (int64_t i = 0; i < n; ++i) lane[i % 4] = std::fma(x[i], h[i * stride], lane[i % 4]);
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

TEST(Recurrent, DeltaRule) {
  std::mt19937 random(22);
  const int64_t sizes[][4] = {{2, 4, 128, 128}, {3, 3, 16, 48}, {1, 2, 7, 20}, {2, 6, 8, 5}, {1, 1, 33, 65}};
  for (const auto& [key_heads, heads, dk, dv] : sizes) {
    for (const int64_t rows : {1, 5}) {
      for (const uint32_t pos : {0u, 3u}) {
        for (const int kind : {0, 1, 2}) {
          const bool tiled = kind == 1, correct = kind != 2;
          const std::vector<float> q = RandomFloats(Count(rows * key_heads * dk), random),
                                   k = RandomFloats(Count(rows * key_heads * dk), random),
                                   v = RandomFloats(Count(rows * heads * dv), random),
                                   decay = RandomFloats(Count(rows * heads), random),
                                   beta = RandomFloats(Count(rows * heads), random);
          std::vector<float> memory = RandomFloats(Count(heads * dk * dv), random), y(v.size());
          World world;
          world.pos = pos;
          Call call("delta_rule", static_cast<uint32_t>(rows));
          const Place state = world.Put(kStates, memory), out = world.Reserve(kShared, 4 * y.size());
          call.Operand("state", state).Operand("out", out);
          call.Operand("q", world.Put(kShared, q)).Operand("k", world.Put(kShared, k));
          call.Operand("v", world.Put(kShared, v)).Operand("decay", world.Put(kShared, decay));
          call.Operand("beta", world.Put(kShared, beta));
          for (int64_t s = 0; s < rows; ++s) {
            for (int64_t h = 0; h < heads; ++h) {
              float* matrix = memory.data() + h * dk * dv;
              if (pos + s == 0) std::fill_n(matrix, dk * dv, 0.0f);
              const int64_t of_key = (s * key_heads + (tiled ? h % key_heads : h / (heads / key_heads))) * dk;
              for (int64_t i = 0; i < dv; ++i) {
                const size_t at = Count((s * heads + h) * dv + i);
                const float a = pos + s == 0 ? 0 : decay[Count(s * heads + h)];
                float target = v[at];
                if (correct) target = target - a * ColumnSum(k.data() + of_key, matrix + i, dk, dv);
                const float delta = beta[Count(s * heads + h)] * target;
                for (int64_t j = 0; j < dk; ++j)
                  matrix[j * dv + i] = std::fma(k[Count(of_key + j)], delta, a * matrix[j * dv + i]);
                y[at] = ColumnSum(q.data() + of_key, matrix + i, dk, dv);
              }
            }
          }
          World expected = world;
          expected.Write(out, y);
          expected.Write(state, memory);
          call.Constant("q_heads", key_heads).Constant("dim", dk).Constant("v_heads", heads).Constant("v_dim", dv);
          call.Constant("tiled", tiled).Constant("correct", correct);
          for (const Over over : {kHeads, kOne})
            call.Divide(over, 1).Check(world, expected, "heads " + std::to_string(heads) + " of " + std::to_string(dv));
        }
      }
    }
  }
}

}  // namespace
}  // namespace llmc::kernels_test
