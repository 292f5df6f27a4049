// Generation, logits, perplexity and the self-test.
#include "runtime/generate.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include <sys/random.h>
#include <sys/stat.h>

#include "runtime/answer.h"
#include "runtime/chat_prompt.h"
#include "runtime/logprobs.h"
#include "runtime/math.h"
#include "runtime/npy.h"
#include "runtime/plan_finite.h"
#include "runtime/plan_hash.h"
#include "runtime/plan_io.h"
#include "runtime/report.h"
#include "runtime/sampler.h"
#include "runtime/stop_strings.h"
#include "runtime/tokenizer.h"

namespace llmc {
namespace {

constexpr uint32_t kWindow = 512;  // of perplexity

double Milliseconds(uint64_t start, uint64_t end) { return static_cast<double>(end - start) * 1e-6; }
double PerSecond(uint64_t count, double milliseconds) {
  return milliseconds > 0 ? static_cast<double>(count) * 1000.0 / milliseconds : 0;
}

void CheckUnchanged(const RunState& run) {
  if (run.executable.check_unchanged) run.executable.check_unchanged();
}

// One row of logits, of `position`: before anything is made of them.
void CheckLogits(const RunState& run, std::span<const float> logits, uint64_t position) {
  const size_t at = FindNotFinite(logits);
  if (at == logits.size()) return;
  throw PlanError(NotFiniteText(logits, at, position) +
                  CacheOverflowText(run.executable.manifest->options, run.session.Overflow()));
}

Tokenizer NeedTokenizer(const RunState& run) {
  if (run.executable.tokenizer.empty())
    throw PlanError("the plan has no tokenizer: only --tokens with --print-tokens or --logits works on it");
  return Tokenizer(run.executable.tokenizer);
}

// The conversation of --messages or --chat -p, and its name in messages.
struct Conversation {
  std::string request, where;
};
Conversation ConversationOf(const RunOptions& options) {
  if (options.messages) return {ReadWholeFile(*options.messages), *options.messages};
  return {"[" + ChatMessage("user", *options.prompt) + "]", "-p"};
}

std::vector<int32_t> Prompt(const RunState& run) {
  if (run.options.messages || run.options.chat) {
    const Conversation chat = ConversationOf(run.options);
    return EncodeChat(run.executable, chat.request, chat.where, run.options.parse_special);
  }
  if (run.options.tokens) return ParseTokens(*run.options.tokens);
  return NeedTokenizer(run).Encode(*run.options.prompt);
}

// The prompt, once it is known that it can be run.
std::vector<int32_t> CheckedPrompt(const RunState& run) {
  std::vector<int32_t> ids = Prompt(run);
  if (ids.empty()) throw PlanError("empty prompt: no tokens, and the model has no BOS to start from");
  run.session.CheckTokens(ids);
  return ids;
}

}  // namespace

uint64_t DrawSeed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
    throw PlanError(std::string("can't draw a seed: ") + std::strerror(errno));
  return seed;
}

SamplerOptions SamplerOf(const RunState& run, uint64_t limit) {
  const RunOptions& o = run.options;
  const PlanGeneration& g = run.executable.manifest->generation;
  SamplerOptions s;
  LogitRules& r = s.rules;
  s.order = o.sampler_order;
  r.bias = o.logit_bias;
  r.repetition_penalty = static_cast<float>(o.repetition_penalty.value_or(g.rules.repetition_penalty));
  r.no_repeat_ngram = o.no_repeat_ngram.value_or(g.rules.no_repeat_ngram_size);
  r.min_new_tokens = o.min_new_tokens.value_or(g.rules.min_new_tokens);
  r.bad_words = g.rules.bad_words_ids;
  r.forced_last = g.rules.forced_eos_token_id;
  r.suppress = g.rules.suppress_tokens;
  r.suppress.insert(r.suppress.end(), o.suppress.begin(), o.suppress.end());
  r.begin_suppress = g.rules.begin_suppress_tokens;
  r.stop_ids = g.stop_ids;
  r.limit = limit;
  s.temperature = o.temperature.value_or(g.do_sample ? g.temperature.value_or(1.0f) : 0.0f);
  if (s.temperature == 0) return s;
  s.typical_p = o.typical_p.value_or(g.rules.typical_p);
  s.top_k = o.top_k.value_or(g.top_k.value_or(0));
  s.top_p = o.top_p.value_or(g.top_p.value_or(1.0f));
  s.min_p = o.min_p.value_or(g.min_p.value_or(0.0f));
  s.seed = o.seed ? *o.seed : DrawSeed();
  return s;
}

