// plan-kv-cache: how each cache is laid out and how many positions it holds.
//
// Keys lie 16 positions side by side (keys16), so that a kernel's lanes are positions; values lie by head (heads), and so
// does a state that is both: keys are gathered then. A full cache holds the context; a sliding window W needs W + C - 1 positions while a chunk of C rows is appended before
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
#include "ir/round_up.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

constexpr int64_t kGroup = 64;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

// How a state is read, by all functions together.
struct Use {
  bool as_keys = false, as_values = false;
  int64_t slots = 0;  // the most that a reader needs
};

}  // namespace

bool PlanKvCache(Module& module, const PassContext& context) {
  int64_t chunk = 1;
  for (const Func& func : module.funcs) chunk = std::max(chunk, RangeOf(module, func, Dim("S")).max);
  const int64_t positions = IntOption(module, "context");
  if (positions < 1 || positions > kMaxPositions) {
    Fail(DiagKind::BadAttribute, {}, fmt::format("the module's option 'context' is {}", positions));
  }
  std::vector<Use> uses(module.globals.size());
  for (const Func& func : module.funcs)
    for (const Op& op : func.ops) {
      const OpDef& def = DefOf(op.kind);
      for (size_t i = 0; i < op.operands.size(); ++i) {
        if (def.operands[i].cache == Layout::Rows) continue;
        const int64_t window = std::get<int64_t>(AttrOf(op, "window"));
        Use& use = uses[static_cast<size_t>(TypeOf(module, func, op.operands[i]).state)];
        (def.operands[i].cache == Layout::Heads ? use.as_values : use.as_keys) = true;
        use.slots = std::max(use.slots, window > 0 ? std::min(positions, window + chunk - 1) : positions);
      }
    }
  std::vector<Type> planned(module.globals.size());
  for (size_t g = 0; g < uses.size(); ++g) {
    if (!uses[g].as_keys && !uses[g].as_values) continue;
    planned[g] = module.globals[g].type;
    planned[g].layout = uses[g].as_values ? Layout::Heads : Layout::Keys16;
    planned[g].dims[0] = Dim(RoundUp(uses[g].slots, kGroup));
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
