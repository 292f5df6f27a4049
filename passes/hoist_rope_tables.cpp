// hoist-rope-tables: equal rotary tables become one const of the module.
//
// Import makes one `rope_table` const per use; this leaves one per set of parameters, so that a plan stores and caches
// each table once.
//
// Needs:    nothing.
// Leaves:   consts $rope, $rope.1, ... without a layer, behind the other globals: layers stay equal and fold.
// Why here: before specialize-phases, so that all clones name the same consts.
// Skips:    tables that have no layer and no equal.
#include <fmt/format.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

bool SameTable(const Global& a, const Global& b) { return a.recipe == b.recipe && a.type == b.type; }

void ReplaceGlobal(Module& module, int from, int to) {
  for (Func& func : module.funcs)
    for (Op& op : func.ops)
      for (Operand& operand : op.operands)
        if (operand == Operand::OfGlobal(from)) operand = Operand::OfGlobal(to);
}

}  // namespace

bool HoistRopeTables(Module& module, const PassContext& context) {
  std::vector<int> tables;
  for (int g = 0; g < static_cast<int>(module.globals.size()); ++g) {
    const Global& global = GlobalAt(module, g);
    if (global.kind == GlobalKind::Const && global.recipe.kind == RecipeKind::RopeTable) tables.push_back(g);
  }
  std::vector<bool> done(tables.size(), false);
  size_t hoisted = 0, merged = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (done[i]) continue;
    std::vector<int> equal;
    for (size_t j = i; j < tables.size(); ++j) {
      if (done[j] || !SameTable(GlobalAt(module, tables[i]), GlobalAt(module, tables[j]))) continue;
      equal.push_back(tables[j]);
      done[j] = true;
    }
    if (equal.size() == 1 && GlobalAt(module, equal[0]).name.layer < 0) continue;
    const Global first = GlobalAt(module, equal[0]);
    const int table =
        AddConst(module, Name("rope"), first.type, first.recipe.kind, first.recipe.inputs, first.recipe.attrs);
    for (int g : equal) ReplaceGlobal(module, g, table);
    ++hoisted;
    merged += equal.size();
  }
  if (hoisted == 0) return false;
  CompactGlobals(module);
  context.Remark("hoist-rope-tables", fmt::format("{} tables become {}", merged, hoisted));
  return true;
}

}  // namespace llmc
