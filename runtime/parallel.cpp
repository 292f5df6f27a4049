// --prompts: answers to many prompts, several sequences moving together: a token of each by one reading of the weights.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "runtime/answer.h"
#include "runtime/answer_text.h"
#include "runtime/plan_io.h"
#include "runtime/report.h"
#include "runtime/template_json.h"

namespace llmc {
namespace {

constexpr uint32_t kDefaultParallel = 8;

struct Prompt {
  std::string where;  // "FILE:12"
  std::vector<int32_t> ids;
};

// A text a line; with --json a JSON string a line.
std::vector<Prompt> ReadPrompts(const RunState& run, const Tokenizer& tokenizer) {
  const RunOptions& o = run.options;
  const std::string text = ReadPromptFile(*o.prompts), file = *o.prompts == "-" ? "standard input" : *o.prompts;
  std::vector<Prompt> prompts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = WithoutLineEnd(text.substr(at, std::min(end + 1, text.size()) - at));
    at = end + 1;
    Prompt prompt{file + ":" + std::to_string(prompts.size() + 1), {}};
    if (o.json) {
      const TemplateProgram none;
      const TextTables tables;
      TemplateRun values(none, tables, {});
      const TemplateValue value = ParseJsonValue(values, line, prompt.where);
      if (!value.Is(ValueKind::Str)) throw PlanError(prompt.where + ": not a JSON string");
      line = value.str();
    }
    prompt.ids = tokenizer.Encode(line);
    try {
      if (prompt.ids.empty()) throw PlanError("empty prompt: no tokens, and the model has no BOS to start from");
      run.session.CheckTokens(prompt.ids);
    } catch (const PlanError& error) {
      throw PlanError(prompt.where + ": " + error.what());
    }
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) throw PlanError(file + ": no prompts: a text a line is asked for");
  return prompts;
}

// One sequence at a time of a session of its own; the next prompt takes its place.
class Slot {
 public:
  Slot(RunState& run, Session& session, const SamplerOptions& sampling, const Tokenizer* tokenizer)
      : session_(session),
        sampling_(sampling),
        tokenizer_(tokenizer),
        speculator_(session, nullptr),
        run_{run.executable, run.options, session, speculator_, run.load_ms} {}

  void Begin(size_t index, const Prompt& prompt, uint64_t seed) {
    index_ = index;
    session_.Reset();
    sampling_.seed = seed;
    const uint32_t room = session_.context() - static_cast<uint32_t>(prompt.ids.size());
    const uint32_t most = std::min(run_.options.count.value_or(kDefaultCount), room);
    sampling_.rules.limit = most;
    sampler_.emplace(sampling_, prompt.ids);
    answer_.emplace(run_.options, tokenizer_);
    steps_.emplace(run_, *sampler_, most, [this](std::span<const float> logits, int32_t id, bool ends) {
      if (!ends) answer_->Add(logits, id);
      return !answer_->stopped();
    });
    if (!steps_->done()) Next(session_.Prefill(prompt.ids));
  }
  void Next(std::span<const float> logits) { steps_->Next(logits, session_.position() - 1); }

  bool free() const { return !steps_; }
  bool done() const { return steps_->done(); }
  size_t index() const { return index_; }
  int32_t id() const { return steps_->id(); }
  Session& session() { return session_; }

  // What is printed of the answer; then the slot is free.
  std::string Take(const Prompt& prompt, uint64_t& tokens) {
    answer_->Finish();
    tokens += answer_->ids().size();
    std::string text = answer_->text() + "\n";
    if (run_.options.json) {
      JsonObject json;
      answer_->Put(json, answer_->stopped() ? "string" : steps_->stop(),
                   sampling_.temperature != 0 ? std::optional(sampling_.seed) : std::nullopt);
      json.Integer("prompt_tokens", prompt.ids.size()).Integer("generated_tokens", answer_->ids().size());
      text = json.Finish();
    }
    steps_.reset();
    return text;
  }

