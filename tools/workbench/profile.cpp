// llmc profile: the measurement.
#include "tools/workbench/profile.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/profiled_code.h"
#include "ir/op.h"
#include "passes/rewrite.h"
#include "runtime/loader.h"
#include "runtime/sampler.h"
#include "runtime/threads.h"
#include "tools/workbench/views.h"

namespace llmc {
namespace {

double Median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Bytes and multiply-adds of one op for `rows` rows that see `total` positions.
Cost CostOf(const Module& module, const Func& func, const Op& op, int64_t rows, int64_t total) {
  const OpDef& def = DefOf(op.kind);
  if (def.cost == nullptr) return {};
  InferContext context{module, func, op, {}};
  for (const Operand& operand : op.operands) context.operand_types.push_back(TypeOf(module, func, operand));
  const Dim& own = ValueAt(func, op.results.at(0)).type.dims.at(0);
  return def.cost(context, own.is_symbol() ? rows : own.value, total);
}

// Ticks of a phase's calls, gathered over runs: of a prompt that takes several runs they add up to one sample.
class Gatherer {
 public:
  Gatherer(const ProfiledCode& code, size_t phase, uint32_t threads)
      : code_(code), phase_(phase), calls_(code.program().phases[phase].calls.size()), threads_(threads) {
    now_.resize(threads * calls_ * 2);
    samples_.resize(now_.size());
  }
  // Behind a run of the phase.
  void Add() {
    uint64_t begin = UINT64_MAX, end = 0;
    for (uint32_t t = 0; t < threads_; ++t) {
      const std::span<const uint64_t> stamps = code_.Times(phase_, t);
      begin = std::min(begin, stamps.front());
      end = std::max(end, stamps.back());
      for (size_t c = 0; c < calls_; ++c) {
        now_[2 * (t * calls_ + c)] += static_cast<double>(stamps[2 * c + 2] - stamps[2 * c + 1]);
        now_[2 * (t * calls_ + c) + 1] += static_cast<double>(stamps[2 * c + 1] - stamps[2 * c]);
      }
    }
    inside_ += static_cast<double>(end - begin);
  }
  // The runs so far are a sample, which took `wall` seconds.
  void Sample(double wall) {
    for (size_t i = 0; i < now_.size(); ++i) samples_[i].push_back(now_[i]);
    std::fill(now_.begin(), now_.end(), 0.0);
    walls_.push_back(wall);
    insides_.push_back(inside_);
    inside_ = 0;
  }
  // tick: seconds.
  void Finish(double tick, PhaseProfile& profile) {
    profile.samples = walls_.size();
    profile.wall = Median(walls_);
    profile.inside = tick * Median(insides_);
    profile.threads.resize(threads_);
    for (size_t c = 0; c < calls_; ++c) {
      CallProfile& call = profile.steps[c];
      for (uint32_t t = 0; t < threads_; ++t) {
        const double work = tick * Median(samples_[2 * (t * calls_ + c)]);
        const double wait = tick * Median(samples_[2 * (t * calls_ + c) + 1]);
        call.work += work / threads_;
        call.wait += wait / threads_;
        profile.threads[t].work += work;
        profile.threads[t].wait += wait;
      }
      profile.accounted += call.work + call.wait;
    }
  }

