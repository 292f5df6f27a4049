// canonicalize: the module in the form that the other passes match on.
//
// Drops ops whose results nobody reads, makes one of equal ops, and turns a reshape of a reshape into one (a reshape to
// its own type into nothing).
//
// Needs:    nothing.
// Leaves:   every value used; equal inputs are one value. Weights stay, used or not.
// Why here: first, so that "siblings of one input" in the fusions means one value.
// Skips:    ops that change a state that anything else reads: they are effects, and each is unique.
#include <map>

#include "ir/op.h"
#include "passes/pass.h"

namespace llmc {
namespace {

bool Used(const Func& func, ValueId value) { return CountUses(func)[static_cast<size_t>(value)] > 0; }

bool MergeReshapes(Func& func) {
  bool changed = false;
  const std::vector<int> defs = DefiningOps(func);
  for (Op& op : func.ops) {
    if (op.kind != OpKind::Reshape || op.operands[0].is_global) continue;
    const int source = defs[static_cast<size_t>(op.operands[0].index)];
    if (source >= 0 && func.ops[static_cast<size_t>(source)].kind == OpKind::Reshape) {
      op.operands[0] = func.ops[static_cast<size_t>(source)].operands[0];
      changed = true;
    }
    const bool to_own_type = func.values[static_cast<size_t>(op.operands[0].index)].type ==
                             func.values[static_cast<size_t>(op.results[0])].type;
    if (to_own_type && Used(func, op.results[0])) {
      ReplaceUses(func, op.results[0], op.operands[0]);
      changed = true;
    }
  }
  return changed;
}

bool MergeEqual(Func& func) {
  bool changed = false;
  std::map<std::pair<OpKind, std::vector<Operand>>, std::vector<const Op*>> seen;
  for (const Op& op : func.ops) {
    if (DefOf(op.kind).changes_state()) continue;
    std::vector<const Op*>& alike = seen[{op.kind, op.operands}];
    const Op* equal = nullptr;
    for (const Op* first : alike)
      if (first->attrs == op.attrs) equal = first;
    if (equal == nullptr) {
      alike.push_back(&op);
      continue;
    }
    for (size_t i = 0; i < op.results.size(); ++i)
      if (Used(func, op.results[i])) {
        ReplaceUses(func, op.results[i], Operand::Local(equal->results[i]));
        changed = true;
      }
  }
  return changed;
}

// How often ops of all functions name a state; an append that nothing else goes with has no effect.
std::vector<int> CountGlobalUses(const Module& module) {
  std::vector<int> uses(module.globals.size(), 0);
  for (const Func& func : module.funcs)
    for (const Op& op : func.ops)
      for (const Operand& operand : op.operands)
        if (operand.is_global) ++uses[static_cast<size_t>(operand.index)];
  return uses;
}

bool DropDead(Module& module, Func& func) {
  const std::vector<int> global_uses = CountGlobalUses(module);
  std::vector<int> uses = CountUses(func);
  const size_t before = func.ops.size();
  for (size_t i = func.ops.size(); i-- > 0;) {  // users come after definitions, so one sweep from the end is enough
    const Op& op = func.ops[i];
    bool dead = !DefOf(op.kind).changes_state() || global_uses[static_cast<size_t>(op.operands[0].index)] == 1;
    for (ValueId result : op.results) dead = dead && uses[static_cast<size_t>(result)] == 0;
    if (!dead) continue;
    for (const Operand& operand : op.operands)
      if (!operand.is_global) --uses[static_cast<size_t>(operand.index)];
    func.ops.erase(func.ops.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (func.ops.size() == before) return false;
  CompactValues(func);
  return true;
}

}  // namespace

bool Canonicalize(Module& module, const PassContext&) {
  bool changed = false;
  for (Func& func : module.funcs) {
    // Merging leaves dead ops, and equal operands can make further ops equal: repeat until nothing moves.
    for (bool again = true; again;) {
      again = MergeReshapes(func);
      again = MergeEqual(func) || again;
      again = DropDead(module, func) || again;
      changed = changed || again;
    }
  }
  return changed;
}

}  // namespace llmc
