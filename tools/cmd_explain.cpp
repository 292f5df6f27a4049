// llmc explain: what the passes decided for a plan and why, or all that is known of one value or tensor. Nothing is
// executed.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/op.h"
#include "ir/text.h"
#include "passes/buffers.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "tools/cli.h"
#include "tools/workbench/plan_passes.h"
#include "tools/workbench/views.h"

namespace llmc {
namespace {

struct Decision {
  std::string pass, text;
};

// What the passes said when they made the plan.
std::vector<Decision> DecisionsOf(const PlanFile& plan) {
  std::vector<Decision> decisions;
  const auto said = [&](const Diag& diag) {
    const size_t colon = diag.message.find(": ");
    decisions.push_back({diag.message.substr(0, colon), diag.message.substr(colon + 2)});
  };
  RunPassesOf(plan, "", said, [&](const PassInfo& pass, bool changed) {
    if (decisions.empty() || decisions.back().pass != pass.name)
      decisions.push_back({std::string(pass.name), changed ? "changed the module" : "changed nothing"});
  });
  return decisions;
}

Report ExplainPlan(const PlanFile& plan) {
  ReportTable table{"decisions", {"pass", "decision"}};
  const std::vector<std::string> ran = PassesOf(plan);
  const std::vector<Decision> decisions = DecisionsOf(plan);
  for (const PassInfo& pass : AllPasses()) {
    if (std::find(ran.begin(), ran.end(), pass.name) == ran.end()) {
      table.rows.push_back({std::string(pass.name), std::string("was left out")});
      continue;
    }
    for (const Decision& decision : decisions)
      if (decision.pass == pass.name) table.rows.push_back({decision.pass, decision.text});
  }
  return {{}, {std::move(table)}};
}

// Whether a line speaks of a name: `$b3.wq`, or as a folded line has it, `$b{i}.wq`. Longer names that begin so don't
// count.
bool Mentions(const std::string& text, char sigil, const Name& name) {
  const std::string base = ToText(Name(-1, name.base, name.suffix));
  std::vector<std::string> spellings = {sigil + ToText(name)};
  if (name.layer >= 0) {
    spellings.push_back(fmt::format("{}b{{i}}.{}", sigil, base));
    spellings.push_back(fmt::format("{}b{{i+1}}.{}", sigil, base));
  }
  for (const std::string& spelling : spellings)
    for (size_t at = 0; (at = text.find(spelling, at)) != std::string::npos; ++at) {
      const size_t end = at + spelling.size();
      const bool longer =
          end < text.size() &&
          (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_' ||
           (text[end] == '.' && end + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[end + 1])) != 0));
      if (!longer) return true;
    }
  return false;
}

ReportTable DecisionsAbout(const PlanFile& plan, char sigil, const Name& name) {
  ReportTable table{"decisions", {"pass", "decision"}};
  for (const Decision& decision : DecisionsOf(plan))
    if (Mentions(decision.text, sigil, name)) table.rows.push_back({decision.pass, decision.text});
  return table;
}

// The call that computes an op.
const CallView& CallFor(const std::vector<CallView>& calls, size_t op) {
  static const CallView kNone;
  for (const CallView& call : calls)
    if (std::find(call.ops.begin(), call.ops.end(), op) != call.ops.end()) return call;
  return kNone;
}

std::string DivisionText(const Schedule& schedule) {
  if (schedule.over == Over::All) return "nothing: each computes all of it";
  if (schedule.over == Over::One) return "nothing: one computes all of it";
  return fmt::format("{}{}", OverText(schedule.over), schedule.grain > 1 ? fmt::format(" by {}", schedule.grain) : "");
}

std::vector<std::string> ReadersOf(const Func& func, Operand operand) {
  std::vector<std::string> readers;
  for (const Op& op : func.ops)
    if (std::find(op.operands.begin(), op.operands.end(), operand) != op.operands.end())
      readers.push_back(fmt::format("%{}={}", ToText(ValueAt(func, op.results.at(0)).name), OpText(op.kind)));
  if (std::find(func.returns.begin(), func.returns.end(), operand) != func.returns.end()) readers.push_back("return");
  return readers;
}

