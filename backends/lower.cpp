// Lowering. Ops of one `fn` whose values between them are at `none` are one kernel; everything else is a call of its
// own. Which kernel, and what its words and constants are, says the table (kernel_table.h): nothing here knows an op,
// but for a product with a weight on oneDNN.
#include "backends/lower.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "backends/kernel_table.h"
#include "backends/onednn/product.h"
#include "ir/diag.h"
#include "ir/op.h"

namespace llmc {
namespace {

// Over many rows these are read from the record, where values live and how threads divide them as well, so that one
// function serves all phases, matrices and layers: half the code of a model.
bool IsOpen(const KernelRow& row, std::string_view name) {
  return name.ends_with("_space") || name == "over" || name == "grain" || name == "claimed" ||
         std::find(row.open.begin(), row.open.end(), name) != row.open.end();
}

// Inputs that kernels read where the call has them.
constexpr std::pair<EntryInput, PlanSpace> kInputSpaces[] = {{EntryInput::Tokens, PlanSpace::Tokens},
                                                             {EntryInput::Types, PlanSpace::Types},
                                                             {EntryInput::Hidden, PlanSpace::Hidden}};

class FuncLowering {
 public:
  FuncLowering(const Module& module, const Func& func)
      : module_(module), func_(func), onednn_(RunsOnOnednn(module, func)), base_(func.values.size()) {
    for (size_t v = 0; v < base_.size(); ++v) base_[v] = Operand::Local(static_cast<ValueId>(v));
    for (const DimRange& range : func.dims) one_row_ = one_row_ || (range.symbol == "S" && range.max == 1);
    for (const Op& op : func.ops) {
      if (DefOf(op.kind).is_view) base_[static_cast<size_t>(op.results[0])] = Base(op.operands[0]);
    }
  }

  Phase Run() {
    for (size_t first = 0; first < func_.ops.size();) {
      size_t end = first + 1;
      while (!IsView(first) && end < func_.ops.size() && (IsView(end) || ScheduleOf(end).fn == ScheduleOf(first).fn))
        ++end;
      done_.assign(end - first, false);
      first_ = first;
      for (size_t i = first; i < end; ++i) {
        if (!IsView(i) && !done_[i - first]) Lower(ChainFrom(i));
      }
      first = end;
    }
    MarkClaimed();
    return {func_.name, std::move(calls_), onednn_};
  }

 private:
  bool IsView(size_t op) const { return DefOf(func_.ops[op].kind).is_view; }
  // A view has no schedule, every other op has one.
  const Schedule& ScheduleOf(size_t op) const {
    if (!func_.ops[op].schedule) Fail(DiagKind::BadSchedule, {"@" + func_.name, ""}, "a phase without a schedule");
    return *func_.ops[op].schedule;
  }
  const Type& TypeOfOperand(const Op& op, size_t i) const { return TypeOf(module_, func_, op.operands[i]); }
  const Type& ResultType(const Op& op, size_t i) const { return func_.values[static_cast<size_t>(op.results[i])].type; }
  Operand Base(Operand operand) const {
    return operand.is_global ? operand : base_[static_cast<size_t>(operand.index)];
  }

  [[noreturn]] void NoKernel(const Op& op, const std::string& why) const {
    std::string types;
    for (size_t i = 0; i < op.operands.size(); ++i) types += (i == 0 ? "" : ", ") + ToText(TypeOfOperand(op, i));
    types += " ->";
    for (size_t i = 0; i < op.results.size(); ++i) types += (i == 0 ? " " : ", ") + ToText(ResultType(op, i));
    const std::string result = "%" + ToText(func_.values[static_cast<size_t>(op.results[0])].name);
    Fail(DiagKind::Unsupported, {"@" + func_.name, result},
         fmt::format("backend {} has no kernel for {} ({}) over {}: {}", onednn_ ? "onednn" : "llvm", OpText(op.kind),
                     types, OverText(op.schedule->over), why));
  }

  [[noreturn]] void Unplanned(const std::string& name) const {
    Fail(DiagKind::BadPlan, {"@" + func_.name, ""}, name + " has no offset: plan-memory has not run");
  }

  bool IsNone(ValueId value) const {
    const auto& at = func_.values[static_cast<size_t>(value)].at;
    return at.has_value() && at->space == Space::None;
  }

  // The op of this group that takes `value` (through views) from registers, or null.
  const Op* ReaderOf(ValueId value) {
    for (size_t i = 0; i < done_.size(); ++i) {
      const Op& user = func_.ops[first_ + i];
      if (done_[i] || IsView(first_ + i)) continue;
      const bool reads = std::any_of(user.operands.begin(), user.operands.end(),
                                     [&](Operand o) { return Base(o) == Operand::Local(value); });
      if (!reads) continue;
      done_[i] = true;
      return &user;
    }
    return nullptr;
  }

