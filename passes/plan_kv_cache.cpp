// plan-kv-cache: how each cache is laid out and how many positions it holds.
//
// Keys lie 16 positions side by side (keys16), so that a kernel's lanes are positions; values lie by head (heads). A
// full cache holds the context; a sliding window W needs W + C - 1 positions while a chunk of C rows is appended before
// it is read, so it becomes a ring of that many slots (slot = position mod capacity). Capacities are multiples of 64,
// the group of keys that attention sums at a time.
//
// Needs:    specialize-phases (the largest chunk is known).
// Leaves:   the states' types; element types are import's choice (--kv-type).
// Why here: before plan-schedule, whose partial results have one entry per group of 64 slots.
// Skips:    states that no op reads as a cache.
#include <algorithm>

#include <fmt/format.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

constexpr int64_t kGroup = 64;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

bool PlanKvCache(Module& module, const PassContext& context) {
  int64_t chunk = 1;
  for (const Func& func : module.funcs) chunk = std::max(chunk, RangeOf(module, func, "S").max);
  const int64_t positions = IntOption(module, "context");
  if (positions < 1 || positions > kMaxPositions) {
    Fail(DiagKind::BadAttribute, {}, fmt::format("the module's option 'context' is {}", positions));
  }
  std::vector<Type> planned(module.globals.size());
  for (const Func& func : module.funcs)
    for (const Op& op : func.ops) {
      const OpDef& def = DefOf(op.kind);
      for (size_t i = 0; i < op.operands.size(); ++i) {
        const Type& cache = TypeOf(module, func, op.operands[i]);
        if (def.operands[i].cache == Layout::Rows) continue;
        const int64_t window = std::get<int64_t>(AttrOf(op, "window"));
        Type type = cache;
        type.layout = def.operands[i].cache;
        type.dims[0] = Dim(RoundUp(window > 0 ? std::min(positions, window + chunk - 1) : positions, kGroup));
        planned[static_cast<size_t>(cache.state)] = type;
      }
    }
  bool changed = false;
  for (size_t g = 0; g < planned.size(); ++g) {
    if (planned[g].dims.empty() || planned[g] == module.globals[g].type) continue;
    module.globals[g].type = planned[g];
    changed = true;
    context.Remark("plan-kv-cache", fmt::format("${} : {}", ToText(module.globals[g].name), ToText(planned[g])));
  }
  if (changed)
    for (Func& func : module.funcs)
      for (Value& value : func.values)
        if (value.type.state >= 0) value.type = GlobalAt(module, value.type.state).type;
  return changed;
}

}  // namespace llmc
