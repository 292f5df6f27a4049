// Guards attention and its halves: softmax against double, groups of 64 to the bit, windows, rings,
// layouts, grouped heads.
#include <gtest/gtest.h>

#include "ir/math_f64.h"
#include "ir/ops/attention_eval.h"
#include "ir/ops/common.h"
#include "tests/ir/tensors.h"

namespace llmc {
namespace {

using namespace test;

Type StateType(DType dtype, int64_t slots, int64_t heads, int64_t d, Layout layout = Layout::Rows) {
  return {dtype, {Dim(slots), Dim(heads), Dim(d)}, layout, 0};
}

// Keys and values of every position of a sequence, and what attention makes of them through caches of some kind.
struct Sequence {
  int64_t n, q_heads, kv_heads, d;
  std::vector<float> q, k, v;
  Sequence(int64_t positions, int64_t hq, int64_t hkv, int64_t dim, uint64_t seed, float spread = 2)
      : n(positions), q_heads(hq), kv_heads(hkv), d(dim) {
    test::Random random(seed);
    q = random.Vector(n * hq * d, spread);
    k = random.Vector(n * hkv * d, spread);
    v = random.Vector(n * hkv * d, spread);
  }
};

struct How {
  DType dtype = DType::F32;
  int64_t slots = 0;  // 0: as many as positions
  int64_t window = 0;
  Layout k_layout = Layout::Rows, v_layout = Layout::Rows;
  int64_t chunk = 0;  // rows per call; 0: all at once
  bool in_groups = false;
  int poison = 0;  // byte that fills the caches before the first call
  bool all = false;
  float cap = 0;                  // of scores in natural units
  std::vector<float> sinks = {};  // one a query head, or none
};

std::vector<float> Part(const std::vector<float>& all, int64_t first, int64_t count, int64_t row) {
  return {all.begin() + first * row, all.begin() + (first + count) * row};
}

std::vector<float> Attend(const Sequence& seq, const How& how) {
  const int64_t slots = how.slots > 0 ? how.slots : seq.n;
  Owned k = Make(StateType(how.dtype, slots, seq.kv_heads, seq.d, how.k_layout));
  Owned v = Make(StateType(how.dtype, slots, seq.kv_heads, seq.d, how.v_layout));
  std::fill(k.bytes.begin(), k.bytes.end(), static_cast<std::byte>(how.poison));
  std::fill(v.bytes.begin(), v.bytes.end(), static_cast<std::byte>(how.poison));
  const int64_t chunk = how.chunk > 0 ? how.chunk : seq.n;
  Attrs attrs = With({{"scale", math::AttentionScale(seq.d)}, {"window", how.window}, {"all", how.all}});
  if (how.cap > 0) {
    attrs.Set("scale", 1 / (std::sqrt(static_cast<float>(seq.d)) * how.cap));
    attrs.Set("cap", how.cap * math::kLog2Ef);
  }
  Owned sinks = F32({Dim(static_cast<int64_t>(how.sinks.size()))}, how.sinks);
  std::vector<float> out;
  for (int64_t pos = 0; pos < seq.n; pos += chunk) {
    const int64_t rows = std::min(chunk, seq.n - pos);
    Owned q = F32({Dim(rows), Dim(seq.q_heads), Dim(seq.d)}, Part(seq.q, pos, rows, seq.q_heads * seq.d));
    Owned new_k = F32({Dim(rows), Dim(seq.kv_heads), Dim(seq.d)}, Part(seq.k, pos, rows, seq.kv_heads * seq.d));
    Owned new_v = F32({Dim(rows), Dim(seq.kv_heads), Dim(seq.d)}, Part(seq.v, pos, rows, seq.kv_heads * seq.d));
    Owned at = I32({}, {static_cast<int32_t>(pos)});
    Eval(OpKind::KvAppend, {&k, &new_k, &at}, {});
    Eval(OpKind::KvAppend, {&v, &new_v, &at}, {});
    std::vector<float> part;
    if (how.in_groups) {
      Owned partials = std::move(Eval(OpKind::AttentionGroups, {&q, &k, &v, &at}, attrs)[0]);
      std::vector<Owned*> merged = {&partials, &at};
      if (!how.sinks.empty()) merged.push_back(&sinks);
      part = Floats(Eval(OpKind::AttentionMerge, merged, With({{"window", how.window}, {"all", how.all}}))[0]);
    } else {
      std::vector<Owned*> operands = {&q, &k, &v, &at};
      if (!how.sinks.empty()) operands.push_back(&sinks);
      part = Floats(Eval(OpKind::Attention, operands, attrs)[0]);
    }
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

// softmax(q k / sqrt(d)) v in double, over the keys that the window shows.
std::vector<double> Exact(const Sequence& seq, int64_t window, bool half, const How& how = {}) {
  const auto round = [&](float x) { return static_cast<double>(half ? F16ToF32(F32ToF16(x)) : x); };
  std::vector<double> out;
  for (int64_t s = 0; s < seq.n; ++s) {
    for (int64_t h = 0; h < seq.q_heads; ++h) {
      const int64_t kv = h / (seq.q_heads / seq.kv_heads);
      const int64_t first = window > 0 ? std::max<int64_t>(0, s - window + 1) : 0;
      std::vector<double> score;
      double most = -1e300;
      const int64_t last = !how.all ? s : window > 0 ? std::min(seq.n - 1, s + window - 1) : seq.n - 1;
      for (int64_t p = first; p <= last; ++p) {
        double dot = 0;
        for (int64_t i = 0; i < seq.d; ++i) {
          dot += static_cast<double>(seq.q[static_cast<size_t>((s * seq.q_heads + h) * seq.d + i)]) *
                 round(seq.k[static_cast<size_t>((p * seq.kv_heads + kv) * seq.d + i)]);
        }
        score.push_back(dot / std::sqrt(static_cast<double>(seq.d)));
        if (how.cap > 0) score.back() = how.cap * std::tanh(score.back() / how.cap);
        most = std::max(most, score.back());
      }
      double sum = how.sinks.empty() ? 0 : std::exp(how.sinks[static_cast<size_t>(h)] - most);
      for (double& x : score) sum += x = std::exp(x - most);
      for (int64_t i = 0; i < seq.d; ++i) {
        double o = 0;
        for (int64_t p = first; p <= last; ++p) {
          o += score[static_cast<size_t>(p - first)] *
               round(seq.v[static_cast<size_t>((p * seq.kv_heads + kv) * seq.d + i)]);
        }
        out.push_back(o / sum);
      }
    }
  }
  return out;
}

TEST(Attention, IsSoftmaxWithinAMillionth) {
  for (const bool half : {false, true}) {
    for (const int64_t window : {0, 1, 5, 70, 1000}) {
      const Sequence seq(150, 2, 1, 24, 3);
      const std::vector<float> got = Attend(seq, {.dtype = half ? DType::F16 : DType::F32, .window = window});
      const std::vector<double> want = Exact(seq, window, half);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(static_cast<double>(got[i]), want[i], 1e-6 * 2) << window << " " << i;
    }
  }
}

// Without a causal mask, with a cap, with sinks: in one piece and in groups.
TEST(Attention, MasksCapsAndSinks) {
  const Sequence seq(150, 3, 1, 24, 31);
  for (const int64_t window : {0, 1, 40, 70}) {
    for (const bool all : {false, true}) {
      for (const float cap : {0.0F, 1.5F}) {
        for (const bool sinks : {false, true}) {
          How how{.window = window, .all = all, .cap = cap};
          if (sinks) how.sinks = {-3.0F, 0.7F, 9.0F};
          const std::vector<float> got = Attend(seq, how);
          const std::vector<double> want = Exact(seq, window, false, how);
          for (size_t i = 0; i < want.size(); ++i)
            ASSERT_NEAR(static_cast<double>(got[i]), want[i], 2e-6) << window << all << cap << sinks << " " << i;
          how.in_groups = true;
          EXPECT_EQ(Attend(seq, how), got) << window << all << cap << sinks;
        }
      }
    }
  }
}

// The definition word by word, with the group's size as a parameter: one query and head over f32 keys.
std::vector<float> ByDefinition(const Sequence& seq, int64_t s, int64_t h, int64_t window, int64_t group_size) {
  const int64_t kv = h / (seq.q_heads / seq.kv_heads);
  const float scale = math::AttentionScale(seq.d);
  const auto at = [&](const std::vector<float>& x, int64_t p, int64_t i) {
    return x[static_cast<size_t>((p * seq.kv_heads + kv) * seq.d + i)];
  };
  float top = -INFINITY;
  float l = 0;
  std::vector<float> o(static_cast<size_t>(seq.d), 0.0F);
  const int64_t first = window > 0 ? std::max<int64_t>(0, s - window + 1) : 0;
  for (int64_t g = first / group_size; g <= s / group_size; ++g) {
    std::vector<int64_t> visible;
    for (int64_t p = std::max(first, g * group_size); p <= std::min(s, g * group_size + group_size - 1); ++p)
      visible.push_back(p);
    std::vector<float> score;
    for (const int64_t p : visible) {
      float sum = 0;
      for (int64_t i = 0; i < seq.d; ++i) {
        sum = std::fma(seq.q[static_cast<size_t>((s * seq.q_heads + h) * seq.d + i)] * scale, at(seq.k, p, i), sum);
      }
      score.push_back(sum);
    }
    const float m = std::nearbyint(*std::max_element(score.begin(), score.end()));
    float lane[16] = {};
    std::vector<float> part(static_cast<size_t>(seq.d), 0.0F);
    for (size_t j = 0; j < visible.size(); ++j) {
      const math::Exp2Parts e = math::SplitExp2(score[j]);
      const float w = e.p * math::Pow2(e.n - m + 126);
      lane[visible[j] % 16] += w;
      for (int64_t i = 0; i < seq.d; ++i)
        part[static_cast<size_t>(i)] = std::fma(w, at(seq.v, visible[j], i), part[static_cast<size_t>(i)]);
    }
    const float sum = math::Tree16(lane);
    const float next = std::max(top, m);
    const float a = top == -INFINITY ? 0.0F : std::exp2(top - next);
    const float b = std::exp2(m - next);
    l = std::fma(sum, b, l * a);
    for (int64_t i = 0; i < seq.d; ++i)
      o[static_cast<size_t>(i)] = std::fma(part[static_cast<size_t>(i)], b, o[static_cast<size_t>(i)] * a);
    top = next;
  }
  const float r = 1 / l;
  for (float& x : o) x = std::fma(x, r, 0.0F);
  return o;
}

TEST(Attention, EqualsItsDefinitionToTheBit) {
  const Sequence seq(140, 3, 1, 16, 8);
  for (const int64_t window : {0, 33, 100}) {
    const std::vector<float> got = Attend(seq, {.window = window});
    for (int64_t s = 0; s < seq.n; ++s) {
      for (int64_t h = 0; h < 3; ++h) ASSERT_EQ(Part(got, s * 3 + h, 1, 16), ByDefinition(seq, s, h, window, 64)) << s;
    }
  }
}

// The comparison must be able to fail: groups of 128 keys agree up to position 63 and differ from the first position
// where they act.
TEST(Attention, GroupsOf128DifferAtPosition64) {
  const Sequence seq(66, 1, 1, 64, 5, 1);
  const std::vector<float> got = Attend(seq, {});
  for (int64_t s = 0; s < 64; ++s) ASSERT_EQ(Part(got, s, 1, 64), ByDefinition(seq, s, 0, 0, 128)) << s;
  EXPECT_NE(Part(got, 64, 1, 64), ByDefinition(seq, 64, 0, 0, 128));
}

TEST(Attention, VersionsForCpusAgreeToTheBit) {
  test::Random random(31);
  for (const int64_t d : {1, 24, 64}) {
    const std::vector<float> q = random.Vector(d, 3);
    const std::vector<float> keys = random.Vector(d * 64, 3);
    const std::vector<float> values = random.Vector(d * 64);
    for (const auto& [begin, end] : {std::pair{0, 64}, std::pair{5, 6}, std::pair{13, 50}}) {
      std::vector<float> out[2];
      for (const bool portable : {false, true}) {
        std::vector<float>& to = out[portable];
        to.resize(static_cast<size_t>(d) + 2);
        ops::AttendGroup(q.data(), keys.data(), values.data(), d, d, begin, end, 0, &to[0], &to[1], &to[2], portable);
      }
      EXPECT_EQ(out[0], out[1]);
    }
  }
}

TEST(Attention, GroupsAndMergeAreAttentionToTheBit) {
  for (const DType dtype : {DType::F32, DType::F16}) {
    for (const int64_t window : {0, 1, 33, 64, 65, 130}) {
      for (const int64_t chunk : {0, 1, 7}) {
        const Sequence seq(200, 4, 2, 8, 17);
        How how{.dtype = dtype, .window = window, .chunk = chunk};
        const std::vector<float> whole = Attend(seq, how);
        how.in_groups = true;
        EXPECT_EQ(Attend(seq, how), whole) << window << " " << chunk;
      }
    }
  }
}

TEST(Attention, CachedEqualsRecomputed) {
  const Sequence seq(131, 2, 2, 12, 4);
  for (const DType dtype : {DType::F32, DType::F16}) {
    const std::vector<float> whole = Attend(seq, {.dtype = dtype});
    for (const int64_t chunk : {1, 3, 16, 64, 100})
      EXPECT_EQ(Attend(seq, {.dtype = dtype, .chunk = chunk}), whole) << chunk;
  }
}

TEST(Attention, LayoutsHoldTheSameNumbers) {
  const Sequence seq(90, 2, 2, 10, 6);
  const std::vector<float> rows = Attend(seq, {.dtype = DType::F16});
  EXPECT_EQ(Attend(seq, {.dtype = DType::F16, .k_layout = Layout::Keys16, .v_layout = Layout::Heads}), rows);
  EXPECT_EQ(Attend(seq, {.dtype = DType::F16, .k_layout = Layout::Heads, .v_layout = Layout::Keys16, .chunk = 5}),
            rows);
}

// A ring of W + C - 1 slots gives the bits of a full cache: sums go by position, not by slot.
TEST(Attention, ARingEqualsAFullCache) {
  const Sequence seq(300, 2, 1, 8, 12);
  for (const int64_t window : {1, 3, 40, 64, 100}) {
    const std::vector<float> full = Attend(seq, {.window = window});
    for (const int64_t chunk : {1, 5, 32}) {
      for (const bool in_groups : {false, true}) {
        How how{.slots = window + chunk - 1, .window = window, .chunk = chunk, .in_groups = in_groups};
        EXPECT_EQ(Attend(seq, how), full) << window << " " << chunk;
        how.slots = (how.slots + 63) / 64 * 64;
        how.k_layout = Layout::Keys16;
        how.v_layout = Layout::Heads;
        EXPECT_EQ(Attend(seq, how), full) << window << " " << chunk;
      }
    }
  }
}

// A ring that is one slot short has lost a key that is still visible.
TEST(Attention, ARingOneSlotShortDiffers) {
  const Sequence seq(100, 1, 1, 8, 12);
  EXPECT_NE(Attend(seq, {.slots = 20 + 5 - 2, .window = 20, .chunk = 5}), Attend(seq, {.window = 20}));
}

// CASES E04: W keys, the query's own among them. Position 4 with W = 3 depends on 2, 3, 4 alone.
TEST(Attention, AWindowCountsItself) {
  Sequence seq(8, 1, 1, 8, 9);
  const std::vector<float> before = Attend(seq, {.window = 3});
  seq.k[8] += 1;  // position 1
  seq.v[8] += 1;
  EXPECT_EQ(Part(Attend(seq, {.window = 3}), 4, 1, 8), Part(before, 4, 1, 8));
  EXPECT_NE(Part(Attend(seq, {.window = 3}), 3, 1, 8), Part(before, 3, 1, 8));
  seq.v[16] += 1;  // position 2
  EXPECT_NE(Part(Attend(seq, {.window = 3}), 4, 1, 8), Part(before, 4, 1, 8));
}

TEST(Attention, AWindowOfOneSeesItself) {
  const Sequence seq(70, 1, 1, 4, 9);
  const std::vector<float> out = Attend(seq, {.window = 1});
  // One key of weight p: (v * p) * (1 / p), two roundings.
  for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], seq.v[i], std::fabs(seq.v[i]) * 4e-7F);
}

TEST(Attention, GroupedHeadsEqualRepeatedHeads) {
  const Sequence grouped(80, 6, 2, 8, 15);
  Sequence repeated = grouped;
  repeated.kv_heads = 6;
  repeated.k.clear();
  repeated.v.clear();
  for (int64_t row = 0; row < 80 * 2; ++row) {
    for (int copy = 0; copy < 3; ++copy) {
      for (int64_t i = 0; i < 8; ++i) {
        repeated.k.push_back(grouped.k[static_cast<size_t>(row * 8 + i)]);
        repeated.v.push_back(grouped.v[static_cast<size_t>(row * 8 + i)]);
      }
    }
  }
  for (const DType dtype : {DType::F32, DType::F16})
    EXPECT_EQ(Attend(repeated, {.dtype = dtype}), Attend(grouped, {.dtype = dtype}));
}

// What lies in slots that no visible position owns must not matter, however it reads.
TEST(Attention, UnwrittenSlotsDoNotMatter) {
  const Sequence seq(50, 1, 1, 8, 2);
  const std::vector<float> clean = Attend(seq, {.dtype = DType::F16, .slots = 128});
  EXPECT_EQ(Attend(seq, {.dtype = DType::F16, .slots = 128, .poison = 0x7b}), clean);
  EXPECT_EQ(Attend(seq, {.dtype = DType::F16, .slots = 128, .poison = 0xff}), clean);
}

// CASES E10: scores of 7e5 stay finite, and the largest key wins.
TEST(Attention, HugeScoresStayFinite) {
  Sequence seq(70, 1, 1, 8, 3);
  for (float& x : seq.q) x = x * 300;
  for (float& x : seq.k) x = x * 300;
  const std::vector<double> want = Exact(seq, 0, false);
  const std::vector<float> got = Attend(seq, {});
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i]));
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], 0.1);
  }
}

