// The interpreter: binds S, gives every value storage, and calls each op's `eval` in order.
//
// Storage. With a placement, a value lives at its offset in the arena of its space, sized for the largest S, so that a
// plan that lets two live values meet gives wrong numbers. One thread computes everything, so there is one private
// arena. Without a placement a value has a buffer of its own from its definition to its last use. Views (reshape) and
// states' values share their operand's storage. States, planned or not, start as zero bytes: what was never written
// reads as +0.
#include "ir/interpreter.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "ir/diag.h"
#include "ir/round_up.h"

namespace llmc {
namespace {

// Fill of arenas: f32 NaN, so that a read of what no op wrote is seen.
constexpr int kPoison = 0xff;
constexpr size_t kAlignment = 64;

// No module that can run needs more; offsets in a text may claim anything.
constexpr int64_t kMostBytes = int64_t{1} << 40;

void CheckBytes(int64_t offset, int64_t bytes, std::string_view what) {
  if (offset >= 0 && bytes >= 0 && bytes <= kMostBytes && offset <= kMostBytes - bytes) return;
  Fail(DiagKind::InvalidModule, {},
       std::string(what) + ": " + std::to_string(bytes) + " bytes at " + std::to_string(offset) + ", more than " +
           std::to_string(kMostBytes));
}

// 64-byte aligned bytes. Zeros come from the system as they are touched, so a large empty cache costs nothing.
class Buffer {
 public:
  Buffer() = default;
  Buffer(int64_t bytes, int fill) {
    CheckBytes(0, bytes, "storage");
    const size_t size = (static_cast<size_t>(bytes) + kAlignment) / kAlignment * kAlignment;
    storage_.reset(
        static_cast<std::byte*>(fill == 0 ? std::calloc(size + kAlignment, 1) : std::malloc(size + kAlignment)));
    if (storage_ == nullptr) Fail(DiagKind::InvalidModule, {}, "no memory for " + std::to_string(bytes) + " bytes");
    if (fill != 0) std::memset(storage_.get(), fill, size + kAlignment);
  }
  std::byte* data() const {
    const auto at = reinterpret_cast<uintptr_t>(storage_.get());
    return storage_.get() + (kAlignment - at % kAlignment) % kAlignment;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> storage_;
};

[[noreturn]] void FailRun(const Func& func, const std::string& message) {
  Fail(DiagKind::ConstraintViolated, {}, "@" + func.name + ": " + message);
}

}  // namespace

struct Interpreter::Impl {
  const Module& module;
  const WeightSource& source;
  int threads;
  std::map<int, Buffer> constants;  // weights and consts, by global
  Buffer state_region;
  std::vector<std::byte*> states;  // by global; null for others
  int64_t state_bytes = 0;         // of a sequence
  int sequences;
  std::array<Buffer, 2> arenas;  // shared, private

  Impl(const Module& m, const WeightSource& s, int t, int n)
      : module(m), source(s), threads(std::max(1, t)), sequences(std::max(1, n)) {
    PlaceStates();
    PlaceArenas();
  }

  static Type Bind(Type type, std::string_view symbol, int64_t value) {
    for (Dim& dim : type.dims) {
      if (dim.symbol == symbol && dim.is_symbol()) dim = Dim(value);
    }
    return type;
  }

  // States at their planned offsets, those without one behind them.
  void PlaceStates() {
    std::vector<int64_t> offsets(module.globals.size(), -1);
    for (size_t g = 0; g < module.globals.size(); ++g) {
      const Global& global = module.globals[g];
      if (global.kind != GlobalKind::State || !global.offset) continue;
      CheckBytes(*global.offset, ByteSize(global.type), "$" + ToText(global.name));
      offsets[g] = *global.offset;
      state_bytes = std::max(state_bytes, *global.offset + ByteSize(global.type));
    }
    for (size_t g = 0; g < module.globals.size(); ++g) {
      const Global& global = module.globals[g];
      if (global.kind != GlobalKind::State || global.offset) continue;
      offsets[g] = RoundUp(state_bytes, 64);
      state_bytes = offsets[g] + ByteSize(global.type);
    }
    state_bytes = RoundUp(state_bytes, 64);
    CheckBytes(0, state_bytes, "states");
    state_region = Buffer(state_bytes * sequences, 0);
    for (int64_t offset : offsets) states.push_back(offset < 0 ? nullptr : state_region.data() + offset);
  }

  void PlaceArenas() {
    std::array<int64_t, 2> bytes{};
    for (const Func& func : module.funcs) {
      for (const Value& value : func.values) {
        if (!value.at || value.at->space == Space::None || value.at->offset < 0) continue;
        Type type = value.type;
        for (Dim& dim : type.dims) dim = Dim(RangeOf(module, func, dim).max);
        CheckBytes(value.at->offset, ByteSize(type), "%" + ToText(value.name));
        int64_t& size = bytes[value.at->space == Space::Shared ? 0 : 1];
        size = std::max(size, value.at->offset + ByteSize(type));
      }
    }
    for (size_t i = 0; i < bytes.size(); ++i) arenas[i] = Buffer(bytes[i], kPoison);
  }

