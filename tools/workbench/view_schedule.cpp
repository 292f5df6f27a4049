// What the threads of a plan do, call by call.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/lower.h"
#include "ir/op.h"
#include "passes/rewrite.h"
#include "runtime/context.h"
#include "runtime/plan_steps.h"
#include "tools/workbench/views.h"

namespace llmc {
namespace {

// Ops of one number are one function.
std::vector<CallView> CallsWithoutCode(const Func& func) {
  std::vector<CallView> calls;
  int last = -1;
  for (size_t i = 0; i < func.ops.size(); ++i) {
    if (!func.ops[i].schedule) continue;
    if (calls.empty() || func.ops[i].schedule->fn != last) calls.emplace_back();
    calls.back().ops.push_back(i);
    last = func.ops[i].schedule->fn;
  }
  return calls;
}

bool IsMadeIn(const Func& func, const CallView& call, Operand operand) {
  return std::any_of(call.ops.begin(), call.ops.end(), [&](size_t op) {
    const std::vector<ValueId>& results = func.ops[op].results;
    return !operand.is_global && std::find(results.begin(), results.end(), operand.index) != results.end();
  });
}

bool IsReturned(const Func& func, ValueId value) {
  return std::find(func.returns.begin(), func.returns.end(), Operand::Local(value)) != func.returns.end();
}

}  // namespace

std::vector<std::vector<CallView>> CallsOf(const PlanFile& plan, const Module& module) {
  std::vector<std::vector<CallView>> views;
  if (plan.manifest().backend == "reference") {
    for (const Func& func : module.funcs) views.push_back(CallsWithoutCode(func));
    return views;
  }
  const Program program = LowerToProgram(module);
  // Functions are numbered over the phases that are code.
  Program code = program;
  std::erase_if(code.phases, [](const Phase& phase) { return phase.onednn; });
  const std::vector<std::vector<std::string>> names = FunctionNames(code);
  size_t next = 0;
  for (const Phase& phase : program.phases) {
    std::vector<CallView>& calls = views.emplace_back();
    for (size_t c = 0; c < phase.calls.size(); ++c) {
      const KernelCall& call = phase.calls[c];
      calls.push_back({phase.onednn ? (call.product ? "dnnl" : call.kernel) : names[next][c], call.ops,
                       call.claimed && plan.manifest().abi >= LLMC_ABI_1_2});
    }
    if (!phase.onednn) ++next;
  }
  return views;
}

std::string OpsText(const Func& func, const CallView& call) {
  std::vector<std::string_view> names;
  for (const size_t op : call.ops) names.push_back(OpText(func.ops[op].kind));
  return fmt::format("{}", fmt::join(names, " + "));
}

std::string PlaceText(const Func& func, ValueId id) {
  const Value& value = ValueAt(func, id);
  if (value.type.state >= 0) return "states";
  if (IsReturned(func, id)) return "logits";
  if (!value.at || value.at->space == Space::None) return "none";
  return fmt::format("{}{}", value.at->space == Space::Shared ? "shared" : "private",
                     value.at->offset >= 0 ? fmt::format("+{}", value.at->offset) : "");
}

std::string NameText(const Module& module, const Func& func, Operand operand) {
  return operand.is_global ? "$" + ToText(GlobalAt(module, operand.index).name)
                           : "%" + ToText(ValueAt(func, operand.index).name);
}

Report ScheduleReport(const PlanFile& plan) {
  const Module module = FinalModule(plan);
  const std::vector<std::vector<CallView>> calls = CallsOf(plan, module);
  Report report;
  for (const PlanPhase& phase : plan.manifest().phases) {
    ReportTable table{fmt::format("{} steps", PhaseKindName(phase.kind)), {"step"}};
    for (const PlanStep& step : phase.steps) table.rows.push_back({StepText(step)});
    report.tables.push_back(std::move(table));
  }
  for (size_t f = 0; f < module.funcs.size(); ++f) {
    const Func& func = module.funcs[f];
    ReportTable table{
        func.name + " schedule", {"step", "function", "ops", "over", "grain", "makes", "reads"}, {}, /*fold=*/true};
    for (const CallView& call : calls[f]) {
      const Schedule& schedule = *func.ops[call.ops.at(0)].schedule;
      std::vector<std::string> makes, reads;
      for (const size_t op : call.ops) {
        for (const Operand& operand : func.ops[op].operands) {
          std::string name = NameText(module, func, operand);
          if (!IsMadeIn(func, call, operand) && std::find(reads.begin(), reads.end(), name) == reads.end())
            reads.push_back(std::move(name));
        }
        for (const ValueId result : func.ops[op].results)
          if (const std::string place = PlaceText(func, result); place != "none")
            makes.push_back("%" + ToText(ValueAt(func, result).name) + " " + place);
      }
      table.rows.push_back({int64_t{schedule.step}, call.function, OpsText(func, call),
                            std::string(OverText(schedule.over)) + (call.claimed ? ", claimed" : ""), schedule.grain,
                            fmt::format("{}", fmt::join(makes, ", ")), fmt::format("{}", fmt::join(reads, ", "))});
    }
    report.facts.push_back(
        {func.name, fmt::format("{} calls in {} steps", calls[f].size(),
                                calls[f].empty() ? 0 : 1 + func.ops[calls[f].back().ops[0]].schedule->step)});
    report.tables.push_back(std::move(table));
  }
  return report;
}

}  // namespace llmc
