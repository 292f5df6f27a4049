// --check: logits before and after each pass.
#include "passes/check.h"

#include <algorithm>
#include <bit>
#include <span>

#include <fmt/format.h>

#include "ir/interpreter.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

constexpr int64_t kTokens = 8;
constexpr int64_t kPrompt = 5;  // through @prefill; the rest one by one through @decode
// int8 activations of a small random model stay well below, and bf16 ones of SmolLM2.
constexpr double kMostNmse = 1e-2;

int64_t Vocab(const Module& module) {
  const Func& func = module.funcs.at(0);
  return TypeOf(module, func, func.returns.at(0)).dims.at(1).value;
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

std::vector<float> EvaluateModule(const Module& module, const WeightSource& weights, int threads) {
  const int64_t vocab = Vocab(module), count = std::min(kTokens, IntOption(module, "context"));
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((i * 7919 + 1) % vocab));
  Interpreter interpreter(module, weights, threads);
  std::vector<float> all, tail;
  for (const Func& func : module.funcs)
    if (!IsDecoderCall(func))
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

PassCheck::PassCheck(const Module& module, const WeightSource& weights, int threads)
    : weights_(weights), threads_(threads), logits_(EvaluateModule(module, weights, threads)) {}

void PassCheck::After(const PassInfo& pass, const Module& module) {
  std::vector<float> now = EvaluateModule(module, weights_, threads_);
  const auto vocab = static_cast<size_t>(Vocab(module));
  LLMC_CHECK(now.size() == logits_.size(), "a pass keeps the shape of the logits");
  for (size_t row = 0; row < now.size() / vocab; ++row) {
    double error = 0, norm = 0;
    for (size_t i = row * vocab; i < (row + 1) * vocab; ++i) {
      if (pass.exact && std::bit_cast<uint32_t>(now[i]) != std::bit_cast<uint32_t>(logits_[i]))
        Fail(DiagKind::PassBrokeNumbers, {},
             fmt::format("{} is exact, but position {}, logit {} was {} and is {}", pass.name, row, i - row * vocab,
                         logits_[i], now[i]));
      const double difference = static_cast<double>(now[i]) - static_cast<double>(logits_[i]);
      error += difference * difference;
      norm += static_cast<double>(logits_[i]) * static_cast<double>(logits_[i]);
    }
    if (!(error <= kMostNmse * norm))
      Fail(DiagKind::PassBrokeNumbers, {},
           fmt::format("{}: NMSE {} at position {}, at most {}", pass.name, error / norm, row, kMostNmse));
  }
  logits_ = std::move(now);
}

}  // namespace llmc
