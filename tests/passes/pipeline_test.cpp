// The wrapper around passes, and what must hold for the pipeline as a whole: any set of optional passes off, any order
// of statements and any chunking give the same bits, and every plan verifies.
#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "ir/interpreter.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/weights.h"
#include "passes/pass.h"
#include "tests/passes/kernels.h"
#include "tests/passes/models.h"

namespace llmc {
namespace {

using test::ModelShape;
using test::ModelText;

Module Import(const ModelShape& shape) {
  Module module = Parse(ModelText(shape), "model");
  Verify(module, "model");
  return module;
}

Module Compile(Module module, const std::set<std::string>& disabled = {}) {
  PipelineOptions options;
  options.disabled = disabled;
  options.file = "model";
  RunPipeline(module, {test::TestKernels(), {}}, options);
  return module;
}

std::vector<int32_t> Tokens(int count, int vocab) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(i * 7 % vocab);
  return tokens;
}

// Logits as bits, of tokens [begin, end) in calls of `step` rows.
void Call(Interpreter& interpreter, const char* func, const std::vector<int32_t>& tokens, size_t begin, size_t end,
          size_t step, std::vector<uint32_t>& out) {
  for (size_t pos = begin; pos < end; pos += step) {
    const std::span<const int32_t> part(tokens.data() + pos, std::min(step, end - pos));
    for (const float value :
         interpreter.Run(func, part, static_cast<int64_t>(pos), static_cast<int64_t>(tokens.size()))) {
      out.push_back(std::bit_cast<uint32_t>(value));
    }
  }
}

std::vector<uint32_t> Forward(const Module& module, const std::vector<int32_t>& tokens) {
  const std::unique_ptr<WeightSource> weights = RandomWeights(7);
  Interpreter interpreter(module, *weights);
  std::vector<uint32_t> logits;
  Call(interpreter, "forward", tokens, 0, tokens.size(), tokens.size(), logits);
  return logits;
}

// Every row, by @score in calls of `step`.
std::vector<uint32_t> Score(const Module& module, const std::vector<int32_t>& tokens, size_t step) {
  const std::unique_ptr<WeightSource> weights = RandomWeights(7);
  Interpreter interpreter(module, *weights);
  std::vector<uint32_t> logits;
  Call(interpreter, "score", tokens, 0, tokens.size(), step, logits);
  return logits;
}

// The last rows of prefill calls of `chunk` over the first `prompt` tokens, then each row of decode.
std::vector<uint32_t> PrefillAndDecode(const Module& module, const std::vector<int32_t>& tokens, size_t prompt,
                                       size_t chunk) {
  const std::unique_ptr<WeightSource> weights = RandomWeights(7);
  Interpreter interpreter(module, *weights);
  std::vector<uint32_t> prefill;
  Call(interpreter, "prefill", tokens, 0, prompt, chunk, prefill);
  std::vector<uint32_t> logits(
      prefill.end() - static_cast<std::ptrdiff_t>(prefill.size() / ((prompt + chunk - 1) / chunk)), prefill.end());
  Call(interpreter, "decode", tokens, prompt, tokens.size(), 1, logits);
  return logits;
}

void ExpectTail(const std::vector<uint32_t>& all, const std::vector<uint32_t>& tail) {
  ASSERT_LE(tail.size(), all.size());
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), all.end() - static_cast<std::ptrdiff_t>(tail.size())));
}

std::vector<ModelShape> Shapes() {
  ModelShape plain;
  plain.activations = "f32";
  ModelShape qwen2 = plain;
  qwen2.bias = true;
  qwen2.tied = false;
  qwen2.dtype = "bf16";
  ModelShape qwen3 = plain;
  qwen3.qk_norm = true;
  qwen3.heads = 8;
  qwen3.kv_heads = 8;
  qwen3.head_dim = 4;
  qwen3.dtype = "f16";
  ModelShape windowed = plain;
  windowed.layers = 3;
  windowed.window = 5;
  windowed.full_every = 3;
  windowed.kv_heads = 1;
  return {plain, qwen2, qwen3, windowed};
}

TEST(Pipeline, AnySetOfOptionalPassesOffGivesTheBitsOfImport) {
  std::vector<std::string> optional;
  for (const PassInfo& pass : AllPasses()) {
    if (pass.optional) optional.emplace_back(pass.name);
  }
  for (const ModelShape& shape : Shapes()) {
    const Module module = Import(shape);
    const std::vector<int32_t> tokens = Tokens(12, shape.vocab);
    const std::vector<uint32_t> expected = Forward(module, tokens);
    for (unsigned set = 0; set < 1U << optional.size(); ++set) {
      std::set<std::string> disabled;
      for (size_t i = 0; i < optional.size(); ++i) {
        if ((set >> i & 1) != 0) disabled.insert(optional[i]);
      }
      const Module planned = Compile(module, disabled);
      ASSERT_EQ(Score(planned, tokens, 12), expected) << "set " << set;
      ExpectTail(expected, PrefillAndDecode(planned, tokens, 9, 9));
    }
  }
}

