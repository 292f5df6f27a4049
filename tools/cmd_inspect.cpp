// llmc inspect: what a plan holds, one view a flag (tools/workbench/views.h); its IR after any pass; every byte checked.
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/sha256.h"
#include "ir/text.h"
#include "runtime/plan.h"
#include "runtime/plan_io.h"
#include "tools/cli.h"
#include "tools/note.h"
#include "tools/text_file.h"
#include "tools/workbench/plan_passes.h"
#include "tools/workbench/views.h"

namespace llmc {
namespace {

void PrintIrAfter(const PlanFile& plan, const std::string& pass) {
  if (pass.empty()) {
    WriteText("-", plan.Read(SectionKind::FinalIr));
  } else if (pass == "import") {
    WriteText("-", plan.Read(SectionKind::ImportIr));
  } else {
    WriteText("-", Print(RunPassesOf(plan, pass)));
  }
}

// ": 60 dnnl, 121 kernel, 95 barrier"; empty for a phase of code alone.
std::string StepCounts(const PlanPhase& phase) {
  std::map<uint32_t, size_t> counts;
  for (const PlanStep& step : phase.steps) ++counts[step.kind];
  if (counts.empty() || (counts.size() == 1 && counts.contains(static_cast<uint32_t>(PlanStepKind::Code)))) return "";
  std::vector<std::string> texts;
  for (const auto& [kind, count] : counts) {
    const std::string_view name = PlanStepKindName(kind);
    texts.push_back(fmt::format("{} {}", count, name.empty() ? fmt::format("of kind {}", kind) : name));
  }
  return fmt::format(": {}", fmt::join(texts, ", "));
}

// The options of the module as imported: what stands in its header.
std::string ImportOptions(const PlanFile& plan) {
  const std::string text = plan.Read(SectionKind::ImportIr);
  const std::string header = text.substr(0, text.find('\n'));
  const size_t begin = header.find('{'), end = header.rfind('}');
  return begin == std::string::npos || end == std::string::npos ? "" : header.substr(begin + 1, end - begin - 1);
}

void PrintSummary(const PlanFile& plan) {
  const Manifest& m = plan.manifest();
  fmt::print("model        {}\nbackend      {}\nnumerics     {}\nvocabulary   {}\ncontext      {}\nchunk        {}\n",
             m.model, m.backend, m.numerics, m.vocab, m.context, m.chunk);
  for (const PlanPhase& phase : m.phases)
    fmt::print("phase        {} {}..{} rows, {} steps{}\n", PhaseKindName(phase.kind), phase.min_rows, phase.max_rows,
               phase.steps.size(), StepCounts(phase));
  for (const PlanTarget& target : m.targets)
    fmt::print("target       {} (needs {})\n", target.name, fmt::join(target.features, " "));
  fmt::print("memory       {} bytes of arena, {} per thread, {} of cache\n", m.shared_bytes, m.private_bytes,
             m.state_bytes);
  for (const PlanState& state : m.states) {
    const StateKindInfo& kind = *FindRow(kStateKinds, state.kind);
    fmt::print("state        {} of {} bytes at {}{}\n", kind.text, state.bytes(), state.offset,
               state.slots == 0 ? "" : fmt::format(", {} positions", state.slots));
  }
  if (!m.kernels.empty()) fmt::print("kernels      {}\n", m.kernels);
  fmt::print("stop ids     {}\n", fmt::join(m.generation.stop_ids, ","));
  const std::string rules = RulesText(m.generation.rules);
  for (size_t begin = 0; begin < rules.size();) {
    const size_t end = rules.find('\n', begin);
    fmt::print("generation   {}\n", rules.substr(begin, end - begin));
    begin = end + 1;
  }
  std::string self_test = m.self_test.ids.empty() ? "none" : fmt::format("{} ids", m.self_test.ids.size());
  if (const auto& approximate = m.self_test.approximate)
    self_test += fmt::format(", NMSE at most {} at {} logits", approximate->bound, approximate->at.size());
  fmt::print("self-test    {}\n", self_test);
  fmt::print("options      {}\npasses       {}\nbuild        {}\n", ImportOptions(plan), m.passes, m.build_id);
  for (const PlanInput& input : m.inputs) {
    std::string hex;
    for (uint8_t byte : input.sha256) hex += fmt::format("{:02x}", byte);
    fmt::print("input        {} sha256 {}\n", input.role, hex);
  }
  for (const PlanSection& section : plan.sections())
    fmt::print("section      {:<13} {:>12} bytes at {}\n", SectionKindName(section.kind), section.size, section.offset);
  fmt::print("file         {} bytes\n", plan.file_size());
}

}  // namespace

int CommandAssemble(const AssembleFlags& flags) {
  PlanWriter::Options options;
  options.path = flags.output;
  if (flags.file != "-") options.inputs = {flags.file};
  options.sha256 = MakeSha256;
  AssemblePlan(ReadText(flags.file), FolderOf(flags.file), std::move(options));
  return 0;
}

int CommandInspect(const InspectFlags& flags) {
  const PlanFile plan(flags.plan);
  if (flags.verify) {
    plan.VerifyAll(MakeSha256);
    Note(fmt::format("{}: every section has its SHA-256\n", flags.plan));
  }
  const bool assembly = flags.assembly.has_value();
  if (flags.ir) {
    PrintIrAfter(plan, *flags.ir);
  } else if (flags.text) {
    WriteText("-", DumpPlan(plan));
  } else if (flags.schedule) {
    PrintReport(ScheduleReport(plan), flags.json);
  } else if (flags.memory) {
    PrintReport(MemoryReport(plan, flags.threads, flags.context), flags.json);
  } else if (flags.weights) {
    PrintReport(WeightsReport(plan), flags.json);
  } else if (flags.code && assembly) {
    const Report report = AssemblyReport(plan, flags.target, *flags.assembly);
    WriteText("-", flags.json ? ReportJson(report) : AssemblyText(report));
  } else if (flags.code) {
    PrintReport(CodeReport(plan, flags.target), flags.json);
  } else if (flags.recipe) {
    PrintReport(RecipeReport(plan), flags.json);
  } else if (flags.json) {
    PrintReport(SummaryReport(plan), true);
  } else if (!flags.verify) {
    PrintSummary(plan);
  }
  return 0;
}

}  // namespace llmc