void PrintChatPrompt(const Executable& executable, const RunOptions& options) {
  const Conversation chat = ConversationOf(options);
  if (options.render) {
    WriteOut(RenderChat(executable, chat.request, chat.where));
    return;
  }
  std::string list;
  for (const int32_t id : EncodeChat(executable, chat.request, chat.where, options.parse_special))
    list += (list.empty() ? "" : ",") + std::to_string(id);
  WriteOut(list + "\n");
}

std::string Answer(RunState& run, Sampler& sampler, std::span<const int32_t> prompt, uint32_t most,
                   const std::function<bool(int32_t id)>& each) {
  const std::vector<int32_t>& stop_ids = run.executable.manifest->generation.stop_ids;
  if (most == 0) return "length";
  std::span<const float> logits = run.session.Prefill(prompt);
  for (uint32_t count = 0;;) {
    CheckUnchanged(run);
    CheckLogits(run, logits, run.session.position() - 1);
    const int32_t id = sampler.Next(logits, run.session.position() - 1);
    const bool ends = !run.options.ignore_eos && std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end();
    if (ends) return "eos";
    if (!each(id)) return "interrupted";
    if (++count == most) return "length";
    logits = run.session.Decode(id);
  }
}

void RunGenerate(RunState& run) {
  const RunOptions& o = run.options;
  const bool text = !o.print_tokens;
  std::optional<Tokenizer> tokenizer;
  std::optional<StreamDecoder> decoder;
  if (text) {
    tokenizer.emplace(NeedTokenizer(run));
    decoder.emplace(*tokenizer, true);
  }
  const std::vector<int32_t> prompt = CheckedPrompt(run);
  // Prompt and new tokens together fit into the context, the last new one included.
  const uint32_t room = run.session.context() - static_cast<uint32_t>(prompt.size());
  const uint32_t most = std::min(o.count.value_or(kDefaultCount), room);
  const SamplerOptions sampling = SamplerOf(run, most);
  Sampler sampler(sampling, prompt);
  if (sampling.temperature != 0) std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(sampling.seed));
  const std::vector<int32_t>& stop_ids = run.executable.manifest->generation.stop_ids;
  StopStrings stops(o.stop);
  Logprobs logprobs(o.logprobs, tokenizer ? &*tokenizer : nullptr);

  std::string all_text;
  std::vector<int32_t> ids;
  const auto emit = [&](const std::string& piece) {
    if (o.json) {
      all_text += piece;
    } else if (!piece.empty()) {
      WriteOut(piece);
    }
  };
  const char* stop = "length";
  const uint64_t start = NowNanoseconds();
  uint64_t first = start;
  if (most > 0) {
    std::span<const float> logits = run.session.Prefill(prompt);
    while (true) {
      CheckUnchanged(run);
      CheckLogits(run, logits, run.session.position() - 1);
      const int32_t id = sampler.Next(logits, run.session.position() - 1);
      if (ids.empty()) first = NowNanoseconds();
      if (!o.ignore_eos && std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end()) {
        stop = "eos";
        break;
      }
      ids.push_back(id);
      if (o.logprobs > 0) logprobs.Add(logits, id);
      emit(text ? stops.Push(decoder->Push(id)) : (ids.size() > 1 ? "," : "") + std::to_string(id));
      if (stops.stopped()) {
        stop = "string";
        break;
      }
      if (ids.size() == most) break;
      logits = run.session.Decode(id);
    }
  }
  const uint64_t end = NowNanoseconds();
  if (text) emit(stops.Push(decoder->Finish()) + stops.Finish());
  if (!o.json && !ids.empty()) WriteOut("\n");

  const double ttft_ms = Milliseconds(start, first), decode_ms = Milliseconds(first, end);
  const uint64_t decoded = ids.empty() ? 0 : ids.size() - 1;
  std::fprintf(stderr,
               "load %.1f ms; prompt %zu tokens, %.1f ms to the first token (%.1f tokens/s); %zu new tokens, %.1f "
               "tokens/s; %u threads; stop: %s\n",
               run.load_ms, prompt.size(), ttft_ms, PerSecond(prompt.size(), ttft_ms), ids.size(),
               PerSecond(decoded, decode_ms), run.session.threads(), stop);
  if (o.logprobs > 0 && !o.json) std::fputs(logprobs.Lines().c_str(), stderr);
  if (!o.json) return;
  std::string list;
  for (int32_t id : ids) list += (list.empty() ? "" : ", ") + std::to_string(id);
  JsonObject json;
  if (text) json.Text("text", all_text);
  json.Raw("tokens", "[" + list + "]").Text("stop", stop);
  if (sampling.temperature != 0) json.Integer("seed", sampling.seed);
  if (o.logprobs > 0) json.Raw("logprobs", logprobs.Json());
  json.Number("load_ms", run.load_ms).Number("ttft_ms", ttft_ms);
  json.Number("prefill_tokens_per_second", PerSecond(prompt.size(), ttft_ms))
      .Number("decode_tokens_per_second", PerSecond(decoded, decode_ms));
  json.Integer("peak_rss_bytes", PeakResidentBytes())
      .Integer("prompt_tokens", prompt.size())
      .Integer("generated_tokens", ids.size());
  json.Integer("threads", run.session.threads()).Text("cpu", CpuName());
  WriteOut(json.Finish());
}

