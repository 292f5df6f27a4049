// plan-schedule: which ops are one function, who computes what, and where threads meet.
//
// 1. Neighbours that the backend has as one function (PassContext::kernels) get one `fn`; what passes between them is
//    at `none`.
// 2. Each function gets a division `over`, by its op's record. With few rows (decode, score) row-wise ops are done by
//    every thread for itself, into private values: a norm of one row costs less than a barrier. With many rows they are
//    divided over rows. Matrices are divided over tiles always, causal attention over many rows by dealt-out queries.
// 3. With few rows, attention over fewer kv heads than threads may have is cut by groups of 64 keys: attention_groups,
//    then attention_merge.
// 4. A backend that computes matrices in slices (KernelTable::slice) says how wide they are and what scratch they need.
// 5. A new `step` begins when an op reads what another thread may have made in the current one.
//
// Needs:    pack-weights, plan-kv-cache (shapes are final), select-backend.
// Leaves:   schedule of every op but views; space of every value but the returned one, which lives in Context.logits.
// Why here: after all rewrites; plan-memory needs lifetimes in steps.
// Skips:    what the backend's kernels don't take, as quantize behind attention when head_dim is no multiple of 32: a
// block would span two heads.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ir/layout.h"
#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

constexpr int64_t kFewRows = 16;     // up to here, row-wise work is cheaper than a barrier
constexpr int64_t kManyKvHeads = 8;  // from here on, heads alone feed the threads
constexpr int64_t kQueryRows = 16;   // rows per unit of causal attention
constexpr size_t kMostFused = 6;     // ops of one function

struct Group {
  std::vector<size_t> ops;  // indices into func.ops, in order; views in between included
  Over over = Over::All;
  int64_t grain = 1;
  int64_t scratch_bytes = 0;  // of its linear
};

int64_t KvHeads(const Module& module, const Func& func) {
  for (const Op& op : func.ops)
    if (DefOf(op.kind).appends_state) return TypeOf(module, func, op.operands[0]).dims[1].value;
  return 1;
}

// Those of the cache that an op reads, or else of the first layer: layers may differ in them.
int64_t KvHeadsOf(const Module& module, const Func& func, const Op& op, int64_t otherwise) {
  const std::vector<OperandDef>& defs = DefOf(op.kind).operands;
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (defs[i].cache != Layout::Rows) return TypeOf(module, func, op.operands[i]).dims[1].value;
  return otherwise;
}

// attention -> attention_groups + attention_merge.
void SplitByKeys(const Module& module, Func& func) {
  for (size_t i = 0; i < func.ops.size(); ++i) {
    if (func.ops[i].kind != OpKind::Attention ||
        TypeOf(module, func, func.ops[i].operands[1]).dims[1].value >= kManyKvHeads)
      continue;
    const Op attention = func.ops[i];
    const Name name = ValueAt(func, attention.results[0]).name;
    Op groups = attention;
    groups.kind = OpKind::AttentionGroups;
    groups.operands.resize(4);
    groups.results = {AddValue(func, Name(name.layer, name.base + "_groups", name.suffix), {})};
    Op merge = attention;
    merge.kind = OpKind::AttentionMerge;
    merge.operands = {Operand::Local(groups.results[0]), attention.operands[3]};
    if (attention.operands.size() > 4) merge.operands.push_back(attention.operands[4]);
    merge.attrs = {};
    for (const char* attr : {"window", "all"}) {
      if (const AttrValue* value = attention.attrs.Find(attr)) merge.attrs.Set(attr, *value);
    }
    func.ops[i] = std::move(groups);
    ReinferResults(module, func, func.ops[i]);
    func.ops.insert(func.ops.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(merge));
    ReinferResults(module, func, func.ops[i + 1]);
    ++i;
  }
  CompactValues(func);
}

// The only op that reads `value`, or npos.
size_t OnlyReader(const Func& func, ValueId value) {
  size_t reader = std::string::npos;
  for (const Operand& operand : func.returns)
    if (operand == Operand::Local(value)) return std::string::npos;
  for (size_t i = 0; i < func.ops.size(); ++i)
    if (std::find(func.ops[i].operands.begin(), func.ops[i].operands.end(), Operand::Local(value)) !=
        func.ops[i].operands.end()) {
      if (reader != std::string::npos) return std::string::npos;
      reader = i;
    }
  return reader;
}

// Whether `op`, computed together with the op before `start` .. , reads nothing that is made between the two: it moves
// to the place of `start`.
bool ReadsOnlyEarlier(const Func& func, const Op& op, size_t start, const Op& predecessor) {
  for (const Operand& operand : op.operands) {
    if (operand.is_global) continue;
    const auto is = [&](ValueId v) { return operand == Operand::Local(v); };
    if (std::any_of(predecessor.results.begin(), predecessor.results.end(), is)) continue;
    for (size_t i = start; i < func.ops.size(); ++i)
      if (std::any_of(func.ops[i].results.begin(), func.ops[i].results.end(), is)) return false;
  }
  return true;
}

