// Guards `describe --report`: its prefill is what @prefill computes, op by op, once specialize-phases has cut away what
// the last row doesn't need.
#include <array>
#include <cmath>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "frontend/frontend.h"
#include "ir/op.h"
#include "passes/pass.h"

namespace llmc {
namespace {

// Multiply-adds with weights, with keys and values; bytes of weights, of caches.
using Work = std::array<double, 4>;

Work OfPrefill(Module module, int64_t rows) {
  PassContext context;
  PipelineOptions options;
  options.file = "report";
  options.passes = {"specialize-phases"};
  RunPipeline(module, context, options);
  const Func& prefill = *module.FindFunc("prefill");
  Work work{};
  for (const Op& op : prefill.ops) {
    const OpDef& def = DefOf(op.kind);
    if (def.cost == nullptr) continue;
    InferContext infer{module, prefill, op, {}};
    for (const Operand& operand : op.operands) infer.operand_types.push_back(TypeOf(module, prefill, operand));
    const Dim& own = prefill.values[static_cast<size_t>(op.results[0])].type.dims[0];
    const Cost cost = def.cost(infer, own.is_symbol() ? rows : own.value, rows);
    work[0] += cost.weight_macs;
    work[1] += cost.attention_macs;
    work[2] += cost.weight_bytes;
    work[3] += cost.state_bytes;
  }
  return work;
}

Work Reported(const std::string& report, int64_t rows) {
  std::string plain;
  for (const char c : report) plain += c == ',' ? "" : std::string(1, c);
  const std::regex line(
      "prefill of " + std::to_string(rows) +
      " +\\d+  multiply-adds \\((\\d+) with weights (\\d+) with keys and values\\); reads (\\d+) bytes "
      "of weights (\\d+) of cache");
  std::smatch found;
  EXPECT_TRUE(std::regex_search(plain, found, line)) << report;
  Work work{};
  for (size_t i = 0; i < work.size() && i + 1 < found.size(); ++i) work[i] = std::stod(found[i + 1]);
  return work;
}

TEST(Report, PrefillIsWhatItsPhaseComputes) {
  for (const char* model : {"llama-gqa2", "llama-tied-own-head", "mistral-window8", "qwen2-bias", "qwen3-norm"}) {
    ModelOptions options;
    options.model = std::string(LLMC_SOURCE_DIR "/tests/data/golden/") + model;
    options.no_weights = true;
    const Module module = LoadModel(options).module;
    for (const int64_t rows : {int64_t{1}, int64_t{20}}) {
      const Work computed = OfPrefill(module, rows), reported = Reported(ReportModel(options, rows), rows);
      for (size_t i = 0; i < computed.size(); ++i)
        EXPECT_EQ(std::llround(computed[i]), std::llround(reported[i]))
            << model << ", " << rows << " rows, figure " << i;
    }
  }
}

}  // namespace
}  // namespace llmc
