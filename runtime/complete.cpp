// The answer to one prompt, or the best of several.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "runtime/answer.h"
#include "runtime/answer_text.h"
#include "runtime/logprobs.h"
#include "runtime/plan_io.h"
#include "runtime/report.h"

namespace llmc {
namespace {

class Completer {
 public:
  Completer(RunState& run, const std::vector<int32_t>& prompt, const Tokenizer* tokenizer, uint32_t most)
      : run_(run), prompt_(prompt), tokenizer_(tokenizer), most_(most) {}

  struct Result {
    AnswerText answer;
    std::string stop = "length";
    uint64_t seed = 0, first = 0;  // first: when the first token was there
    double sum = 0;                // of the log probabilities of the tokens that were drawn
    uint64_t drawn = 0;            // the one that ended the answer is among them
    double mean() const { return drawn == 0 ? 0 : sum / static_cast<double>(drawn); }
  };

  // show: print what there is as it comes. score: sum the log probabilities.
  Result Complete(const SamplerOptions& sampling, bool show, bool score) {
    const RunOptions& o = run_.options;
    Result result{AnswerText(o, tokenizer_)};
    result.seed = sampling.seed;
    Sampler sampler(sampling, prompt_);
    const auto emit = [&](const std::string& piece) {
      if (show && !piece.empty()) WriteOut(piece);
    };
    result.stop =
        Answer(run_, sampler, prompt_, AfterPrompt(), most_, [&](std::span<const float> logits, int32_t id, bool ends) {
          if (result.first == 0) result.first = NowNanoseconds();
          if (score) {
            result.sum -= NegativeLogLikelihood(logits, id);
            ++result.drawn;
          }
          if (ends) return true;
          emit(result.answer.Add(logits, id));
          return !result.answer.stopped();
        });
    if (result.answer.stopped()) result.stop = "string";
    if (result.first == 0) result.first = NowNanoseconds();  // nothing came
    emit(result.answer.Finish());
    return result;
  }

 private:
  // The logits behind the prompt; the session holds it alone.
  std::span<const float> AfterPrompt() {
    const bool again = !logits_.empty();
    if (again && run_.session.Rewind(static_cast<uint32_t>(prompt_.size()))) return logits_;
    if (again) run_.session.Reset();
    const std::span<const float> logits = run_.session.Prefill(prompt_);
    logits_.assign(logits.begin(), logits.end());
    return logits_;
  }

  RunState& run_;
  const std::vector<int32_t>& prompt_;
  const Tokenizer* tokenizer_;
  uint32_t most_;
  std::vector<float> logits_;
};

// What a report's line says of guesses; nothing without any.
std::string SpeculationText(const RunState& run) {
  if (!run.speculator.speculates()) return "";
  const SpeculationCounts& c = run.speculator.counts();
  char text[128];
  std::snprintf(text, sizeof(text), "; %llu of %llu guessed tokens accepted, in %llu calls",
                static_cast<unsigned long long>(c.accepted), static_cast<unsigned long long>(c.proposed),
                static_cast<unsigned long long>(c.calls));
  return text;
}

}  // namespace

void RunGenerate(RunState& run) {
  const RunOptions& o = run.options;
  std::optional<Tokenizer> tokenizer;
  if (!o.print_tokens) tokenizer.emplace(NeedTokenizer(run));
  const std::vector<int32_t> prompt = CheckedPrompt(run);
  // Prompt and new tokens together fit into the context, the last new one included.
  const uint32_t room = run.session.context() - static_cast<uint32_t>(prompt.size());
  const uint32_t most = std::min(o.count.value_or(kDefaultCount), room);
  SamplerOptions sampling = SamplerOf(run, most);
  const bool random = sampling.temperature != 0, several = o.best_of > 1;
  if (several && !random) throw RunUsageError("--best-of draws answers: it needs a temperature above 0");
  if (random)
    std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(sampling.seed));
  else
    SayWhatGreedyIgnores(o);

  Completer completer(run, prompt, tokenizer ? &*tokenizer : nullptr, most);
  const uint64_t start = NowNanoseconds();
  Completer::Result best = completer.Complete(sampling, !o.json && !several, several);
  // Of the first answer: those that follow have its prompt.
  const double ttft_ms = Milliseconds(start, best.first);
  const uint64_t first = best.first;
  uint64_t decoded = best.answer.ids().empty() ? 0 : best.answer.ids().size() - 1;
  for (uint32_t i = 1; i < o.best_of; ++i) {
    ++sampling.seed;
    Completer::Result next = completer.Complete(sampling, false, true);
    decoded += next.answer.ids().size();
    if (next.mean() > best.mean()) best = std::move(next);
  }
  const uint64_t end = NowNanoseconds();
  if (several && !o.json) WriteOut(best.answer.text());
  if (!o.json && !best.answer.ids().empty()) WriteOut("\n");

  const double decode_ms = Milliseconds(first, end);
  std::fprintf(stderr,
               "load %.1f ms; prompt %zu tokens, %.1f ms to the first token (%.1f tokens/s); %zu new tokens, %.1f "
               "tokens/s; %u threads; stop: %s%s\n",
               run.load_ms, prompt.size(), ttft_ms, PerSecond(prompt.size(), ttft_ms), best.answer.ids().size(),
               PerSecond(decoded, decode_ms), run.session.threads(), best.stop.c_str(), SpeculationText(run).c_str());
  if (several)
    std::fprintf(stderr, "best of %u: seed %llu, mean log probability %.4f\n", o.best_of,
                 static_cast<unsigned long long>(best.seed), best.mean());
  if (o.logprobs > 0 && !o.json) std::fputs(best.answer.logprobs().Lines().c_str(), stderr);
  if (!o.json) return;
  JsonObject json;
  best.answer.Put(json, best.stop, random ? std::optional(best.seed) : std::nullopt,
                  several ? std::optional(best.mean()) : std::nullopt);
  json.Number("load_ms", run.load_ms).Number("ttft_ms", ttft_ms);
  json.Number("prefill_tokens_per_second", PerSecond(prompt.size(), ttft_ms))
      .Number("decode_tokens_per_second", PerSecond(decoded, decode_ms));
  json.Integer("peak_rss_bytes", PeakResidentBytes())
      .Integer("prompt_tokens", prompt.size())
      .Integer("generated_tokens", best.answer.ids().size());
  if (run.speculator.speculates()) {
    const SpeculationCounts& c = run.speculator.counts();
    json.Integer("proposed_tokens", c.proposed).Integer("accepted_tokens", c.accepted).Integer("verify_calls", c.calls);
  }
  json.Integer("threads", run.session.threads()).Text("cpu", CpuName());
  WriteOut(json.Finish());
}

}  // namespace llmc
