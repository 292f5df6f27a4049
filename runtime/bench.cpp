// The benchmark: prefill and decode as a generation runs them, medians over repetitions, and what memory gives the same
// threads.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <span>

#include "runtime/generate.h"
#include "runtime/report.h"
#include "runtime/sampler.h"
#include "runtime/step_library.h"

namespace llmc {
namespace {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

uint32_t PromptTokens(const RunState& run) {
  const uint32_t context = run.session.context();
  if (!run.options.prompt) return std::min(512u, std::max(context / 2, 1u));
  const std::string& text = *run.options.prompt;
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1)
    throw RunUsageError("-p: with --bench a number of tokens, not \"" + text + "\"");
  return number;
}

// Tokens per second of all of `count` sequences that decode together behind the prompt.
double DecodeTogether(RunState& run, std::span<const int32_t> prompt, uint32_t count, uint32_t new_tokens) {
  const uint32_t most = run.session.MostTogether();
  SessionOptions options;
  options.context = run.options.context;
  options.chunk = run.options.chunk;
  options.workspace = run.session.workspace();
  std::vector<std::unique_ptr<Session>> own;
  std::vector<Session*> sessions;
  for (uint32_t i = 0; i < count; ++i) {
    own.push_back(std::make_unique<Session>(run.executable, options));
    sessions.push_back(own.back().get());
    sessions.back()->Prefill(prompt);
  }
  std::vector<int32_t> ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(i % run.session.vocab());
  const uint64_t start = NowNanoseconds();
  for (uint32_t n = 0; n < new_tokens; ++n) {
    for (uint32_t i = 0; i < count; i += most) {
      const uint32_t rows = std::min(most, count - i);
      const std::span<const float> logits =
          Session::DecodeTogether(std::span(sessions).subspan(i, rows), std::span(ids).subspan(i, rows));
      for (uint32_t r = 0; r < rows; ++r)
        ids[i + r] = Argmax(logits.subspan(uint64_t{r} * run.session.vocab(), run.session.vocab()),
                            sessions[i + r]->position() - 1);
    }
  }
  return static_cast<double>(count) * new_tokens * 1e9 / static_cast<double>(NowNanoseconds() - start);
}

}  // namespace

void RunBench(RunState& run) {
  Session& session = run.session;
  const uint32_t prompt_tokens = PromptTokens(run);
  const uint32_t room = session.context() - std::min(prompt_tokens, session.context());
  const uint32_t new_tokens = run.options.count ? *run.options.count : std::min(128u, room);
  if (prompt_tokens > session.context() || new_tokens > room) {
    throw PlanError("a prompt of " + std::to_string(prompt_tokens) + " and " + std::to_string(new_tokens) +
                    " new tokens don't fit into the context: " + std::to_string(uint64_t{prompt_tokens} + new_tokens) +
                    " > " + std::to_string(session.context()));
  }
  SamplerRandom random(1);
  std::vector<int32_t> prompt(prompt_tokens);
  for (int32_t& id : prompt) id = static_cast<int32_t>(random.Next() % session.vocab());

  const StepProgram* program = run.executable.program.get();
  if (program != nullptr)
    std::fprintf(stderr, "%llu primitives of %s made in %.1f ms\n",
                 static_cast<unsigned long long>(program->primitives()), program->version().c_str(),
                 program->milliseconds());
  std::vector<double> ttft, prefill, decode, stream, together;
  for (uint32_t r = 0; r < run.options.repeats; ++r) {
    session.Reset();
    const uint64_t start = NowNanoseconds();
    int32_t id = Argmax(session.Prefill(prompt), session.position() - 1);
    const uint64_t first = NowNanoseconds();
    for (uint32_t n = 0; n < new_tokens; ++n) id = Argmax(session.Decode(id), session.position() - 1);
    const uint64_t end = NowNanoseconds();
    ttft.push_back(static_cast<double>(first - start) * 1e-6);
    prefill.push_back(static_cast<double>(prompt_tokens) * 1e9 / static_cast<double>(first - start));
    if (new_tokens > 0) decode.push_back(static_cast<double>(new_tokens) * 1e9 / static_cast<double>(end - first));
    if (run.options.parallel && new_tokens > 0)
      together.push_back(DecodeTogether(run, prompt, *run.options.parallel, new_tokens));
    stream.push_back(session.StreamWeights());
    std::fprintf(stderr, "%u/%u: prefill %.1f tokens/s, decode %.1f tokens/s, weights stream at %.2f GB/s\n", r + 1,
                 run.options.repeats, prefill.back(), decode.empty() ? 0 : decode.back(), stream.back() * 1e-9);
  }
  if (run.executable.check_unchanged) run.executable.check_unchanged();
  if (!run.options.json) {
    char text[512];
    std::snprintf(text, sizeof(text),
                  "load     %10.1f ms\nttft     %10.1f ms\nprefill  %10.1f tokens/s (%u)\ndecode   %10.1f tokens/s "
                  "(%u)\nstream   %10.2f GB/s\npeak rss %10.1f MiB\nthreads  %10u\n",
                  run.load_ms, Median(ttft), Median(prefill), prompt_tokens, Median(decode), new_tokens,
                  Median(stream) * 1e-9, static_cast<double>(PeakResidentBytes()) / (1 << 20), session.threads());
    WriteOut(text);
    if (together.empty()) return;
    std::snprintf(text, sizeof(text), "together %10.1f tokens/s (%u sequences)\n", Median(together),
                  *run.options.parallel);
    WriteOut(text);
    return;
  }
  JsonObject json;
  json.Number("load_ms", run.load_ms).Number("ttft_ms", Median(ttft));
  json.Number("prefill_tokens_per_second", Median(prefill)).Number("decode_tokens_per_second", Median(decode));
  json.Integer("peak_rss_bytes", PeakResidentBytes())
      .Integer("prompt_tokens", prompt_tokens)
      .Integer("generated_tokens", new_tokens);
  json.Integer("threads", session.threads()).Text("cpu", CpuName());
  if (!together.empty())
    json.Integer("sequences", *run.options.parallel).Number("together_tokens_per_second", Median(together));
  if (program != nullptr) json.Number("primitives_ms", program->milliseconds());
  json.Number("stream_bytes_per_second", Median(stream)).Integer("weights_bytes", run.executable.weights_size);
  WriteOut(json.Finish());
}

}  // namespace llmc
