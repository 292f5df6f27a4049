// plan-memory: the bytes of everything: weights in the plan file, states, and the arena of intermediate values.
//
// Rotary tables come first; matrices and gains stand in the order in which one row (@decode) reads them, so that a token is one
// linear stream and layers are evenly spaced. Values get the lowest offset at which they overlap no value that lives in
// a common step, at the largest number of rows of their function; shared and private values have arenas of their own,
// and all functions use the same bytes.
//
// Needs:    plan-schedule (lifetimes are steps, and spaces).
// Leaves:   offsets; the module's options weight_bytes, state_bytes, shared_bytes, private_bytes (per thread): the
//           exact peak.
// Why here: last; nothing may change shapes or order behind it.
// Skips:    values at `none` and the returned value, which have no storage here.
#include <algorithm>

#include <fmt/format.h>

#include "ir/op.h"
#include "ir/round_up.h"
#include "passes/buffers.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

int64_t PlaceGlobals(Module& module, const std::vector<int>& order) {
  int64_t end = 0;
  for (int g : order) {
    Global& global = GlobalAt(module, g);
    if (global.offset) continue;
    global.offset = end;
    end = RoundUp(end + ByteSize(global.type), kBufferAlign);
  }
  return end;
}

bool IsRopeTable(const Global& global) {
  return global.kind == GlobalKind::Const && global.recipe.kind == RecipeKind::RopeTable;
}

// Globals of one sort in the order of their first use, functions of one row first: they read the most bytes for what
// they give. Of the weights, rotary tables before all others.
std::vector<int> UseOrder(const Module& module, bool states) {
  std::vector<int> tables, order;
  std::vector<bool> seen(module.globals.size(), false);
  for (const bool one_row : {true, false})
    for (const Func& func : module.funcs) {
      if ((RangeOf(module, func, Dim("S")).max == 1) != one_row) continue;
      for (const Op& op : func.ops)
        for (const Operand& operand : op.operands) {
          if (!operand.is_global || seen[static_cast<size_t>(operand.index)]) continue;
          const Global& global = GlobalAt(module, operand.index);
          if ((global.kind == GlobalKind::State) != states) continue;
          seen[static_cast<size_t>(operand.index)] = true;
          (IsRopeTable(global) ? tables : order).push_back(operand.index);
        }
    }
  order.insert(order.begin(), tables.begin(), tables.end());
  return order;
}

// First fit in the order of definition. Returns the end of the arena.
int64_t PlaceBuffers(std::vector<Buffer>& buffers, Space space) {
  int64_t peak = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    Buffer& buffer = buffers[i];
    if (buffer.space != space) continue;
    std::vector<std::pair<int64_t, int64_t>> busy;
    for (size_t j = 0; j < i; ++j)
      if (buffers[j].space == space && buffers[j].last >= buffer.first)
        busy.emplace_back(buffers[j].offset, buffers[j].offset + buffers[j].bytes);
    std::sort(busy.begin(), busy.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : busy) {
      if (offset + buffer.bytes <= begin) break;
      offset = std::max(offset, end);
    }
    buffer.offset = offset;
    peak = std::max(peak, offset + buffer.bytes);
  }
  return peak;
}

}  // namespace

bool PlanMemory(Module& module, const PassContext& context) {
  if (module.options.Find("weight_bytes") != nullptr) return false;
  const int64_t weight_bytes = PlaceGlobals(module, UseOrder(module, false));
  const int64_t state_bytes = PlaceGlobals(module, UseOrder(module, true));
  int64_t shared = 0, private_bytes = 0;
  for (Func& func : module.funcs) {
    std::vector<ValueId> root;
    std::vector<Buffer> buffers = BuffersOf(module, func, root);
    shared = std::max(shared, PlaceBuffers(buffers, Space::Shared));
    private_bytes = std::max(private_bytes, PlaceBuffers(buffers, Space::Private));
    for (const Buffer& buffer : buffers) {
      if (buffer.value < 0)
        func.ops[buffer.op].schedule->scratch->offset = buffer.offset;
      else
        ValueAt(func, buffer.value).at->offset = buffer.offset;
    }
    for (size_t v = 0; v < func.values.size(); ++v) func.values[v].at = ValueAt(func, root[v]).at;
  }
  module.options.Set("weight_bytes", weight_bytes);
  module.options.Set("state_bytes", state_bytes);
  module.options.Set("shared_bytes", shared);
  module.options.Set("private_bytes", private_bytes);
  context.Remark("plan-memory", fmt::format("weights {} bytes, states {}, arena {} shared and {} per thread",
                                            weight_bytes, state_bytes, shared, private_bytes));
  return true;
}

}  // namespace llmc
