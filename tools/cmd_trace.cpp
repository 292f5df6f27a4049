// llmc trace: a row per op of a run by the interpreter: shape, spread, what isn't finite; files of the values, and
// other engines' files beside them.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/json.h"
#include "ir/op.h"
#include "runtime/npy.h"
#include "runtime/run_options.h"
#include "runtime/tokenizer.h"
#include "tools/cli.h"
#include "tools/note.h"
#include "tools/pass_context.h"
#include "tools/scheduled_model.h"
#include "tools/text_file.h"
#include "tools/workbench/numbers.h"
#include "tools/workbench/plan_weights.h"
#include "tools/workbench/stages.h"
#include "tools/workbench/trace.h"

namespace llmc {
namespace {

// What the run is of: a plan's final IR, or a model at a stage.
struct Subject {
  std::unique_ptr<PlanFile> plan;
  Module module;
  std::shared_ptr<const WeightSource> weights;
  std::string tokenizer;
};

Subject Open(const TraceFlags& flags) {
  Subject subject;
  const std::string& path = flags.compile.model.model;
  if (IsPlanFile(path)) {
    if (!flags.stage.empty()) throw UsageError("--stage is for a model; a plan is traced on its final IR");
    subject.plan = std::make_unique<PlanFile>(path);
    subject.module = ModuleOf(*subject.plan);
    subject.weights = WeightsOf(*subject.plan);
    subject.tokenizer = subject.plan->Read(SectionKind::Tokenizer);
    return subject;
  }
  ModelOptions options = flags.compile.model;
  options.sink = PrintDiag;
  Model model = LoadModel(options);
  if (!model.weights)
    throw UsageError("trace evaluates the model: it needs weights (--weights random:SEED makes some)");
  if (!flags.stage.empty() && flags.stage != "import") {
    PipelineOptions pipeline;
    pipeline.file = path;
    pipeline.stop_after = flags.stage;
    RunPipeline(model.module, ContextFor(flags.compile.backend, flags.compile.target_cpu), pipeline);
  }
  subject.module = std::move(model.module);
  subject.weights = std::move(model.weights);
  subject.tokenizer = std::move(model.tokenizer);
  return subject;
}

std::vector<int32_t> TokensOf(const TraceFlags& flags, const Subject& subject) {
  if (!flags.text.empty() && !flags.tokens.empty()) throw UsageError("-p and --tokens say the same thing twice");
  if (!flags.text.empty()) {
    if (subject.tokenizer.empty())
      Fail(DiagKind::Unsupported, {flags.compile.model.model, ""}, "has no tokenizer: give --tokens");
    return Tokenizer(subject.tokenizer).Encode(flags.text);
  }
  return flags.tokens.empty() ? SeededTokens(subject.module, 8) : ParseTokens(flags.tokens);
}

std::string Shape(const Type& type) {
  std::vector<int64_t> dims;
  for (const Dim& dim : type.dims) dims.push_back(dim.value);
  return fmt::format("{}[{}]", InfoOf(type.dtype).text, fmt::join(dims, ", "));
}

std::string Text(const std::vector<const TraceRow*>& rows) {
  std::vector<std::vector<std::string>> table = {{"value", "op", "type", "mean", "std", "min", "max", "not finite"}};
  for (const TraceRow* row : rows)
    table.push_back({"%" + row->value.name, std::string(OpText(row->value.kind)), Shape(row->value.type),
                     fmt::format("{:.4g}", row->mean), fmt::format("{:.4g}", row->deviation),
                     fmt::format("{:.4g}", row->least), fmt::format("{:.4g}", row->largest),
                     row->nonfinite == 0 ? "" : std::to_string(row->nonfinite)});
  return Table(table);
}

std::string JsonText(const std::vector<const TraceRow*>& rows) {
  std::string text;
  for (const TraceRow* row : rows)
    text += fmt::format(
        "{}\n  {{\"value\": {}, \"op\": \"{}\", \"layer\": {}, \"type\": {}, \"mean\": {}, \"std\": {}, \"min\": {}, "
        "\"max\": {}, \"nonfinite\": {}}}",
        text.empty() ? "" : ",", JsonQuote(row->value.name), OpText(row->value.kind), row->value.layer,
        JsonQuote(Shape(row->value.type)), JsonNumber(row->mean), JsonNumber(row->deviation), JsonNumber(row->least),
        JsonNumber(row->largest), row->nonfinite);
  return fmt::format("[{}\n]\n", text);
}

void WriteFiles(const std::vector<const TraceRow*>& rows, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) Fail(DiagKind::FileError, {folder, ""}, error.message());
  for (const TraceRow* row : rows) {
    const auto count = static_cast<uint64_t>(row->value.type.dims.empty() ? 1 : row->value.type.dims[0].value);
    const uint64_t columns = row->value.values.size() / std::max<uint64_t>(1, count);
    NpyWriter file(folder + "/" + row->value.name + ".npy", count, columns);
    for (uint64_t r = 0; r < count; ++r) file.Append(std::span(row->value.values).subspan(r * columns, columns));
    file.Finish();
  }
}

// Prints the comparison; whether nothing parted.
bool PrintComparison(const std::vector<Parted>& all, double tolerance) {
  std::vector<std::vector<std::string>> table = {{"value", "theirs", "max abs", "NMSE", ""}};
  const Parted* first = nullptr;
  for (const Parted& parted : all) {
    const bool good = parted.problem.empty() && parted.nmse <= tolerance;
    if (!good && first == nullptr) first = &parted;
    table.push_back({"%" + parted.name, parted.theirs, ShortNumber(parted.max_abs), ShortNumber(parted.nmse),
                     good                     ? ""
                     : parted.problem.empty() ? "parts"
                                              : parted.problem});
  }
  fmt::print("{}", Table(table));
  if (first != nullptr)
    Note(fmt::format("trace: %{} is the first that parts (NMSE over {})\n", first->name, tolerance));
  return first == nullptr;
}

}  // namespace

