// Linked code = JIT = interpreter, to the bit: threads, chunks, phases, weight types, optional passes; and the bytes of
// a plan depend on nothing but the model.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "backends/backend.h"
#include "backends/compile_plan.h"
#include "backends/kernel_table.h"
#include "backends/sha256.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "runtime/executor.h"
#include "runtime/loader.h"
#include "tests/e2e/tiny.h"
#include "tests/support/from_memory.h"
#include "tests/support/temp_dir.h"

namespace llmc {
namespace {

Module Scheduled(Module module, const std::set<std::string>& disabled = {}) {
  PassContext context;
  context.kernels.computes = LlvmComputes;
  PipelineOptions options;
  options.file = "tiny";
  options.disabled = disabled;
  RunPipeline(module, context, options);
  return module;
}

PlanRequest RequestFor(const Module& module, const WeightSource& weights) {
  PlanRequest request;
  request.module = &module;
  request.weights = &weights;
  request.final_ir = Print(module);
  return request;
}

std::vector<int32_t> Tokens(size_t n, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>((i * 37 + 11) % static_cast<size_t>(vocab)));
  return tokens;
}

// Logits of all positions by @forward, before any pass that plans: the oracle.
std::vector<float> Reference(const Module& forward, const WeightSource& weights, const std::vector<int32_t>& tokens) {
  Interpreter interpreter(forward, weights);
  return interpreter.Run("forward", tokens, 0, static_cast<int64_t>(tokens.size()));
}

::testing::AssertionResult SameBits(const float* expected, std::span<const float> got) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<uint32_t>(expected[i]) != std::bit_cast<uint32_t>(got[i])) {
      return ::testing::AssertionFailure() << "logit " << i << ": expected " << expected[i] << ", got " << got[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// Every way to feed the tokens gives the reference's rows.
void ExpectReference(const Executable& executable, const std::vector<float>& expected,
                     const std::vector<int32_t>& tokens, uint32_t threads, uint32_t chunk) {
  SCOPED_TRACE("threads " + std::to_string(threads) + ", chunk " + std::to_string(chunk));
  const size_t vocab = executable.manifest->vocab;
  Session session(executable, {.threads = threads, .context = 0, .chunk = chunk, .adapt = false});
  // Prefill of all but two, then decode.
  const size_t prompt = tokens.size() - 2;
  EXPECT_TRUE(SameBits(&expected[(prompt - 1) * vocab], session.Prefill({tokens.data(), prompt}))) << "prefill";
  for (size_t i = prompt; i < tokens.size(); ++i)
    EXPECT_TRUE(SameBits(&expected[i * vocab], session.Decode(tokens[i]))) << "decode of token " << i;
  session.Reset();
  size_t row = 0;
  session.Score(tokens, [&](std::span<const float> logits) {
    EXPECT_TRUE(SameBits(&expected[row * vocab], logits)) << "score of token " << row;
    ++row;
  });
  EXPECT_EQ(row, tokens.size());
}

struct Case {
  std::string name;
  TinyModel model;
  bool jit = false;  // too: it runs the same object, so a few are enough
};
std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, auto change, bool jit = false) {
    Case c{name, {}, jit};
    change(c.model);
    cases.push_back(c);
  };
  add("f32", [](TinyModel&) {}, true);
  add("f32_cache", [](TinyModel& m) { m.kv_type = "f32"; });
  add("f16", [](TinyModel& m) { m.weights = "f16"; });
  add("bf16_tied", [](TinyModel& m) { m.weights = "bf16", m.tied = true; });
  add("bf16_rounded", [](TinyModel& m) { m.weights = "bf16", m.activations = "bf16", m.tied = true; }, true);
  add("bf16_rounded_odd", [](TinyModel& m) {
    m.weights = "bf16", m.activations = "bf16", m.qkv_bias = true, m.qk_norm = true;
    m.d = 40, m.heads = 3, m.kv_heads = 1, m.head_dim = 14, m.ff = 50, m.vocab = 77;
  });
  add("bf16_rounded_heads", [](TinyModel& m) {
    m.weights = "bf16", m.activations = "bf16", m.heads = 8, m.kv_heads = 8, m.context = 300, m.chunk = 40;
  });
  for (const char* type : {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0"}) {
    add(std::string(type) + "_q8", [&](TinyModel& m) { m.weights = type, m.activations = "q8", m.tied = true; });
    add(std::string(type) + "_f32", [&](TinyModel& m) { m.weights = type; });
  }
  for (const char* type : {"q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4", "tq1_0", "tq2_0"}) {
    add(std::string(type) + "_q8", [&](TinyModel& m) {
      m.weights = type, m.activations = "q8", m.d = 256, m.head_dim = 64, m.ff = 256, m.layers = 1, m.tied = true;
    });
  }
  add("cache_q8_0", [](TinyModel& m) { m.kv_type = "q8_0", m.weights = "q4_0", m.activations = "q8"; }, true);
  add("cache_q8_0_window", [](TinyModel& m) { m.kv_type = "q8_0", m.window = 7, m.context = 200, m.chunk = 8; });
  add("bias_interleaved", [](TinyModel& m) { m.qkv_bias = true, m.interleaved = true; });
  add("qk_norm", [](TinyModel& m) { m.qk_norm = true, m.weights = "q8_0", m.activations = "q8"; });
  add("window", [](TinyModel& m) { m.window = 7, m.context = 200, m.chunk = 8; }, true);
  add("odd", [](TinyModel& m) {
    m.d = 40, m.heads = 3, m.kv_heads = 1, m.head_dim = 14, m.ff = 50, m.vocab = 77, m.layers = 1;
  });
  add("many_heads",
      [](TinyModel& m) { m.heads = 8, m.kv_heads = 8, m.head_dim = 16, m.weights = "q4_1", m.activations = "q8"; });
  // The fused functions of attention: a head is whole blocks of 32.
  add("many_heads_q8",
      [](TinyModel& m) { m.d = 32, m.heads = 8, m.kv_heads = 8, m.ff = 64, m.weights = "q4_1", m.activations = "q8"; });
  add("long_q8", [](TinyModel& m) { m.context = 300, m.chunk = 40, m.weights = "q8_0", m.activations = "q8"; }, true);
  add("mqa_long", [](TinyModel& m) { m.kv_heads = 1, m.context = 300, m.chunk = 40; });
  return cases;
}

class Parity : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, Parity, ::testing::ValuesIn(Cases()), [](const auto& param) { return param.param.name; });

