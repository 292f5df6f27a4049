// Guards the interpreter: a model gives one set of bits however it is cut into calls, laid out, packed or placed, and
// wrong calls are refused.
#include "ir/interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ir/diag.h"
#include "ir/verify.h"
#include "tests/support/tiny_model.h"

namespace llmc {
namespace {

using test::BuildTiny;
using test::TinyModel;
using test::TinyTokens;

// Logits of all positions, `chunk` tokens per call.
std::vector<float> Logits(const Module& module, const WeightSource& source, const std::vector<int32_t>& tokens,
                          int64_t chunk, int threads = 1, std::string_view func = "forward") {
  Verify(module, "test");
  Interpreter interpreter(module, source, threads);
  std::vector<float> all;
  for (size_t pos = 0; pos < tokens.size(); pos += static_cast<size_t>(chunk)) {
    const size_t n = std::min(static_cast<size_t>(chunk), tokens.size() - pos);
    const std::vector<float> part = interpreter.Run(func, std::span(tokens).subspan(pos, n), static_cast<int64_t>(pos),
                                                    static_cast<int64_t>(tokens.size()));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Every kind of model that the tests below run through.
std::vector<TinyModel> Models() {
  std::vector<TinyModel> models(11);
  models[1] = {.n_layers = 1, .n_heads = 1, .n_kv_heads = 1, .kv = DType::F32, .tied = false};
  models[2] = {.window = 20, .weights = DType::BF16, .bias = true};
  models[3] = {.weights = DType::Q4_1, .quantize = true, .qk_norm = true};
  models[4] = {.weights = DType::Q8_0, .interleaved = true};
  models[5] = {.n_kv_heads = 4, .window = 3, .weights = DType::Q4_0, .quantize = true};
  models[6] = {.vocab = 37,
               .d_model = 20,
               .n_heads = 3,
               .n_kv_heads = 1,
               .d_head = 6,
               .d_ff = 13,
               .weights = DType::F16,
               .tied = false};
  models[7] = {.n_heads = 6, .n_kv_heads = 2, .weights = DType::Q5_1, .quantize = true};
  models[7].d_head = 32;
  // Blocks of 256.
  const TinyModel wide{.d_model = 256, .n_layers = 1, .d_head = 64, .d_ff = 256};
  models[8] = models[9] = models[10] = wide;
  models[8].weights = DType::Q2_K;
  models[9].weights = DType::Q6_K;
  models[10].weights = DType::TQ1_0;
  models[9].quantize = models[10].quantize = true;
  return models;
}

TEST(Interpreter, CallsOfAnyLengthGiveOneSetOfBits) {
  const auto source = RandomWeights(1);
  for (const TinyModel& model : Models()) {
    const Module module = BuildTiny(model);
    const std::vector<int32_t> tokens = TinyTokens(model, 75);
    const std::vector<float> whole = Logits(module, *source, tokens, 75);
    EXPECT_EQ(whole.size(), 75U * static_cast<size_t>(model.vocab));
    for (const float x : whole) ASSERT_TRUE(std::isfinite(x));
    for (const int64_t chunk : {1, 7, 64}) EXPECT_EQ(Logits(module, *source, tokens, chunk), whole) << chunk;
  }
}

TEST(Interpreter, ThreadsDoNotChangeBits) {
  const TinyModel model{
      .vocab = 2000, .d_model = 256, .n_layers = 1, .d_ff = 1024, .weights = DType::Q4_0, .quantize = true};
  const Module module = BuildTiny(model);
  const auto source = RandomWeights(2);
  const std::vector<int32_t> tokens = TinyTokens(model, 20);
  const std::vector<float> one = Logits(module, *source, tokens, 10);
  for (const int threads : {2, 3, 5}) EXPECT_EQ(Logits(module, *source, tokens, 10, threads), one);
}

// Every linear's weight in tiles16, as pack-weights leaves it; a tied table too.
Module Packed(Module module) {
  for (Op& op : module.funcs[0].ops) {
    if (op.kind != OpKind::Linear) continue;
    const int weight = op.operands[1].index;
    Global packed;
    packed.kind = GlobalKind::Const;
    packed.name = module.globals[static_cast<size_t>(weight)].name;
    packed.name.base += "_tiles";
    packed.type = module.globals[static_cast<size_t>(weight)].type;
    packed.type.layout = Layout::Tiles16;
    packed.recipe.kind = RecipeKind::Pack;
    packed.recipe.inputs = {weight};
    module.globals.push_back(packed);
    const auto tiles = static_cast<int>(module.globals.size()) - 1;
    for (Op& reader : module.funcs[0].ops) {
      if (reader.kind != OpKind::Linear && reader.kind != OpKind::Embed) continue;
      for (Operand& operand : reader.operands) {
        if (operand == Operand::OfGlobal(weight)) operand.index = tiles;
      }
    }
  }
  return module;
}

TEST(Interpreter, PackedWeightsGiveTheSameBits) {
  const auto source = RandomWeights(3);
  for (const TinyModel& model : Models()) {
    const Module module = BuildTiny(model);
    const std::vector<int32_t> tokens = TinyTokens(model, 9);
    EXPECT_EQ(Logits(Packed(module), *source, tokens, 4), Logits(module, *source, tokens, 4));
  }
}

// Retypes the states, and the values that are states.
template <class Change>
Module WithStates(Module module, const Change& change) {
  for (Global& global : module.globals) {
    if (global.kind == GlobalKind::State) change(global);
  }
  for (Func& func : module.funcs) {
    for (Value& value : func.values) {
      if (value.type.state >= 0) value.type = module.globals[static_cast<size_t>(value.type.state)].type;
    }
  }
  return module;
}

TEST(Interpreter, CacheLayoutsGiveTheSameBits) {
  const auto source = RandomWeights(4);
  for (const TinyModel& model : Models()) {
    const Module module = BuildTiny(model);
    const Module planned = WithStates(module, [](Global& state) {
      state.type.layout = state.name.base == "k" ? Layout::Keys16 : Layout::Heads;
      state.type.dims[0] = Dim(192);
    });
    const std::vector<int32_t> tokens = TinyTokens(model, 90);
    EXPECT_EQ(Logits(planned, *source, tokens, 13), Logits(module, *source, tokens, 13));
  }
}

TEST(Interpreter, ARingGivesTheBitsOfAFullCache) {
  const TinyModel model{.window = 20};
  const auto source = RandomWeights(5);
  const Module full = BuildTiny(model);
  Module ring = WithStates(full, [](Global& state) { state.type.dims[0] = Dim(27); });
  ring.funcs[0].dims = {{"S", 1, 8}};  // 20 + 8 - 1
  const std::vector<int32_t> tokens = TinyTokens(model, 150);
  EXPECT_EQ(Logits(ring, *source, tokens, 8), Logits(full, *source, tokens, 8));
  EXPECT_EQ(Logits(ring, *source, tokens, 1), Logits(full, *source, tokens, 150));
}

// CASES E04 for a whole model of one layer: with W = 3 the logits at position 4 depend on ids 2, 3, 4.
TEST(Interpreter, AWindowCountsItself) {
  const TinyModel model{.n_layers = 1, .window = 3};
  const Module module = BuildTiny(model);
  const auto source = RandomWeights(6);
  std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto at4 = [&] {
    const std::vector<float> all = Logits(module, *source, tokens, 8);
    return std::vector<float>(all.begin() + 4 * model.vocab, all.begin() + 5 * model.vocab);
  };
  const std::vector<float> before = at4();
  tokens[1] = 30;
  EXPECT_EQ(at4(), before);
  tokens[2] = 30;
  EXPECT_NE(at4(), before);
}

// Weights of a model with as many kv heads as heads, each kv head's rows read from the head that its group shares.
class RepeatedHeads : public WeightSource {
 public:
  RepeatedHeads(const WeightSource& grouped, const Module& module, int64_t d_head, int64_t copies)
      : grouped_(grouped), module_(module), d_head_(d_head), copies_(copies) {}
  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    if (weight.name.base != "wk" && weight.name.base != "wv") return grouped_.Read(weight, begin, end, out);
    const Global& stored = module_.globals[static_cast<size_t>(module_.FindGlobal(weight.name))];
    for (int64_t row = begin; row < end; ++row, out += StoredRowBytes(stored.type)) {
      const int64_t from = row / d_head_ / copies_ * d_head_ + row % d_head_;
      grouped_.Read(stored, from, from + 1, out);
    }
  }

 private:
  const WeightSource& grouped_;
  const Module& module_;
  int64_t d_head_, copies_;
};

TEST(Interpreter, GroupedHeadsEqualRepeatedHeads) {
  for (const DType dtype : {DType::F32, DType::Q8_0}) {
    TinyModel model{.n_heads = 6, .n_kv_heads = 2, .weights = dtype, .quantize = true};
    model.d_head = 32;
    const Module grouped = BuildTiny(model);
    const auto source = RandomWeights(7);
    TinyModel wide = model;
    wide.n_kv_heads = 6;
    const RepeatedHeads repeated(*source, grouped, model.d_head, 3);
    const std::vector<int32_t> tokens = TinyTokens(model, 70);
    EXPECT_EQ(Logits(BuildTiny(wide), repeated, tokens, 70), Logits(grouped, *source, tokens, 70));
  }
}

int64_t BytesAtMost(const Module& module, Type type) {
  for (Dim& dim : type.dims) {
    if (dim.is_symbol()) dim = Dim(module.dims[0].max);
  }
  return (ByteSize(type) + 63) / 64 * 64;
}

// Gives each value a place of its own, alternating between the spaces; views live where their operand does.
Module Placed(Module module) {
  Func& func = module.funcs[0];
  int64_t next[2] = {};
  int count = 0;
  for (const Op& op : func.ops) {
    for (const ValueId result : op.results) {
      Value& value = func.values[static_cast<size_t>(result)];
      if (value.type.state >= 0) continue;
      if (DefOf(op.kind).is_view) {
        value.at = func.values[static_cast<size_t>(op.operands[0].index)].at;
        continue;
      }
      const int space = count++ % 2;
      value.at = Placement{space == 0 ? Space::Shared : Space::Private, next[space]};
      next[space] += BytesAtMost(module, value.type);
    }
  }
  return module;
}

std::vector<float> RunOnce(const Module& module, const WeightSource& source, const std::vector<int32_t>& tokens) {
  Interpreter interpreter(module, source);
  return interpreter.Run("forward", tokens, 0, static_cast<int64_t>(tokens.size()));
}

TEST(Interpreter, ValuesAtPlannedOffsetsGiveTheSameBits) {
  const TinyModel model{.weights = DType::Q4_1, .quantize = true};
  const Module module = BuildTiny(model);
  const auto source = RandomWeights(8);
  const std::vector<int32_t> tokens = TinyTokens(model, 12);
  EXPECT_EQ(RunOnce(Placed(module), *source, tokens), RunOnce(module, *source, tokens));
}

// The point of running inside the plan: a value that is overwritten while it is still needed is seen.
TEST(Interpreter, AnOverlapInThePlanIsAWrongNumber) {
  const TinyModel model;
  const Module module = BuildTiny(model);
  const auto source = RandomWeights(9);
  const std::vector<int32_t> tokens = TinyTokens(model, 160);
  Module wrong = Placed(module);
  // The stream that enters layer 0 is needed until its residual sum; a norm in its place destroys it.
  Placement* stream = nullptr;
  for (Value& value : wrong.funcs[0].values) {
    if (value.name == Name(0, "x")) stream = &*value.at;
    if (value.name == Name(0, "n")) value.at = *stream;
  }
  EXPECT_NE(RunOnce(wrong, *source, tokens), RunOnce(module, *source, tokens));
}

TEST(Interpreter, StatesAtPlannedOffsetsMayNotOverlapUnseen) {
  const TinyModel model;
  const Module module = BuildTiny(model);
  const auto source = RandomWeights(9);
  const std::vector<int32_t> tokens = TinyTokens(model, 20);
  int64_t next = 0;
  const Module apart = WithStates(module, [&](Global& state) {
    state.offset = next;
    next += (ByteSize(state.type) + 63) / 64 * 64;
  });
  EXPECT_EQ(RunOnce(apart, *source, tokens), RunOnce(module, *source, tokens));
  const Module together = WithStates(module, [](Global& state) { state.offset = 0; });
  EXPECT_NE(RunOnce(together, *source, tokens), RunOnce(module, *source, tokens));
}

TEST(Interpreter, StatesCarryOverUntilTheyAreReset) {
  const TinyModel model;
  const Module module = BuildTiny(model);
  const auto source = RandomWeights(10);
  Interpreter interpreter(module, *source);
  const std::vector<int32_t> tokens = {1, 2, 3};
  const std::vector<float> first = interpreter.Run("forward", tokens, 0, 3);
  const std::vector<float> later = interpreter.Run("forward", tokens, 3, 6);
  EXPECT_NE(first, later);
  interpreter.ResetStates();
  const std::vector<float> without = interpreter.Run("forward", tokens, 3, 6);  // reads zeros at 0..2
  EXPECT_NE(without, later);
  interpreter.ResetStates();
  EXPECT_EQ(interpreter.Run("forward", tokens, 0, 3), first);
}

TEST(Interpreter, ShowsEveryOpWithItsResults) {
  const TinyModel model;
  const Module module = BuildTiny(model);
  const auto source = RandomWeights(11);
  Interpreter interpreter(module, *source);
  size_t seen = 0;
  std::vector<float> last;
  interpreter.on_op = [&](const Func& func, const Op& op, const std::vector<Tensor>& results) {
    EXPECT_EQ(&op, &func.ops[seen++]);
    ASSERT_EQ(results.size(), op.results.size());
    for (const Dim& dim : results[0].type.dims) EXPECT_FALSE(dim.is_symbol());
    if (op.kind == OpKind::Linear)
      last.assign(results[0].as<float>(), results[0].as<float>() + ElementCount(results[0].type));
  };
  const std::vector<int32_t> tokens = {5, 6};
  EXPECT_EQ(interpreter.Run("forward", tokens, 0, 2), last);
  EXPECT_EQ(seen, module.funcs[0].ops.size());
}

std::string FaultOf(const Module& module, std::string_view func, const std::vector<int32_t>& tokens, int64_t pos,
                    int64_t total) {
  const auto source = RandomWeights(1);
  Interpreter interpreter(module, *source);
  try {
    interpreter.Run(func, tokens, pos, total);
    return "";
  } catch (const InputError& error) {
    return error.diag().message;
  }
}

TEST(Interpreter, RefusesWrongCalls) {
  const TinyModel model;
  Module module = BuildTiny(model);
  module.funcs[0].dims = {{"S", 2, 4}};
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(FaultOf(module, "forward", {1, 2}, 0, 2), "");
  EXPECT_EQ(FaultOf(module, "forward", {1}, 0, 1), "@forward: 1 tokens, takes 2..4");
  EXPECT_EQ(FaultOf(module, "forward", {1, 2, 3, 4, 5}, 0, 5), "@forward: 5 tokens, takes 2..4");
  EXPECT_EQ(FaultOf(module, "forward", {1, 40}, 0, 2), "@forward: token 1 is 40, the vocabulary has 40 entries");
  EXPECT_NE(FaultOf(module, "forward", {-1, 3}, 0, 2), "");
  EXPECT_EQ(FaultOf(module, "forward", {1, 2}, 158, 160), "");
  EXPECT_EQ(FaultOf(module, "forward", {1, 2}, 159, 161),
            "@forward: 2 tokens from position 159 on do not fit the context of 160");
  EXPECT_NE(FaultOf(module, "forward", {1, 2}, -1, 2), "");
  EXPECT_NE(FaultOf(module, "forward", {1, 2}, kHuge - 1, kHuge), "");
  EXPECT_EQ(FaultOf(module, "forward", {1, 2}, 3, 4), "@forward: total is 4, must be at least pos + tokens, 5");
  EXPECT_EQ(FaultOf(module, "backward", {1, 2}, 0, 2), "the module has no function @backward");
}

// Offsets come from a text: nonsense is refused before anything is allocated.
TEST(Interpreter, RefusesOffsetsBeyondReason) {
  const auto source = RandomWeights(1);
  for (const int64_t offset : {std::numeric_limits<int64_t>::max() / 64 * 64, int64_t{1} << 60}) {
    Module values = Placed(BuildTiny({}));
    for (Value& value : values.funcs[0].values) {
      if (value.name == Name(0, "x")) value.at->offset = offset;
    }
    EXPECT_THROW(Interpreter(values, *source), InputError);
    const Module states = WithStates(BuildTiny({}), [&](Global& state) { state.offset = offset; });
    EXPECT_THROW(Interpreter(states, *source), InputError);
  }
}

// CASES E10: large biases on q and k put scores near 1e6; results stay finite with f16 weights and caches.
TEST(Interpreter, HugeScoresStayFinite) {
  class Biased : public WeightSource {
   public:
    explicit Biased(const WeightSource& base) : base_(base) {}
    void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
      base_.Read(weight, begin, end, out);
      if (weight.name.base != "bq" && weight.name.base != "bk") return;
      auto* bias = reinterpret_cast<float*>(out);
      for (int64_t i = 0; i < weight.type.dims[0].value; ++i) bias[i] += 300;
    }

   private:
    const WeightSource& base_;
  };
  const auto source = RandomWeights(12);
  const Biased biased(*source);
  for (const DType dtype : {DType::F32, DType::F16}) {
    const TinyModel model{.weights = dtype, .bias = true};
    for (const float x : Logits(BuildTiny(model), biased, TinyTokens(model, 70), 70)) ASSERT_TRUE(std::isfinite(x));
  }
}

}  // namespace
}  // namespace llmc
