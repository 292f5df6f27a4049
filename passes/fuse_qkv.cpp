// fuse-qkv: one matrix product where query, key and value each had one.
//
// Rewrites `linear` ops that share their input into one `linear` with a split, over a const that packs their weights
// below one another. Outputs keep their values, so nothing downstream changes. Each output row is the same sum as
// before: exact.
//
// Needs:    canonicalize (equal inputs are one value).
// Leaves:   one const in tiles16 per group; biases concatenated.
// Why here: before quantize-activations, which then quantises the input once, and before pack-weights, which would pack
//           each part by itself.
// Skips:    linears that feed an op that takes a pair, as `gated` (fuse-gate-up takes those); weights of another stored
//           type or without/with bias than the rest, with a remark; linears that are split already; what follows three of
//           a kind, as the product in front of an activation does in a parallel block.
#include <map>
#include <utility>

#include <fmt/format.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

constexpr size_t kMostParts = 3;  // results that kernels have pointers for

bool FeedsPair(const Func& func, ValueId value) {
  for (const Op& op : func.ops)
    if (DefOf(op.kind).takes_pair)
      for (const Operand& operand : op.operands)
        if (operand == Operand::Local(value)) return true;
  return false;
}

bool IsPlainLinear(const Module& module, const Op& op) {
  return op.kind == OpKind::Linear && op.results.size() == 1 &&
         GlobalAt(module, op.operands[1].index).type.layout == Layout::Rows;
}

// What must be equal for parts of one fused linear: stored type, bias or none, k_split.
struct Kind {
  DType dtype;
  bool bias;
  int64_t k_split;
  auto operator<=>(const Kind&) const = default;
};

Kind KindOf(const Module& module, const Op& op) {
  return {GlobalAt(module, op.operands[1].index).type.dtype, op.operands.size() > 2,
          std::get<int64_t>(AttrOf(op, "k_split"))};
}

// Fuses func.ops[parts...] (ascending) into the place of the first.
void Fuse(Module& module, Func& func, const std::vector<size_t>& parts) {
  const Op first = func.ops[parts[0]];
  std::vector<int> weights, biases;
  std::vector<Dim> split;
  Op fused;
  fused.kind = OpKind::Linear;
  for (size_t part : parts) {
    const Op& op = func.ops[part];
    weights.push_back(op.operands[1].index);
    if (op.operands.size() > 2) biases.push_back(op.operands[2].index);
    split.push_back(GlobalAt(module, op.operands[1].index).type.dims[0]);
    fused.results.push_back(op.results[0]);
  }
  const int layer = GlobalAt(module, weights[0]).name.layer;
  fused.operands = {first.operands[0], Operand::OfGlobal(PackConst(module, Name(layer, "wqkv"), weights, false))};
  if (!biases.empty()) fused.operands.push_back(Operand::OfGlobal(ConcatConst(module, Name(layer, "bqkv"), biases)));
  fused.attrs = first.attrs;
  fused.attrs.Set("split", std::move(split));
  for (size_t i = parts.size(); i-- > 1;) func.ops.erase(func.ops.begin() + static_cast<std::ptrdiff_t>(parts[i]));
  func.ops[parts[0]] = std::move(fused);
  CompactValues(func);
}

}  // namespace

bool FuseQkv(Module& module, const PassContext& context) {
  bool changed = false;
  for (Func& func : module.funcs) {
    for (size_t i = 0; i < func.ops.size(); ++i) {
      if (!IsPlainLinear(module, func.ops[i]) || FeedsPair(func, func.ops[i].results[0])) continue;
      const Operand input = func.ops[i].operands[0];
      std::map<Kind, std::vector<size_t>> groups;
      for (size_t j = i; j < func.ops.size(); ++j) {
        const Op& op = func.ops[j];
        if (IsPlainLinear(module, op) && op.operands[0] == input && !FeedsPair(func, op.results[0]))
          groups[KindOf(module, op)].push_back(j);
      }
      std::vector<size_t> group = groups[KindOf(module, func.ops[i])];
      if (group.size() > kMostParts) group.resize(kMostParts);
      const std::string first = ToText(GlobalAt(module, func.ops[i].operands[1].index).name);
      for (const auto& [kind, members] : groups)
        if (groups.size() > 1 && members[0] != i)
          context.Remark("fuse-qkv",
                         fmt::format("${} and ${} share their input but are not fused: {}{} and {}{}", first,
                                     ToText(GlobalAt(module, func.ops[members[0]].operands[1].index).name),
                                     InfoOf(KindOf(module, func.ops[i]).dtype).text,
                                     KindOf(module, func.ops[i]).bias ? " with bias" : "", InfoOf(kind.dtype).text,
                                     kind.bias ? " with bias" : ""));
      if (group.size() < 2) continue;
      context.Remark("fuse-qkv", fmt::format("{} linears from ${} on are one", group.size(), first));
      Fuse(module, func, group);
      changed = true;
    }
  }
  return changed;
}

}  // namespace llmc