// What rounds is quantize-activations, so the oracle is the interpreter on the phases that it leaves: one row after
// another.
std::vector<float> Oracle(const Module& imported, const WeightSource& weights, const std::vector<int32_t>& tokens) {
  Module rounded = imported;
  PipelineOptions options;
  options.file = "tiny";
  options.passes = {"specialize-phases", "quantize-activations"};
  RunPipeline(rounded, {}, options);
  std::vector<float> expected;
  Interpreter interpreter(rounded, weights);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<float> row = interpreter.Run("decode", std::span(tokens).subspan(i, 1), static_cast<int64_t>(i),
                                                   static_cast<int64_t>(i + 1));
    expected.insert(expected.end(), row.begin(), row.end());
  }
  return expected;
}

TEST_P(Parity, CodeJitAndInterpreterAgree) {
  const TinyModel& tiny = GetParam().model;
  const Module imported = ImportTiny(tiny);
  const std::unique_ptr<WeightSource> weights = RandomWeights(7);
  const std::vector<int32_t> tokens = Tokens(static_cast<size_t>(std::min<int64_t>(tiny.context - 3, 101)), tiny.vocab);
  const std::vector<float> expected = Oracle(imported, *weights, tokens);
  ASSERT_TRUE(std::all_of(expected.begin(), expected.end(), [](float v) { return std::isfinite(v); }));
  ASSERT_NE(*std::min_element(expected.begin(), expected.end()), *std::max_element(expected.begin(), expected.end()));
  if (tiny.activations == "f32") {
    EXPECT_TRUE(SameBits(expected.data(), Reference(imported, *weights, tokens))) << "@forward";
  }

  const Module scheduled = Scheduled(imported);
  const PlanRequest request = RequestFor(scheduled, *weights);
  const test::TempDir folder;
  WritePlan(request, folder / "a.plan");
  const Executable linked = LoadPlan(folder / "a.plan");
  for (const uint32_t threads : {1u, 2u, 3u, 4u}) {
    ExpectReference(linked, expected, tokens, threads, threads == 1 ? 0 : threads);
  }
  if (!GetParam().jit) return;
  const Executable jitted = FromMemory(std::make_shared<MemoryPlan>(request));
  ASSERT_EQ(linked.weights_size, jitted.weights_size);
  EXPECT_EQ(std::memcmp(linked.weights, jitted.weights, linked.weights_size), 0);
  for (const uint32_t threads : {1u, 2u}) ExpectReference(jitted, expected, tokens, threads, 5);
}