int CommandTrace(const TraceFlags& flags) {
  const Subject subject = Open(flags);
  const std::vector<int32_t> tokens = TokensOf(flags, subject);
  const std::vector<TraceRow> rows =
      Trace(subject.module, *subject.weights, tokens, std::max(1, flags.compile.jobs == 0 ? 2 : flags.compile.jobs));
  std::vector<const TraceRow*> shown;
  for (const TraceRow& row : rows) {
    if (flags.layer >= 0 && row.value.layer != flags.layer) continue;
    if (!flags.op.empty() && OpText(row.value.kind) != flags.op && row.value.name != flags.op) continue;
    shown.push_back(&row);
  }
  if (shown.empty()) throw UsageError("no op of this run is what --layer and --op ask for");
  const auto bad = std::find_if(rows.begin(), rows.end(), [](const TraceRow& row) { return row.nonfinite > 0; });
  if (bad != rows.end()) {
    const auto columns =
        bad->value.values.size() / static_cast<size_t>(std::max<int64_t>(1, bad->value.type.dims[0].value));
    Note(fmt::format("trace: the first value that isn't finite is %{} ({}{}): position {}, element {}\n",
                     bad->value.name, OpText(bad->value.kind),
                     bad->value.layer < 0 ? "" : fmt::format(", layer {}", bad->value.layer),
                     bad->first_nonfinite / columns, bad->first_nonfinite % columns));
  }
  if (!flags.npy.empty()) WriteFiles(shown, flags.npy);
  if (!flags.compare.empty())
    return PrintComparison(CompareWith(rows, flags.compare, flags.map), flags.tolerance) ? 0 : 1;
  fmt::print("{}", flags.json ? JsonText(shown) : Text(shown));
  return 0;
}

}  // namespace llmc