  // Op number i and those that go on with what it leaves without storage.
  KernelOps ChainFrom(size_t i) {
    std::vector<const Op*> chain = {&func_.ops[i]};
    done_[i - first_] = true;
    for (;;) {
      const std::vector<ValueId>& results = chain.back()->results;
      const auto none = std::find_if(results.begin(), results.end(), [&](ValueId v) { return IsNone(v); });
      if (none == results.end()) return {module_, func_, std::move(chain)};
      const Op* reader = ReaderOf(*none);
      if (reader == nullptr) NoKernel(*chain.front(), "its result has no storage and nothing in its function reads it");
      chain.push_back(reader);
    }
  }

  PlanPlace Locate(const Op& op, Operand operand) const {
    operand = Base(operand);
    if (operand.is_global) {
      const Global& global = module_.globals[static_cast<size_t>(operand.index)];
      if (!global.offset) Unplanned("$" + ToText(global.name));
      return {global.kind == GlobalKind::State ? PlanSpace::States : PlanSpace::Weights,
              static_cast<uint64_t>(*global.offset)};
    }
    const Value& value = func_.values[static_cast<size_t>(operand.index)];
    if (value.type.state >= 0) return Locate(op, Operand::OfGlobal(value.type.state));
    for (const auto& [input, space] : kInputSpaces) {
      if (&value == FindInput(func_, input)) return {space, 0};
    }
    if (!func_.returns.empty() && Base(func_.returns[0]) == operand) return {PlanSpace::Logits, 0};
    if (!value.at) Unplanned("%" + ToText(value.name));
    if (value.at->space == Space::None) NoKernel(op, "%" + ToText(value.name) + " has no storage");
    if (value.at->offset < 0) Unplanned("%" + ToText(value.name));
    return {value.at->space == Space::Private ? PlanSpace::Private : PlanSpace::Shared,
            static_cast<uint64_t>(value.at->offset)};
  }

  std::optional<PlanPlace> Find(const KernelChoice& choice, const KernelOps& ops, std::string_view name) const {
    const std::optional<Operand> operand = PlaceFor(choice, ops, name);
    return operand ? std::optional(Locate(ops.first(), *operand)) : std::nullopt;
  }

  int64_t ValueOf(const KernelChoice& choice, const KernelOps& ops, std::string_view constant) const {
    const Schedule& schedule = *ops.first().schedule;
    if (constant == "over") return static_cast<int64_t>(schedule.over);
    if (constant == "grain") return schedule.grain;
    if (constant == "claimed") return 0;  // MarkClaimed
    if (!constant.ends_with("_space")) return ConstantFor(choice, ops, constant);
    const std::optional<PlanPlace> place = Find(choice, ops, constant.substr(0, constant.size() - 6));
    return static_cast<int64_t>(place ? place->space : PlanSpace::Shared);
  }

  // Rows are one, or the call's.
  bool IsOneRow(const Op& op) const {
    const Type& type = RowsTypeOf(module_, func_, op);
    const Dim& rows = type.dims.empty() ? Dim(1) : type.dims[0];
    if (!rows.is_symbol() && rows.value != 1)
      NoKernel(op, fmt::format("{} rows that are neither one nor the call's", rows.value));
    return !rows.is_symbol() || one_row_;
  }

  void Push(KernelCall call, const KernelOps& ops) {
    const Op& op = ops.first();
    for (const Op* computed : ops.ops()) call.ops.push_back(static_cast<size_t>(computed - func_.ops.data()));
    call.barrier_before = !calls_.empty() && op.schedule->step > step_;
    calls_.push_back(std::move(call));
    over_.push_back(op.schedule->over);
    step_ = op.schedule->step;
  }

  // Tiles that any thread may compute: those of a product that is alone between two barriers but for work that every
  // thread does for itself. What shares the interval with it would rely on who computed what. The first interval is left
  // out, since claims are cleared by their owners one claimed step ahead.
  void MarkClaimed() {
    size_t begin = 0;
    for (size_t i = 1; i <= calls_.size(); ++i) {
      if (i < calls_.size() && !calls_[i].barrier_before) continue;
      const auto divided = [&](size_t call) { return over_[call] != Over::All; };
      size_t count = 0, last = begin;
      for (size_t call = begin; call < i; ++call) {
        if (divided(call)) ++count, last = call;
      }
      if (begin > 0 && count == 1 && over_[last] == Over::Tiles && claims_.contains(last)) {
        calls_[last].claimed = true;
        const auto [constant, word] = claims_.at(last);
        if (calls_[last].constants[constant])
          calls_[last].constants[constant] = 1;
        else
          calls_[last].record[word] = 1;
      }
      begin = i;
    }
  }

