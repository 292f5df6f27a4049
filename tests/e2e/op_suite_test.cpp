// The op suite: each op in a function of its own, between an embedding and a head, compiled by every backend that is
// built in, against the interpreter on the same inputs. llvm gives the same bits, and so does onednn where activations
// are a8 (the head is then of q8_0); its float products sum in another order, so there the rows' NMSE is bounded, and
// thread counts must not change a bit.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "ir/op.h"
#include "tests/e2e/op_cases.h"
#include "tests/support/from_memory.h"
#include "tests/support/nmse.h"
#include "tools/pass_context.h"

namespace llmc {
namespace {

constexpr double kNmse = 1e-9;

// Cases that the onednn backend can't do, with the reason. It only shrinks.
constexpr std::array<std::string_view, 0> kSkippedOnOnednn = {};

using Param = std::tuple<std::string, OpCase>;
class OpSuite : public testing::TestWithParam<Param> {};
class OpSuiteUnfused : public testing::TestWithParam<Param> {};
class OpSuiteLeast : public testing::TestWithParam<OpCase> {};

// Without fusions: other kernels, and post-ops.
void ExpectTheInterpreters(const Param& param, bool fused, const std::string& target = "native") {
  const auto& [backend, c] = param;
  if (backend == "onednn" &&
      std::find(kSkippedOnOnednn.begin(), kSkippedOnOnednn.end(), c.name) != kSkippedOnOnednn.end())
    GTEST_SKIP() << "on the list of what onednn can't do";
  const std::unique_ptr<WeightSource> weights = RandomWeights(11);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 75; ++i) tokens.push_back((i * 31 + 7) % 50);
  const Module imported = ImportOp(c);
  const std::vector<float> expected = AsRunAll(OracleRows(imported, *weights, tokens), tokens.size());
  const size_t width = expected.size() / (tokens.size() + 4);

  Module module = imported;
  PipelineOptions options;
  for (const PassInfo& pass : AllPasses())
    if (pass.optional && !fused) options.disabled.emplace(pass.name);
  RunPipeline(module, ContextFor(backend), options);
  PlanRequest request;
  request.module = &module;
  request.weights = weights.get();
  request.backend = backend;
  request.targets = target;
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

TEST_P(OpSuite, AgreesWithTheInterpreter) { ExpectTheInterpreters(GetParam(), true); }
TEST_P(OpSuiteUnfused, AgreesWithTheInterpreter) { ExpectTheInterpreters(GetParam(), false); }
TEST_P(OpSuiteLeast, AgreesWithTheInterpreter) {
  ExpectTheInterpreters({"llvm", GetParam()}, true, TargetsHere().front());
}

// An op without a case would be compiled by nothing here.
TEST(OpCases, HaveEveryOp) {
  std::set<OpKind> seen;
  const auto look = [&seen](const Module& module) {
    for (const Func& func : module.funcs)
      for (const Op& op : func.ops) seen.insert(op.kind);
  };
  for (const OpCase& c : OpCases()) {
    Module module = ImportOp(c);
    look(module);
    RunPipeline(module, ContextFor("llvm"));
    look(module);
  }
#define OP(name, text) EXPECT_TRUE(seen.contains(OpKind::name)) << text << " is in no case of op_cases.cpp";
#include "ir/ops.def"
#undef OP
}

std::string NameOf(const testing::TestParamInfo<Param>& test) {
  return std::get<0>(test.param) + "_" + std::get<1>(test.param).name;
}
std::string CaseName(const testing::TestParamInfo<OpCase>& test) { return test.param.name; }
auto OnEveryBackend(const std::vector<OpCase>& cases) {
  return testing::Combine(testing::ValuesIn(CompiledBackends()), testing::ValuesIn(cases));
}

INSTANTIATE_TEST_SUITE_P(, OpSuite, OnEveryBackend(OpCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Sample, OpSuiteUnfused, OnEveryBackend(SampleOf(OpCases())), NameOf);
INSTANTIATE_TEST_SUITE_P(Sample, OpSuiteLeast, testing::ValuesIn(SampleOf(OpCases())), CaseName);
// tools/check.
INSTANTIATE_TEST_SUITE_P(Every, OpSuiteUnfused, OnEveryBackend(OpCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Every, OpSuiteLeast, testing::ValuesIn(OpCases()), CaseName);

}  // namespace
}  // namespace llmc
