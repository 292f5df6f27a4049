// llmc bisect: names the first pass, op, layer and element where the numbers leave what the pass promises.
#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/json.h"
#include "ir/text.h"
#include "runtime/run_options.h"
#include "tools/cli.h"
#include "tools/note.h"
#include "tools/pass_context.h"
#include "tools/scheduled_model.h"
#include "tools/text_file.h"
#include "tools/workbench/bisect.h"
#include "tools/workbench/npy_read.h"
#include "tools/workbench/plan_weights.h"
#include "tools/workbench/values.h"

namespace llmc {
namespace {

int Threads(const CompileFlags& flags) { return std::max(1, flags.jobs == 0 ? 2 : flags.jobs); }

// The lines of a module's text, unfolded, that define %name, and the two before and behind.
std::string Around(const Module& module, const std::string& name) {
  std::istringstream lines(Print(module, {.flat = true}));
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(std::move(line));
  const auto defines = [&](const std::string& line) {
    const size_t equals = line.find(" = ");
    const size_t at = line.find("%" + name);
    if (equals == std::string::npos || at == std::string::npos || at > equals) return false;
    const size_t end = at + 1 + name.size();
    return end >= line.size() || line[end] == ' ' || line[end] == ',';
  };
  std::string text;
  const auto found = std::find_if(all.begin(), all.end(), defines);
  if (found == all.end()) return text;
  const auto at = found - all.begin();
  const auto last = static_cast<std::ptrdiff_t>(all.size());
  for (auto i = std::max<std::ptrdiff_t>(0, at - 2); i < std::min(last, at + 3); ++i)
    text += fmt::format("{} {}\n", i == at ? ">" : " ", all[static_cast<size_t>(i)]);
  return text;
}

std::string Text(const Bisection& found, const std::vector<Stage>& stages, const std::string& again) {
  if (!found.broken) return fmt::format("nothing breaks: {} stages hold ({} evaluations)\n", stages.size(), found.runs);
  const Stage& stage = stages[found.stage];
  std::string text = fmt::format("{} breaks its promise: {}\n", stage.name, found.promise);
  if (!found.phases.empty()) text += fmt::format("  its functions disagree: {}\n", found.phases);
  const Difference& d = found.logits;
  if (d.values > 0)
    text += fmt::format("  results: {} of {} differ, max abs {}, ulp {}, NMSE {}\n", d.unequal, d.values,
                        ShortNumber(d.max_abs), d.max_ulp, ShortNumber(d.worst_nmse));
  if (found.culprit) {
    const Culprit& c = *found.culprit;
    text += fmt::format("first op that parts: %{} = {}{}\n", c.name, c.op,
                        c.layer < 0 ? "" : fmt::format(", layer {}", c.layer));
    text += fmt::format("  position {}, element {}: {} was {} (max abs {}, NMSE {}); it reads {}\n", c.position,
                        c.element, c.now, c.was, ShortNumber(c.difference.max_abs),
                        ShortNumber(c.difference.worst_nmse), fmt::join(c.operands, ", "));
    text +=
        fmt::format("before ({}):\n{}", stages[found.stage - 1].name, Around(stages[found.stage - 1].module, c.name));
    text += fmt::format("after ({}):\n{}", stage.name, Around(stage.module, c.name));
  } else if (found.stage > 0 && found.phases.empty()) {
    text += "no value that both stages name differs: the fault lies behind the last of them\n";
  }
  if (!again.empty()) text += "alone: " + again + "\n";
  return text + fmt::format("({} evaluations of {} stages)\n", found.runs, stages.size());
}

std::string JsonText(const Bisection& found, const std::vector<Stage>& stages) {
  if (!found.broken)
    return fmt::format("{{\"broken\": false, \"stages\": {}, \"runs\": {}}}\n", stages.size(), found.runs);
  std::string culprit = "null";
  if (found.culprit)
    culprit = fmt::format(
        "{{\"value\": {}, \"op\": \"{}\", \"layer\": {}, \"position\": {}, \"element\": {}, \"now\": {}, \"was\": {}}}",
        JsonQuote(found.culprit->name), found.culprit->op, found.culprit->layer, found.culprit->position,
        found.culprit->element, JsonNumber(static_cast<double>(found.culprit->now)),
        JsonNumber(static_cast<double>(found.culprit->was)));
  return fmt::format(
      "{{\"broken\": true, \"stage\": {}, \"promise\": {}, \"phases\": {}, \"unequal\": {}, \"max_abs\": {}, \"nmse\": "
      "{}, "
      "\"culprit\": {}, \"stages\": {}, \"runs\": {}}}\n",
      JsonQuote(stages[found.stage].name), JsonQuote(found.promise), JsonQuote(found.phases), found.logits.unequal,
      JsonNumber(found.logits.max_abs), JsonNumber(found.logits.worst_nmse), culprit, stages.size(), found.runs);
}

// The stage before the fault without the layers that it doesn't need, as a test of the pass: the file that
// pass_text_test runs and that `llmc opt` takes.
void WriteReduced(const BisectFlags& flags, const Bisection& found, const std::vector<Stage>& stages,
                  const PassContext& context, const WeightSource& weights, int threads) {
  const Stage &stage = stages[found.stage], &before = stages[found.stage - 1];
  if (stage.pass == nullptr || !flags.stages.empty())
    throw UsageError(
        "--reduce makes a test of a pass: it goes with a fault of a pass that runs here, not with --stages");
  const auto breaks = [&](const Module& module) {
    std::vector<Stage> pair = {{before.name, nullptr, module, true}, {stage.name, stage.pass, module, true}};
    pair[1].changed = stage.pass->run(pair[1].module, context);
    return BisectStages(pair, weights, threads).broken;
  };
  Module reduced = before.module;
  if (reduced.FindFunc("forward") != nullptr)
    reduced = KeepLayers(reduced, ReduceLayers(reduced, LayersOf(reduced), breaks));
  WriteText(flags.reduce, fmt::format("# The smallest model on which {} breaks its promise ({}).\n# pass: {}\n{}",
                                      stage.name, found.promise, stage.name, Print(reduced)));
  Note(fmt::format("bisect: {} has {} of {} layers\n", flags.reduce, LayersOf(reduced).size(),
                   LayersOf(before.module).size()));
}

}  // namespace

int CommandBisect(const BisectFlags& flags) {
  const int given =
      (flags.stages.empty() ? 0 : 1) + (flags.reference.empty() ? 0 : 1) + (flags.against.empty() ? 0 : 1);
  if (!flags.reference.empty() && flags.tokens.empty())
    throw UsageError("--reference needs --tokens: the ids that its logits are of");
  if (!flags.against.empty() && given > 1) throw UsageError("--against goes with neither --stages nor --reference");
  const CompileFlags& compile = flags.compile;
  ModelOptions options = compile.model;
  options.sink = PrintDiag;
  const Model model = LoadModel(options);
  if (!model.weights)
    throw UsageError("bisect evaluates the model: it needs weights (--weights random:SEED makes some)");
  const PassContext context = ContextFor(compile.backend, compile.target_cpu);
  const std::vector<Stage> stages =
      flags.stages.empty() ? RunStages(model.module, context,
                                       {compile.disable_pass.begin(), compile.disable_pass.end()}, compile.model.model)
                           : ReadStages(flags.stages);
  const int threads = Threads(compile);
  if (!flags.against.empty()) {
    std::unique_ptr<PlanFile> plan;
    Module other;
    std::shared_ptr<const WeightSource> weights;
    if (IsPlanFile(flags.against)) {
      plan = std::make_unique<PlanFile>(flags.against);
      other = ModuleOf(*plan);
      weights = WeightsOf(*plan);
    } else {
      ModelOptions against = options;
      against.model = flags.against;
      against.weights.clear();
      Model loaded = LoadModel(against);
      other = std::move(loaded.module);
      weights = std::move(loaded.weights);
    }
    const Module& ours = plan ? stages.back().module : stages.front().module;
    const std::vector<int32_t> tokens = SeededTokens(ours, 8);
    const std::optional<Culprit> culprit =
        FindCulprit(ours, *model.weights, other, *weights, tokens, threads, flags.tolerance);
    if (!culprit) {
      fmt::print("nothing parts: every value that both name is the same{}\n",
                 flags.tolerance > 0 ? fmt::format(" within an NMSE of {}", flags.tolerance) : " to the bit");
      return 0;
    }
    fmt::print(
        "first op that parts from {}: %{} = {}\n  position {}, element {}: {} there {} (max abs {}, NMSE {})\n{}",
        flags.against, culprit->name, culprit->op, culprit->position, culprit->element, culprit->now, culprit->was,
        ShortNumber(culprit->difference.max_abs), ShortNumber(culprit->difference.worst_nmse),
        Around(ours, culprit->name));
    return 1;
  }
  Bisection found;
  if (flags.reference.empty()) {
    found = BisectStages(stages, *model.weights, threads);
  } else {
    const NpyArray reference = ReadNpy(flags.reference);
    const auto width = static_cast<size_t>(RowWidth(stages[0].module));
    const std::vector<int32_t> tokens = ParseTokens(flags.tokens);
    if (reference.values.size() != tokens.size() * width)
      Fail(DiagKind::ShapeMismatch, {flags.reference, ""},
           fmt::format("{} values; {} tokens with rows of {} have {}", reference.values.size(), tokens.size(), width,
                       tokens.size() * width));
    found = BisectReference(stages, *model.weights, threads, tokens, reference.values,
                            flags.tolerance > 0 ? flags.tolerance : 1e-2);
  }
  std::string again;
  if (found.broken && found.stage > 0 && stages[found.stage].pass != nullptr && flags.stages.empty())
    again = fmt::format("llmc compile {} --stop-after {} -o before.ir && llmc opt before.ir --passes {}",
                        compile.model.model, stages[found.stage - 1].name, stages[found.stage].name);
  if (!flags.reduce.empty() && found.broken && found.stage > 0)
    WriteReduced(flags, found, stages, context, *model.weights, threads);
  fmt::print("{}", flags.json ? JsonText(found, stages) : Text(found, stages, again));
  return found.broken ? 1 : 0;
}

}  // namespace llmc