TEST(Attention, ResultsHaveNoNegativeZero) {
  Sequence seq(3, 1, 1, 4, 3);
  for (float& x : seq.v) x = -0.0F;
  for (const float x : Attend(seq, {})) EXPECT_FALSE(std::signbit(x));
}

TEST(Attention, OddSizes) {
  const Sequence seq(67, 3, 3, 1, 3);
  const std::vector<double> want = Exact(seq, 0, false);
  const std::vector<float> got = Attend(seq, {.slots = 67, .k_layout = Layout::Keys16});
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(static_cast<double>(got[i]), want[i], 2e-6);
}

OpCase AttentionCase(OpKind kind = OpKind::Attention) {
  OpCase op{kind,
            {F32Type({Dim("S"), Dim(4), Dim(8)}),
             StateType(DType::F16, 64, 2, 8),
             StateType(DType::F16, 64, 2, 8),
             {DType::I32, {}, Layout::Rows, -1}},
            {}};
  op.Set("scale", 1.0F);
  return op;
}

TEST(Attention, Constraints) {
  for (const OpKind kind : {OpKind::Attention, OpKind::AttentionGroups}) {
    const OpCase good = AttentionCase(kind);
    EXPECT_EQ(good.Fault(), "");
    OpCase small = good;
    small.context = 65;
    OpCase ring = AttentionCase(kind).Set("window", int64_t{58});
    ring.context = 1000;
    OpCase fits = AttentionCase(kind).Set("window", int64_t{57});
    fits.context = 1000;
    EXPECT_EQ(fits.Fault(), "");
    ExpectFaults({
        {"C1", Replaced(good, 0, F32Type({Dim("S"), Dim(32)}))},
        {"C2", Replaced(good, 1, F32Type({Dim(64), Dim(2), Dim(8)}))},
        {"C2", Replaced(good, 2, StateType(DType::F16, 64, 1, 8))},
        {"C2", Replaced(good, 1, StateType(DType::F16, 128, 2, 8))},
        {"C2", Replaced(good, 2, StateType(DType::Q8_0, 64, 1, 32))},
        {"C2", Replaced(good, 0, F32Type({Dim("S"), Dim(4), Dim(16)}))},
        {"C3", Replaced(good, 0, F32Type({Dim("S"), Dim(3), Dim(8)}))},
        {"C4", Replaced(good, 3, {DType::I32, {Dim(1)}, Layout::Rows, -1})},
        {"C5", AttentionCase(kind).Set("window", int64_t{-1})},
        {"C6", AttentionCase(kind).Set("scale", INFINITY)},
        {"C7", small},
        {"C7", ring},
    });
  }
}