void AddValue(const PlanFile& plan, const Module& module, size_t f, ValueId id, Report& report) {
  const Func& func = module.funcs[f];
  const Value& value = ValueAt(func, id);
  ReportTable table{func.name, {"what", "value"}};
  const auto add = [&](const char* what, Cell cell) { table.rows.push_back({what, std::move(cell)}); };
  std::vector<ValueId> root;
  const std::vector<Buffer> buffers = BuffersOf(module, func, root);
  const int def = DefiningOps(func)[static_cast<size_t>(id)];
  if (def < 0) {
    add("made by", std::string("the caller"));
  } else {
    const auto at = static_cast<size_t>(def);
    const Op& op = func.ops[at];
    add("made by", StatementText(module, func, op));
    if (DefOf(op.kind).is_view) {
      add("storage of", "%" + ToText(ValueAt(func, root[static_cast<size_t>(id)]).name));
    } else {
      const std::vector<CallView> calls = CallsOf(plan, module)[f];
      const CallView& call = CallFor(calls, at);
      if (!call.function.empty()) add("function", call.function);
      add("computes", OpsText(func, call));
      if (op.schedule) {
        add("step", int64_t{op.schedule->step});
        add("threads divide", DivisionText(*op.schedule));
      }
    }
  }
  add("type", ToText(value.type));
  add("place", PlaceText(func, id));
  for (const Buffer& buffer : buffers) {
    if (buffer.value != root[static_cast<size_t>(id)]) continue;
    add("bytes", buffer.bytes);
    add("needed", fmt::format("steps {} to {}", buffer.first, buffer.last));
  }
  add("read by", ReadersOf(func, Operand::Local(id)));
  report.tables.push_back(std::move(table));
}

Report ExplainValue(const PlanFile& plan, const Module& module, const Name& name) {
  Report report;
  for (size_t f = 0; f < module.funcs.size(); ++f)
    for (size_t v = 0; v < module.funcs[f].values.size(); ++v)
      if (module.funcs[f].values[v].name == name) AddValue(plan, module, f, static_cast<ValueId>(v), report);
  return report;
}

Report ExplainGlobal(const Module& module, int index) {
  const Global& global = module.globals[static_cast<size_t>(index)];
  static constexpr const char* kKinds[] = {"weight", "const", "state"};
  Report report;
  report.facts = {{"kind", std::string(kKinds[static_cast<size_t>(global.kind)])}, {"type", ToText(global.type)}};
  if (global.kind == GlobalKind::Const) report.facts.push_back({"made by", RecipeText(module, global.recipe)});
  if (global.offset) {
    report.facts.push_back({"region", std::string(global.kind == GlobalKind::State ? "states" : "weights")});
    report.facts.push_back({"offset", *global.offset});
    report.facts.push_back({"bytes", ByteSize(global.type)});
  } else {
    report.facts.push_back({"stored", std::string("no: other tensors are made of it")});
  }
  std::vector<std::string> made;
  for (const Global& other : module.globals)
    if (std::find(other.recipe.inputs.begin(), other.recipe.inputs.end(), index) != other.recipe.inputs.end())
      made.push_back("$" + ToText(other.name));
  if (!made.empty()) report.facts.push_back({"goes into", made});
  ReportTable readers{"readers", {"phase", "read by"}};
  for (const Func& func : module.funcs)
    if (std::vector<std::string> names = ReadersOf(func, Operand::OfGlobal(index)); !names.empty())
      readers.rows.push_back({func.name, std::move(names)});
  if (!readers.rows.empty()) report.tables.push_back(std::move(readers));
  return report;
}

}  // namespace

int CommandExplain(const ExplainFlags& flags) {
  const PlanFile plan(flags.plan);
  if (flags.name.empty()) {
    PrintReport(ExplainPlan(plan), flags.json);
    return 0;
  }
  const char sigil = flags.name[0];
  const std::optional<Name> name = NameFromText(std::string_view(flags.name).substr(1));
  if ((sigil != '%' && sigil != '$') || !name)
    throw UsageError(fmt::format("\"{}\" is no name of the IR: %b0.q, or $b0.wq", flags.name));
  const Module module = FinalModule(plan);
  Report report;
  if (sigil == '%') {
    report = ExplainValue(plan, module, *name);
  } else if (const int index = module.FindGlobal(*name); index >= 0) {
    report = ExplainGlobal(module, index);
  }
  if (report.tables.empty() && report.facts.empty())
    throw UsageError(fmt::format("{}: the final IR has no {} (inspect --ir)", flags.plan, flags.name));
  report.tables.push_back(DecisionsAbout(plan, sigil, *name));
  if (report.tables.back().rows.empty()) report.tables.pop_back();
  PrintReport(report, flags.json);
  return 0;
}

}  // namespace llmc
