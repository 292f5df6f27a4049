// The plan's self-test finds steps that are missing: what an earlier phase left in caches and logits doesn't stand in
// for them.
#include <memory>

#include <gtest/gtest.h>

#include "backends/backend.h"
#include "backends/compile_plan.h"
#include "backends/sha256.h"
#include "ir/text.h"
#include "runtime/loader.h"
#include "runtime/plan.h"
#include "runtime/run.h"
#include "tests/e2e/tiny.h"
#include "tests/support/temp_dir.h"
#include "tools/pass_context.h"

namespace llmc {
namespace {

int SelfTest(const std::string& plan) {
  return RunMain({plan, "--selftest"}, [](const RunOptions& options) { return LoadPlan(options.plan); },
                 {"llmc-run", true});
}

// The plan's text without the last line of a phase that holds `what`.
std::string Without(std::string text, const std::string& phase, const std::string& what) {
  const size_t begin = text.find("phase " + phase), end = text.find("\nphase ", begin);
  const size_t at = text.rfind(what, end);
  EXPECT_TRUE(at != std::string::npos && at > begin) << what;
  const size_t line = text.rfind('\n', at);
  return text.erase(line, text.find('\n', at) - line);
}

TEST(SelfTest, FindsMissingSteps) {
  const std::vector<std::string>& names = BackendNames();
  if (std::find(names.begin(), names.end(), "onednn") == names.end()) GTEST_SKIP() << "step lists are onednn's";
  for (const bool exact : {true, false}) {
    TinyModel tiny;
    tiny.weights = exact ? "q8_0" : "f32";
    tiny.activations = exact ? "q8" : "f32";
    tiny.tied = true;
    Module module = ImportTiny(tiny);
    RunPipeline(module, ContextFor("onednn"));
    const std::unique_ptr<WeightSource> weights = RandomWeights(3);
    PlanRequest request;
    request.module = &module;
    request.weights = weights.get();
    request.backend = "onednn";
    const test::TempDir folder;
    WritePlan(request, folder / "whole.plan");
    EXPECT_EQ(SelfTest(folder / "whole.plan"), 0);
    const std::string text = DumpPlan(PlanFile(folder / "whole.plan"));
    for (const char* phase : {"prefill", "decode", "score"}) {
      for (const char* what : {"\"kv_append\"", "step dnnl", "\"rope\"", "\"norm\""}) {
        PlanWriter::Options options;
        options.path = folder / "cut.plan";
        options.sha256 = MakeSha256;
        AssemblePlan(Without(text, phase, what), "", std::move(options));
        EXPECT_EQ(SelfTest(folder / "cut.plan"), 1) << phase << " without " << what << (exact ? ", exact" : "");
      }
    }
  }
}

}  // namespace
}  // namespace llmc
