// fuse-add-rms-norm: a residual add and the norm that reads its sum become one op, across layer borders too.
//
// The fused op rounds the sum to f32 before it is normalised, as the pair did (ir/README.md): exact.
//
// Needs:    canonicalize (one norm per sum and gain).
// Leaves:   the sum as the first result, for the next residual add.
// Why here: before quantize-activations and plan-schedule, which put the quantisation of the norm into the same
//           function.
// Skips:    adds whose sum no rms_norm over rows reads, with a remark; the second norm of one sum.
#include <fmt/format.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {

bool FuseAddRmsNorm(Module& module, const PassContext& context) {
  bool changed = false;
  for (Func& func : module.funcs) {
    for (size_t i = 0; i < func.ops.size(); ++i) {
      if (func.ops[i].kind != OpKind::Add) continue;
      const Operand sum = Operand::Local(func.ops[i].results[0]);
      bool fused_here = false;
      for (size_t j = i + 1; j < func.ops.size(); ++j) {
        const Op& norm = func.ops[j];
        if (norm.kind != OpKind::RmsNorm || norm.operands[0] != sum || ValueAt(func, sum.index).type.dims.size() != 2)
          continue;
        Op fused;
        fused.kind = OpKind::AddRmsNorm;
        fused.operands = {func.ops[i].operands[0], func.ops[i].operands[1],
                          norm.operands[1]};  // the gain is a global, so it may move up
        fused.attrs = norm.attrs;
        fused.results = {sum.index, norm.results[0]};
        fused.line = norm.line;
        context.Remark("fuse-add-rms-norm", fmt::format("%{} and %{}", ToText(ValueAt(func, sum.index).name),
                                                        ToText(ValueAt(func, norm.results[0]).name)));
        func.ops.erase(func.ops.begin() + static_cast<std::ptrdiff_t>(j));
        func.ops[i] = std::move(fused);
        CompactValues(func);
        changed = fused_here = true;
        break;
      }
      if (!fused_here)
        context.Remark("fuse-add-rms-norm", fmt::format("%{} stays an add: no rms_norm over rows reads it",
                                                        ToText(ValueAt(func, sum.index).name)));
    }
  }
  return changed;
}

}  // namespace llmc
