// The op suite: each op in a function of its own, between an embedding and a head, compiled by every backend that is
// built in, against the interpreter on the same inputs. llvm gives the same bits, and so does onednn where activations
// are a8 (the head is then of q8_0); its float products sum in another order, so there the rows' NMSE is bounded, and
// thread counts must not change a bit.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "ir/interpreter.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/from_memory.h"
#include "tests/support/nmse.h"
#include "tools/pass_context.h"

namespace llmc {
namespace {

constexpr double kNmse = 1e-9;
constexpr int64_t kWidth = 64;  // of %x

struct OpCase {
  std::string name;
  std::string globals, body;  // from %x : f32[S, 64] to %y : f32[S, width]
  std::string activations = "f32", kv_type = "f32";
  int64_t width = kWidth;
  friend void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }
};

// Cases that the onednn backend can't do, with the reason. It only shrinks.
constexpr std::array<std::string_view, 0> kSkippedOnOnednn = {};

std::string Rows(int64_t n) { return "f32[S, " + std::to_string(n) + "]"; }
std::string Shape(int64_t n, int64_t k) { return "[" + std::to_string(n) + ", " + std::to_string(k) + "]"; }

void AddLinears(std::vector<OpCase>& cases) {
  for (const char* type : {"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"}) {
    for (const std::string activations : {"f32", "q8", "bf16"}) {
      const bool block = std::string_view(type).starts_with("q");
      if ((activations == "q8" && !block) || (activations == "bf16" && std::string_view(type) != "bf16")) continue;
      for (const int64_t n : {int64_t{64}, int64_t{activations == "q8" ? 96 : 100}}) {
        const std::string w = std::string("weight $w : ") + type + Shape(n, kWidth) + "\n";
        const std::string suffix = std::string("_") + type + "_" + activations;
        if (n == kWidth) {
          cases.push_back({"linear" + suffix, w, "%y = linear %x, $w : " + Rows(n) + "\n", activations});
          cases.push_back({"residual" + suffix, w,
                           "%p = linear %x, $w : " + Rows(n) + "\n%y = add %x, %p : " + Rows(n) + "\n", activations});
        } else {
          cases.push_back({"odd_bias" + suffix, w + "weight $bias : f32[" + std::to_string(n) + "]\n",
                           "%y = linear %x, $w, $bias : " + Rows(n) + "\n", activations, "f32", n});
          cases.push_back({"gated" + suffix,
                           std::string("weight $g : ") + type + Shape(n, kWidth) + "\n" + "weight $u : " + type +
                               Shape(n, kWidth) + "\n",
                           "%p = linear %x, $g : " + Rows(n) + "\n%q = linear %x, $u : " + Rows(n) +
                               "\n%y = gated %p, %q : " + Rows(n) + "\n",
                           activations, "f32", n});
        }
      }
    }
    cases.push_back({std::string("embed_") + type, std::string("weight $table : ") + type + Shape(50, kWidth) + "\n",
                     "%t = embed $table, %tokens : " + Rows(kWidth) + "\n%y = add %x, %t : " + Rows(kWidth) + "\n"});
  }
}

void AddRowOps(std::vector<OpCase>& cases) {
  const std::string gain = "weight $gain : f32[64]\n";
  cases.push_back({"rms_norm", gain, "%y = rms_norm %x, $gain {eps = 1e-05} : f32[S, 64]\n"});
  cases.push_back({"add_rms_norm", gain,
                   "%n = rms_norm %x, $gain {eps = 1e-06} : f32[S, 64]\n%s = add %x, %n : f32[S, 64]\n"
                   "%y = rms_norm %s, $gain {eps = 1e-05} : f32[S, 64]\n"});
  cases.push_back(
      {"gated_alone", gain, "%n = rms_norm %x, $gain {eps = 1e-05} : f32[S, 64]\n%y = gated %x, %n : f32[S, 64]\n"});
  cases.push_back({"round", "", "%r = round %x {to = bf16} : f32[S, 64]\n%y = add %x, %r : f32[S, 64]\n"});
  cases.push_back({"head_norm", "weight $gain : f32[16]\n",
                   "%h = reshape %x {to = [S, 4, 16]} : f32[S, 4, 16]\n"
                   "%n = rms_norm %h, $gain {eps = 1e-05} : f32[S, 4, 16]\n"
                   "%f = reshape %n {to = [S, 64]} : f32[S, 64]\n%y = add %f, %x : f32[S, 64]\n"});
  for (const char* pairs : {"half", "interleaved"}) {
    cases.push_back(
        {std::string("rope_") + pairs, "const $rope : f32[96, 8] = rope_table {theta = 10000.0}\n",
         "%h = reshape %x {to = [S, 4, 16]} : f32[S, 4, 16]\n%r = rope %h, $rope, %pos {pairs = " + std::string(pairs) +
             "} : f32[S, 4, 16]\n"
             "%f = reshape %r {to = [S, 64]} : f32[S, 64]\n%y = add %f, %x : f32[S, 64]\n"});
  }
}

void AddAttention(std::vector<OpCase>& cases) {
  for (const bool many : {false, true}) {  // kv heads: attention by groups of keys, or by heads
    for (const char* kv_type : {"f32", "f16"}) {
      for (const int window : {0, 7}) {
        const int heads = many ? 8 : 4, kv_heads = many ? 8 : 2, dim = kWidth / heads;
        const std::string h = std::to_string(heads), kv = std::to_string(kv_heads), d = std::to_string(dim);
        const std::string none = window == 0 ? "none" : std::to_string(window);
        const std::string limit = window == 0 ? "" : ", window = " + none;
        std::string globals = "weight $wkv : f32" + Shape(kv_heads * dim, kWidth) + "\n";
        for (const char* name : {"k", "v"})
          globals += std::string("state $") + name + " : " + kv_type + "[96, " + kv + ", " + d +
                     "] {kind = kv, window = " + none + "}\n";
        const std::string shape = "[S, " + kv + ", " + d + "]";
        cases.push_back(
            {std::string(many ? "attention_heads_" : "attention_groups_") + kv_type + (window > 0 ? "_window" : ""),
             globals,
             "%kv = linear %x, $wkv : " + Rows(kv_heads * dim) + "\n%kh = reshape %kv {to = " + shape + "} : f32" +
                 shape + "\n%q = reshape %x {to = [S, " + h + ", " + d + "]} : f32[S, " + h + ", " + d +
                 "]\n%ck = kv_append $k, %kh, %pos : $k\n%cv = kv_append $v, %kh, %pos : $v\n" +
                 "%a = attention %q, %ck, %cv, %pos {scale = 0.25" + limit + "} : f32[S, " + h + ", " + d +
                 "]\n%f = reshape %a {to = [S, 64]} : f32[S, 64]\n%y = add %f, %x : f32[S, 64]\n",
             "f32", kv_type});
      }
    }
  }
}

std::vector<OpCase> Cases() {
  std::vector<OpCase> cases;
  AddRowOps(cases);
  AddLinears(cases);
  AddAttention(cases);
  return cases;
}

Module Import(const OpCase& c) {
  Module module = Parse("module @op {after = import, numerics = 1, context = 96, kv_type = " + c.kv_type +
                            ", activations = " + c.activations + ", chunk = 40}\ndim S = 1..96\n" +
                            "weight $embed : f32[50, 64]\nweight $head : " + (c.activations == "q8" ? "q8_0" : "f32") +
                            Shape(kWidth, c.width) + "\n" + c.globals +
                            "func @forward(%tokens: i32[S], %pos: i32[], %total: i32[]) {\n"
                            "%x = embed $embed, %tokens : f32[S, 64]\n" +
                            c.body + "%logits = linear %y, $head : f32[S, 64]\nreturn %logits\n}\n",
                        c.name);
  Verify(module, c.name);
  return module;
}

// The interpreter on the phases that quantize-activations leaves, one row after another.
std::vector<float> Oracle(Module module, const WeightSource& weights, const std::vector<int32_t>& tokens) {
  PipelineOptions options;
  options.passes = {"specialize-phases", "quantize-activations"};
  RunPipeline(module, {}, options);
  std::vector<float> expected;
  Interpreter interpreter(module, weights);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<float> row = interpreter.Run("decode", std::span(tokens).subspan(i, 1), static_cast<int64_t>(i),
                                                   static_cast<int64_t>(i + 1));
    expected.insert(expected.end(), row.begin(), row.end());
  }
  return expected;
}