TEST(Pipeline, ChunksAndRingsGiveTheBitsOfOneCall) {
  for (ModelShape shape : Shapes()) {
    shape.context = 200;  // a ring of 64 slots wraps, a full cache has four groups
    const Module module = Import(shape);
    const Module planned = Compile(module);
    const std::vector<int32_t> tokens = Tokens(150, shape.vocab);
    const std::vector<uint32_t> expected = Forward(module, tokens);
    for (const size_t step : {size_t{1}, size_t{7}, size_t{16}}) EXPECT_EQ(Score(planned, tokens, step), expected);
    for (const size_t chunk : {size_t{3}, size_t{16}}) {
      ExpectTail(expected, PrefillAndDecode(planned, tokens, 130, chunk));
    }
  }
}

TEST(Pipeline, RoundedActivationsAreTheSameInAllPhases) {
  for (const char* dtype : {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "bf16"}) {
    ModelShape shape;
    shape.dtype = dtype;
    if (shape.dtype == "bf16") shape.activations = "bf16";
    shape.head_dim = 32;
    shape.ffn = 64;
    const Module module = Import(shape);
    const std::vector<int32_t> tokens = Tokens(20, shape.vocab);
    const Module planned = Compile(module);
    const std::vector<uint32_t> expected = Score(planned, tokens, 16);
    EXPECT_EQ(Score(planned, tokens, 5), expected);
    ExpectTail(expected, PrefillAndDecode(planned, tokens, 15, 8));
    EXPECT_EQ(Score(Compile(module, {"fuse-qkv", "fuse-gate-up", "fuse-add-rms-norm"}), tokens, 16), expected);
    shape.activations = "f32";
    const Module exact = Import(shape);
    const std::vector<uint32_t> unrounded = Score(Compile(exact), tokens, 16);
    EXPECT_EQ(unrounded, Forward(exact, tokens));
    EXPECT_NE(unrounded, expected);
  }
}

// A random order of statements in which definitions still come before uses.
void Shuffle(Func& func, std::mt19937& random) {
  std::vector<Op> ops;
  std::vector<bool> made(func.values.size(), false);
  for (const ValueId param : func.params) made[static_cast<size_t>(param)] = true;
  std::vector<Op> left = func.ops;
  while (!left.empty()) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < left.size(); ++i) {
      if (std::all_of(left[i].operands.begin(), left[i].operands.end(), [&](const Operand& operand) {
            return operand.is_global || made[static_cast<size_t>(operand.index)];
          })) {
        ready.push_back(i);
      }
    }
    const size_t taken = ready[random() % ready.size()];
    for (const ValueId result : left[taken].results) made[static_cast<size_t>(result)] = true;
    ops.push_back(left[taken]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  func.ops = std::move(ops);
  CompactValues(func);
}

TEST(Pipeline, FusionsLookAtDataflowNotAtTheOrderOfStatements) {
  std::mt19937 random(1);
  for (const ModelShape& shape : Shapes()) {
    const Module module = Import(shape);
    const std::vector<int32_t> tokens = Tokens(12, shape.vocab);
    const std::vector<uint32_t> expected = Forward(module, tokens);
    const auto linears = [](const Module& m) {
      return std::count_if(m.funcs[0].ops.begin(), m.funcs[0].ops.end(),
                           [](const Op& op) { return op.kind == OpKind::Linear; });
    };
    const auto fused = linears(Compile(module));
    for (int i = 0; i < 6; ++i) {
      Module shuffled = module;
      Shuffle(shuffled.funcs[0], random);
      Verify(shuffled, "shuffled");
      const Module planned = Compile(shuffled);
      EXPECT_EQ(linears(planned), fused);
      EXPECT_EQ(Score(planned, tokens, 12), expected);
    }
  }
}

TEST(Pipeline, PlannedTextReadsBack) {
  for (const ModelShape& shape : Shapes()) {
    const Module planned = Compile(Import(shape));
    const std::string text = Print(planned);
    const Module read = Parse(text, "planned");
    Verify(read, "planned");
    EXPECT_EQ(Print(read), text);
    EXPECT_EQ(Score(read, Tokens(9, shape.vocab), 9), Score(planned, Tokens(9, shape.vocab), 9));
  }
}

