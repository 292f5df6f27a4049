// fuse-gate-up: the two projections of a gated feed-forward become one matrix product whose tiles alternate.
//
// Rewrites gated(linear(x, wg), linear(x, wu)) so that one `linear` with {interleave} makes both; so with experts'. A
// thread that has a pair of tiles holds gate and up of the same 16 columns, so a backend can apply the gate in its
// registers. Each output row is the same sum as before: exact.
//
// Needs:    canonicalize (equal inputs are one value).
// Leaves:   one const in tiles16 with interleaved tiles per pair; biases concatenated.
// Why here: next to fuse-qkv, for the same reasons.
// Skips:    gate or up used elsewhere too, of different stored types, or only one with a bias, with a remark.
#include <algorithm>

#include <fmt/format.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

// Why gate and up cannot be one; empty: they can.
std::string Obstacle(const Module& module, const Func& func, const Op& gate, const Op& up) {
  if (gate.kind != up.kind || DefOf(gate.kind).weight < 0 || gate.results.size() != 1 || up.results.size() != 1)
    return "not two plain linears";
  if (gate.results[0] == up.results[0]) return "gate and up are one value";
  for (size_t i = 0; i < std::min(gate.operands.size(), up.operands.size()); ++i) {
    const std::string_view name = DefOf(gate.kind).operands[i].name;
    if (name != "weight" && name != "bias" && gate.operands[i] != up.operands[i]) return "different inputs";
  }
  const std::vector<int> uses = CountUses(func);
  if (uses[static_cast<size_t>(gate.results[0])] != 1 || uses[static_cast<size_t>(up.results[0])] != 1)
    return "gate or up has other uses";
  const Type& g = GlobalAt(module, gate.operands[1].index).type;
  const Type& u = GlobalAt(module, up.operands[1].index).type;
  if (g.layout != Layout::Rows || u.layout != Layout::Rows) return "packed already";
  if (g.dtype != u.dtype) return fmt::format("gate is {}, up is {}", InfoOf(g.dtype).text, InfoOf(u.dtype).text);
  if (gate.operands.size() != up.operands.size()) return "only one of them has a bias";
  if (gate.attrs != up.attrs) return "different attributes";
  if (DefOf(gate.kind).ids >= 0 && g.dims != u.dims) return "experts of different sizes";
  return "";
}

}  // namespace

bool FuseGateUp(Module& module, const PassContext& context) {
  bool changed = false;
  for (Func& func : module.funcs) {
    for (size_t i = 0; i < func.ops.size(); ++i) {
      if (!DefOf(func.ops[i].kind).takes_pair) continue;
      const std::vector<int> defs = DefiningOps(func);
      const int g = defs[static_cast<size_t>(func.ops[i].operands[0].index)],
                u = defs[static_cast<size_t>(func.ops[i].operands[1].index)];
      if (g < 0 || u < 0) continue;
      const Op gate = func.ops[static_cast<size_t>(g)], up = func.ops[static_cast<size_t>(u)];
      const std::string where = ToText(ValueAt(func, func.ops[i].results[0]).name);
      if (DefOf(gate.kind).weight >= 0 && g == u) continue;  // fused already
      if (const std::string obstacle = Obstacle(module, func, gate, up); !obstacle.empty()) {
        context.Remark("fuse-gate-up", fmt::format("%{} keeps two linears: {}", where, obstacle));
        continue;
      }
      const std::vector<int> weights = {gate.operands[1].index, up.operands[1].index};
      const Dim columns = GlobalAt(module, weights[0]).type.dims[0];
      const int layer = GlobalAt(module, weights[0]).name.layer;
      Op fused = gate;
      fused.operands[1] = Operand::OfGlobal(PackConst(module, Name(layer, "w_gate_up"), weights, true));
      const size_t bias = DefOf(gate.kind).operands.size() - 1;
      if (gate.operands.size() > bias)
        fused.operands[bias] = Operand::OfGlobal(
            ConcatConst(module, Name(layer, "b_gate_up"), {gate.operands[bias].index, up.operands[bias].index}));
      if (FindAttr(DefOf(gate.kind).attrs, "split") != nullptr)
        fused.attrs.Set("split", std::vector<Dim>{columns, columns});
      fused.attrs.Set("interleave", true);
      fused.results = {gate.results[0], up.results[0]};
      func.ops[static_cast<size_t>(std::min(g, u))] = std::move(fused);
      func.ops.erase(func.ops.begin() + std::max(g, u));
      CompactValues(func);
      context.Remark("fuse-gate-up", fmt::format("%{} reads one linear", where));
      changed = true;
      --i;  // one op fewer in front of this one
    }
  }
  return changed;
}

}  // namespace llmc
