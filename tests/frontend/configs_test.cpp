// Descriptions of published models (tools/golden/configs.py): those of families that there are have the parameters that
// transformers counts, the others are refused with their model_type.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "frontend/build_module.h"
#include "frontend/report.h"
#include "ir/verify.h"
#include "tests/frontend/support.h"

namespace llmc {
namespace {

using test::kData;

TEST(Configs, ParametersOfPublishedModels) {
  const Json totals = test::ReadJson(kData + "configs/totals.json");
  EXPECT_GE(totals.size(), 25U);
  for (const auto& [name, total] : totals.members()) {
    SCOPED_TRACE(name);
    Description d;
    try {
      // That a checkpoint is quantised in a form that isn't read changes nothing of its sizes.
      d = test::Describe(test::ReadBytes(kData + "configs/" + std::string(name) + ".json"), {"quantization_config"});
    } catch (const InputError& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    BoundWeights weights = UnboundWeights(d);
    BuildOptions options;
    options.context = 64;
    options.chunk = 16;
    const Module module = BuildModule(d, weights, options);
    Verify(module, "import");
    const ModelFigures figures = FiguresOf(d, weights, module, 16);
    EXPECT_EQ(figures.parameters, total.AsInt());
    // Two of eight experts: 6 of 8 times 32 layers of 8 times 3 matrices of 4096 x 14336 rest.
    if (name == "Mixtral-8x7B-v0.1") {
      EXPECT_EQ(figures.active, total.AsInt() - int64_t{32} * 6 * 3 * 4096 * 14336);
    }
    if (name == "Qwen3-8B") {
      EXPECT_EQ(figures.active, figures.parameters);
    }
  }
}

TEST(Configs, OthersAreRefusedByName) {
  const Json totals = test::ReadJson(kData + "configs/totals.json");
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "configs")) {
    const std::string name = entry.path().stem().string();
    if (name == "totals" || totals.Find(name)) continue;
    SCOPED_TRACE(name);
    const std::string text = test::ReadBytes(entry.path().string());
    const std::string type(ParseJson(text, name).Find("model_type").AsString());
    try {
      test::Describe(text);
      ADD_FAILURE() << "it is described";
    } catch (const InputError& error) {
      EXPECT_EQ(error.diag().kind, DiagKind::UnknownArchitecture);
      EXPECT_NE(std::string(error.what()).find("architecture \"" + type + "\" is not supported"), std::string::npos)
          << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace llmc