  void Lower(const KernelOps& ops) {
    const Op& first = ops.first();
    if (onednn_ && IsWholeProduct(first)) return LowerProduct(ops);
    const KernelChoice choice = ChooseKernel(ops);
    if (choice.row == nullptr) NoKernel(first, choice.why);
    CheckDivision(*choice.row, ops);
    KernelCall call;
    call.kernel = choice.row->name;
    call.one_row = IsOneRow(first);
    for (const std::string_view word : choice.row->words) {
      const std::optional<PlanPlace> place = Find(choice, ops, word);
      call.record.push_back(place ? place->offset : 0);
    }
    for (const std::string_view name : choice.row->constants) {
      if (name == "claimed" && !onednn_) claims_[calls_.size()] = {call.constants.size(), call.record.size()};
      const int64_t value = ValueOf(choice, ops, name);
      const bool open = !onednn_ && !call.one_row && IsOpen(*choice.row, name);
      if (open) call.record.push_back(static_cast<uint64_t>(value));
      call.constants.push_back(open ? std::nullopt : std::optional(value));
    }
    Push(std::move(call), ops);
  }

  void CheckDivision(const KernelRow& row, const KernelOps& ops) const {
    const Schedule& schedule = *ops.first().schedule;
    if (schedule.scratch) NoKernel(ops.first(), "its kernel takes no scratch");
    const bool known = schedule.over == Over::All || schedule.over == Over::One ||
                       std::find(row.divisions.begin(), row.divisions.end(), schedule.over) != row.divisions.end();
    if (!known) NoKernel(ops.first(), "the kernel doesn't divide its work so");
    if (schedule.over == Over::Tiles && schedule.grain % 2 != 0 && ops.Out().dtype == DType::A8)
      NoKernel(ops.first(), "a block is two tiles");
  }

  // A product by oneDNN, with what its post-ops can do.
  void LowerProduct(const KernelOps& ops) {
    const Op& op = ops.first();
    if (const std::string why = ProductObstacle(ops); !why.empty()) NoKernel(op, why);
    IsOneRow(op);
    const Op* behind = ops.ops().size() > 1 ? ops.ops()[1] : nullptr;
    const bool pair = behind != nullptr && DefOf(behind->kind).takes_pair;
    DnnlStep step = ProductOf(module_, func_, op, pair ? behind : nullptr);
    if (step.compute == DnnlCompute::Blocks && std::get<int64_t>(AttrOf(op, "k_split")) != 1)
      NoKernel(op, "k_split other than 1 of a8 activations");
    const Schedule& schedule = *op.schedule;
    const Scratch scratch = schedule.scratch.value_or(Scratch{0, 0});
    if (schedule.over != Over::Tiles || schedule.grain != step.slice_tiles ||
        scratch.bytes != static_cast<int64_t>(step.scratch_bytes)) {
      NoKernel(op, fmt::format("slices of {} tiles with {} bytes of scratch are asked for, oneDNN's are of {} with {}",
                               schedule.grain, scratch.bytes, step.slice_tiles, step.scratch_bytes));
    }
    if (scratch.offset < 0) Unplanned("scratch");
    step.scratch = {PlanSpace::Private, static_cast<uint64_t>(scratch.offset)};
    step.x = Locate(op, op.operands[0]);
    step.w = Locate(op, op.operands[1]).offset;
    if (op.operands.size() > 2) step.bias = Locate(op, op.operands[2]).offset;
    if (behind != nullptr && !pair) {  // a residual
      const bool second = Base(behind->operands[1]) == Operand::Local(op.results[0]);
      step.residual = Locate(*behind, behind->operands[second ? 0 : 1]);
    }
    for (size_t i = 0; i < step.parts.size(); ++i)
      step.parts[i].out = Locate(ops.last(), Operand::Local(ops.last().results[i]));
    KernelCall call;
    call.product = std::move(step);
    Push(std::move(call), ops);
  }

  const Module& module_;
  const Func& func_;
  const bool onednn_;          // matrices are products of oneDNN
  std::vector<Operand> base_;  // what a value's storage is: views are their operand's
  bool one_row_ = false;       // every call of this function is over one row
  std::vector<KernelCall> calls_;
  std::vector<Over> over_;  // what each call divides
  std::map<size_t, std::pair<size_t, size_t>>
      claims_;              // of calls: where `claimed` is among constants, or in the record
  int step_ = 0;            // of the last call
  size_t first_ = 0;        // of the group in hand
  std::vector<bool> done_;  // ops of the group that another's kernel computes
};

}  // namespace

Program LowerToProgram(const Module& module) {
  Program program;
  for (const Func& func : module.funcs) program.phases.push_back(FuncLowering(module, func).Run());
  return program;
}

}  // namespace llmc
