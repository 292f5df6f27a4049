// Lowering. Per group of ops with one `fn`: a value without storage (`none`) between two ops means one fused kernel;
// everything else is a call of its own.
#include "backends/lower.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "backends/call_builder.h"
#include "backends/onednn/product.h"
#include "ir/diag.h"
#include "ir/op.h"

namespace llmc {
namespace {

int64_t FloatBits(float value) { return std::bit_cast<uint32_t>(value); }

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
      while (!IsView(first) && end < func_.ops.size() && (IsView(end) || Plan(end).fn == Plan(first).fn)) ++end;
      done_.assign(end - first, false);
      first_ = first;
      for (size_t i = first; i < end; ++i) {
        if (!IsView(i) && !done_[i - first]) LowerOp(func_.ops[i]);
      }
      first = end;
    }
    return {func_.name, std::move(calls_), onednn_};
  }

 private:
  bool IsView(size_t op) const { return DefOf(func_.ops[op].kind).is_view; }
  // A view has no schedule, every other op has one.
  const Schedule& Plan(size_t op) const {
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

  // The op of this group, behind `op`, that takes `value` (through views) from registers. Null: the value has storage.
  const Op* Fused(const Op& op, ValueId value, OpKind kind) {
    if (!IsNone(value)) return nullptr;
    for (size_t i = 0; i < done_.size(); ++i) {
      const Op& user = func_.ops[first_ + i];
      if (done_[i] || IsView(first_ + i)) continue;
      const bool reads = std::any_of(user.operands.begin(), user.operands.end(),
                                     [&](Operand o) { return Base(o) == Operand::Local(value); });
      if (!reads) continue;
      if (user.kind != kind) NoKernel(op, fmt::format("its result has no storage and goes to {}", OpText(user.kind)));
      done_[i] = true;
      return &user;
    }
    NoKernel(op, "its result has no storage and nothing in its function reads it");
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
    if (operand.index == func_.params[0]) return {PlanSpace::Tokens, 0};
    if (!func_.returns.empty() && Base(func_.returns[0]) == operand) return {PlanSpace::Logits, 0};
    if (!value.at) Unplanned("%" + ToText(value.name));
    if (value.at->space == Space::None) NoKernel(op, "%" + ToText(value.name) + " has no storage");
    if (value.at->offset < 0) Unplanned("%" + ToText(value.name));
    return {value.at->space == Space::Private ? PlanSpace::Private : PlanSpace::Shared,
            static_cast<uint64_t>(value.at->offset)};
  }

  void Place(CallBuilder& call, const Op& op, const std::string& word, Operand operand) const {
    const PlanPlace place = Locate(op, operand);
    call.Word(word, static_cast<int64_t>(place.offset));
    if (call.HasConstant(word + "_space")) call.Constant(word + "_space", static_cast<int64_t>(place.space));
  }
  void PlaceResult(CallBuilder& call, const Op& op, const std::string& word, size_t result) const {
    Place(call, op, word, Operand::Local(op.results[result]));
  }

  void Divide(CallBuilder& call, const Op& op, std::initializer_list<Over> known) const {
    const Schedule& schedule = *op.schedule;
    if (schedule.over != Over::All && schedule.over != Over::One &&
        std::find(known.begin(), known.end(), schedule.over) == known.end()) {
      NoKernel(op, "the kernel doesn't divide its work so");
    }
    call.Constant("over", static_cast<int64_t>(schedule.over));
    call.Constant("grain", schedule.grain);
  }

  void Push(KernelCall call, const Op& op) {
    call.barrier_before = !calls_.empty() && op.schedule->step > step_;
    calls_.push_back(std::move(call));
    step_ = op.schedule->step;
  }

  void Emit(CallBuilder& call, const Op& op) {
    const Type& rows_of =
        op.kind == OpKind::Embed || op.kind == OpKind::KvAppend ? TypeOfOperand(op, 1) : TypeOfOperand(op, 0);
    const Dim& rows = rows_of.dims.empty() ? Dim(1) : rows_of.dims[0];
    CheckRows(op, rows);
    const bool one_row = !rows.is_symbol() || one_row_;
    Push(call.Finish(one_row, !onednn_), op);
  }
  void CheckRows(const Op& op, const Dim& rows) const {
    if (!rows.is_symbol() && rows.value != 1)
      NoKernel(op, fmt::format("{} rows that are neither one nor the call's", rows.value));
  }

  static int64_t Width(const Type& type) {
    int64_t width = 1;
    for (size_t i = 1; i < type.dims.size(); ++i) width *= type.dims[i].value;
    return width;
  }

  void LowerOp(const Op& op) {
    switch (op.kind) {
      case OpKind::Embed: return LowerEmbed(op);
      case OpKind::RmsNorm:
      case OpKind::AddRmsNorm: return LowerNorm(op);
      case OpKind::Linear: return LowerLinear(op);
      case OpKind::Quantize: return LowerQuantize(op);
      case OpKind::Round: return LowerRound(op);
      case OpKind::Reshape: return;
      case OpKind::Rope: return LowerRope(op);
      case OpKind::KvAppend: return LowerAppend(op);
      case OpKind::Attention:
      case OpKind::AttentionGroups: return LowerAttention(op);
      case OpKind::AttentionMerge: return LowerMerge(op);
      case OpKind::Add: return LowerElementwise(op, "add", "a", "b");
      case OpKind::Gated: return LowerElementwise(op, "gated", "gate", "up");
      case OpKind::LastRows: return LowerLastRows(op);
    }
  }

  void LowerEmbed(const Op& op) {
    CallBuilder call("embed");
    const Type& table = TypeOfOperand(op, 0);
    Place(call, op, "table", op.operands[0]);
    Place(call, op, "tokens", op.operands[1]);
    PlaceResult(call, op, "out", 0);
    call.Constant("dim", table.dims[1].value);
    call.Constant("type", static_cast<int64_t>(table.dtype));
    call.Constant("layout", static_cast<int64_t>(table.layout));
    Divide(call, op, {Over::Rows, Over::Tiles});
    Emit(call, op);
  }

  void LowerNorm(const Op& op) {
    const bool add = op.kind == OpKind::AddRmsNorm;
    const size_t normed = add ? 1 : 0;
    const Op* quantize = Fused(op, op.results[normed], OpKind::Quantize);
    const Type& x = TypeOfOperand(op, 0);
    const int64_t dim = x.dims.back().value;
    if (x.dims.size() != 2 && (add || quantize != nullptr)) NoKernel(op, "more than two dims");
    CallBuilder call(add ? (quantize != nullptr ? "add_rms_norm_quantize" : "add_rms_norm")
                         : (quantize != nullptr ? "rms_norm_quantize" : "rms_norm"));
    Place(call, op, "x", op.operands[0]);
    if (add) {
      Place(call, op, "delta", op.operands[1]);
      PlaceResult(call, op, "sum", 0);
    }
    Place(call, op, "gain", op.operands.back());
    PlaceResult(call, quantize != nullptr ? *quantize : op, "out", quantize != nullptr ? 0 : normed);
    call.Constant("dim", dim);
    call.Constant("eps", FloatBits(op.attrs.F32("eps")));
    if (call.HasConstant("heads")) {
      const int64_t heads = Width(x) / dim;
      call.Constant("heads", heads);
      Divide(call, op, {Over::Rows, Over::Heads});
    } else {
      Divide(call, op, {Over::Rows});
    }
    Emit(call, op);
  }

  void LowerQuantize(const Op& op) {
    CallBuilder call("quantize");
    Place(call, op, "x", op.operands[0]);
    PlaceResult(call, op, "out", 0);
    call.Constant("dim", ResultType(op, 0).dims.back().value);
    if (op.schedule->over == Over::Tiles && op.schedule->grain % 2 != 0) NoKernel(op, "a block is two tiles");
    Divide(call, op, {Over::Rows, Over::Tiles});
    Emit(call, op);
  }

  void LowerRound(const Op& op) {
    CallBuilder call("round_" + op.attrs.Ident("to"));
    Place(call, op, "x", op.operands[0]);
    PlaceResult(call, op, "out", 0);
    call.Constant("dim", Width(ResultType(op, 0)));
    Divide(call, op, {Over::Rows, Over::Tiles});
    Emit(call, op);
  }

  // A product by oneDNN, with what its post-ops can do.
  void LowerProduct(const Op& op) {
    CheckRows(op, TypeOfOperand(op, 0).dims[0]);
    const bool pair = op.results.size() == 2 && std::get<bool>(AttrOf(op, "interleave"));
    const Op* gated = pair ? Fused(op, op.results[0], OpKind::Gated) : nullptr;
    const Op* add = op.results.size() == 1 ? Fused(op, op.results[0], OpKind::Add) : nullptr;
    DnnlStep step = ProductOf(module_, func_, op, gated != nullptr);
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
    if (gated != nullptr) CheckGateOrder(op, *gated);
    if (add != nullptr) {
      const bool second = Base(add->operands[1]) == Operand::Local(op.results[0]);
      step.residual = Locate(*add, add->operands[second ? 0 : 1]);
    }
    const Op& last = gated != nullptr ? *gated : add != nullptr ? *add : op;
    for (size_t i = 0; i < step.parts.size(); ++i) step.parts[i].out = Locate(last, Operand::Local(last.results[i]));
    KernelCall call;
    call.product = std::move(step);
    Push(std::move(call), op);
  }

  void CheckGateOrder(const Op& op, const Op& gated) const {
    if (Base(gated.operands[0]) != Operand::Local(op.results[0]) ||
        Base(gated.operands[1]) != Operand::Local(op.results[1])) {
      NoKernel(op, "gated doesn't take the two results in order");
    }
  }

  void LowerLinear(const Op& op) {
    const Type &x = TypeOfOperand(op, 0), &w = TypeOfOperand(op, 1);
    const bool a8 = x.dtype == DType::A8, has_bias = op.operands.size() > 2;
    if (w.layout != Layout::Tiles16) NoKernel(op, "the weight isn't packed (pack-weights)");
    if (op.results.size() > 3) NoKernel(op, "more than three results");
    if (onednn_) return LowerProduct(op);
    if (op.schedule->scratch) NoKernel(op, "its kernel takes no scratch");
    const bool interleave = std::get<bool>(AttrOf(op, "interleave"));
    const Op* gated = op.results.size() == 2 && interleave ? Fused(op, op.results[0], OpKind::Gated) : nullptr;
    const Op* quantize = gated != nullptr ? Fused(*gated, gated->results[0], OpKind::Quantize) : nullptr;
    CallBuilder call(gated != nullptr ? (a8 ? "linear_gated_a8" : "linear_gated_f32")
                                      : (a8 ? "linear_a8" : "linear_f32"));
    Place(call, op, "x", op.operands[0]);
    Place(call, op, "w", op.operands[1]);
    if (has_bias) Place(call, op, "bias", op.operands[2]);
    call.Constant("k", x.dims.back().value);
    call.Constant("type", static_cast<int64_t>(w.dtype));
    call.Constant("k_split", std::get<int64_t>(AttrOf(op, "k_split")));
    call.Constant("has_bias", has_bias ? 1 : 0);
    if (gated != nullptr) {
      const Op& last = quantize != nullptr ? *quantize : *gated;
      CheckGateOrder(op, *gated);
      PlaceResult(call, last, "out", 0);
      call.Constant("n", ResultType(op, 0).dims[1].value);
      call.Constant("out_type", static_cast<int64_t>(ResultType(last, 0).dtype));
      Divide(call, last, {Over::Tiles});
    } else {
      call.Constant("interleave", interleave ? 1 : 0);
      for (size_t i = 0; i < 3; ++i) {
        const std::string n = std::to_string(i);
        const bool present = i < op.results.size();
        call.Constant("n" + n, present ? ResultType(op, i).dims[1].value : 0);
        call.Constant("out" + n + "_space", static_cast<int64_t>(PlanSpace::Shared));
        if (present) PlaceResult(call, op, "out" + n, i);
      }
      Divide(call, op, {Over::Tiles});
    }
    Emit(call, op);
  }

  void LowerRope(const Op& op) {
    CallBuilder call("rope");
    const Type& x = TypeOfOperand(op, 0);
    Place(call, op, "x", op.operands[0]);
    Place(call, op, "table", op.operands[1]);
    PlaceResult(call, op, "out", 0);
    call.Constant("heads", x.dims[1].value);
    call.Constant("dim", x.dims[2].value);
    call.Constant("rotary", TypeOfOperand(op, 1).dims[1].value);
    call.Constant("pairs", op.attrs.Ident("pairs") == "interleaved" ? 1 : 0);
    Divide(call, op, {Over::Rows, Over::Heads});
    Emit(call, op);
  }

  void LowerAppend(const Op& op) {
    CallBuilder call("kv_append");
    const Type& state = TypeOfOperand(op, 0);
    Place(call, op, "state", op.operands[0]);
    Place(call, op, "x", op.operands[1]);
    call.Constant("slots", state.dims[0].value);
    call.Constant("heads", state.dims[1].value);
    call.Constant("dim", state.dims[2].value);
    call.Constant("type", static_cast<int64_t>(state.dtype));
    call.Constant("layout", static_cast<int64_t>(state.layout));
    Divide(call, op, {Over::Rows, Over::Heads});
    Emit(call, op);
  }

  void LowerAttention(const Op& op) {
    const bool groups = op.kind == OpKind::AttentionGroups;
    const Op* quantize = groups ? nullptr : Fused(op, op.results[0], OpKind::Quantize);
    CallBuilder call(groups ? "attention_groups" : "attention");
    const Type &q = TypeOfOperand(op, 0), &k = TypeOfOperand(op, 1), &v = TypeOfOperand(op, 2);
    if (k.dtype != v.dtype) NoKernel(op, "keys and values of two types");
    Place(call, op, "q", op.operands[0]);
    Place(call, op, "k", op.operands[1]);
    Place(call, op, "v", op.operands[2]);
    const Op& last = quantize != nullptr ? *quantize : op;
    PlaceResult(call, last, "out", 0);
    call.Constant("q_heads", q.dims[1].value);
    call.Constant("kv_heads", k.dims[1].value);
    call.Constant("dim", q.dims[2].value);
    call.Constant("slots", k.dims[0].value);
    call.Constant("window", std::get<int64_t>(AttrOf(op, "window")));
    call.Constant("scale", FloatBits(op.attrs.F32("scale")));
    call.Constant("type", static_cast<int64_t>(k.dtype));
    call.Constant("k_layout", static_cast<int64_t>(k.layout));
    call.Constant("v_layout", static_cast<int64_t>(v.layout));
    if (groups) {
      Divide(call, op, {Over::Keys});
    } else {
      call.Constant("out_type", static_cast<int64_t>(ResultType(last, 0).dtype));
      Divide(call, op, {Over::Heads, Over::Rows, Over::Queries});
    }
    Emit(call, op);
  }

  void LowerMerge(const Op& op) {
    const Op* quantize = Fused(op, op.results[0], OpKind::Quantize);
    const Op& last = quantize != nullptr ? *quantize : op;
    CallBuilder call("attention_merge");
    const Type& partials = TypeOfOperand(op, 0);
    Place(call, op, "partials", op.operands[0]);
    PlaceResult(call, last, "out", 0);
    call.Constant("q_heads", partials.dims[1].value);
    call.Constant("dim", partials.dims[3].value - 2);
    // Only the number of groups matters here, one more than the cache's.
    call.Constant("slots", (partials.dims[2].value - 1) * 64);
    call.Constant("window", std::get<int64_t>(AttrOf(op, "window")));
    call.Constant("out_type", static_cast<int64_t>(ResultType(last, 0).dtype));
    Divide(call, op, {Over::Heads, Over::Rows});
    Emit(call, op);
  }

  void LowerElementwise(const Op& op, std::string_view kernel, const std::string& a, const std::string& b) {
    CallBuilder call(kernel);
    if (op.kind == OpKind::Gated && std::get<std::string>(AttrOf(op, "act")) != "silu")
      NoKernel(op, "another activation than silu");
    Place(call, op, a, op.operands[0]);
    Place(call, op, b, op.operands[1]);
    PlaceResult(call, op, "out", 0);
    call.Constant("dim", Width(ResultType(op, 0)));
    Divide(call, op, {Over::Rows, Over::Tiles});
    Emit(call, op);
  }

  void LowerLastRows(const Op& op) {
    CallBuilder call("last_rows");
    Place(call, op, "x", op.operands[0]);
    PlaceResult(call, op, "out", 0);
    call.Constant("dim", Width(ResultType(op, 0)));
    call.Constant("count", op.attrs.Int("count"));
    Divide(call, op, {Over::Rows, Over::Tiles});
    Emit(call, op);
  }

  const Module& module_;
  const Func& func_;
  const bool onednn_;          // matrices are products of oneDNN
  std::vector<Operand> base_;  // what a value's storage is: views are their operand's
  bool one_row_ = false;       // every call of this function is over one row
  std::vector<KernelCall> calls_;
  int step_ = 0;            // of the last call
  size_t first_ = 0;        // of the group in hand
  std::vector<bool> done_;  // ops of the group that another's kernel computes
};

}  // namespace

Program LowerToProgram(const Module& module) {
  for (const Global& global : module.globals) {
    if (static_cast<int>(global.type.dtype) > static_cast<int>(DType::A8))
      Fail(DiagKind::Unsupported, {"$" + ToText(global.name), ""},
           "weights of type " + std::string(InfoOf(global.type.dtype).text) +
               " have no kernels yet; --backend reference runs them");
  }
  Program program;
  for (const Func& func : module.funcs) program.phases.push_back(FuncLowering(module, func).Run());
  return program;
}

}  // namespace llmc
