// `--backend auto`: what it chooses, that the choice is in the IR, and that the plan runs.
#include <memory>

#include <gtest/gtest.h>

#include "backends/backend.h"
#include "ir/interpreter.h"
#include "ir/text.h"
#include "tests/e2e/tiny.h"
#include "tests/support/from_memory.h"
#include "tests/support/nmse.h"
#include "tools/pass_context.h"

namespace llmc {
namespace {

struct Chosen {
  Module module;
  std::string remarks;
  std::string phases;  // oneDNN's, "prefill,score"
};
Chosen Choose(const TinyModel& tiny, const std::string& targets) {
  Chosen chosen{ImportTiny(tiny), "", ""};
  PassContext context = ContextFor("auto", targets);
  context.remark = [&](const Diag& diag) { chosen.remarks += diag.message + "\n"; };
  RunPipeline(chosen.module, context);
  for (const Func& func : chosen.module.funcs)
    if (RunsOnOnednn(chosen.module, func)) chosen.phases += (chosen.phases.empty() ? "" : ",") + func.name;
  return chosen;
}

TinyModel Model(const std::string& weights, const std::string& activations) {
  TinyModel tiny;
  tiny.weights = weights;
  tiny.activations = activations;
  tiny.layers = 8;  // behind the last attention a prefill has one row
  tiny.context = 128;
  tiny.chunk = 128;
  return tiny;
}

// For a CPU of which no more is known than AVX2, oneDNN is chosen only where it loses nothing without AVX-512 and wins
// with it: bf16 products of many rows.
TEST(Auto, ChoosesByPhaseAndType) {
  EXPECT_EQ(Choose(Model("bf16", "bf16"), "x86-64-v3").phases, "prefill");
  EXPECT_EQ(Choose(Model("bf16", "f32"), "x86-64-v3").phases, "");
  EXPECT_EQ(Choose(Model("f32", "f32"), "x86-64-v3").phases, "");
  for (const char* type : {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0"})
    EXPECT_EQ(Choose(Model(type, "q8"), "x86-64-v3").phases, "") << type;
  TinyModel few = Model("bf16", "bf16");
  few.chunk = 16;  // as good as one row
  EXPECT_EQ(Choose(few, "x86-64-v3").phases, "");
}

TEST(Auto, IsRecordedWithItsReason) {
  const Chosen chosen = Choose(Model("bf16", "bf16"), "x86-64-v3");
  const std::string text = Print(chosen.module);
  EXPECT_NE(text.find("backend = auto, target = [x86-64-v3], onednn = [prefill]"), std::string::npos);
  EXPECT_NE(chosen.remarks.find("select-backend: @prefill: onednn (matrices on one core: llvm "), std::string::npos);
  EXPECT_NE(chosen.remarks.find("select-backend: @decode: llvm (matrices on one core: llvm "), std::string::npos);
}

TEST(Auto, MixesBackendsInOnePlan) {
  const std::vector<std::string>& names = BackendNames();
  if (std::find(names.begin(), names.end(), "auto") == names.end()) GTEST_SKIP() << "this build has one backend";
  const TinyModel tiny = Model("bf16", "bf16");
  const Chosen chosen = Choose(tiny, "x86-64-v3");
  const std::unique_ptr<WeightSource> weights = RandomWeights(5);
  PlanRequest request;
  request.module = &chosen.module;
  request.weights = weights.get();
  request.backend = "auto";
  const Executable executable = FromMemory(std::make_shared<MemoryPlan>(request));
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 90; ++i) tokens.push_back((i * 37 + 11) % static_cast<int32_t>(tiny.vocab));
  Session session(executable, {.threads = 2, .context = 0, .chunk = 0, .adapt = false});
  session.Prefill(std::span(tokens).first(80));
  std::vector<float> row;
  for (size_t i = 80; i < tokens.size(); ++i) {
    const std::span<const float> logits = session.Decode(tokens[i]);
    row.assign(logits.begin(), logits.end());
  }
  Interpreter interpreter(chosen.module, *weights);
  const std::vector<float> expected = interpreter.Run("prefill", tokens, 0, static_cast<int64_t>(tokens.size()));
  EXPECT_LE(Nmse(row.data(), expected.data(), row.size()), 1e-4);  // a sum's last bit may round to another bf16
}

}  // namespace
}  // namespace llmc
