// attention, and attention_groups with attention_merge, against a scalar reference that sees plain arrays of keys and
// values by position.
#include <tuple>

#include "ir/math.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/world.h"

namespace llmc::kernels_test {
namespace {

struct Case {
  int64_t pos, rows, q_heads, kv_heads, dim, slots, window = 0;
  Type type = kF16;
  Layout k_layout = kKeys16, v_layout = kLayoutHeads;
  float score_scale = 1.0f;  // of the random queries
  bool all = false, sinks = false;
  float cap = 0;
  int64_t v_dim = 0, v_row = 0;  // 0: dim, v_dim
  bool shared = false;           // one state is both keys and values
  bool by_head = false;          // a8: each head is a record of its own
  int64_t Values() const { return v_dim == 0 ? dim : v_dim; }
  int64_t ValueRow() const { return v_row == 0 ? Values() : v_row; }
};

size_t Count(int64_t n) { return static_cast<size_t>(n); }

size_t CacheAt(Layout layout, const Case& c, int64_t dim, int64_t slot, int64_t h, int64_t d) {
  switch (layout) {
    case kKeys16: return Count(((h * ((c.slots + 15) / 16) + slot / 16) * dim + d) * 16 + slot % 16);
    case kLayoutHeads: return Count((h * c.slots + slot) * dim + d);
    default: return Count((slot * c.kv_heads + h) * dim + d);
  }
}

// One query: q[dim], keys and values by position as the cache's type holds them.
template <class At>
std::vector<float> Attend(const Case& c, const float* q, float scale, int64_t p, At key, At value, float sink) {
  std::vector<float> scaled(Count(c.dim)), o(Count(c.Values()), 0.0f);
  for (size_t d = 0; d < scaled.size(); ++d) scaled[d] = q[d] * scale;
  float m = -std::numeric_limits<float>::infinity(), l = 0;
  const int64_t begin = c.window > 0 ? std::max<int64_t>(0, p - c.window + 1) : 0;
  const int64_t all_end = c.window > 0 ? std::min(c.pos + c.rows, p + c.window) : c.pos + c.rows;
  const int64_t visible_end = c.all ? all_end : p + 1;
  for (int64_t group = begin / 64; group * 64 < visible_end; ++group) {
    const int64_t first = std::max(begin, group * 64), end = std::min(visible_end, group * 64 + 64);
    std::vector<float> scores;
    float max = -std::numeric_limits<float>::infinity();
    for (int64_t i = first; i < end; ++i) {
      float s = 0;
      for (int64_t d = 0; d < c.dim; ++d) s = std::fma(scaled[Count(d)], key(i, d), s);
      if (c.cap != 0) s = c.cap * math::Tanh(s);
      scores.push_back(s);
      max = std::max(max, s);
    }
    const float mg = std::nearbyint(max);
    std::vector<float> lanes(16, 0.0f), og(Count(c.Values()), 0.0f);
    for (int64_t i = first; i < end; ++i) {
      float n;
      const float part = Exp2Parts(scores[Count(i - first)], n);
      const float w = part * Pow2(n - mg + 126);
      lanes[Count(i % 16)] = lanes[Count(i % 16)] + w;
      for (int64_t d = 0; d < c.Values(); ++d) og[Count(d)] = std::fma(w, value(i, d), og[Count(d)]);
    }
    const float high = std::max(m, mg), a = Pow2(m - high + 127), b = Pow2(mg - high + 127);
    l = std::fma(TreeSum(lanes), b, l * a);
    for (size_t d = 0; d < o.size(); ++d) o[d] = std::fma(og[d], b, o[d] * a);
    m = high;
  }
  if (c.sinks) {
    float n;
    const float part = Exp2Parts(sink * 0x1.715476p+0f, n);
    const float high = std::max(m, n), a = Pow2(m - high + 127), b = Pow2(n - high + 127);
    l = std::fma(part * 0.5f, b, l * a);
    for (float& v : o) v = v * a;
  }
  const float r = 1.0f / l;
  for (float& v : o) v = std::fma(v, r, 0.0f);
  return o;
}

void CheckAttention(const Case& c, uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t end = c.pos + c.rows, per_kv = c.q_heads / c.kv_heads;
  const int64_t dims[2] = {c.dim, c.ValueRow()}, width = c.Values();  // of a key and a value in the cache
  std::vector<float> keys = RandomFloats(Count(end * c.kv_heads * dims[0]), random),
                     values = RandomFloats(Count(end * c.kv_heads * dims[1]), random);
  if (c.shared) values = keys;
  if (c.type == kF16) {
    for (float& v : keys) v = Half(ToHalf(v));
    for (float& v : values) v = Half(ToHalf(v));
  }
  const int64_t all_slots = (c.slots + 15) / 16 * 16 * c.kv_heads;
  std::vector<uint8_t> blocks[2];
  for (int i = 0; i < 2; ++i)
    blocks[i].assign(Count(all_slots * dims[i] / 32 * 34), (seed + static_cast<uint32_t>(i)) % 2 ? 0x7e : 0xff);
  for (int64_t p = 0; c.type == kQ8_0 && p < end; ++p) {  // in a ring the later position stays
    for (int i = 0; i < 2; ++i) {
      for (int64_t b = 0; b < c.kv_heads * dims[i] / 32; ++b) {
        float* block = (i == 0 ? keys : values).data() + p * c.kv_heads * dims[i] + 32 * b;
        PutCacheBlock(blocks[i], i == 0 ? c.k_layout : c.v_layout, c.slots, c.kv_heads, dims[i], p % c.slots,
                      b / (dims[i] / 32), b % (dims[i] / 32), block);
      }
    }
  }
  const std::vector<float> q = RandomFloats(Count(c.rows * c.q_heads * c.dim), random, c.score_scale);
  const float scale = 0x1.715476p+0f / std::sqrt(static_cast<float>(c.dim));
  World world;
  world.pos = static_cast<uint32_t>(c.pos);
  // Slots without a visible key hold anything.
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> full[2];
  full[0].assign(Count(all_slots * dims[0]), seed % 2 ? kInf : std::numeric_limits<float>::quiet_NaN());
  full[1].assign(Count(all_slots * dims[1]), seed % 2 ? -kInf : 3e4f);
  for (int64_t p = std::max<int64_t>(0, end - c.slots); p < end; ++p) {
    for (int64_t h = 0; h < c.kv_heads; ++h) {
      for (int i = 0; i < 2; ++i) {
        for (int64_t d = 0; d < dims[i]; ++d)
          full[i][CacheAt(i == 0 ? c.k_layout : c.v_layout, c, dims[i], p % c.slots, h, d)] =
              (i == 0 ? keys : values)[Count((p * c.kv_heads + h) * dims[i] + d)];
      }
    }
  }
  Place state[2];
  for (int i = 0; i < 2; ++i) {
    if (c.type == kF32) {
      state[i] = world.Put(kStates, full[i]);
    } else if (c.type == kQ8_0) {
      state[i] = world.Put(kStates, blocks[i]);
    } else {
      std::vector<uint16_t> half;
      for (float v : full[i]) half.push_back(ToHalf(v));
      state[i] = world.Put(kStates, half);
    }
  }
  if (c.shared) state[1] = state[0];
  const std::vector<float> sinks = RandomFloats(Count(c.q_heads), random, 5.0f);
  const Place at_sinks = world.Put(kWeights, sinks);
  const int64_t groups = (c.slots + 63) / 64 + 1;
  const Place at_q = world.Put(kShared, q), out = world.Reserve(kShared, Count(c.rows * c.q_heads * width) * 4);
  const Place partials = world.Reserve(kShared, Count(c.rows * c.q_heads * groups * (width + 2)) * 4);
  world.Reserve(kShared, 64);
  std::vector<float> y;
  std::vector<uint8_t> y8;
  const bool quantizable = width % 32 == 0;
  for (int64_t s = 0; s < c.rows; ++s) {
    for (int64_t h = 0; h < c.q_heads; ++h) {
      const auto at = [&](const std::vector<float>* from, int64_t dim) {
        return [from, &c, h, per_kv, dim](int64_t p, int64_t d) {
          return (*from)[Count((p * c.kv_heads + h / per_kv) * dim + d)];
        };
      };
      const std::vector<float> o = Attend(c, q.data() + (s * c.q_heads + h) * c.dim, scale, c.pos + s,
                                          at(&keys, dims[0]), at(&values, dims[1]), sinks[Count(h)]);
      y.insert(y.end(), o.begin(), o.end());
    }
    if (!quantizable) continue;
    const int64_t record = c.by_head ? width : c.q_heads * width;
    for (int64_t left = c.q_heads * width; left > 0; left -= record) {
      const Quantized quantized = Quantize(y.data() + y.size() - Count(left), record);
      y8.insert(y8.end(), quantized.bytes.begin(), quantized.bytes.end());
    }
  }
  std::ostringstream what;
  what << "pos " << c.pos << " heads " << c.q_heads << "/" << c.kv_heads << " dim " << c.dim << " slots " << c.slots
       << " window " << c.window << " type " << c.type << " layouts " << c.k_layout << c.v_layout;
  const auto common = [&](Call& call) {
    call.Operand("q", at_q).Operand("k", state[0]).Operand("v", state[1]).Operand("partials", partials);
    call.Constant("q_heads", c.q_heads)
        .Constant("kv_heads", c.kv_heads)
        .Constant("dim", c.dim)
        .Constant("v_dim", width)
        .Constant("v_row", dims[1])
        .Constant("record", c.by_head ? width : c.q_heads * width)
        .Constant("slots", c.slots)
        .Constant("window", c.window)
        .Constant("all", c.all)
        .Constant("has_sinks", c.sinks)
        .Constant("cap", std::bit_cast<uint32_t>(c.cap));
    call.Operand("sinks", at_sinks);
    call.Constant("scale", std::bit_cast<uint32_t>(scale))
        .Constant("k_type", c.type)
        .Constant("k_layout", c.k_layout)
        .Constant("v_layout", c.v_layout);
  };
  for (Type out_type : {kF32, kA8}) {
    if (out_type == kA8 && !quantizable) continue;
    World expected = world;
    out_type == kA8 ? expected.Write(out, y8) : expected.Write(out, y);
    Call call("attention", static_cast<uint32_t>(c.rows));
    common(call);
    call.Operand("out", out).Constant("out_type", out_type);
    call.Divide(kHeads, per_kv).Check(world, expected, what.str());
    call.Divide(kQueries, 16).Check(world, expected, what.str() + " queries");
    if (seed % 3 == 0) {
      call.Divide(kRows, 1).Check(world, expected, what.str() + " rows");
      call.Divide(kAll, 1).Check(world, expected, what.str() + " all");
      call.Divide(kQueries, 5).Check(world, expected, what.str() + " queries 5");
    }
  }
  // The partials themselves aren't compared: what isn't visible in them is unspecified.
  Call split("attention_groups", static_cast<uint32_t>(c.rows));
  common(split);
  split.Operand("out", partials).Divide(kKeys, 1);
  for (const KernelEntry* table : RunnableKernels()) {
    for (uint32_t threads = 1; threads <= World::kThreads; threads += table == NativeKernels() ? 1 : 2) {
      World made = world;
      split.Run(table, made, threads);
      for (Type out_type : {kF32, kA8}) {
        if (out_type == kA8 && !quantizable) continue;
        Call merge("attention_merge", static_cast<uint32_t>(c.rows));
        common(merge);
        merge.Operand("out", out).Constant("out_type", out_type).Divide(threads % 2 ? kHeads : kRows, 1);
        World expected = made;
        out_type == kA8 ? expected.Write(out, y8) : expected.Write(out, y);
        merge.Check(made, expected, what.str() + " groups by " + std::to_string(threads));
      }
    }
  }
}

TEST(Attention, DecodeAtManyPositions) {
  uint32_t seed = 0;
  for (int64_t pos : {0, 1, 14, 15, 16, 31, 47, 63, 64, 65, 100, 127, 128, 200, 511}) {
    CheckAttention({pos, 1, 9, 3, 64, 512}, ++seed);
    CheckAttention({pos, 1, 4, 2, 32, 512}, ++seed);
  }
}

TEST(Attention, MasksCapsAndSinks) {
  uint32_t seed = 300;
  for (int64_t rows : {1, 70, 100}) {
    for (int64_t window : {0, 20, 80}) {
      for (const auto& [all, sinks, cap] :
           {std::tuple<bool, bool, float>{true, false, 0.0f}, {false, true, 0.0f}, {true, true, 2.5f}}) {
        Case c{0, rows, 4, 2, 32, 128, window};
        c.all = all, c.sinks = sinks, c.cap = cap;
        CheckAttention(c, ++seed);
        c.pos = 27;
        if (rows == 1) CheckAttention(c, ++seed);
      }
    }
  }
}

TEST(Attention, HeadsAndSizes) {
  uint32_t seed = 100;
  for (int64_t dim : {16, 20, 64, 80, 128, 3}) {
    for (const auto& [q_heads, kv_heads] :
         {std::pair<int64_t, int64_t>{4, 4}, {5, 1}, {6, 2}, {8, 2}, {7, 1}, {8, 1}}) {
      CheckAttention({70, 1, q_heads, kv_heads, dim, 128}, ++seed);
      CheckAttention({60, 9, q_heads, kv_heads, dim, 128}, ++seed);
    }
  }
  CheckAttention({5, 3, 64, 1, 16, 64}, ++seed);
  CheckAttention({5, 1, 64, 1, 16, 64}, ++seed);
}

TEST(Attention, PrefillChunks) {
  uint32_t seed = 200;
  for (const auto& [pos, rows] :
       {std::pair<int64_t, int64_t>{0, 2}, {0, 16}, {0, 33}, {0, 70}, {3, 64}, {64, 50}, {100, 40}, {127, 7}}) {
    CheckAttention({pos, rows, 6, 2, 64, 256}, ++seed);
    CheckAttention({pos, rows, 2, 2, 16, 256}, ++seed);
  }
}

TEST(Attention, WindowsAndRings) {
  uint32_t seed = 300;
  for (int64_t window : {1, 5, 16, 64, 70, 130}) {
    for (const auto& [pos, rows] :
         {std::pair<int64_t, int64_t>{0, 20}, {63, 1}, {64, 1}, {90, 1}, {140, 1}, {300, 1}, {200, 20}, {131, 9}}) {
      const int64_t ring = (window + 20 - 1 + 63) / 64 * 64;
      CheckAttention({pos, rows, 6, 2, 32, ring, window}, ++seed);
      CheckAttention({pos, rows, 3, 3, 16, 320, window}, ++seed);          // a cache that holds everything
      CheckAttention({pos, rows, 2, 1, 16, window + 25, window}, ++seed);  // a ring of odd length
    }
  }
}

TEST(Attention, TypesAndLayouts) {
  uint32_t seed = 400;
  for (Type type : {kF32, kF16}) {
    for (Layout k_layout : {kLayoutRows, kKeys16, kLayoutHeads}) {
      for (Layout v_layout : {kLayoutRows, kLayoutHeads}) {
        CheckAttention({75, 1, 6, 2, 32, 100, 0, type, k_layout, v_layout}, ++seed);
        CheckAttention({75, 13, 6, 2, 20, 100, 0, type, k_layout, v_layout}, ++seed);
        CheckAttention({175, 13, 6, 2, 20, 100, 30, type, k_layout, v_layout}, ++seed);
      }
    }
  }
}

TEST(Attention, CachesOfBlocks) {
  uint32_t seed = 450;
  for (Layout k_layout : {kLayoutRows, kKeys16, kLayoutHeads}) {
    for (Layout v_layout : {kLayoutRows, kLayoutHeads}) {
      CheckAttention({75, 1, 6, 2, 32, 100, 0, kQ8_0, k_layout, v_layout}, ++seed);
      CheckAttention({75, 13, 6, 2, 64, 100, 0, kQ8_0, k_layout, v_layout}, ++seed);
    }
  }
  for (const auto& [pos, rows] : {std::pair<int64_t, int64_t>{0, 1}, {0, 33}, {63, 2}, {127, 1}, {300, 1}, {200, 20}}) {
    CheckAttention({pos, rows, 9, 3, 64, 512, 0, kQ8_0}, ++seed);
    CheckAttention({pos, rows, 4, 2, 32, 128, 70, kQ8_0}, ++seed);
    CheckAttention({pos, rows, 2, 1, 32, 95, 70, kQ8_0}, ++seed);  // a ring of odd length
  }
}

TEST(Attention, ValuesOfAnotherWidth) {
  uint32_t seed = 600;
  for (Type type : {kF32, kF16, kQ8_0}) {
    for (const auto& [pos, rows] : {std::pair<int64_t, int64_t>{75, 1}, {60, 9}}) {
      for (const auto& [dim, v_dim] : {std::pair<int64_t, int64_t>{64, 32}, {32, 64}}) {
        Case c{pos, rows, 4, 4, dim, 128, 0, type};
        c.v_dim = v_dim;
        CheckAttention(c, ++seed);
        c.q_heads = 8, c.kv_heads = 2, c.by_head = true;
        CheckAttention(c, ++seed);
        if (v_dim > dim) continue;
        // One state of one head, of which all are keys and the first elements values.
        c.q_heads = 5, c.kv_heads = 1, c.v_row = dim, c.shared = true;
        c.k_layout = c.v_layout = kLayoutHeads;
        CheckAttention(c, ++seed);
        c.k_layout = c.v_layout = kLayoutRows, c.sinks = true, c.window = 40;
        CheckAttention(c, ++seed);
      }
    }
  }
  Case odd{70, 9, 6, 2, 20, 128};
  odd.v_dim = 12, odd.v_row = 17;
  CheckAttention(odd, ++seed);
  odd.rows = 1;
  CheckAttention(odd, ++seed);
}

TEST(Attention, LargeScores) {
  uint32_t seed = 500;
  for (float score_scale : {0.0f, 0x1p-40f, 30.0f, 1000.0f}) {
    CheckAttention({150, 1, 6, 2, 64, 256, 0, kF16, kKeys16, kLayoutHeads, score_scale}, ++seed);
    CheckAttention({150, 20, 6, 2, 64, 256, 0, kF16, kKeys16, kLayoutHeads, score_scale}, ++seed);
  }
}

}  // namespace
}  // namespace llmc::kernels_test
