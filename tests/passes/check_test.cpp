// --check can fail: edits that the verifier can't see, as a faulty pass might make them, are named by pass, position
// and element.
#include "passes/check.h"

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/passes/kernels.h"
#include "tests/passes/models.h"
#include "tests/support/expect_error.h"

namespace llmc {
namespace {

using test::ModelShape;

Module Compile(const ModelShape& shape, std::vector<std::string> passes) {
  Module module = Parse(test::ModelText(shape), "model");
  PipelineOptions options;
  options.passes = std::move(passes);
  if (!options.passes.empty()) RunPipeline(module, {test::TestKernels(), {}}, options);
  return module;
}

Op& OpOf(Module& module, const char* func, OpKind kind) {
  for (Op& op : module.FindFunc(func)->ops)
    if (op.kind == kind) return op;
  throw std::runtime_error("no such op");
}

// What the check says of an edited module, as if `pass` had edited it.
std::string Verdict(DiagKind kind, const char* pass, Module module, const std::function<void(Module&)>& edit) {
  const std::unique_ptr<WeightSource> weights = RandomWeights(5);
  PassCheck check(module, *weights);
  check.After(*FindPass(pass), module);  // as it is, it passes
  edit(module);
  Verify(module, "edited");
  return test::ErrorOf(kind, [&] { check.After(*FindPass(pass), module); });
}

void ExpectStart(const std::string& text, const std::string& start) {
  EXPECT_EQ(text.substr(0, start.size()), start) << text;
}

ModelShape Exact() {
  ModelShape shape;
  shape.activations = "f32";
  shape.window = 5;
  return shape;
}

TEST(PassCheck, NamesPassAndFirstPosition) {
  const auto verdict = [](const std::function<void(Module&)>& edit) {
    return Verdict(DiagKind::PassBrokeNumbers, "canonicalize", Compile(Exact(), {}), edit);
  };
  ExpectStart(verdict([](Module& m) { OpOf(m, "forward", OpKind::RmsNorm).attrs.Set("eps", 2e-5F); }),
              "error: canonicalize is exact, but position 0, logit 0 was ");
  // Nothing rotates at position 0, so wrong pairs show from 1 on; a window that is one too long, at its end.
  ExpectStart(
      verdict([](Module& m) { OpOf(m, "forward", OpKind::Rope).attrs.Set("pairs", std::string("interleaved")); }),
      "error: canonicalize is exact, but position 1, logit ");
  ExpectStart(verdict([](Module& m) { OpOf(m, "forward", OpKind::Attention).attrs.Set("window", int64_t{6}); }),
              "error: canonicalize is exact, but position 5, logit ");
}

TEST(PassCheck, SeesPartsInTheWrongOrder) {
  ExpectStart(Verdict(DiagKind::PassBrokeNumbers, "fuse-qkv", Compile(Exact(), {"canonicalize", "fuse-qkv"}),
                      [](Module& m) {
                        for (Global& global : m.globals)
                          if (global.kind == GlobalKind::Const && global.recipe.kind == RecipeKind::Pack)
                            std::swap(global.recipe.inputs.at(1), global.recipe.inputs.at(2));
                      }),
              "error: fuse-qkv is exact, but position 0, logit ");
}

class PassCheckRounding : public testing::TestWithParam<std::pair<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(, PassCheckRounding, testing::Values(std::pair{"q8_0", "q8"}, std::pair{"bf16", "bf16"}));

TEST_P(PassCheckRounding, IsBounded) {
  ModelShape shape;
  shape.dtype = GetParam().first;
  shape.activations = GetParam().second;
  shape.head_dim = 32;
  shape.ffn = 64;
  const Module rounded = Compile(shape, {"specialize-phases", "quantize-activations"});
  const std::unique_ptr<WeightSource> weights = RandomWeights(5);
  PassCheck(Compile(shape, {"specialize-phases"}), *weights).After(*FindPass("quantize-activations"), rounded);
  ExpectStart(Verdict(DiagKind::PassBrokeNumbers, "quantize-activations", rounded,
                      [](Module& m) {
                        for (Func& func : m.funcs)
                          for (Op& op : func.ops)
                            if (op.kind == OpKind::RmsNorm) op.attrs.Set("eps", 0.5F);
                      }),
              "error: quantize-activations: NMSE ");
}

TEST(PassCheck, PhasesMustAgree) {
  EXPECT_NE(Verdict(DiagKind::InvalidModule, "specialize-phases", Compile(Exact(), {"specialize-phases"}),
                    [](Module& m) { OpOf(m, "decode", OpKind::Attention).attrs.Set("scale", 0.25F); })
                .find("@score and @prefill with @decode disagree at position 5, logit "),
            std::string::npos);
}

TEST(PassCheck, AsksFunctionsForTokensPosAndTotalAlone) {
  Module module = Compile(Exact(), {});
  module.funcs[0].params.pop_back();
  const std::unique_ptr<WeightSource> weights = RandomWeights(5);
  EXPECT_NE(test::ErrorOf(DiagKind::Unsupported, [&] { EvaluateModule(module, *weights, 1); }).find("@forward"),
            std::string::npos);
}

}  // namespace
}  // namespace llmc
