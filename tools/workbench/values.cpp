// The interpreter's values as floats.
#include "tools/workbench/values.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "ir/diag.h"
#include "ir/layout.h"
#include "ir/op.h"

namespace llmc {
namespace {

std::vector<float> AsFloats(const Tensor& tensor) {
  const int64_t count = ElementCount(tensor.type);
  std::vector<float> out(static_cast<size_t>(count));
  switch (InfoOf(tensor.type.dtype).cls) {
    case DTypeClass::FLOAT: std::memcpy(out.data(), tensor.data, out.size() * sizeof(float)); break;
    case DTypeClass::INT:
      for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(tensor.as<int32_t>()[i]);
      break;
    case DTypeClass::ACT: {
      // A row is K codes, then K/32 scales d, and more that follows from them (ir/README.md, Layouts).
      const int64_t k = tensor.type.dims.back().value, bytes = RowBytes(tensor.type.dtype, k);
      for (int64_t row = 0; row < count / k; ++row) {
        const std::byte* record = tensor.data + row * bytes;
        const auto* codes = reinterpret_cast<const int8_t*>(record);
        const auto* scales = reinterpret_cast<const float*>(record + k);
        for (int64_t i = 0; i < k; ++i)
          out[static_cast<size_t>(row * k + i)] = static_cast<float>(codes[i]) * scales[i / 32];
      }
      break;
    }
    case DTypeClass::BLOCK: LLMC_CHECK(false, "no op makes blocks of weights");
  }
  return out;
}

std::string OperandText(const Module& module, const Func& func, Operand operand) {
  if (operand.is_global) return "$" + ToText(module.globals[static_cast<size_t>(operand.index)].name);
  return "%" + ToText(func.values[static_cast<size_t>(operand.index)].name);
}

int64_t MostRows(const Module& module, const Func& func) {
  for (const std::vector<DimRange>* ranges : {&func.dims, &module.dims})
    for (const DimRange& range : *ranges)
      if (range.symbol == "S") return range.max;
  return 1;
}

}  // namespace

int64_t RowWidth(const Module& module) {
  const Func& func = module.funcs.at(0);
  return TypeOf(module, func, func.returns.at(0)).dims.at(1).value;
}

std::vector<int32_t> SeededTokens(const Module& module, int64_t count) {
  const int64_t vocab = std::max<int64_t>(1, VocabularyOf(module, module.funcs.at(0)));
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((i * 7919 + 1) % vocab));
  return tokens;
}

std::vector<float> RunValues(const Module& module, const WeightSource& weights, std::span<const int32_t> tokens,
                             int threads, const std::function<void(OpValue&&, int64_t pos)>& sink,
                             std::span<const int32_t> types) {
  const Func* func = nullptr;
  for (const char* name : {"forward", "score", "hidden"})
    if (func == nullptr) func = module.FindFunc(name);
  if (func == nullptr) Fail(DiagKind::UnknownName, {}, "the module has none of @forward, @score and @hidden");
  Interpreter interpreter(module, weights, threads);
  int64_t pos = 0;
  if (sink) {
    interpreter.on_op = [&](const Func& f, const Op& op, const std::vector<Tensor>& results) {
      const OpDef& def = DefOf(op.kind);
      if (def.is_view || def.appends_state) return;
      for (size_t i = 0; i < results.size(); ++i) {
        if (results[i].type.dims.size() > 3) continue;  // partial results of attention: some entries are unspecified
        const Value& value = f.values[static_cast<size_t>(op.results[i])];
        OpValue out{ToText(value.name), value.name.layer, op.kind, results[i].type, AsFloats(results[i]), {}};
        for (const Operand& operand : op.operands) out.operands.push_back(OperandText(module, f, operand));
        sink(std::move(out), pos);
      }
    };
  }
  const auto total = static_cast<int64_t>(tokens.size());
  const int64_t step = MostRows(module, *func);
  if (func->kind == EntryKind::Whole) {
    if (total > step)
      Fail(DiagKind::TooLarge, {"@" + func->name, ""}, fmt::format("{} ids; one call takes {}", total, step));
    std::vector<int32_t> all(types.begin(), types.end());
    all.resize(tokens.size());
    const int32_t first = 0;
    return interpreter.Run(func->name, {.tokens = tokens, .positions = {&first, 1}, .total = total, .types = all});
  }
  std::vector<float> rows;
  for (; pos < total; pos += step) {
    const auto count = static_cast<size_t>(std::min(step, total - pos));
    const std::vector<float> part =
        interpreter.Run(func->name, tokens.subspan(static_cast<size_t>(pos), count), pos, total);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace llmc