  std::byte* Constant(int index) {
    auto found = constants.find(index);
    if (found == constants.end()) {
      const Type& type = module.globals[static_cast<size_t>(index)].type;
      Buffer buffer(ByteSize(type), 0);
      ReadRows(module, source, index, 0, RowCount(type), buffer.data());
      found = constants.emplace(index, std::move(buffer)).first;
    }
    return found->second.data();
  }

  int64_t CheckCall(const Func& func, const EntryCall& call) const;
  // Every one of `ids`, the call's values of `input`, is a row of each table that is read by it.
  void CheckIds(const Func& func, const Value* input, std::span<const int32_t> ids, std::string_view what,
                std::string_view has, std::string_view rows) const;
  std::vector<float> Run(const Func& func, const EntryCall& call,
                         const std::function<void(const Func&, const Op&, const std::vector<Tensor>&)>& on_op);
};

void Interpreter::Impl::CheckIds(const Func& func, const Value* input, std::span<const int32_t> ids,
                                 std::string_view what, std::string_view has, std::string_view rows) const {
  for (const Op& op : func.ops) {
    const OpDef& def = DefOf(op.kind);
    if (def.ids < 0 || input == nullptr) continue;
    const Operand& operand = op.operands[static_cast<size_t>(def.ids)];
    if (operand.is_global || &func.values[static_cast<size_t>(operand.index)] != input) continue;
    const int64_t most = TypeOf(module, func, op.operands[static_cast<size_t>(def.table)]).dims[0].value;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0 && ids[i] < most) continue;
      FailRun(func, std::string(what) + " " + std::to_string(i) + " is " + std::to_string(ids[i]) + ", " +
                        std::string(has) + " " + std::to_string(most) + " " + std::string(rows));
    }
  }
}

// What the function's inputs ask of the call. Returns its rows.
int64_t Interpreter::Impl::CheckCall(const Func& func, const EntryCall& call) const {
  const Value* tokens = FindInput(func, EntryInput::Tokens);
  const Value* hidden = FindInput(func, EntryInput::Hidden);
  const Value* pos = FindInput(func, EntryInput::Pos);
  const int64_t rows =
      tokens != nullptr ? static_cast<int64_t>(call.tokens.size())
                        : static_cast<int64_t>(call.hidden.size()) / std::max<int64_t>(1, hidden->type.dims[1].value);
  const DimRange range = RangeOf(module, func, Dim(std::string("S")));
  if (rows < range.min || rows > range.max) {
    FailRun(func, std::to_string(rows) + (tokens != nullptr ? " tokens" : " rows") + ", takes " +
                      std::to_string(range.min) + ".." + std::to_string(range.max));
  }
  const auto by_row = [&](std::string_view what, size_t have, int64_t want) {
    if (static_cast<int64_t>(have) != want)
      FailRun(func, std::to_string(have) + " " + std::string(what) + ", takes " + std::to_string(want));
  };
  if (hidden != nullptr) by_row("numbers of rows", call.hidden.size(), rows * hidden->type.dims[1].value);
  if (FindInput(func, EntryInput::Lengths) != nullptr) by_row("lengths", call.lengths.size(), rows);
  const Value* types = FindInput(func, EntryInput::Types);
  if (types != nullptr) by_row("types", call.types.size(), rows);
  if (!call.sequences.empty()) by_row("sequences", call.sequences.size(), rows);
  for (const int32_t sequence : call.sequences) {
    if (sequence < 0 || sequence >= sequences)
      FailRun(func, "sequence " + std::to_string(sequence) + " of " + std::to_string(sequences));
  }
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t context = std::min(module.options.IntOr("context", kMost), kMost);
  if (pos != nullptr) {
    const bool each = !pos->type.dims.empty();
    if (!each || call.positions.size() != 1) by_row("positions", call.positions.size(), each ? rows : 1);
    const int64_t behind = call.positions.size() > 1 ? 1 : rows;  // rows from a position on
    for (const int32_t at : call.positions) {
      if (at < 0 || at > context - behind) {
        FailRun(func, std::to_string(rows) + " tokens from position " + std::to_string(at) +
                          " on do not fit the context of " + std::to_string(context));
      }
      if (call.total < at + behind || call.total > kMost) {
        FailRun(func, "total is " + std::to_string(call.total) + ", must be at least pos + tokens, " +
                          std::to_string(at + behind));
      }
    }
  }
  CheckIds(func, tokens, call.tokens, "token", "the vocabulary has", "entries");
  CheckIds(func, types, call.types, "type", "the table has", "rows");
  return rows;
}

