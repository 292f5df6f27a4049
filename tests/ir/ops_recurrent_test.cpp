// Guards conv1d and delta_rule: values by hand, the start of a sequence, any cut into calls, rows of several sequences,
// every constraint.
#include <gtest/gtest.h>

#include "tests/ir/tensors.h"

namespace llmc {
namespace {

using namespace test;

Type StateType(std::vector<Dim> dims) { return {DType::F32, std::move(dims), Layout::Rows, 0}; }

Owned State(std::vector<Dim> dims, float value) {
  Owned state = Make(StateType(std::move(dims)));
  std::fill_n(state.f32(), state.bytes.size() / 4, value);
  return state;
}

std::vector<float> Conv(Owned& state, Owned& x, Owned& weight, int32_t at, Owned* bias = nullptr) {
  Owned pos = I32({}, {at});
  std::vector<Owned*> operands = {&state, &x, &weight, &pos};
  if (bias != nullptr) operands.push_back(bias);
  return Floats(Eval(OpKind::Conv1d, operands, {}, 1, 0, "history")[0]);
}

TEST(Conv1d, ByHand) {
  // Two channels, three taps, the newest input by the last row. What the state holds of before position 0 has no part.
  Owned weight = F32({Dim(3), Dim(2)}, {1, 10, 2, 20, 4, 40});
  Owned x = F32({Dim(4), Dim(2)}, {1, -1, 2, -2, 3, -3, 5, -5});
  Owned state = State({Dim(2), Dim(2)}, std::nanf(""));
  EXPECT_EQ(Conv(state, x, weight, 0),
            (std::vector<float>{4, -40, 2 * 1 + 4 * 2, -100, 1 + 2 * 2 + 4 * 3, -170, 2 + 2 * 3 + 4 * 5, -280}));
  EXPECT_EQ(Floats(state), (std::vector<float>{3, -3, 5, -5}));  // position 2 in row 0, 3 in row 1
  Owned next = F32({Dim(1), Dim(2)}, {7, 0});
  Owned bias = F32({Dim(2)}, {0.5F, 0.25F});
  EXPECT_EQ(Conv(state, next, weight, 4, &bias), (std::vector<float>{3 + 10 + 28 + 0.5F, -30 - 100 + 0.25F}));
  EXPECT_EQ(Floats(state), (std::vector<float>{7, 0, 5, -5}));
}

TEST(Conv1d, AnyCutIntoCallsGivesTheSameBits) {
  Random random(3);
  const int64_t rows = 11, channels = 5, taps = 4;
  const std::vector<float> values = random.Vector(rows * channels);
  Owned weight = F32({Dim(taps), Dim(channels)}, random.Vector(taps * channels));
  Owned x = F32({Dim(rows), Dim(channels)}, values), state = State({Dim(taps - 1), Dim(channels)}, 9);
  const std::vector<float> whole = Conv(state, x, weight, 0);
  for (const int64_t size : {1, 2, 5}) {
    Owned cut_state = State({Dim(taps - 1), Dim(channels)}, 9);
    std::vector<float> cut;
    for (int64_t at = 0; at < rows; at += size) {
      const int64_t n = std::min(size, rows - at);
      Owned part = F32({Dim(n), Dim(channels)}, {values.begin() + at * channels, values.begin() + (at + n) * channels});
      const std::vector<float> y = Conv(cut_state, part, weight, static_cast<int32_t>(at));
      cut.insert(cut.end(), y.begin(), y.end());
    }
    EXPECT_EQ(cut, whole) << size;
    EXPECT_EQ(Floats(cut_state), Floats(state)) << size;
  }
}

TEST(Conv1d, Constraints) {
  const Type scalar{DType::I32, {}, Layout::Rows, -1};
  OpCase good{
      OpKind::Conv1d,
      {StateType({Dim(3), Dim(8)}), F32Type({Dim("S"), Dim(8)}), F32Type({Dim(4), Dim(8)}), scalar, F32Type({Dim(8)})},
      {}};
  good.state_kind = "history";
  EXPECT_EQ(good.Fault(), "");
  OpCase kv = good;
  kv.state_kind = "kv";
  ExpectFaults({
      {"C1", kv},
      {"C1", Replaced(good, 0, F32Type({Dim(3), Dim(8)}))},
      {"C2", Replaced(good, 1, F32Type({Dim("S"), Dim(9)}))},
      {"C2", Replaced(good, 1, F32Type({Dim("S"), Dim(2), Dim(4)}))},
      {"C3", Replaced(good, 2, F32Type({Dim(3), Dim(8)}))},
      {"C4", Replaced(good, 3, F32Type({}))},
      {"C5", Replaced(good, 4, F32Type({Dim(7)}))},
  });
}

struct Delta {
  int64_t rows, key_heads, dk, heads, dv;
  std::vector<float> q, k, v, decay, beta;
  static Delta Of(int64_t rows, int64_t key_heads, int64_t dk, int64_t heads, int64_t dv) {
    Random random(11);
    Delta d{rows, key_heads, dk, heads, dv, {}, {}, {}, {}, {}};
    d.q = random.Vector(rows * key_heads * dk);
    d.k = random.Vector(rows * key_heads * dk);
    d.v = random.Vector(rows * heads * dv);
    for (std::vector<float>* list : {&d.decay, &d.beta}) {
      *list = random.Vector(rows * heads);
      for (float& x : *list) x = 0.5F + 0.4F * x;
    }
    return d;
  }
  // Rows begin .. begin + n - 1 of the sequence.
  std::vector<float> Run(Owned& state, int64_t begin, int64_t n, bool tiled = false, bool correct = true) const {
    const auto part = [&](const std::vector<float>& all, std::vector<Dim> dims, int64_t width) {
      dims.insert(dims.begin(), Dim(n));
      return F32(std::move(dims), {all.begin() + begin * width, all.begin() + (begin + n) * width});
    };
    Owned qs = part(q, {Dim(key_heads), Dim(dk)}, key_heads * dk),
          ks = part(k, {Dim(key_heads), Dim(dk)}, key_heads * dk), vs = part(v, {Dim(heads), Dim(dv)}, heads * dv),
          decays = part(decay, {Dim(heads)}, heads), betas = part(beta, {Dim(heads)}, heads),
          pos = I32({}, {static_cast<int32_t>(begin)});
    Attrs attrs;
    if (tiled) attrs.Set("tiled", true);
    if (!correct) attrs.Set("correct", false);
    return Floats(Eval(OpKind::DeltaRule, {&state, &qs, &ks, &vs, &decays, &betas, &pos}, attrs, 1, 0, "recurrent")[0]);
  }
  Owned Memory(float value) const { return State({Dim(heads), Dim(dk), Dim(dv)}, value); }
};

// The same in double, as the formula says: H = a H; H += k (x) b (v - k H), or b v; o = q H.
std::vector<double> InDouble(const Delta& d, bool tiled, bool correct) {
  std::vector<double> memory(static_cast<size_t>(d.heads * d.dk * d.dv), 0.0), out;
  for (int64_t s = 0; s < d.rows; ++s) {
    for (int64_t h = 0; h < d.heads; ++h) {
      const int64_t of_key = tiled ? h % d.key_heads : h / (d.heads / d.key_heads);
      const float *q = d.q.data() + (s * d.key_heads + of_key) * d.dk,
                  *k = d.k.data() + (s * d.key_heads + of_key) * d.dk;
      const double a = d.decay[static_cast<size_t>(s * d.heads + h)], b = d.beta[static_cast<size_t>(s * d.heads + h)];
      for (int64_t c = 0; c < d.dv; ++c) {
        double* column = memory.data() + h * d.dk * d.dv + c;
        double found = 0, read = 0;
        for (int64_t i = 0; i < d.dk; ++i) found += k[i] * (column[i * d.dv] *= a);
        if (!correct) found = 0;
        const double delta = b * (d.v[static_cast<size_t>((s * d.heads + h) * d.dv + c)] - found);
        for (int64_t i = 0; i < d.dk; ++i) read += q[i] * (column[i * d.dv] += k[i] * delta);
        out.push_back(read);
      }
    }
  }
  return out;
}

TEST(DeltaRule, IsTheFormula) {
  for (const int kind : {0, 1, 2}) {
    const bool tiled = kind == 1, correct = kind != 2;
    const Delta d = Delta::Of(9, 2, 7, 6, 5);
    Owned state = d.Memory(std::nanf(""));  // a sequence starts from nothing, whatever an earlier one has left
    const std::vector<float> y = d.Run(state, 0, d.rows, tiled, correct);
    const std::vector<double> want = InDouble(d, tiled, correct);
    ASSERT_EQ(y.size(), want.size());
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want[i], 4e-6) << kind << ' ' << i;
  }
}

TEST(DeltaRule, RoundsAsItIsWritten) {
  Delta d = Delta::Of(1, 1, 5, 1, 1);
  Owned state = d.Memory(0);
  const std::vector<float> before = {0.3F, -0.7F, 1.1F, 0.9F, -0.2F};
  std::copy(before.begin(), before.end(), state.f32());
  // At position 1 the state counts: sums in four lanes, of which the first takes element 4 as well.
  Owned q = F32({Dim(1), Dim(1), Dim(5)}, d.q), k = F32({Dim(1), Dim(1), Dim(5)}, d.k),
        v = F32({Dim(1), Dim(1), Dim(1)}, d.v), decay = F32({Dim(1), Dim(1)}, d.decay),
        beta = F32({Dim(1), Dim(1)}, d.beta), pos = I32({}, {1});
  const float y =
      Floats(Eval(OpKind::DeltaRule, {&state, &q, &k, &v, &decay, &beta, &pos}, {}, 1, 0, "recurrent")[0])[0];
  const auto sum = [](const std::vector<float>& x, const std::vector<float>& h) {
    const float first = std::fma(x[4], h[4], std::fma(x[0], h[0], 0.0F));
    return (first + std::fma(x[2], h[2], 0.0F)) + (std::fma(x[1], h[1], 0.0F) + std::fma(x[3], h[3], 0.0F));
  };
  const float kept = d.decay[0] * sum(d.k, before), delta = d.beta[0] * (d.v[0] - kept);
  std::vector<float> after = before;
  for (size_t i = 0; i < 5; ++i) after[i] = std::fma(d.k[i], delta, d.decay[0] * before[i]);
  EXPECT_EQ(Floats(state), after);
  EXPECT_EQ(y, sum(d.q, after));
}

TEST(DeltaRule, AnyCutIntoCallsGivesTheSameBits) {
  const Delta d = Delta::Of(10, 1, 6, 2, 3);
  Owned whole_state = d.Memory(0);
  const std::vector<float> whole = d.Run(whole_state, 0, d.rows);
  for (const int64_t size : {1, 3, 7}) {
    Owned state = d.Memory(5);
    std::vector<float> cut;
    for (int64_t at = 0; at < d.rows; at += size) {
      const std::vector<float> y = d.Run(state, at, std::min(size, d.rows - at));
      cut.insert(cut.end(), y.begin(), y.end());
    }
    EXPECT_EQ(cut, whole) << size;
    EXPECT_EQ(Floats(state), Floats(whole_state)) << size;
  }
}

TEST(DeltaRule, Constraints) {
  const Type scalar{DType::I32, {}, Layout::Rows, -1};
  const Type keys = F32Type({Dim("S"), Dim(2), Dim(8)}), of_heads = F32Type({Dim("S"), Dim(4)});
  OpCase good{OpKind::DeltaRule,
              {StateType({Dim(4), Dim(8), Dim(6)}), keys, keys, F32Type({Dim("S"), Dim(4), Dim(6)}), of_heads, of_heads,
               scalar},
              {}};
  good.state_kind = "recurrent";
  EXPECT_EQ(good.Fault(), "");
  OpCase other = good;
  other.state_kind = "history";
  const Type odd = F32Type({Dim("S"), Dim(3), Dim(8)});
  ExpectFaults({
      {"C1", other},
      {"C1", Replaced(good, 0, StateType({Dim(4), Dim(48)}))},
      {"C2", Replaced(good, 1, F32Type({Dim("S"), Dim(2), Dim(7)}))},
      {"C2", Replaced(good, 2, odd)},
      {"C3", Replaced(good, 3, F32Type({Dim("S"), Dim(4), Dim(5)}))},
      {"C3", Replaced(Replaced(good, 1, odd), 2, odd)},
      {"C4", Replaced(good, 4, F32Type({Dim("S"), Dim(2)}))},
      {"C4", Replaced(good, 5, F32Type({Dim("S")}))},
      {"C5", Replaced(good, 6, F32Type({}))},
  });
}

}  // namespace
}  // namespace llmc