// What goes on from func.ops[last]: the only reader of its last result (of both, when they are a pair), which may be a
// view; npos: nothing that could be computed along with it.
size_t Next(const Func& func, size_t last, size_t start) {
  const Op& op = func.ops[last];
  const size_t next = OnlyReader(func, op.results.back());
  if (next == std::string::npos) return next;
  const bool pair = DefOf(func.ops[next].kind).takes_pair;
  if (pair && (op.results.size() != 2 || OnlyReader(func, op.results[0]) != next)) return std::string::npos;
  return ReadsOnlyEarlier(func, func.ops[next], start, op) ? next : std::string::npos;
}

// What `op`'s function divides, whatever goes along with it.
Over DivisionOf(const Module& module, const Func& func, const Op& op) {
  const OpDef& def = DefOf(op.kind);
  const Over over = MaxRows(module, func, op) <= kFewRows ? def.few : def.many;
  return over == Over::Heads && ValueAt(func, op.results[0]).type.dims.size() != 3 ? Over::All : over;
}

bool CanDivide(const Op& op, Over over) {
  const std::vector<Division>& divisions = DefOf(op.kind).divisions;
  return over == Over::All ||
         std::any_of(divisions.begin(), divisions.end(), [&](const Division& d) { return d.over == over; });
}

// The longest chain of ops from `start` on that the backend has as one function, views included.
std::vector<size_t> LongestFusion(const Module& module, const Func& func, size_t start, const KernelTable& kernels) {
  std::vector<size_t> best = {start}, chain = {start};
  std::vector<const Op*> ops = {&func.ops[start]};
  while (kernels.computes && ops.size() < kMostFused) {
    const size_t next = Next(func, chain.back(), start);
    if (next == std::string::npos) break;
    chain.push_back(next);
    if (DefOf(func.ops[next].kind).is_view) continue;
    if (!CanDivide(func.ops[next], DivisionOf(module, func, func.ops[start]))) break;
    ops.push_back(&func.ops[next]);
    if (kernels.computes(module, func, ops)) best = chain;
  }
  return best;
}

void Divide(const Module& module, const Func& func, const KernelTable& kernels, int64_t kv_heads, Group& group) {
  const Op& op = func.ops[group.ops[0]];
  const Type& result = ValueAt(func, op.results[0]).type;
  group.over = DivisionOf(module, func, op);
  const bool returned = std::any_of(group.ops.begin(), group.ops.end(), [&](size_t i) {
    const std::vector<ValueId>& results = func.ops[i].results;
    return std::any_of(results.begin(), results.end(), [&](ValueId v) { return func.returns[0] == Operand::Local(v); });
  });
  if (returned && group.over == Over::All)  // the result has one place
    group.over =
        std::all_of(group.ops.begin(), group.ops.end(),
                    [&](size_t i) { return DefOf(func.ops[i].kind).is_view || CanDivide(func.ops[i], Over::Tiles); })
            ? Over::Tiles
            : Over::One;
  if (group.over == Over::Heads)  // units are kv heads when the heads of `op` allow it
    group.grain = result.state >= 0 || DefOf(op.kind).moves_state
                      ? 1
                      : std::max<int64_t>(1, result.dims[1].value / KvHeadsOf(module, func, op, kv_heads));
  if (group.over == Over::Queries) group.grain = kQueryRows;
  if (group.over == Over::Tiles) {  // a block of a8 is two tiles
    const Op& last = func.ops[group.ops.back()];
    group.grain = ValueAt(func, last.results[0]).type.dtype == DType::A8 ? 2 : 1;
  }
  if (IsWholeProduct(op) && kernels.slice) {
    const Op* behind = group.ops.size() > 1 ? &func.ops[group.ops[1]] : nullptr;
    const bool pair = behind != nullptr && DefOf(behind->kind).takes_pair;
    const SlicePlan slice = kernels.slice(module, func, op, pair ? behind : nullptr);
    group.grain = slice.tiles;
    group.scratch_bytes = slice.scratch_bytes;
  }
}

// How a value was made: in which step, and divided how. Equal units of equal divisions are made by the same thread.
struct Units {
  int64_t count = 0, grain = 1;
  bool operator==(const Units&) const = default;
};
struct Made {
  int step = -1;
  Over over = Over::All;
  Units units;
};

// Parts of a group's first op that its threads deal out: heads, or tiles of 16 columns of all its results. Rows and
// others compare by their range of rows, which is one per function.
Units UnitsOf(const Module& module, const Func& func, const Op& op, const Group& group) {
  const Type& result = ValueAt(func, op.results[0]).type;
  if (group.over == Over::Heads)
    return {(result.state >= 0 ? TypeOf(module, func, op.operands[0]) : result).dims[1].value / group.grain, 1};
  if (group.over != Over::Tiles) return {};
  if (result.dims.size() != 2) return {-1, 0};  // kernels cut tiles in one way or another
  int64_t tiles = 0;
  for (ValueId id : op.results) tiles += (ValueAt(func, id).type.dims.back().value + kTileRows - 1) / kTileRows;
  const AttrValue* interleave = op.attrs.Find("interleave");
  return {interleave != nullptr && std::get<bool>(*interleave) ? tiles / 2 : tiles, group.grain};
}

