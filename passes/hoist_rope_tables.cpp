// hoist-rope-tables: equal rotary tables become one const of the module.
//
// Import makes one `rope_table` const per use; this leaves one per set of parameters, so that a plan stores and caches
// each table once.
//
// Needs:    nothing.
// Leaves:   consts $rope, $rope.1, ... without a layer.
// Why here: before specialize-phases, so that all clones name the same consts.
// Skips:    nothing.
#include <algorithm>

#include <fmt/format.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {

bool HoistRopeTables(Module& module, const PassContext& context) {
  std::vector<int> kept;
  bool changed = false;
  size_t merged = 0;
  for (int g = 0; g < static_cast<int>(module.globals.size()); ++g) {
    const Global& table = GlobalAt(module, g);
    if (table.kind != GlobalKind::Const || table.recipe.kind != RecipeKind::RopeTable) continue;
    const auto equal = std::find_if(kept.begin(), kept.end(), [&](int k) {
      return GlobalAt(module, k).recipe == table.recipe && GlobalAt(module, k).type == table.type;
    });
    if (equal == kept.end()) {
      kept.push_back(g);
      continue;
    }
    for (Func& func : module.funcs)
      for (Op& op : func.ops)
        for (Operand& operand : op.operands)
          if (operand == Operand::OfGlobal(g)) operand = Operand::OfGlobal(*equal);
    changed = true;
    ++merged;
  }
  for (int g : kept) {
    if (GlobalAt(module, g).name.layer < 0) continue;
    GlobalAt(module, g).name = FreshGlobalName(module, Name("rope"));
    changed = true;
  }
  if (merged > 0) CompactGlobals(module);
  if (changed) context.Remark("hoist-rope-tables", fmt::format("{} tables, {} merged", kept.size(), merged));
  return changed;
}

}  // namespace llmc