 private:
  const ProfiledCode& code_;
  const size_t phase_, calls_;
  const uint32_t threads_;
  std::vector<double> now_;                   // of each thread and call: work, wait
  std::vector<std::vector<double>> samples_;  // the same
  double inside_ = 0;
  std::vector<double> walls_, insides_;
};

// What stands still: names and costs of a phase's calls.
PhaseProfile PhaseOf(const Module& module, const ProfiledCode& code, size_t f) {
  const Func& func = module.funcs[f];
  PhaseProfile profile;
  profile.name = func.name;
  const std::vector<std::vector<std::string>> names = FunctionNames(code.program());
  const std::vector<KernelCall>& calls = code.program().phases[f].calls;
  for (size_t c = 0; c < calls.size(); ++c) {
    CallProfile& call = profile.steps.emplace_back();
    call.function = names[f][c];
    call.ops = OpsText(func, {call.function, calls[c].ops, false});
    const Name& last = ValueAt(func, func.ops[calls[c].ops.back()].results.at(0)).name;
    call.layer = last.layer;
    call.value = "%" + ToText(last);
  }
  return profile;
}

void AddCosts(const Module& module, const ProfiledCode& code, size_t f, int64_t rows, int64_t total,
              PhaseProfile& profile) {
  const Func& func = module.funcs[f];
  const std::vector<KernelCall>& calls = code.program().phases[f].calls;
  for (size_t c = 0; c < calls.size(); ++c)
    for (const size_t op : calls[c].ops) {
      const Cost cost = CostOf(module, func, func.ops[op], rows, total);
      profile.steps[c].bytes += cost.weight_bytes + cost.state_bytes;
      profile.steps[c].operations += 2 * (cost.weight_macs + cost.attention_macs);
    }
}

size_t IndexOf(const Module& module, const std::string& name) {
  for (size_t f = 0; f < module.funcs.size(); ++f)
    if (module.funcs[f].name == name) return f;
  Fail(DiagKind::Unsupported, {module.name, ""}, fmt::format("no phase {}: encoders have no profile yet", name));
}

}  // namespace

Profile MeasureProfile(const std::string& path, const ProfileOptions& options) {
  PlanFile plan(path);
  if (plan.manifest().backend == "reference")
    throw UsageError(path + " has no code: the interpreter has no profile (--backend llvm)");
  const Module module = FinalModule(plan);
  const size_t prefill = IndexOf(module, "prefill"), decode = IndexOf(module, "decode");
  std::vector<std::string> targets;
  for (const PlanTarget& target : plan.manifest().targets) targets.push_back(target.name);

  Executable executable = LoadPlan(path);
  SessionOptions session_options;
  session_options.threads = options.threads != 0 ? options.threads : UsableCores();
  session_options.adapt = false;  // all threads take part in every call
  const ProfiledCode code(module, fmt::format("{}", fmt::join(targets, ",")), session_options.threads,
                          static_cast<int>(UsableCores()));
  MakeSteps(executable, [&](const std::string& name) { return code.Entry(name); }, path);
  Session session(executable, session_options);
  const uint32_t context = session.context();
  const uint32_t length = options.prompt.value_or(std::min(256U, std::max(context / 2, 1U)));
  const uint32_t decodes = options.decodes.value_or(std::min(32U, context - std::min(length, context)));
  if (length == 0 || uint64_t{length} + decodes > context)
    throw PlanError(
        fmt::format("{}: a prompt of {} and {} decodes (-p, -n): they are at least 1 and 0, and the context has {}",
                    path, length, decodes, context));

  std::vector<int32_t> prompt(length);
  SamplerRandom random(1);
  for (int32_t& id : prompt) id = static_cast<int32_t>(random.Next() % session.vocab());
  Profile profile{code.target(), session.threads(), 0, {}};
  Gatherer prompts(code, prefill, session.threads()), tokens(code, decode, session.threads());
  const uint32_t chunk = plan.manifest().chunk;
  const uint64_t start_ticks = TimeStamp(), start = NowNanoseconds();
  // The first prompt brings pages and caches; decodes follow the last one.
  for (uint32_t round = 0; round <= options.prefills; ++round) {
    session.Reset();
    double wall = 0;
    for (size_t at = 0; at < prompt.size(); at += chunk) {
      const std::span<const int32_t> part = std::span(prompt).subspan(at, std::min<size_t>(chunk, prompt.size() - at));
      const uint64_t before = NowNanoseconds();
      session.Prefill(part);
      wall += static_cast<double>(NowNanoseconds() - before) * 1e-9;
      if (round > 0 && part.size() > 1) prompts.Add();
    }
    if (round > 0) prompts.Sample(wall);
  }
  for (uint32_t n = 0; n < decodes; ++n) {
    const uint64_t before = NowNanoseconds();
    session.Decode(prompt[n % prompt.size()]);
    const double wall = static_cast<double>(NowNanoseconds() - before) * 1e-9;
    tokens.Add();
    tokens.Sample(wall);
  }
  const double tick = static_cast<double>(NowNanoseconds() - start) * 1e-9 /
                      static_cast<double>(std::max<uint64_t>(1, TimeStamp() - start_ticks));
  profile.stream = session.StreamWeights();

  if (length > 1) {
    PhaseProfile& of_prompt = profile.phases.emplace_back(PhaseOf(module, code, prefill));
    of_prompt.rows = std::min(chunk, length);
    of_prompt.calls = (length + chunk - 1) / chunk;
    for (uint32_t at = 0; at < length; at += chunk) {
      const int64_t rows = std::min(chunk, length - at);
      if (rows > 1) AddCosts(module, code, prefill, rows, at + rows, of_prompt);
    }
    prompts.Finish(tick, of_prompt);
  }
  if (decodes > 0) {
    PhaseProfile& of_token = profile.phases.emplace_back(PhaseOf(module, code, decode));
    of_token.rows = of_token.calls = 1;
    AddCosts(module, code, decode, 1, length + decodes / 2, of_token);
    tokens.Finish(tick, of_token);
  }
  return profile;
}

}  // namespace llmc
