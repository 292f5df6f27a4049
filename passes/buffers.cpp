// Lifetimes of intermediate values.
#include "passes/buffers.h"

#include "ir/op.h"
#include "ir/round_up.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

int64_t BytesAtMost(const Module& module, const Func& func, Type type) {
  for (Dim& dim : type.dims) dim = Dim(RangeOf(module, func, dim).max);
  return RoundUp(ByteSize(type), kBufferAlign);
}

}  // namespace

std::vector<Buffer> BuffersOf(const Module& module, const Func& func, std::vector<ValueId>& root) {
  std::vector<Buffer> buffers;
  std::vector<int> buffer_of(func.values.size(), -1);
  root.resize(func.values.size());
  for (size_t v = 0; v < root.size(); ++v) root[v] = static_cast<ValueId>(v);
  int step = 0;
  for (size_t i = 0; i < func.ops.size(); ++i) {
    const Op& op = func.ops[i];
    if (op.schedule) step = op.schedule->step;
    for (const Operand& operand : op.operands)
      if (!operand.is_global) {
        const int buffer = buffer_of[static_cast<size_t>(root[static_cast<size_t>(operand.index)])];
        if (buffer >= 0) buffers[static_cast<size_t>(buffer)].last = step;
      }
    if (DefOf(op.kind).is_view) {
      root[static_cast<size_t>(op.results[0])] = root[static_cast<size_t>(op.operands[0].index)];
      continue;
    }
    if (op.schedule && op.schedule->scratch)
      buffers.push_back({-1, i, Space::Private, step, step, RoundUp(op.schedule->scratch->bytes, kBufferAlign),
                         op.schedule->scratch->offset});
    for (ValueId result : op.results) {
      const Value& value = ValueAt(func, result);
      if (!value.at || value.at->space == Space::None) continue;
      buffer_of[static_cast<size_t>(result)] = static_cast<int>(buffers.size());
      buffers.push_back(
          {result, i, value.at->space, step, step, BytesAtMost(module, func, value.type), value.at->offset});
    }
  }
  return buffers;
}

}  // namespace llmc
