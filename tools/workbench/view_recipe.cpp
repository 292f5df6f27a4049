// What a plan says of itself, and the command that makes it.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "runtime/plan_rules.h"
#include "tools/pass_context.h"
#include "tools/workbench/plan_passes.h"
#include "tools/workbench/views.h"

namespace llmc {
namespace {

int64_t Signed(uint64_t value) { return static_cast<int64_t>(value); }

ReportTable InputsTable(const Manifest& m) {
  ReportTable table{"inputs", {"input", "sha256"}};
  for (const PlanInput& input : m.inputs)
    table.rows.push_back({input.role, fmt::format("{:02x}", fmt::join(input.sha256, ""))});
  return table;
}

// Of the manifest's "key = value" lines.
ReportTable OptionsTable(const Manifest& m) {
  ReportTable table{"options", {"option", "value"}};
  for (size_t begin = 0; begin < m.options.size();) {
    const size_t end = std::min(m.options.find('\n', begin), m.options.size());
    const std::string line = m.options.substr(begin, end - begin);
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos) table.rows.push_back({line.substr(0, equals), line.substr(equals + 3)});
    begin = end + 1;
  }
  return table;
}

std::vector<std::string> TargetsOfPlan(const Manifest& m, const Module& module) {
  const std::string chosen = TargetsOf(module);  // auto's, which chose by them
  std::vector<std::string> names;
  for (const PlanTarget& target : m.targets) names.push_back(target.name);
  return chosen.empty() ? names : std::vector<std::string>{chosen};
}

}  // namespace

Module FinalModule(const PlanFile& plan) {
  Module module = Parse(plan.Read(SectionKind::FinalIr), plan.name());
  Verify(module, plan.name());
  return module;
}

Report SummaryReport(const PlanFile& plan) {
  const Manifest& m = plan.manifest();
  Report report;
  report.facts = {{"model", m.model},
                  {"backend", m.backend},
                  {"numerics", m.numerics},
                  {"vocabulary", int64_t{m.vocab}},
                  {"context", int64_t{m.context}},
                  {"chunk", int64_t{m.chunk}},
                  {"shared bytes", Signed(m.shared_bytes)},
                  {"private bytes", Signed(m.private_bytes)},
                  {"state bytes", Signed(m.state_bytes)},
                  {"kernels", m.kernels},
                  {"passes", PassesOf(plan)},
                  {"build", m.build_id},
                  {"generation", RulesText(m.generation.rules)},
                  {"self test ids", Signed(m.self_test.ids.size())},
                  {"file bytes", Signed(plan.file_size())}};
  std::vector<std::string> stops;
  for (const int32_t id : m.generation.stop_ids) stops.push_back(std::to_string(id));
  report.facts.push_back({"stop ids", stops});
  report.tables.push_back(OptionsTable(m));
  ReportTable phases{"phases", {"phase", "least rows", "most rows", "steps"}};
  for (const PlanPhase& phase : m.phases)
    phases.rows.push_back({std::string(PhaseKindName(phase.kind)), int64_t{phase.min_rows}, int64_t{phase.max_rows},
                           Signed(phase.steps.size())});
  report.tables.push_back(std::move(phases));
  ReportTable targets{"targets", {"target", "needs"}};
  for (const PlanTarget& target : m.targets) targets.rows.push_back({target.name, target.features});
  report.tables.push_back(std::move(targets));
  ReportTable states{"states", {"kind", "offset", "bytes", "positions"}};
  for (const PlanState& state : m.states)
    states.rows.push_back({std::string(FindRow(kStateKinds, state.kind)->text), Signed(state.offset),
                           Signed(state.bytes()), int64_t{state.slots}});
  report.tables.push_back(std::move(states));
  report.tables.push_back(InputsTable(m));
  ReportTable sections{"sections", {"section", "index", "offset", "bytes", "sha256"}};
  for (const PlanSection& section : plan.sections())
    sections.rows.push_back({std::string(SectionKindName(section.kind)), int64_t{section.index}, Signed(section.offset),
                             Signed(section.size), fmt::format("{:02x}", fmt::join(section.sha256, ""))});
  report.tables.push_back(std::move(sections));
  return report;
}

Report RecipeReport(const PlanFile& plan) {
  const Manifest& m = plan.manifest();
  const Module module = FinalModule(plan);
  std::vector<std::string> command = {"llmc", "compile", "MODEL", "--backend", m.backend};
  const auto add = [&](const std::string& flag, const std::string& value) {
    command.push_back(flag);
    command.push_back(value);
  };
  if (const std::vector<std::string> targets = TargetsOfPlan(m, module); !targets.empty())
    add("--target-cpu", fmt::format("{}", fmt::join(targets, ",")));
  std::map<std::string, std::string> options;
  const ReportTable listed = OptionsTable(m);
  for (const std::vector<Cell>& row : listed.rows)
    options[std::get<std::string>(row[0])] = std::get<std::string>(row[1]);
  if (options.contains("random")) add("--weights", "random:" + options["random"]);
  const std::pair<const char*, const char*> flags[] = {{"context", "--context"},
                                                       {"chunk", "--chunk"},
                                                       {"kv_type", "--kv-type"},
                                                       {"activations", "--activations"},
                                                       {"quantize", "--quantize"}};
  for (const auto& [option, flag] : flags)
    if (options.contains(option)) add(flag, options[option]);
  if (options.contains("hidden")) command.emplace_back("--hidden");
  const std::vector<std::string> ran = PassesOf(plan);
  for (const PassInfo& pass : AllPasses())
    if (pass.optional && std::find(ran.begin(), ran.end(), pass.name) == ran.end())
      add("--disable-pass", std::string(pass.name));
  for (const PlanInput& input : m.inputs) {
    if (input.role.starts_with("lora-") && input.role.ends_with("-config")) add("--lora", "ADAPTER");
    if (input.role == "ir") add("--from", "FILE.ir");
  }
  if (plan.Find(SectionKind::Tokenizer) == nullptr) command.emplace_back("--no-tokenizer");
  if (plan.Find(SectionKind::Chat) == nullptr && plan.Find(SectionKind::ChatTemplate) == nullptr)
    command.emplace_back("--no-chat-template");
  if (m.self_test.ids.empty()) command.emplace_back("--no-selftest");
  if (plan.file_offset() > 0) command.emplace_back("--standalone");
  add("-o", "OUT.plan");
  return {{{"command", command}, {"build", m.build_id}}, {InputsTable(m)}};
}

}  // namespace llmc