TEST(Pipeline, PlannedTextOfManyEqualLayersStaysShort) {
  ModelShape shape;
  shape.layers = 8;
  const size_t few = Print(Compile(Import(shape))).size();
  shape.layers = 40;
  EXPECT_LE(Print(Compile(Import(shape))).size(), few + 400);  // numbers have more digits
}

TEST(Wrapper, RunsInOrderAndStops) {
  Module module = Import({});
  std::vector<std::string> seen;
  PipelineOptions options;
  options.stop_after = "fuse-gate-up";
  options.disabled = {"canonicalize", "absorb-mla"};
  options.before = [&](const PassInfo& pass, const Module&) { seen.push_back("before " + std::string(pass.name)); };
  options.after = [&](const PassInfo& pass, const Module& after, bool changed, double seconds) {
    EXPECT_TRUE(changed);
    EXPECT_GE(seconds, 0);
    EXPECT_EQ(after.options.Ident("after"), pass.name);
    seen.push_back("after " + std::string(pass.name));
  };
  RunPipeline(module, {}, options);
  EXPECT_EQ(seen, (std::vector<std::string>{"before fuse-qkv", "after fuse-qkv", "before fuse-gate-up",
                                            "after fuse-gate-up"}));
  EXPECT_EQ(module.options.List("passes"), (std::vector<Dim>{Dim("fuse-qkv"), Dim("fuse-gate-up")}));
  EXPECT_NE(module.FindFunc("forward"), nullptr);
}

TEST(Wrapper, RefusesWrongNames) {
  const auto run = [](const std::function<void(PipelineOptions&)>& set) {
    Module module = Import({});
    PipelineOptions options;
    set(options);
    RunPipeline(module, {}, options);
  };
  EXPECT_THROW(run([](PipelineOptions& o) { o.passes = {"fuse-everything"}; }), UsageError);
  EXPECT_THROW(run([](PipelineOptions& o) { o.stop_after = "x"; }), UsageError);
  EXPECT_THROW(run([](PipelineOptions& o) { o.disabled = {"x"}; }), UsageError);
  for (const PassInfo& pass : AllPasses()) {
    if (pass.optional) continue;
    EXPECT_THROW(run([&](PipelineOptions& o) { o.disabled = {std::string(pass.name)}; }), UsageError) << pass.name;
  }
}

TEST(Wrapper, RemarksNameTheirPass) {
  std::vector<Diag> remarks;
  Module module = Import({});
  PipelineOptions options;
  options.passes = {"fuse-qkv"};
  PassContext context;
  context.kernels = test::TestKernels();
  context.remark = [&](const Diag& diag) { remarks.push_back(diag); };
  RunPipeline(module, context, options);
  ASSERT_FALSE(remarks.empty());
  for (const Diag& diag : remarks) {
    EXPECT_EQ(diag.kind, DiagKind::PassRemark);
    EXPECT_EQ(diag.severity, Severity::Remark);
    EXPECT_EQ(diag.message.find("fuse-qkv: "), 0U) << diag.message;
  }
}

TEST(Wrapper, StopsAtAPassThatIsLeftOut) {
  Module module = Import({});
  PipelineOptions options;
  options.disabled = {"fuse-qkv"};
  options.stop_after = "fuse-qkv";
  RunPipeline(module, {}, options);
  EXPECT_EQ(module.options.Ident("after"), "absorb-mla");
}

TEST(Wrapper, EveryPassHasATextTest) {
  for (const PassInfo& pass : AllPasses()) {
    std::string name(pass.name);
    std::replace(name.begin(), name.end(), '-', '_');
    const std::string path = std::string(LLMC_SOURCE_DIR) + "/tests/passes/" + name + ".llmc";
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
  }
}

TEST(Plan, PeaksAreExact) {
  for (const ModelShape& shape : Shapes()) {
    const Module planned = Compile(Import(shape));
    std::map<Space, int64_t> peak;
    for (const Func& func : planned.funcs) {
      for (const Value& value : func.values) {
        if (!value.at || value.at->offset < 0) continue;
        Type type = value.type;
        for (Dim& dim : type.dims) {
          if (dim.is_symbol()) dim = Dim(func.dims[0].max);
        }
        peak[value.at->space] = std::max(peak[value.at->space], value.at->offset + (ByteSize(type) + 63) / 64 * 64);
      }
    }
    EXPECT_EQ(planned.options.Int("shared_bytes"), peak[Space::Shared]);
    EXPECT_EQ(planned.options.Int("private_bytes"), peak[Space::Private]);
  }
}

}  // namespace
}  // namespace llmc