// Any set of optional passes gives the same bits.
class WithoutPass : public ::testing::TestWithParam<std::string> {};
std::vector<std::string> OptionalPasses() {
  std::vector<std::string> names = {"all"};
  for (const PassInfo& pass : AllPasses()) {
    if (pass.optional) names.emplace_back(pass.name);
  }
  return names;
}
INSTANTIATE_TEST_SUITE_P(, WithoutPass, ::testing::ValuesIn(OptionalPasses()), [](const auto& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(WithoutPass, SameBits) {
  std::set<std::string> disabled = {GetParam()};
  if (GetParam() == "all") {
    const std::vector<std::string> names = OptionalPasses();
    disabled = {names.begin() + 1, names.end()};
  }
  TinyModel tiny;
  tiny.qkv_bias = true;
  for (const auto& [weight_type, activations] : {std::pair{"q4_1", "q8"}, std::pair{"bf16", "bf16"}}) {
    SCOPED_TRACE(activations);
    tiny.weights = weight_type, tiny.activations = activations;
    const Module imported = ImportTiny(tiny);
    const std::unique_ptr<WeightSource> weights = RandomWeights(3);
    const std::vector<int32_t> tokens = Tokens(40, tiny.vocab);
    const Module scheduled = Scheduled(imported, disabled);
    const Executable executable = FromMemory(std::make_shared<MemoryPlan>(RequestFor(scheduled, *weights)));
    ExpectReference(executable, Oracle(imported, *weights, tokens), tokens, 2, 0);
  }
}

std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Plan, BytesDependOnTheModelAlone) {
  TinyModel tiny;
  tiny.layers = 5, tiny.weights = "q4_1", tiny.activations = "q8";
  const Module scheduled = Scheduled(ImportTiny(tiny));
  const std::unique_ptr<WeightSource> weights = RandomWeights(3);
  PlanRequest request = RequestFor(scheduled, *weights);
  const test::TempDir folder;
  WritePlan(request, folder / "one.plan");
  request.jobs = 3;
  WritePlan(request, folder / "other.plan");
  const std::string one = FileBytes(folder / "one.plan");
  EXPECT_GT(one.size(), 4096u);
  EXPECT_TRUE(one == FileBytes(folder / "other.plan"));
}

TEST(Plan, SelfTestIsTheInterpretersNumbers) {
  const Module imported = ImportTiny({});
  const Module scheduled = Scheduled(imported);
  const std::unique_ptr<WeightSource> weights = RandomWeights(3);
  const test::TempDir folder;
  PlanRequest request = RequestFor(scheduled, *weights);
  WritePlan(request, folder / "code.plan");
  request.backend = "reference";
  WritePlan(request, folder / "reference.plan");
  const PlanFile code(folder / "code.plan"), reference(folder / "reference.plan");
  const PlanSelfTest &a = code.manifest().self_test, &b = reference.manifest().self_test;
  EXPECT_EQ(a.ids.size(), 8u);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.prefill, b.prefill);
  EXPECT_EQ(a.decode, b.decode);
  EXPECT_EQ(a.score, b.score);
  EXPECT_EQ(a.score, a.decode);
  code.VerifyAll(MakeSha256);
  EXPECT_THROW(LoadPlan(folder / "reference.plan"), PlanError);
}

