// pack-weights: every matrix that a `linear` reads gets the tiled layout that kernels stream.
//
// Makes a `pack` const of each weight that no fusion has packed. An embedding table that is also the head reads the
// packed copy, so a tied table is stored once.
//
// Needs:    the fusions, which pack several weights into one const.
// Leaves:   each linear's weight in tiles16.
// Why here: before plan-memory, which places the bytes.
// Skips:    tables that only `embed` reads: their rows stay together.
#include <map>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {

bool PackWeights(Module& module, const PassContext&) {
  std::map<int, int> packed;
  for (const Func& func : module.funcs)
    for (const Op& op : func.ops) {
      if (op.kind != OpKind::Linear) continue;
      const int weight = op.operands[1].index;
      if (GlobalAt(module, weight).type.layout != Layout::Rows || packed.contains(weight)) continue;
      const Name name = GlobalAt(module, weight).name;
      const int index = PackConst(module, Name(name.layer, name.base + "_tiles", name.suffix), {weight}, false);
      packed[weight] = index;
    }
  for (Func& func : module.funcs)
    for (Op& op : func.ops)
      for (Operand& operand : op.operands)
        if (operand.is_global && (op.kind == OpKind::Linear || op.kind == OpKind::Embed))
          if (const auto it = packed.find(operand.index); it != packed.end()) operand.index = it->second;
  return !packed.empty();
}

}  // namespace llmc
