// Prompts, sampler options, logits, perplexity and the self-test.
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
#include "runtime/gbnf.h"
#include "runtime/json_schema.h"
#include "runtime/logprobs.h"
#include "runtime/math.h"
#include "runtime/npy.h"
#include "runtime/plan_finite.h"
#include "runtime/plan_hash.h"
#include "runtime/plan_io.h"
#include "runtime/report.h"
#include "runtime/sampler.h"
#include "runtime/token_constraint.h"
#include "runtime/tokenizer.h"

namespace llmc {
namespace {

constexpr uint32_t kWindow = 512;                      // of perplexity
constexpr size_t kMostGrammarBytes = size_t{1} << 22;  // of a grammar or schema

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

}  // namespace

void CheckUnchanged(const RunState& run) {
  if (run.executable.check_unchanged) run.executable.check_unchanged();
}

void CheckLogits(const RunState& run, std::span<const float> logits, uint64_t position) {
  const size_t at = FindNotFinite(logits);
  if (at == logits.size()) return;
  throw PlanError(NotFiniteText(logits, at, position) +
                  CacheOverflowText(run.executable.manifest->options, run.session.Overflow()));
}

Tokenizer NeedTokenizer(const RunState& run) {
  if (run.executable.tokenizer.empty())
    throw PlanError(run.session.encoder()
                        ? "the plan has no tokenizer: only --tokens with --hidden or --embed works on it"
                        : "the plan has no tokenizer: only --tokens with --print-tokens or --logits works on it");
  return Tokenizer(run.executable.tokenizer);
}

std::vector<int32_t> CheckedPrompt(const RunState& run) {
  std::vector<int32_t> ids = Prompt(run);
  if (ids.empty()) throw PlanError("empty prompt: no tokens, and the model has no BOS to start from");
  run.session.CheckTokens(ids);
  return ids;
}

uint64_t DrawSeed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
    throw PlanError(std::string("can't draw a seed: ") + std::strerror(errno));
  return seed;
}

void SayWhatGreedyIgnores(const RunOptions& o) {
  std::string names;
  const auto given = [&](const char* name, bool is) {
    if (is) names.append(names.empty() ? "" : ", ").append(name);
  };
  given("--top-k", o.top_k.has_value());
  given("--top-p", o.top_p.has_value());
  given("--min-p", o.min_p.has_value());
  given("--typical", o.typical_p.has_value());
  given("--xtc-probability", o.xtc_probability > 0);
  given("--mirostat", o.mirostat_tau > 0);
  if (!names.empty()) std::fprintf(stderr, "warning: no effect at temperature 0: %s\n", names.c_str());
}

SamplerOptions SamplerOf(const RunState& run, uint64_t limit) {
  const RunOptions& o = run.options;
  const PlanGeneration& g = run.executable.manifest->generation;
  SamplerOptions s;
  LogitRules& r = s.rules;
  s.order = o.sampler_order;
  const auto in_vocabulary = [&](const char* option, int32_t id) {
    if (static_cast<uint32_t>(id) >= run.session.vocab())
      throw RunUsageError(std::string(option) + ": there is no id " + std::to_string(id) + ", only 0 to " +
                          std::to_string(run.session.vocab() - 1));
  };
  for (const auto& [id, bias] : o.logit_bias) in_vocabulary("--logit-bias", id);
  for (const int32_t id : o.suppress) in_vocabulary("--suppress", id);
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
  if (o.grammar || o.json_schema) {
    const std::string& file = o.grammar ? *o.grammar : *o.json_schema;
    const std::string text = ReadWholeFile(file, kMostGrammarBytes);
    Grammar grammar = o.grammar ? ParseGbnf(text, file) : GrammarOfJsonSchema(text, file);
    s.constraint = std::make_shared<TokenConstraint>(std::move(grammar), NeedTokenizer(run), g.stop_ids);
  }
  s.penalties = o.penalties;
  s.penalty_last_n = o.penalty_last_n;
  s.dry = o.dry;
  if (o.dry.multiplier > 0 && (!run.executable.tokenizer.empty() || o.dry_breakers))
    s.dry.breakers = DryBreakers(NeedTokenizer(run), o.dry_breakers.value_or(DefaultDryBreakers()));
  s.temperature = o.temperature.value_or(g.do_sample ? g.temperature.value_or(1.0f) : 0.0f);
  if (s.temperature == 0) return s;
  s.typical_p = o.typical_p.value_or(g.rules.typical_p);
  s.xtc_probability = o.xtc_probability;
  s.xtc_threshold = o.xtc_threshold;
  s.mirostat_tau = o.mirostat_tau;
  s.mirostat_eta = o.mirostat_eta;
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

bool AnswerSteps::Next(std::span<const float> logits, uint32_t position) {
  CheckUnchanged(run_);
  CheckLogits(run_, logits, position);
  id_ = sampler_.Next(logits, position);
  const std::vector<int32_t>& stop_ids = run_.executable.manifest->generation.stop_ids;
  const bool ends = !run_.options.ignore_eos && std::find(stop_ids.begin(), stop_ids.end(), id_) != stop_ids.end();
  const bool goes_on = each_(logits, id_, ends);
  if (ends) {
    stop_ = "eos";
  } else if (!goes_on) {
    stop_ = "interrupted";
  } else if (++count_ == most_) {
    stop_ = "length";
  } else if (sampler_.finished()) {
    stop_ = "grammar";
  }
  return !done();
}

std::string Answer(RunState& run, Sampler& sampler, std::span<const int32_t> prompt, std::span<const float> logits,
                   uint32_t most, const AnswerSteps::Each& each) {
  AnswerSteps steps(run, sampler, most, each);
  if (steps.done()) return steps.stop();
  run.speculator.Begin(prompt);
  while (steps.Next(logits, run.speculator.position() - 1))
    logits = run.speculator.Decode(steps.id(), steps.left() - 1, sampler);
  run.speculator.Settle();
  return steps.stop();
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
