// pack-weights: every matrix that a product reads gets the tiled layout that kernels stream.
//
// Makes a `pack` const of each weight that no fusion has packed. An embedding table that is also the head reads the
// packed copy, so a tied table is stored once.
//
// Needs:    the fusions, which pack several weights into one const.
// Leaves:   each product's weight in tiles16.
// Why here: before plan-memory, which places the bytes.
// Skips:    tables whose rows are chosen by ids alone (embed): their rows stay together.
#include <map>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {

bool PackWeights(Module& module, const PassContext&) {
  std::map<int, int> packed;
  for (const Func& func : module.funcs)
    for (const Op& op : func.ops) {
      if (DefOf(op.kind).weight < 0) continue;
      const int weight = op.operands[static_cast<size_t>(DefOf(op.kind).weight)].index;
      if (GlobalAt(module, weight).type.layout != Layout::Rows || packed.contains(weight)) continue;
      const Name name = GlobalAt(module, weight).name;
      const int index = PackConst(module, Name(name.layer, name.base + "_tiles", name.suffix), {weight}, false);
      packed[weight] = index;
    }
  for (Func& func : module.funcs)
    for (Op& op : func.ops)
      for (const int i : {DefOf(op.kind).weight, DefOf(op.kind).table}) {
        if (i < 0) continue;
        Operand& operand = op.operands[static_cast<size_t>(i)];
        if (!operand.is_global) continue;
        if (const auto it = packed.find(operand.index); it != packed.end()) operand.index = it->second;
      }
  return !packed.empty();
}

}  // namespace llmc
