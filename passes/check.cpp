// --check: logits before and after each pass.
#include "passes/check.h"

#include <algorithm>
#include <bit>
#include <span>

#include <fmt/format.h>

#include "ir/interpreter.h"
#include "ir/op.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

constexpr int64_t kTokens = 8;
constexpr int64_t kPrompt = 5;  // through @prefill; the rest one by one through @decode

int64_t WidthOf(const Module& module, const Func& func) {
  return TypeOf(module, func, func.returns.at(0)).dims.at(1).value;
}

std::vector<int32_t> SeededTokens(const Module& module) {
  const int64_t vocab = VocabularyOf(module, module.funcs.at(0)),
                count = std::min(kTokens, IntOption(module, "context"));
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>((i * 7919 + 1) % std::max<int64_t>(1, vocab)));
  return tokens;
}

// What becomes of pooled rows: of no tokens, and so of no part in this.
bool IsProjection(const Func& func) {
  return func.params.size() == 1 && FindInput(func, EntryInput::Hidden) != nullptr &&
         func.output == EntryOutput::Hidden;
}

// The function that gives hidden rows of tokens, as phases or before.
const Func* HiddenFunc(const Module& module) {
  for (const Func& func : module.funcs) {
    const bool known = std::all_of(func.params.begin(), func.params.end(), [&](ValueId param) {
      const Value& value = func.values[static_cast<size_t>(param)];
      return &value == FindInput(func, EntryInput::Tokens) || &value == FindInput(func, EntryInput::Types) ||
             &value == FindInput(func, EntryInput::Total) ||
             (&value == FindInput(func, EntryInput::Pos) && value.type.dims.empty());
    });
    if (func.output == EntryOutput::Hidden && known) return &func;
  }
  return nullptr;
}

// Appends the logits of tokens [begin, end), in calls of at most `step` rows.
void Run(Interpreter& interpreter, const char* func, std::span<const int32_t> tokens, int64_t begin, int64_t end,
         int64_t step, std::vector<float>& out) {
  for (int64_t pos = begin; pos < end; pos += step) {
    const auto rows = static_cast<size_t>(std::min(step, end - pos));
    const std::vector<float> logits =
        interpreter.Run(func, tokens.subspan(static_cast<size_t>(pos), rows), pos, static_cast<int64_t>(tokens.size()));
    out.insert(out.end(), logits.begin(), logits.end());
  }
}

}  // namespace

std::vector<int32_t> SeededTypes(const Module& module, size_t count) {
  std::vector<int32_t> types(count);
  const Func* func = HiddenFunc(module);
  const bool typed = func != nullptr && TableRows(module, *func, EntryInput::Types) > 1;
  for (size_t i = 0; i < types.size(); ++i) types[i] = typed && i > types.size() / 2 ? 1 : 0;
  return types;
}

std::vector<float> EvaluateHidden(const Module& module, const WeightSource& weights, int threads) {
  const Func* func = HiddenFunc(module);
  if (func == nullptr) return {};
  const std::vector<int32_t> tokens = SeededTokens(module), types = SeededTypes(module, tokens.size());
  const int32_t first = 0;
  Interpreter interpreter(module, weights, threads);
  return interpreter.Run(
      func->name,
      {.tokens = tokens, .positions = {&first, 1}, .total = static_cast<int64_t>(tokens.size()), .types = types});
}

std::vector<float> EvaluateModule(const Module& module, const WeightSource& weights, int threads) {
  const Func* hidden = HiddenFunc(module);
  if (hidden == &module.funcs.at(0)) return EvaluateHidden(module, weights, threads);
  const std::vector<int32_t> tokens = SeededTokens(module);
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t vocab = WidthOf(module, module.funcs.at(0));
  Interpreter interpreter(module, weights, threads);
  std::vector<float> all, tail;
  for (const Func& func : module.funcs)
    if (!IsDecoderCall(func) && &func != hidden && !IsProjection(func))
      Fail(DiagKind::Unsupported, {"@" + func.name, ""},
           "evaluation gives functions tokens, pos and total, and takes logits; this one asks for something else");
  if (module.FindFunc("forward") != nullptr) {
    Run(interpreter, "forward", tokens, 0, count, count, all);
    return all;
  }
  if (module.FindFunc("score") == nullptr) {  // a part of a model: one function is enough to compare with itself
    Run(interpreter, module.funcs.at(0).name.c_str(), tokens, 0, count, 1, all);
    return all;
  }
  Run(interpreter, "score", tokens, 0, count, count, all);
  interpreter.ResetStates();
  const int64_t chunk = IntOption(module, "chunk"), prompt = std::min({kPrompt, count, chunk});
  Run(interpreter, "prefill", tokens, 0, prompt, prompt, tail);
  Run(interpreter, "decode", tokens, prompt, count, 1, tail);
  const size_t offset = all.size() - tail.size();
  for (size_t i = 0; i < tail.size(); ++i)
    if (std::bit_cast<uint32_t>(all[offset + i]) != std::bit_cast<uint32_t>(tail[i]))
      Fail(DiagKind::InvalidModule, {},
           fmt::format("@score and @prefill with @decode disagree at position {}, logit {}: {} and {}",
                       (offset + i) / static_cast<size_t>(vocab), (offset + i) % static_cast<size_t>(vocab),
                       all[offset + i], tail[i]));
  return all;
}

namespace {

// `now` against `was`, rows of `width`: what the pass promises.
void Compare(const PassInfo& pass, const char* what, std::span<const float> now, std::span<const float> was,
             size_t width) {
  LLMC_CHECK(now.size() == was.size(), fmt::format("a pass keeps the shape of the {}s", what));
  for (size_t row = 0; row < now.size() / width; ++row) {
    double error = 0, norm = 0;
    for (size_t i = row * width; i < (row + 1) * width; ++i) {
      if (pass.exact() && std::bit_cast<uint32_t>(now[i]) != std::bit_cast<uint32_t>(was[i]))
        Fail(DiagKind::PassBrokeNumbers, {},
             fmt::format("{} is exact, but position {}, {} {} was {} and is {}", pass.name, row, what, i - row * width,
                         was[i], now[i]));
      const double difference = static_cast<double>(now[i]) - static_cast<double>(was[i]);
      error += difference * difference;
      norm += static_cast<double>(was[i]) * static_cast<double>(was[i]);
    }
    if (!(error <= MostNmse(pass.exactness) * norm) && !pass.exact())
      Fail(DiagKind::PassBrokeNumbers, {},
           fmt::format("{}: NMSE {} at position {}, at most {}", pass.name, error / norm, row,
                       MostNmse(pass.exactness)));
  }
}

}  // namespace

PassCheck::PassCheck(const Module& module, const WeightSource& weights, int threads)
    : weights_(weights), threads_(threads), logits_(EvaluateModule(module, weights, threads)) {}

void PassCheck::After(const PassInfo& pass, const Module& module) {
  std::vector<float> now = EvaluateModule(module, weights_, threads_);
  const bool decoder = module.funcs.at(0).output == EntryOutput::Logits;
  Compare(pass, decoder ? "logit" : "hidden number", now, logits_,
          static_cast<size_t>(WidthOf(module, module.funcs[0])));
  logits_ = std::move(now);
  if (!decoder) return;
  std::vector<float> hidden = EvaluateHidden(module, weights_, threads_);
  if (!hidden_.empty())
    Compare(pass, "hidden number", hidden, hidden_, static_cast<size_t>(WidthOf(module, *HiddenFunc(module))));
  hidden_ = std::move(hidden);
}

}  // namespace llmc
