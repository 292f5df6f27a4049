// The table of passes and the wrapper that runs them.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"

namespace llmc {

const std::vector<PassInfo>& AllPasses() {
  constexpr bool OPTIONAL = true, REQUIRED = false;
  constexpr Exactness EXACT = Exactness::Exact, REASSOCIATES = Exactness::Reassociates, ROUNDS = Exactness::Rounds;
  static const std::vector<PassInfo> kPasses = {
#define PASS(function, name, need, exactness, summary) {name, need, exactness, summary, &function},
#include "passes/passes.def"
#undef PASS
  };
  return kPasses;
}

std::string_view ExactnessText(Exactness exactness) {
  switch (exactness) {
    case Exactness::Exact: return "exact";
    case Exactness::Reassociates: return "reassociates";
    case Exactness::Rounds: break;
  }
  return "rounds";
}

double MostNmse(Exactness exactness) {
  constexpr double kReassociates = 1e-4, kRounds = 1e-2;
  return exactness == Exactness::Exact ? 0 : exactness == Exactness::Reassociates ? kReassociates : kRounds;
}

const PassInfo* FindPass(std::string_view name) {
  for (const PassInfo& pass : AllPasses())
    if (pass.name == name) return &pass;
  return nullptr;
}

void PassContext::Remark(std::string_view pass, const std::string& text) const {
  if (remark) remark({Severity::Remark, DiagKind::PassRemark, {}, fmt::format("{}: {}", pass, text), {}});
}

namespace {

const PassInfo& Known(const std::string& name) {
  if (const PassInfo* pass = FindPass(name)) return *pass;
  std::vector<std::string_view> names;
  for (const PassInfo& pass : AllPasses()) names.push_back(pass.name);
  throw UsageError(fmt::format("no pass is called \"{}\"; there are {}", name, fmt::join(names, ", ")));
}

void CheckNames(const PipelineOptions& options) {
  for (const std::string& name : options.passes) Known(name);
  for (const std::string& name : options.disabled)
    if (!Known(name).optional) throw UsageError(fmt::format("pass \"{}\" is required and cannot be disabled", name));
  if (!options.stop_after.empty()) Known(options.stop_after);
}

// The module's own record of what ran; passes do not touch it.
void Record(Module& module, const PassInfo& pass) {
  std::vector<Dim> ran;
  if (const AttrValue* list = module.options.Find("passes")) ran = std::get<std::vector<Dim>>(*list);
  ran.emplace_back(std::string(pass.name));
  module.options.Set("passes", std::move(ran));
  module.options.Set("after", std::string(pass.name));
}

}  // namespace

void RunPipeline(Module& module, const PassContext& context, const PipelineOptions& options) {
  CheckNames(options);
  std::vector<const PassInfo*> order;
  for (const std::string& name : options.passes) order.push_back(&Known(name));
  if (options.passes.empty())
    for (const PassInfo& pass : AllPasses()) order.push_back(&pass);
  for (const PassInfo* pass : order) {
    const bool last = pass->name == options.stop_after;
    if (options.disabled.contains(std::string(pass->name))) {
      if (last) break;
      continue;
    }
    if (options.before) options.before(*pass, module);
    const std::string text_before = Print(module);
    const auto start = std::chrono::steady_clock::now();
    const bool changed = pass->run(module, context);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    LLMC_CHECK(changed == (Print(module) != text_before),
               fmt::format("pass {} says that it {} the module", pass->name, changed ? "changed" : "did not change"));
    Record(module, *pass);
    Verify(module, fmt::format("{} (after {})", options.file, pass->name));
    if (options.after) options.after(*pass, module, changed, seconds);
    if (last) break;
  }
}

}  // namespace llmc