TEST(Plan, WhatTheBackendCannotDoIsNamed) {
  const Module imported = ImportTiny({});
  const std::unique_ptr<WeightSource> weights = RandomWeights(3);
  Module scheduled = Scheduled(imported);
  for (Op& op : scheduled.FindFunc("decode")->ops) {
    if (op.kind == OpKind::Linear) op.schedule->over = Over::Rows;
  }
  try {
    MemoryPlan plan(RequestFor(scheduled, *weights));
    FAIL() << "compiled";
  } catch (const InputError& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.diag().kind, DiagKind::Unsupported);
    EXPECT_NE(text.find("backend llvm has no kernel for linear (f32["), std::string::npos) << text;
    EXPECT_NE(text.find("over rows"), std::string::npos) << text;
  }
  PlanRequest request = RequestFor(scheduled, *weights);
  request.backend = "cuda";
  EXPECT_THROW(WritePlan(request, "/nowhere/x.plan"), UsageError);
  request.backend = "llvm";
  request.targets = "x86-64-v3,pdp11";
  const Module good = Scheduled(imported);
  request.module = &good;
  EXPECT_THROW(WritePlan(request, "/nowhere/x.plan"), UsageError);
}

// IR that verifies and claims to be planned, and isn't.
TEST(Plan, AModuleWithoutAPlanIsRefused) {
  const std::unique_ptr<WeightSource> weights = RandomWeights(3);
  const Module imported = ImportTiny({});
  const Module scheduled = Scheduled(imported);
  const auto error = [&](auto change) -> std::string {
    Module module = scheduled;
    change(module);
    const test::TempDir folder;
    try {
      WritePlan(RequestFor(module, *weights), folder / "a.plan");
    } catch (const std::exception& e) {
      EXPECT_TRUE(dynamic_cast<const InputError*>(&e) != nullptr || dynamic_cast<const PlanError*>(&e) != nullptr)
          << e.what();
      EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error([](Module&) {}), "");
  const std::string unplanned = error([&](Module& m) { m = imported; });
  EXPECT_NE(unplanned.find("weight_bytes"), std::string::npos) << unplanned;
  EXPECT_NE(unplanned.find("[BadPlan]"), std::string::npos) << unplanned;
  EXPECT_NE(error([](Module& m) { m.options.Set("state_bytes", int64_t{-1}); }).find("state_bytes"), std::string::npos);
  EXPECT_NE(error([](Module& m) { m.options.Erase("context"); }).find("context"), std::string::npos);
  EXPECT_NE(error([](Module& m) { m.funcs.clear(); }).find("no functions"), std::string::npos);
  EXPECT_NE(error([](Module& m) { m.funcs[0].name = "other"; }).find("phases"), std::string::npos);
  EXPECT_NE(error([](Module& m) { m.FindFunc("decode")->ops[0].schedule.reset(); }).find("[BadSchedule]"),
            std::string::npos);
  EXPECT_NE(error([](Module& m) {
              for (Global& global : m.globals) global.offset.reset();
            }).find("has no offset"),
            std::string::npos);
  EXPECT_NE(error([](Module& m) {
              for (Value& value : m.funcs[0].values) {
                if (value.at) value.at->offset = -1;
              }
            }).find("has no offset"),
            std::string::npos);
  EXPECT_NE(error([](Module& m) { m.options.Set("weight_bytes", int64_t{64}); }).find("overlap"), std::string::npos);
  EXPECT_NE(error([](Module& m) { m.FindFunc("decode")->dims[0].max = 3; }).find("decode takes 3 rows"),
            std::string::npos);
}

// A failing weight source ends the compilation, whatever the threads, and leaves no file.
class FailingWeights : public WeightSource {
 public:
  void Read(const Global& weight, int64_t begin, int64_t end, std::byte* out) const override {
    if (weight.name == Name(1, "w_up")) Fail(DiagKind::FileError, {"weights", ""}, "cut off");
    source_->Read(weight, begin, end, out);
  }

 private:
  std::unique_ptr<WeightSource> source_ = RandomWeights(3);
};
TEST(Plan, AFailureLeavesNothingBehind) {
  const Module scheduled = Scheduled(ImportTiny({}));
  const FailingWeights weights;
  const test::TempDir folder;
  PlanRequest request = RequestFor(scheduled, weights);
  for (const int jobs : {1, 4}) {
    request.jobs = jobs;
    EXPECT_THROW(WritePlan(request, folder / "a.plan"), InputError);
    EXPECT_TRUE(std::filesystem::is_empty(folder / "")) << jobs;
  }
}

}  // namespace
}  // namespace llmc
