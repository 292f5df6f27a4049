// quantize-activations: the inputs of matrices become what the module's option `activations` says, for all phases and
// targets alike.
//
//   q8    behind each value that a product with a block-typed weight reads, one `quantize`, shared by all of them:
//         int8 blocks (`a8`), so that products are exact integer dots
//   bf16  likewise one `round` for weights stored as bf16: f32 values that bf16 holds, so that bf16 products are exact
//   f32   nothing
// Inputs of all other matrices stay as they are.
//
// Needs:    the fusions before it, so that one input is rounded once.
// Leaves:   q8: products with block weights on a8 inputs; bf16: products with bf16 weights on rounded inputs.
// Why here: after fuse-add-rms-norm (the norm keeps its f32 result until here) and specialize-phases (the last row is
// taken in f32).
// Skips:    activations = f32; weights of other types (a remark); inputs that are rounded already.
#include <map>
#include <set>

#include <fmt/format.h>

#include "ir/op.h"
#include "ir/options.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

// An op that makes activations fit for weights of some types.
struct Rounding {
  OpKind kind;
  const char *to, *suffix;  // of its result: what it holds, and the end of its name
  const char* weights;      // those that take it, in words and as a test
  bool (*takes)(DType type);
};
constexpr Rounding kQ8 = {OpKind::Quantize, "a8", "_q", "blocks",
                          [](DType type) { return InfoOf(type).cls == DTypeClass::BLOCK; }};
constexpr Rounding kBf16 = {OpKind::Round, "bf16", "_bf16", "bf16", [](DType type) { return type == DType::BF16; }};

Op MakeRounding(const Rounding& rounding, Func& func, const Operand& input) {
  const Name name = ValueAt(func, input.index).name;
  Op op;
  op.kind = rounding.kind;
  op.operands = {input};
  if (rounding.kind == OpKind::Round) op.attrs.Set("to", std::string(rounding.to));
  op.results = {AddValue(func, Name(name.layer, name.base + rounding.suffix, name.suffix), {})};
  return op;
}

bool RoundInputs(const Module& module, const PassContext& context, const Rounding& rounding, Func& func) {
  std::map<ValueId, ValueId> rounded;
  std::set<ValueId> already;
  for (const Op& op : func.ops)
    if (op.kind == rounding.kind) already.insert(op.results[0]);
  int others = 0;
  for (size_t i = 0; i < func.ops.size(); ++i) {
    const int weight = DefOf(func.ops[i].kind).weight;
    if (weight < 0) continue;
    const Operand input = func.ops[i].operands[0];
    if (!rounding.takes(TypeOf(module, func, func.ops[i].operands[static_cast<size_t>(weight)]).dtype)) {
      ++others;
      continue;
    }
    if (already.contains(input.index)) continue;
    if (!rounded.contains(input.index)) {
      Op op = MakeRounding(rounding, func, input);
      rounded[input.index] = op.results[0];
      func.ops.insert(func.ops.begin() + static_cast<std::ptrdiff_t>(i), std::move(op));
      ReinferResults(module, func, func.ops[i]);
      ++i;
    }
    func.ops[i].operands[0] = Operand::Local(rounded[input.index]);
  }
  context.Remark("quantize-activations", fmt::format("@{}: {} values to {}", func.name, rounded.size(), rounding.to));
  if (others > 0)
    context.Remark("quantize-activations", fmt::format("@{}: {} products keep f32 inputs, their weights aren't {}",
                                                       func.name, others, rounding.weights));
  if (rounded.empty()) return false;
  CompactValues(func);
  return true;
}

}  // namespace

bool QuantizeActivations(Module& module, const PassContext& context) {
  const std::string& activations = IdentOption(module, "activations");
  if (!IsOptionValue("activations", activations)) {
    Fail(DiagKind::BadAttribute, {},
         "the module's option 'activations' is " + activations + ", must be " + OptionValuesText("activations"));
  }
  if (activations == "f32") return false;
  bool changed = false;
  for (Func& func : module.funcs)
    changed = RoundInputs(module, context, activations == "q8" ? kQ8 : kBf16, func) || changed;
  return changed;
}

}  // namespace llmc
