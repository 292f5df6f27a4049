// The parameters of published models against transformers' count (tools/golden/configs.py).
#include <string>

#include <gtest/gtest.h>

#include "frontend/build_module.h"
#include "frontend/report.h"
#include "ir/verify.h"
#include "tests/frontend/support.h"

namespace llmc {
namespace {

const std::string kData = std::string(LLMC_SOURCE_DIR) + "/tests/data/";

Json Read(const std::string& path) {
  JsonLimits limits;
  limits.max_bytes = uint64_t{16} << 20;
  limits.max_values = uint64_t{1} << 20;
  return ParseJson(test::ReadBytes(path), path, limits);
}

TEST(Configs, ParametersOfPublishedModels) {
  const Json totals = Read(kData + "configs/totals.json");
  EXPECT_GE(totals.size(), 25U);
  for (const auto& [name, total] : totals.members()) {
    SCOPED_TRACE(name);
    Description d;
    try {
      d = test::Describe(test::ReadBytes(kData + "configs/" + std::string(name) + ".json"));
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
    EXPECT_EQ(FiguresOf(d, weights, module, 16).parameters, total.AsInt());
  }
}

}  // namespace
}  // namespace llmc
