// The answer to one prompt, or the best of several.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "runtime/answer.h"
#include "runtime/logprobs.h"
#include "runtime/plan_io.h"
#include "runtime/report.h"
#include "runtime/stop_strings.h"

namespace llmc {
namespace {

class Completer {
 public:
  Completer(RunState& run, const std::vector<int32_t>& prompt, const Tokenizer* tokenizer, uint32_t most)
      : run_(run), prompt_(prompt), tokenizer_(tokenizer), most_(most) {}

  struct Result {
    Result(uint32_t logprobs_n, const Tokenizer* tokenizer) : logprobs(logprobs_n, tokenizer) {}
    std::vector<int32_t> ids;
    std::string text;  // or the ids, comma-separated
    std::string stop = "length";
    Logprobs logprobs;
    uint64_t seed = 0, first = 0;  // first: when the first token was there
    double sum = 0;                // of the log probabilities of the tokens that were drawn
    uint64_t drawn = 0;            // the one that ended the answer is among them
    double mean() const { return drawn == 0 ? 0 : sum / static_cast<double>(drawn); }
  };

  // show: print what there is as it comes. score: sum the log probabilities.
  Result Complete(const SamplerOptions& sampling, bool show, bool score) {
    const RunOptions& o = run_.options;
    Result result(o.logprobs, tokenizer_);
    result.seed = sampling.seed;
    Sampler sampler(sampling, prompt_);
    StopStrings stops(o.stop);
    std::optional<StreamDecoder> decoder;
    if (!o.print_tokens) decoder.emplace(*tokenizer_, true);
    const auto emit = [&](const std::string& piece) {
      result.text += piece;
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
          result.ids.push_back(id);
          if (o.logprobs > 0) result.logprobs.Add(logits, id);
          emit(decoder ? stops.Push(decoder->Push(id)) : (result.ids.size() > 1 ? "," : "") + std::to_string(id));
          return !stops.stopped();
        });
    if (stops.stopped()) result.stop = "string";
    if (result.first == 0) result.first = NowNanoseconds();  // nothing came
    if (decoder) emit(stops.Push(decoder->Finish()) + stops.Finish());
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
  if (random) std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(sampling.seed));

  Completer completer(run, prompt, tokenizer ? &*tokenizer : nullptr, most);
  const uint64_t start = NowNanoseconds();
  Completer::Result best = completer.Complete(sampling, !o.json && !several, several);
  // Of the first answer: those that follow have its prompt.
  const double ttft_ms = Milliseconds(start, best.first);
  const uint64_t first = best.first;
  uint64_t decoded = best.ids.empty() ? 0 : best.ids.size() - 1;
  for (uint32_t i = 1; i < o.best_of; ++i) {
    ++sampling.seed;
    Completer::Result next = completer.Complete(sampling, false, true);
    decoded += next.ids.size();
    if (next.mean() > best.mean()) best = std::move(next);
  }
  const uint64_t end = NowNanoseconds();
  if (several && !o.json) WriteOut(best.text);
  if (!o.json && !best.ids.empty()) WriteOut("\n");

  const double decode_ms = Milliseconds(first, end);
  std::fprintf(stderr,
               "load %.1f ms; prompt %zu tokens, %.1f ms to the first token (%.1f tokens/s); %zu new tokens, %.1f "
               "tokens/s; %u threads; stop: %s%s\n",
               run.load_ms, prompt.size(), ttft_ms, PerSecond(prompt.size(), ttft_ms), best.ids.size(),
               PerSecond(decoded, decode_ms), run.session.threads(), best.stop.c_str(), SpeculationText(run).c_str());
  if (several)
    std::fprintf(stderr, "best of %u: seed %llu, mean log probability %.4f\n", o.best_of,
                 static_cast<unsigned long long>(best.seed), best.mean());
  if (o.logprobs > 0 && !o.json) std::fputs(best.logprobs.Lines().c_str(), stderr);
  if (!o.json) return;
  std::string list;
  for (const int32_t id : best.ids) list += (list.empty() ? "" : ", ") + std::to_string(id);
  JsonObject json;
  if (tokenizer) json.Text("text", best.text);
  json.Raw("tokens", "[" + list + "]").Text("stop", best.stop);
  if (random) json.Integer("seed", best.seed);
  if (several) json.Number("mean_logprob", best.mean());
  if (o.logprobs > 0) json.Raw("logprobs", best.logprobs.Json());
  json.Number("load_ms", run.load_ms).Number("ttft_ms", ttft_ms);
  json.Number("prefill_tokens_per_second", PerSecond(prompt.size(), ttft_ms))
      .Number("decode_tokens_per_second", PerSecond(decoded, decode_ms));
  json.Integer("peak_rss_bytes", PeakResidentBytes())
      .Integer("prompt_tokens", prompt.size())
      .Integer("generated_tokens", best.ids.size());
  if (run.speculator.speculates()) {
    const SpeculationCounts& c = run.speculator.counts();
    json.Integer("proposed_tokens", c.proposed).Integer("accepted_tokens", c.accepted).Integer("verify_calls", c.calls);
  }
  json.Integer("threads", run.session.threads()).Text("cpu", CpuName());
  WriteOut(json.Finish());
}

}  // namespace llmc