void RunTopLogits(RunState& run) {
  const std::vector<int32_t> prompt = CheckedPrompt(run);
  std::optional<Tokenizer> tokenizer;
  if (!run.executable.tokenizer.empty()) tokenizer.emplace(run.executable.tokenizer);
  const std::span<const float> logits = run.session.Prefill(prompt);
  CheckUnchanged(run);
  CheckLogits(run, logits, prompt.size() - 1);
  std::string lines;
  for (const TokenLogprob& token : HighestLogits(logits, run.options.top_logits)) {
    lines += std::to_string(token.id) + "\t" + ShortText(token.value) + "\t" +
             QuotedToken(tokenizer ? &*tokenizer : nullptr, token.id) + "\n";
  }
  WriteOut(lines);
}

void RefuseThePlan(const RunState& run, const std::string& file) {
  struct stat plan{}, target{};
  if (stat(run.options.plan.c_str(), &plan) == 0 && stat(file.c_str(), &target) == 0 && plan.st_dev == target.st_dev &&
      plan.st_ino == target.st_ino)
    throw PlanError(file + ": the output is the plan");
}

void RunLogits(RunState& run) {
  const std::vector<int32_t> prompt = CheckedPrompt(run);
  const std::string& file = *run.options.logits;
  RefuseThePlan(run, file);
  NpyWriter out(file, run.options.all_positions ? prompt.size() : 1, run.session.vocab());
  if (run.options.all_positions) {
    uint64_t position = 0;
    run.session.Score(prompt, [&](std::span<const float> logits) {
      CheckLogits(run, logits, position++);
      out.Append(logits);
    });
  } else {
    const std::span<const float> logits = run.session.Prefill(prompt);
    CheckLogits(run, logits, prompt.size() - 1);
    out.Append(logits);
  }
  CheckUnchanged(run);
  out.Finish();
}

void RunPerplexity(RunState& run) {
  const std::string& file = *run.options.perplexity;
  const std::vector<int32_t> ids = NeedTokenizer(run).Encode(ReadWholeFile(file));
  if (ids.size() < 2)
    throw PlanError(file + ": " + std::to_string(ids.size()) + " tokens; perplexity needs at least 2");
  const size_t window = std::min(kWindow, run.session.context());
  if (window < 2) throw PlanError("a context of 1 scores nothing");
  double sum = 0;
  uint64_t scored = 0, windows = 0;
  const uint64_t start = NowNanoseconds();
  for (size_t at = 0; at + 1 < ids.size(); at += window) {
    const std::span<const int32_t> part = std::span(ids).subspan(at, std::min(window, ids.size() - at));
    size_t row = 0;
    run.session.Reset();
    run.session.Score(part, [&](std::span<const float> logits) {
      if (++row == part.size()) return;  // nothing is known of what follows the window
      CheckLogits(run, logits, at + row - 1);
      sum += NegativeLogLikelihood(logits, part[row]);
      ++scored;
    });
    CheckUnchanged(run);
    ++windows;
    std::fprintf(stderr, "%zu of %zu tokens: %.4f\n", at + part.size(), ids.size(),
                 1.0 / ExpOfNegative(-sum / static_cast<double>(scored)));
  }
  const double perplexity = 1.0 / ExpOfNegative(-sum / static_cast<double>(scored));
  const double milliseconds = Milliseconds(start, NowNanoseconds());
  if (run.options.json) {
    JsonObject json;
    json.Number("perplexity", perplexity)
        .Integer("scored_tokens", scored)
        .Integer("windows", windows)
        .Integer("window", window);
    json.Number("load_ms", run.load_ms)
        .Number("tokens_per_second", PerSecond(ids.size(), milliseconds))
        .Integer("peak_rss_bytes", PeakResidentBytes());
    json.Integer("threads", run.session.threads()).Text("cpu", CpuName());
    WriteOut(json.Finish());
    return;
  }
  char line[64];
  std::snprintf(line, sizeof(line), "%.6f\n", perplexity);
  WriteOut(line);
  std::fprintf(stderr, "%llu tokens scored in %llu windows of up to %zu, %.1f tokens/s\n",
               static_cast<unsigned long long>(scored), static_cast<unsigned long long>(windows), window,
               PerSecond(ids.size(), milliseconds));
}

