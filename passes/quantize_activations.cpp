// quantize-activations: the inputs of matrices in block types become int8 blocks (`a8`), so that their products are
// exact integer dots.
//
// Puts one `quantize` behind each value that a `linear` with a block-typed weight reads, shared by all of them. The
// module's option `activations` decides (q8 or f32), for all phases and targets alike.
//
// Needs:    the fusions before it, so that one input is quantised once.
// Leaves:   linears of block weights on a8 inputs; everything else in f32.
// Why here: after fuse-add-rms-norm (the norm keeps its f32 result until here) and specialize-phases (the last row is
// taken in f32). Skips:    activations = f32; float weights.
#include <map>

#include <fmt/format.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {

bool QuantizeActivations(Module& module, const PassContext& context) {
  const std::string& activations = IdentOption(module, "activations");
  if (activations != "q8" && activations != "f32") {
    Fail(DiagKind::BadAttribute, {}, "the module's option 'activations' is " + activations + ", must be q8 or f32");
  }
  if (activations == "f32") return false;
  bool changed = false;
  for (Func& func : module.funcs) {
    std::map<ValueId, ValueId> quantized;
    for (size_t i = 0; i < func.ops.size(); ++i) {
      if (func.ops[i].kind != OpKind::Linear) continue;
      const Operand input = func.ops[i].operands[0];
      if (InfoOf(GlobalAt(module, func.ops[i].operands[1].index).type.dtype).cls != DTypeClass::BLOCK ||
          TypeOf(module, func, input).dtype != DType::F32)
        continue;
      if (!quantized.contains(input.index)) {
        const Name name = ValueAt(func, input.index).name;
        Op quantize;
        quantize.kind = OpKind::Quantize;
        quantize.operands = {input};
        quantize.results = {AddValue(func, Name(name.layer, name.base + "_q", name.suffix), {})};
        quantized[input.index] = quantize.results[0];
        func.ops.insert(func.ops.begin() + static_cast<std::ptrdiff_t>(i), std::move(quantize));
        ReinferResults(module, func, func.ops[i]);
        ++i;
      }
      func.ops[i].operands[0] = Operand::Local(quantized[input.index]);
      changed = true;
    }
    if (changed) CompactValues(func);
    context.Remark("quantize-activations", fmt::format("@{}: {} values to a8", func.name, quantized.size()));
  }
  return changed;
}

}  // namespace llmc