std::vector<float> Interpreter::Impl::Run(
    const Func& func, const EntryCall& call,
    const std::function<void(const Func&, const Op&, const std::vector<Tensor>&)>& observe) {
  const int64_t rows = CheckCall(func, call);
  const std::string symbol = "S";
  std::vector<int64_t> state_bases;
  for (const int32_t sequence : call.sequences) state_bases.push_back(sequence * state_bytes);

  // Storage of each value; `owned` is null where it lies elsewhere (arena, state, parameter).
  std::vector<std::byte*> storage(func.values.size(), nullptr);
  std::vector<std::shared_ptr<Buffer>> owned(func.values.size());
  std::vector<int> uses = CountUses(func);
  auto total = static_cast<int32_t>(call.total);
  const auto bind = [&](EntryInput input, const void* data) {
    for (const ValueId param : func.params) {
      if (&func.values[static_cast<size_t>(param)] == FindInput(func, input))
        storage[static_cast<size_t>(param)] = const_cast<std::byte*>(static_cast<const std::byte*>(data));
    }
  };
  bind(EntryInput::Tokens, call.tokens.data());
  // One position is the first row's, and the others follow it.
  std::vector<int32_t> positions(call.positions.begin(), call.positions.end());
  if (positions.size() == 1)
    for (int64_t row = 1; row < rows; ++row) positions.push_back(positions[0] + static_cast<int32_t>(row));
  bind(EntryInput::Pos, positions.data());
  bind(EntryInput::Total, &total);
  bind(EntryInput::Lengths, call.lengths.data());
  bind(EntryInput::Hidden, call.hidden.data());
  bind(EntryInput::Types, call.types.data());

  const auto tensor_of = [&](const Operand& operand) {
    if (!operand.is_global) {
      const auto v = static_cast<size_t>(operand.index);
      return Tensor{Bind(func.values[v].type, symbol, rows), storage[v]};
    }
    const Global& global = module.globals[static_cast<size_t>(operand.index)];
    std::byte* data =
        global.kind == GlobalKind::State ? states[static_cast<size_t>(operand.index)] : Constant(operand.index);
    return Tensor{TypeOf(module, func, operand), data};
  };
  const auto place = [&](const Op& op, const OpDef& def, size_t result, const std::vector<Tensor>& operands) {
    const auto v = static_cast<size_t>(op.results[result]);
    const Value& value = func.values[v];
    if (def.is_view || value.type.state >= 0) {
      storage[v] = operands[0].data;
      if (def.is_view && !op.operands[0].is_global) owned[v] = owned[static_cast<size_t>(op.operands[0].index)];
    } else if (value.at && value.at->space != Space::None && value.at->offset >= 0) {
      storage[v] = arenas[value.at->space == Space::Shared ? 0 : 1].data() + value.at->offset;
    } else {
      owned[v] = std::make_shared<Buffer>(ByteSize(Bind(value.type, symbol, rows)), kPoison);
      storage[v] = owned[v]->data();
    }
  };

  for (const Op& op : func.ops) {
    const OpDef& def = DefOf(op.kind);
    std::vector<Tensor> operands;
    operands.reserve(op.operands.size());
    for (const Operand& operand : op.operands) operands.push_back(tensor_of(operand));
    std::vector<Tensor> results;
    for (size_t i = 0; i < op.results.size(); ++i) {
      place(op, def, i, operands);
      results.push_back(tensor_of(Operand::Local(op.results[i])));
    }
    def.eval({op, operands, results, threads, state_bases});
    if (observe) observe(func, op, results);
    for (const Operand& operand : op.operands) {
      if (!operand.is_global && --uses[static_cast<size_t>(operand.index)] == 0)
        owned[static_cast<size_t>(operand.index)].reset();
    }
  }
  const Tensor logits = tensor_of(func.returns.at(0));
  std::vector<float> out(static_cast<size_t>(ElementCount(logits.type)));
  std::memcpy(out.data(), logits.data, out.size() * sizeof(float));
  return out;
}

Interpreter::Interpreter(const Module& module, const WeightSource& source, int threads, int sequences)
    : impl_(std::make_unique<Impl>(module, source, threads, sequences)) {}
Interpreter::~Interpreter() = default;

std::vector<float> Interpreter::Run(std::string_view func, std::span<const int32_t> tokens, int64_t pos,
                                    int64_t total) {
  const auto first = static_cast<int32_t>(std::clamp<int64_t>(pos, INT32_MIN, INT32_MAX));  // out of range either way
  return Run(func, EntryCall{tokens, {&first, 1}, total});
}

std::vector<float> Interpreter::Run(std::string_view func, const EntryCall& call) {
  const Func* found = impl_->module.FindFunc(func);
  if (found == nullptr) Fail(DiagKind::UnknownName, {}, "the module has no function @" + std::string(func));
  return impl_->Run(*found, call, on_op);
}

void Interpreter::ResetStates() {
  if (impl_->state_bytes > 0)
    std::memset(impl_->state_region.data(), 0, static_cast<size_t>(impl_->state_bytes * impl_->sequences));
}

}  // namespace llmc