namespace {

void CheckHashes(Session& session, const PlanSelfTest& test) {
  const auto check = [](const char* phase, uint64_t hash, uint64_t want) {
    char text[128];
    std::snprintf(text, sizeof(text), "self-test: %s gives %016llx, the plan says %016llx", phase,
                  static_cast<unsigned long long>(hash), static_cast<unsigned long long>(want));
    if (hash != want) throw PlanError(text);
  };
  if (session.encoder()) {
    Xxh3 hidden;
    session.Hidden(test.ids, {}, [&](std::span<const float> row) { hidden.Update(row.data(), row.size_bytes()); });
    check("hidden", hidden.Digest(), test.score);
    return;
  }
  const std::span<const float> last = session.Prefill(test.ids);
  check("prefill", Xxh3Of(last.data(), last.size_bytes()), test.prefill);
  session.Clear();
  Xxh3 decode;
  for (int32_t id : test.ids) {
    const std::span<const float> row = session.Decode(id);
    decode.Update(row.data(), row.size_bytes());
  }
  check("decode", decode.Digest(), test.decode);
  session.Clear();
  Xxh3 score;
  session.Score(test.ids, [&](std::span<const float> row) { score.Update(row.data(), row.size_bytes()); });
  check("score", score.Digest(), test.score);
}

// Returns what was found, for people.
std::string CheckNumbers(Session& session, const std::vector<int32_t>& ids, const PlanSelfTestLogits& want) {
  std::string found;
  const auto check = [&](const char* phase, std::span<const float> row, const std::vector<float>& known) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < want.at.size(); ++i) {
      const double b = known[i], d = static_cast<double>(row[static_cast<size_t>(want.at[i])]) - b;
      difference += d * d;
      size += b * b;
    }
    // NaN fails too; where all known logits are 0 so must be those found.
    const bool passes = size > 0 ? difference / size <= static_cast<double>(want.bound) : difference == 0;
    char text[160];
    std::snprintf(text, sizeof(text), "%s %.2e", phase, size > 0 ? difference / size : difference);
    found += Joined({found.empty() ? "" : ", ", text});
    if (passes) return;
    std::snprintf(text, sizeof(text), "self-test: %s is at NMSE %.2e from the interpreter, the plan allows %.2e", phase,
                  size > 0 ? difference / size : difference, static_cast<double>(want.bound));
    throw PlanError(text);
  };
  check("prefill", session.Prefill(ids), want.prefill);
  session.Clear();
  for (size_t i = 0; i + 1 < ids.size(); ++i) session.Decode(ids[i]);
  check("decode", session.Decode(ids.back()), want.decode);
  session.Clear();
  size_t row = 0;
  session.Score(ids, [&](std::span<const float> logits) {
    if (++row == ids.size()) check("score", logits, want.score);
  });
  return found;
}

}  // namespace

void RunSelfTest(RunState& run) {
  const PlanSelfTest& test = run.executable.manifest->self_test;
  if (test.ids.empty()) throw PlanError("the plan has no self-test");
  if (!test.approximate) {
    CheckHashes(run.session, test);
    CheckUnchanged(run);
    WriteOut("self-test passed\n");
    return;
  }
  const std::string found = CheckNumbers(run.session, test.ids, *test.approximate);
  CheckUnchanged(run);
  char bound[64];
  std::snprintf(bound, sizeof(bound), "%.2e", static_cast<double>(test.approximate->bound));
  WriteOut(Joined({"self-test passed: NMSE ", found, " (at most ", bound, ")\n"}));
}

}  // namespace llmc
