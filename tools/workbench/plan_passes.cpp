// A plan's passes, run again.
#include "tools/workbench/plan_passes.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/math.h"
#include "ir/text.h"
#include "passes/resume.h"
#include "tools/pass_context.h"
#include "tools/remarks.h"

namespace llmc {

std::vector<std::string> PassesOf(const PlanFile& plan) {
  std::vector<std::string> passes;
  const std::string& ran = plan.manifest().passes;
  for (size_t begin = 0; begin < ran.size();) {
    const size_t end = std::min(ran.find(',', begin), ran.size());
    passes.push_back(ran.substr(begin, end - begin));
    begin = end + 1;
  }
  return passes;
}

Module RunPassesOf(const PlanFile& plan, const std::string& pass, const DiagSink& sink,
                   const std::function<void(const PassInfo&, bool changed)>& after) {
  // The plan records which passes ran; running the same ones again gives the same module, unless they are another
  // llmc's. Then the text between import and the end can't be had.
  const auto refuse = [&](const std::string& why) {
    throw PlanError(
        fmt::format("{}: {} can't be had: {}; stored are those of import and the end (inspect --ir import, --ir)",
                    plan.name(), pass.empty() ? "what the passes said" : "the IR after " + pass, why));
  };
  PipelineOptions pipeline;
  pipeline.file = plan.name();
  pipeline.passes = PassesOf(plan);
  if (!pass.empty() && std::find(pipeline.passes.begin(), pipeline.passes.end(), pass) == pipeline.passes.end())
    throw UsageError(fmt::format("{}: no pass \"{}\" ran; there are import, {}", plan.name(), pass,
                                 fmt::join(pipeline.passes, ", ")));
  Module module = Parse(plan.Read(SectionKind::ImportIr), plan.name());
  const AttrValue* numerics = module.options.Find("numerics");
  if (numerics == nullptr || *numerics != AttrValue(math::kNumerics))
    refuse(fmt::format("the plan's text is of numerics {}, this llmc's passes are of {}", OptionText(numerics),
                       math::kNumerics));
  const std::string final_text = plan.Read(SectionKind::FinalIr);
  const Module last = Parse(final_text, plan.name());
  PassContext context = ContextFor(plan.manifest().backend, TargetsOf(last));
  // What auto chose, it chose on another CPU perhaps, and by another llmc's table.
  context.choose = [&last](const Module&, const Func& func) {
    return BackendChoice{RunsOnOnednn(last, func), "as in the plan"};
  };
  Module wanted;
  Remarks remarks([&](const Diag& diag) {
    if (sink) sink(diag);
  });
  context.remark = [&](const Diag& diag) { remarks.Add(diag); };
  pipeline.after = [&](const PassInfo& ran, const Module& now, bool changed, double) {
    remarks.Flush();
    if (after) after(ran, changed);
    if (ran.name == pass) wanted = now;
  };
  if (!pipeline.passes.empty()) RunPipeline(module, context, pipeline);
  if (Print(module) != final_text)
    refuse(
        fmt::format("this llmc's passes make another module of it; the plan was made by {}", plan.manifest().build_id));
  return pass.empty() ? module : wanted;
}

}  // namespace llmc