TEST(AttentionMerge, Constraints) {
  const Type scalar{DType::I32, {}, Layout::Rows, -1};
  const Type partials = F32Type({Dim("S"), Dim(4), Dim(2), Dim(10)});
  const OpCase good{OpKind::AttentionMerge, {partials, scalar}, {}};
  EXPECT_EQ(good.Infer()[0], F32Type({Dim("S"), Dim(4), Dim(8)}));
  ExpectFaults({
      {"C1", Replaced(good, 0, F32Type({Dim("S"), Dim(4), Dim(20)}))},
      {"C1", Replaced(good, 0, F32Type({Dim("S"), Dim(4), Dim(2), Dim(2)}))},
      {"C2", Replaced(good, 1, F32Type({}))},
      {"C3", OpCase(good).Set("window", int64_t{-5})},
      {"C4", OpCase{OpKind::AttentionMerge, {partials, scalar, F32Type({Dim(3)})}, {}}},
  });
}

TEST(AttentionMerge, TooFewGroupsIsAnError) {
  Owned partials = Make(F32Type({Dim(1), Dim(1), Dim(1), Dim(3)}));
  Owned pos = I32({}, {64});
  EXPECT_THROW(Eval(OpKind::AttentionMerge, {&partials, &pos}, {}), InputError);
}