// Prefill's last row, decode of what is left, score of all: with `threads` threads.
std::vector<float> RunAll(const Executable& executable, const std::vector<int32_t>& tokens, uint32_t threads) {
  Session session(executable, {.threads = threads, .context = 0, .chunk = 0, .adapt = false});
  std::vector<float> rows;
  const auto keep = [&](std::span<const float> row) { rows.insert(rows.end(), row.begin(), row.end()); };
  const size_t prompt = tokens.size() - 3;
  keep(session.Prefill(std::span(tokens).first(prompt)));
  for (size_t i = prompt; i < tokens.size(); ++i) keep(session.Decode(tokens[i]));
  session.Reset();
  session.Score(tokens, keep);
  return rows;
}

using Param = std::tuple<std::string, OpCase>;
class OpSuite : public testing::TestWithParam<Param> {};

TEST_P(OpSuite, AgreesWithTheInterpreter) {
  const auto& [backend, c] = GetParam();
  if (backend == "onednn" &&
      std::find(kSkippedOnOnednn.begin(), kSkippedOnOnednn.end(), c.name) != kSkippedOnOnednn.end())
    GTEST_SKIP() << "on the list of what onednn can't do";
  const std::unique_ptr<WeightSource> weights = RandomWeights(11);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 75; ++i) tokens.push_back((i * 31 + 7) % 50);
  const Module imported = Import(c);
  const std::vector<float> all = Oracle(imported, *weights, tokens);
  const size_t width = all.size() / tokens.size();
  std::vector<float> expected(all.end() - static_cast<std::ptrdiff_t>(4 * width), all.end());
  expected.insert(expected.end(), all.begin(), all.end());

  // Also without fusions: other kernels, and post-ops.
  for (const bool fused : {true, false}) {
    SCOPED_TRACE(fused ? "all passes" : "no optional passes");
    Module module = imported;
    PipelineOptions options;
    for (const PassInfo& pass : AllPasses())
      if (pass.optional && !fused) options.disabled.emplace(pass.name);
    RunPipeline(module, ContextFor(backend), options);
    PlanRequest request;
    request.module = &module;
    request.weights = weights.get();
    request.backend = backend;
    const Executable executable = FromMemory(std::make_shared<MemoryPlan>(request));
    ExpectNoReference(executable);
    std::vector<float> first;
    for (const uint32_t threads : {1U, 2U, 3U}) {
      const std::vector<float> rows = RunAll(executable, tokens, threads);
      ASSERT_EQ(rows.size(), expected.size());
      if (backend == "llvm" || c.activations == "q8") {
        EXPECT_EQ(std::memcmp(rows.data(), expected.data(), rows.size() * sizeof(float)), 0) << threads << " threads";
        continue;
      }
      if (first.empty()) first = rows;
      EXPECT_EQ(std::memcmp(rows.data(), first.data(), rows.size() * sizeof(float)), 0) << threads << " threads";
      for (size_t row = 0; row < rows.size() / width; ++row)
        EXPECT_LE(Nmse(&rows[row * width], &expected[row * width], width), kNmse)
            << "row " << row << ", " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, OpSuite, testing::Combine(testing::ValuesIn(CompiledBackends()), testing::ValuesIn(Cases())),
                         [](const testing::TestParamInfo<Param>& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace llmc