 private:
  Session& session_;
  SamplerOptions sampling_;
  const Tokenizer* tokenizer_;
  Speculator speculator_;
  RunState run_;
  size_t index_ = 0;
  std::optional<Sampler> sampler_;
  std::optional<AnswerText> answer_;
  std::optional<AnswerSteps> steps_;
};

}  // namespace

void RunParallel(RunState& run) {
  const RunOptions& o = run.options;
  const Tokenizer tokenizer = NeedTokenizer(run);
  const std::vector<Prompt> prompts = ReadPrompts(run, tokenizer);
  size_t count = std::min<size_t>(o.parallel.value_or(kDefaultParallel), prompts.size());
  uint32_t most = 1;
  try {
    if (count > 1) most = run.session.MostTogether();
  } catch (const PlanError& error) {
    if (o.parallel) throw PlanError(Joined({error.what(), " (--parallel 1 answers one after another)"}));
    count = 1;
  }

  SessionOptions options;
  options.context = o.context;
  options.chunk = o.chunk;
  options.workspace = run.session.workspace();
  uint64_t seed = 0;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::unique_ptr<Slot>> slots;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) sessions.push_back(std::make_unique<Session>(run.executable, options));
    const SamplerOptions sampling = SamplerOf(run, 0);  // each has a grammar's state of its own
    if (i == 0) seed = sampling.seed;
    slots.push_back(std::make_unique<Slot>(run, i > 0 ? *sessions.back() : run.session, sampling,
                                           o.print_tokens ? nullptr : &tokenizer));
    if (i > 0) continue;
    if (sampling.temperature != 0)
      std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
    else
      SayWhatGreedyIgnores(o);
  }

  std::vector<std::optional<std::string>> waiting(prompts.size());  // answers that come before an earlier one is there
  uint64_t tokens = 0, rows = 0, calls = 0;
  size_t next = 0, printed = 0;
  const uint64_t start = NowNanoseconds();
  const auto finish = [&](Slot& slot) {
    const size_t index = slot.index();
    waiting[index] = slot.Take(prompts[index], tokens);
    for (; printed < prompts.size() && waiting[printed]; ++printed) {
      WriteOut(*waiting[printed]);
      waiting[printed].reset();
    }
  };
  for (;;) {
    std::vector<Slot*> active;
    for (const auto& slot : slots) {
      while (slot->free() && next < prompts.size()) {
        slot->Begin(next, prompts[next], seed + next);
        ++next;
        if (slot->done()) finish(*slot);
      }
      if (!slot->free()) active.push_back(slot.get());
    }
    if (active.empty()) break;
    // Calls of equal sizes, as few as there can be.
    const size_t parts = (active.size() + most - 1) / most;
    for (size_t part = 0; part < parts; ++part) {
      const std::span<Slot*> group = std::span(active).subspan(
          active.size() * part / parts, active.size() * (part + 1) / parts - active.size() * part / parts);
      std::vector<Session*> together;
      std::vector<int32_t> ids;
      for (Slot* slot : group) {
        together.push_back(&slot->session());
        ids.push_back(slot->id());
      }
      const std::span<const float> logits =
          group.size() == 1 ? together[0]->Decode(ids[0]) : Session::DecodeTogether(together, ids);
      ++calls;
      rows += group.size();
      for (size_t i = 0; i < group.size(); ++i) {
        group[i]->Next(logits.subspan(i * run.session.vocab(), run.session.vocab()));
        if (group[i]->done()) finish(*group[i]);
      }
    }
  }
  const double ms = Milliseconds(start, NowNanoseconds());
  std::fprintf(stderr,
               "load %.1f ms; %zu prompts, %llu new tokens, %.1f tokens/s; %zu sequences, %.1f tokens a call; %u "
               "threads\n",
               run.load_ms, prompts.size(), static_cast<unsigned long long>(tokens), PerSecond(tokens, ms), count,
               calls == 0 ? 0 : static_cast<double>(rows) / static_cast<double>(calls), run.session.threads());
}

}  // namespace llmc