char Reads(const Op& op, Over over, size_t operand) {
  for (const Division& division : DefOf(op.kind).divisions)
    if (division.over == over && operand < division.reads.size()) return division.reads[operand];
  return 'w';
}

bool NeedsBarrier(const Module& module, const Func& func, const Group& group, const std::vector<Made>& made, int step) {
  for (size_t index : group.ops) {
    const Op& op = func.ops[index];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operands[i].is_global) continue;
      const Made& source = made[static_cast<size_t>(op.operands[i].index)];
      if (source.step != step || source.over == Over::All) continue;
      if (std::any_of(group.ops.begin(), group.ops.end(), [&](size_t j) {
            const std::vector<ValueId>& results = func.ops[j].results;
            return std::find(results.begin(), results.end(), op.operands[i].index) != results.end();
          }))
        continue;  // made by this very function
      // Keys and queries are dealt out: only one function's own loop sees the parts of another op.
      const bool dealt = group.over == Over::Keys || group.over == Over::Queries;
      const bool own = !dealt && source.over == group.over && source.units.count >= 0 &&
                       source.units == UnitsOf(module, func, op, group) && Reads(op, group.over, i) == 'o';
      if (!own) return true;
    }
  }
  return false;
}

void Place(Func& func, const Group& group) {
  const Space space = group.over == Over::All ? Space::Private : Space::Shared;
  for (size_t index : group.ops) {
    const Op& op = func.ops[index];
    for (ValueId result : op.results) {
      Value& value = ValueAt(func, result);
      if (value.type.state >= 0 || (!func.returns.empty() && func.returns[0] == Operand::Local(result))) continue;
      const bool last = index == group.ops.back();
      const size_t reader = last ? std::string::npos : OnlyReader(func, result);
      const bool inside =
          reader != std::string::npos && std::find(group.ops.begin(), group.ops.end(), reader) != group.ops.end();
      value.at = Placement{inside ? Space::None : space, -1};
    }
  }
}

// Reorders the ops so that each group is contiguous, at the place of its first op (what a chain adds reads only its
// predecessor and what was there before), and schedules them.
void ScheduleFunc(const Module& module, const PassContext& context, Func& func) {
  const int64_t kv_heads = KvHeads(module, func);
  const KernelTable& kernels = RunsOnOnednn(module, func) ? context.onednn : context.kernels;
  std::vector<Op> ordered;
  std::vector<Group> groups;
  std::vector<bool> taken(func.ops.size(), false);
  for (size_t i = 0; i < func.ops.size(); ++i) {
    if (taken[i]) continue;
    Group group;
    const bool view = DefOf(func.ops[i].kind).is_view;
    for (size_t j : view ? std::vector<size_t>{i} : LongestFusion(module, func, i, kernels)) {
      taken[j] = true;
      group.ops.push_back(ordered.size());
      ordered.push_back(func.ops[j]);
    }
    groups.push_back(std::move(group));
  }
  func.ops = std::move(ordered);

  std::vector<Made> made(func.values.size());
  int step = 0, fn = 0;
  for (Group& group : groups) {
    const Op& first = func.ops[group.ops[0]];
    if (DefOf(first.kind).is_view) {  // storage of another value: nothing to do, nothing to wait for
      made[static_cast<size_t>(first.results[0])] = made[static_cast<size_t>(first.operands[0].index)];
      ValueAt(func, first.results[0]).at = ValueAt(func, first.operands[0].index).at;
      continue;
    }
    Divide(module, func, kernels, kv_heads, group);
    if (NeedsBarrier(module, func, group, made, step)) ++step;
    Place(func, group);
    for (size_t index : group.ops) {
      Op& op = func.ops[index];
      if (!DefOf(op.kind).is_view) op.schedule = Schedule{fn, step, group.over, group.grain, std::nullopt};
      if (DefOf(op.kind).weight >= 0 && group.scratch_bytes > 0)
        op.schedule->scratch = Scratch{group.scratch_bytes, -1};
      for (ValueId result : op.results)
        made[static_cast<size_t>(result)] = {step, group.over, UnitsOf(module, func, first, group)};
    }
    ++fn;
  }
  CompactValues(func);
  context.Remark("plan-schedule", fmt::format("@{}: {} functions called in {} steps", func.name, fn, step + 1));
}

}  // namespace

bool PlanSchedule(Module& module, const PassContext& context) {
  bool changed = false;
  for (Func& func : module.funcs) {
    if (std::any_of(func.ops.begin(), func.ops.end(), [](const Op& op) { return op.schedule.has_value(); })) continue;
    if (RangeOf(module, func, Dim("S")).max <= kFewRows) SplitByKeys(module, func);
    ScheduleFunc(module, context, func);
    changed = true;
  }
  return changed;
}

}  // namespace llmc
