// specialize-phases: @forward becomes one function per phase, each for its range of rows.
//
//   @prefill  up to `chunk` rows, logits of the last row alone
//   @decode   one row
//   @score    up to 16 rows, logits of every row (all positions, perplexity, verification of drafts)
// S stays a symbol with the clone's range: rows are never padded, the executor cuts a prompt into chunks and a rest.
//
// Needs:    @forward.
// Leaves:   @prefill, @decode, @score in this order; they share weights and states.
// Why here: after the fusions, which need to look only once; before planning, which differs by phase.
// Skips:    nothing; a module without @forward is specialised already.
#include <algorithm>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

constexpr int64_t kScoreRows = 16;

// Logits of the last row: `last_rows` in front of the head, the linear that makes the returned value.
void KeepLastRow(const Module& module, Func& func) {
  const int head = DefiningOps(func)[static_cast<size_t>(func.returns[0].index)];
  if (head < 0 || func.ops[static_cast<size_t>(head)].kind != OpKind::Linear) {
    Fail(DiagKind::InvalidModule, {},
         "@forward must return what a linear makes, so that the last row alone can be had");
  }
  const Operand input = func.ops[static_cast<size_t>(head)].operands[0];
  Op last;
  last.kind = OpKind::LastRows;
  last.operands = {input};
  last.attrs.Set("count", int64_t{1});
  const Name name = ValueAt(func, input.index).name;
  last.results = {AddValue(func, Name(name.layer, "last"), {})};
  const Operand one_row = Operand::Local(last.results[0]);
  func.ops.insert(func.ops.begin() + head, std::move(last));
  ReinferResults(module, func, func.ops[static_cast<size_t>(head)]);
  Op& linear = func.ops[static_cast<size_t>(head) + 1];
  linear.operands[0] = one_row;
  ReinferResults(module, func, linear);
  CompactValues(func);
}

}  // namespace

bool SpecializePhases(Module& module, const PassContext&) {
  const auto forward =
      std::find_if(module.funcs.begin(), module.funcs.end(), [](const Func& f) { return f.name == "forward"; });
  if (forward == module.funcs.end()) return false;
  const int64_t most = RangeOf(module, *forward, "S").max;
  const int64_t chunk = std::min(most, module.options.IntOr("chunk", most));
  const auto clone = [&](const char* name, int64_t rows) {
    Func func = *forward;
    func.name = name;
    func.dims = {{"S", 1, std::min(rows, most)}};
    return func;
  };
  std::vector<Func> phases = {clone("prefill", chunk), clone("decode", 1), clone("score", kScoreRows)};
  KeepLastRow(module, phases[0]);
  module.funcs = std::move(phases);
  return true;
}

}  // namespace llmc
