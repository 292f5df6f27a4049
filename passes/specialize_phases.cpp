// specialize-phases: @forward becomes one function per phase, each for its range of rows.
//
//   @prefill  up to `chunk` rows, logits of the last row alone; behind the last attention only that row is computed
//   @decode   one row
//   @score    up to 16 rows, logits of every row (all positions, perplexity, verification of drafts; one token each of
//             several sequences: %pos is i32[S])
//   @hidden   with the option `hidden`: up to `chunk` rows, what the head reads of every row
//   @hidden   of a @forward that gives hidden rows of whole sequences: the function itself
// S stays a symbol with the clone's range: rows are never padded, the executor cuts a prompt into chunks and a rest.
//
// Other functions (@project, what becomes of a pooled row) stay as they are, behind these.
//
// Needs:    @forward.
// Leaves:   @prefill, @decode, @score and @hidden in this order, or @hidden alone; they share weights and states.
// Why here: after the fusions, which need to look only once; before planning, which differs by phase.
// Skips:    nothing; a module without @forward is specialised already.
#include <algorithm>
#include <map>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

constexpr int64_t kScoreRows = 16;

// Logits of the last row: what only the head reads works on that row alone, up to the last attention; `last_rows` takes
// it from what more ops read.
void KeepLastRow(const Module& module, Func& func) {
  const int head = func.returns[0].is_global ? -1 : DefiningOps(func)[static_cast<size_t>(func.returns[0].index)];
  const std::vector<bool> for_last = LastRowOps(func);
  if (head < 0 || !for_last[static_cast<size_t>(head)]) {
    Fail(DiagKind::InvalidModule, {},
         "@forward must return what an op makes that works row by row, so that the last row alone can be had");
  }
  std::vector<Op> ops;
  std::map<ValueId, ValueId> last_of;  // value -> its last row
  for (size_t i = 0; i < func.ops.size(); ++i) {
    Op op = func.ops[i];
    for (Operand& operand : op.operands) {
      if (!for_last[i] || operand.is_global || TypeOf(module, func, operand).dims[0] == Dim(1)) continue;
      if (!last_of.contains(operand.index)) {
        Op last;
        last.kind = OpKind::LastRows;
        last.operands = {operand};
        last.attrs.Set("count", int64_t{1});
        const Name name = ValueAt(func, operand.index).name;
        last.results = {AddValue(func, Name(name.layer, name.base + "_last", name.suffix), {})};
        ReinferResults(module, func, last);
        last_of[operand.index] = last.results[0];
        ops.push_back(std::move(last));
      }
      operand = Operand::Local(last_of[operand.index]);
    }
    if (for_last[i]) ReinferResults(module, func, op);
    ops.push_back(std::move(op));
  }
  func.ops = std::move(ops);
  CompactValues(func);
}

// In place of the logits what the last product with a weight reads; what was behind it is gone.
void ReturnHidden(Func& func) {
  const std::vector<int> made_by = DefiningOps(func);
  Operand value = func.returns[0];
  const Op* op = nullptr;
  do {
    const int index = value.is_global ? -1 : made_by[static_cast<size_t>(value.index)];
    if (index < 0) Fail(DiagKind::InvalidModule, {}, "@forward returns no product, so that it has no hidden rows");
    op = &func.ops[static_cast<size_t>(index)];
    value = op->operands[0];
  } while (DefOf(op->kind).weight < 0);
  func.returns[0] = value;
  func.output = EntryOutput::Hidden;
  DropUnread(func);
}

}  // namespace

bool SpecializePhases(Module& module, const PassContext&) {
  const auto forward =
      std::find_if(module.funcs.begin(), module.funcs.end(), [](const Func& f) { return f.name == "forward"; });
  if (forward == module.funcs.end()) return false;
  if (forward->kind == EntryKind::Whole && forward->output == EntryOutput::Hidden) {
    forward->name = "hidden";
    return true;
  }
  if (!IsDecoderCall(*forward))
    Fail(DiagKind::Unsupported, {"@forward", ""},
         "phases are made of a function that takes tokens, pos, total and gives logits in parts");
  const int64_t most = RangeOf(module, *forward, Dim("S")).max;
  const int64_t chunk = std::min(most, module.options.IntOr("chunk", most));
  const auto clone = [&](const char* name, int64_t rows) {
    Func func = *forward;
    func.name = name;
    func.dims = {{"S", 1, std::min(rows, most)}};
    return func;
  };
  std::vector<Func> phases = {clone("prefill", chunk), clone("decode", 1), clone("score", kScoreRows)};
  KeepLastRow(module, phases[0]);
  // States that are addressed by positions are anybody's: rows of @score may each stand in a sequence of its own.
  const bool addressed = std::all_of(module.globals.begin(), module.globals.end(), [](const Global& global) {
    return global.kind != GlobalKind::State || KindOf(global).holds == StateHolds::POSITIONS;
  });
  if (addressed) {
    for (Value& value : phases[2].values) {
      if (&value == FindInput(phases[2], EntryInput::Pos)) value.type.dims = {Dim(std::string("S"))};
    }
  }
  const AttrValue* hidden = module.options.Find("hidden");
  if (hidden != nullptr && *hidden == AttrValue(true)) ReturnHidden(phases.emplace_back(clone("hidden", chunk)));
  for (Func& func : module.funcs)
    if (func.name != "forward") phases.push_back(std::move(func));
  module.funcs = std::move(phases);
  return true;
}

}  // namespace llmc
