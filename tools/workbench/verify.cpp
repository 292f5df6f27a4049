// Before and after each pass; code against interpreter; phases against each other.
#include "tools/workbench/verify.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/json.h"
#include "ir/text.h"
#include "passes/check.h"
#include "runtime/executor.h"
#include "tools/in_memory.h"
#include "tools/pass_context.h"
#include "tools/text_file.h"
#include "tools/workbench/stages.h"
#include "tools/workbench/values.h"

namespace llmc {
namespace {

constexpr size_t kTokens = 8;

int Threads(const CompileFlags& flags) { return std::max(1, flags.jobs == 0 ? 2 : flags.jobs); }

VerifyRow RowOf(std::string what, Exactness exactness, const std::vector<float>& now, const std::vector<float>& was,
                size_t width) {
  VerifyRow row;
  row.what = std::move(what);
  row.kind = ExactnessText(exactness);
  const bool exact = exactness == Exactness::Exact;
  row.difference = Compare(now, was, width);
  const Difference& d = row.difference;
  row.holds = exact ? d.same() : d.worst_nmse <= MostNmse(exactness);
  if (!row.holds && exact)
    row.note = fmt::format("{} of {} values differ, first at position {}, number {}: {} was {}", d.unequal, d.values,
                           d.first / width, d.first % width, now[d.first], was[d.first]);
  if (!exact) row.note = fmt::format("NMSE at most {}", MostNmse(exactness));
  return row;
}

// Rows of logits from a session: `prompt` tokens in calls of `chunk`, of which only the last row is kept, then decode.
std::vector<float> PrefillThenDecode(Session& session, std::span<const int32_t> tokens, size_t prompt) {
  session.Clear();
  std::vector<float> logits;
  for (size_t i = 0; i < tokens.size(); i = i == 0 ? prompt : i + 1) {
    const std::span<const float> row = session.Prefill(tokens.subspan(i, i == 0 ? prompt : 1));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

// An encoder's code against the interpreter, whose hidden rows are `want`.
void VerifyHidden(const Executable& executable, const std::vector<int32_t>& tokens, const std::vector<int32_t>& types,
                  const std::vector<float>& want, bool exact, std::vector<VerifyRow>& rows) {
  for (uint32_t threads : {1U, 2U}) {
    Session session(executable, {.threads = threads, .context = 0, .chunk = 0, .adapt = false});
    std::vector<float> got;
    session.Hidden(tokens, types, [&](std::span<const float> row) { got.insert(got.end(), row.begin(), row.end()); });
    rows.push_back(RowOf(fmt::format("code: hidden, {} thread{}", threads, threads > 1 ? "s" : ""),
                         exact ? Exactness::Exact : Exactness::Rounds, got, want, want.size() / tokens.size()));
  }
}

// Code against interpreter; the interpreter's logits of the last stage are `want`, of every position.
void VerifyCode(const Executable& executable, const std::vector<int32_t>& tokens, const std::vector<float>& want,
                bool exact, std::vector<VerifyRow>& rows) {
  const Exactness exactness = exact ? Exactness::Exact : Exactness::Rounds;
  const size_t vocab = executable.manifest->vocab;
  for (uint32_t threads : {1U, 2U}) {
    Session session(executable, {.threads = threads, .context = 0, .chunk = 0, .adapt = false});
    std::vector<float> score;
    session.Score(tokens, [&](std::span<const float> row) { score.insert(score.end(), row.begin(), row.end()); });
    rows.push_back(
        RowOf(fmt::format("code: score, {} thread{}", threads, threads > 1 ? "s" : ""), exactness, score, want, vocab));
    for (size_t prompt : {size_t{5}, size_t{3}, size_t{1}}) {
      if (prompt > tokens.size()) continue;
      const std::vector<float> logits = PrefillThenDecode(session, tokens, prompt);
      const std::vector<float> tail(want.begin() + static_cast<std::ptrdiff_t>((prompt - 1) * vocab), want.end());
      rows.push_back(
          RowOf(fmt::format("code: prefill {}, decode, {} thread{}", prompt, threads, threads > 1 ? "s" : ""),
                exactness, logits, tail, vocab));
    }
  }
}

}  // namespace

bool VerifyReport::holds() const {
  return std::all_of(rows.begin(), rows.end(), [](const VerifyRow& row) { return row.holds; });
}

VerifyReport VerifyModel(const CompileFlags& given, bool whole) {
  CompileFlags flags = given;
  if (!flags.target_given) flags.target_cpu = "native";
  ModelOptions options = flags.model;
  options.sink = PrintDiag;
  ScheduledModel scheduled;
  scheduled.model = LoadModel(options);
  if (!scheduled.model.weights)
    throw UsageError("verify evaluates the model: it needs weights (--weights random:SEED makes some)");
  Module& module = scheduled.model.module;
  VerifyReport report;
  report.layers = LayersOf(module);
  report.all_layers = static_cast<int>(report.layers.size());
  if (!whole && StoredWeightBytes(module) > kVerifyWhole) {
    report.layers = RepresentativeLayers(module);
    module = KeepLayers(module, report.layers);
  }
  const WeightSource& weights = *scheduled.model.weights;
  scheduled.import_text = Print(module);
  scheduled.backend = flags.backend;
  scheduled.targets = flags.target_cpu;
  const std::vector<Stage> stages =
      RunStages(module, ContextFor(flags.backend, flags.target_cpu),
                {flags.disable_pass.begin(), flags.disable_pass.end()}, flags.model.model);
  const auto width = static_cast<size_t>(RowWidth(module));
  std::vector<float> was = EvaluateModule(stages[0].module, weights, Threads(flags));
  for (size_t i = 1; i < stages.size(); ++i) {
    const Stage& stage = stages[i];
    if (!stage.changed) {
      report.rows.push_back({stage.name, std::string(ExactnessText(stage.pass->exactness)), false, {}, true, ""});
      continue;
    }
    VerifyRow row;
    try {
      std::vector<float> now = EvaluateModule(stage.module, weights, Threads(flags));
      row = RowOf(stage.name, stage.pass->exactness, now, was, width);
      was = std::move(now);
    } catch (const InputError& error) {  // its phases disagree
      row = {stage.name, std::string(ExactnessText(stage.pass->exactness)), true, {}, false, error.diag().message};
    }
    report.rows.push_back(std::move(row));
  }
  module = stages.back().module;
  const std::vector<int32_t> tokens = SeededTokens(module, std::min<int64_t>(kTokens, module.options.Int("context")));
  const std::vector<int32_t> types = SeededTypes(module, tokens.size());
  const bool logits = module.funcs.at(0).output == EntryOutput::Logits;
  const bool exact = flags.backend == "llvm" || flags.backend == "reference";
  const Executable executable = CompileInMemory(std::move(scheduled), flags, static_cast<uint32_t>(Threads(flags)));
  const bool same = exact || executable.manifest->numerics == "exact";
  if (logits) {
    VerifyCode(executable, tokens, was, same, report.rows);
  } else {
    VerifyHidden(executable, tokens, types, was, same, report.rows);
  }
  return report;
}

}  // namespace llmc