TEST(AttentionGroups, HasRoomForEveryGroupOfARing) {
  EXPECT_EQ(AttentionCase(OpKind::AttentionGroups).Infer()[0], F32Type({Dim("S"), Dim(4), Dim(2), Dim(10)}));
  EXPECT_EQ(Replaced(Replaced(AttentionCase(OpKind::AttentionGroups), 1, StateType(DType::F16, 65, 2, 8)), 2,
                     StateType(DType::F16, 65, 2, 8))
                .Infer()[0]
                .dims[2],
            Dim(3));
}

// Each row with its own position; pairs of both kinds; what lies beyond the table's width passes through.
TEST(Attention, CostCountsVisiblePairs) {
  Module module;
  Func func;
  Op op;
  op.kind = OpKind::Attention;
  op.attrs.Set("scale", 1.0F);
  op.attrs.Set("window", int64_t{3});
  std::vector<Type> operands = AttentionCase().operands;
  operands[2].state = 1;
  const InferContext c{module, func, op, operands};
  // Rows 2 and 3 of a total of 4 see 3 keys each; together positions 0..3.
  const Cost cost = DefOf(OpKind::Attention).cost(c, 2, 4);
  EXPECT_EQ(cost.attention_macs, 2 * 6 * 4 * 8);
  EXPECT_EQ(cost.state_bytes, 2 * 4 * 2 * 16);
  operands[2].state = operands[1].state;  // one state is read once
  const InferContext shared{module, func, op, operands};
  EXPECT_EQ(DefOf(OpKind::Attention).cost(shared, 2, 4).state_bytes, 4 * 2 * 16);
}

}  // namespace
}  // namespace llmc
