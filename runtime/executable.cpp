// From a manifest's step lists to what the executor walks.
#include "runtime/executable.h"

#include <algorithm>
#include <deque>

#include "runtime/plan_steps.h"
#include "runtime/step_library.h"

namespace llmc {

namespace {

// Whether the executor gives a phase what it takes: a decoder's inputs, or those of hidden rows in one sequence.
bool CanRun(const PlanPhase& phase) {
  const PlanContract& c = phase.contract;
  if (GivesLogits(phase.kind)) return IsDecoders(c);
  return !c.by_row && c.output == EntryOutput::Hidden &&
         std::find(c.inputs.begin(), c.inputs.end(), EntryInput::Lengths) == c.inputs.end();
}

}  // namespace

void CheckRowsAreAlike(const Manifest& manifest) {
  for (const PlanPhase& phase : manifest.phases) {
    if (phase.kind == PhaseKind::Prefill) continue;
    for (const PlanStep& step : phase.steps) {
      if (step.kind == static_cast<uint32_t>(PlanStepKind::Dnnl) &&
          DecodeDnnlStep(step.payload, "step").compute != DnnlCompute::Blocks)
        throw PlanError(Joined({"the plan's bits depend on how many rows a call has (", manifest.numerics, ")"}));
    }
  }
}

void MakeSteps(Executable& executable, const std::function<LlmcPhaseFn(const std::string& name)>& entry,
               std::string_view where, std::shared_ptr<const StepLibrary> library) {
  std::vector<LlmcOnednnStep> library_steps;
  std::deque<std::string> places;  // of the library's steps, "phase decode, step 16 (kernel)"
  executable.steps.clear();
  for (const PlanPhase& phase : executable.manifest->phases) {
    if (!CanRun(phase)) {
      std::string takes;
      for (const EntryInput input : phase.contract.inputs)
        takes += Joined({takes.empty() ? "" : ", ", EntryInputText(input)});
      throw PlanError(Joined(
          {where, ": phase ", PhaseKindName(phase.kind), " takes ", takes, phase.contract.by_row ? " of each row" : "",
           " and gives ", EntryOutputText(phase.contract.output),
           "; this program runs phases that take tokens, pos, total and give logits, and phases of hidden rows"}));
    }
    std::vector<ExecutableStep>& steps = executable.steps.emplace_back();
    for (const PlanStep& step : phase.steps) {
      const auto at = [&] {
        return Joined({"phase ", PhaseKindName(phase.kind), ", step ", std::to_string(steps.size())});
      };
      switch (static_cast<PlanStepKind>(step.kind)) {
        case PlanStepKind::Code: steps.push_back({ExecutableStep::Kind::Code, entry(step.payload), 0}); break;
        case PlanStepKind::Barrier: steps.push_back({ExecutableStep::Kind::Barrier, nullptr, 0}); break;
        case PlanStepKind::Kernel:
        case PlanStepKind::Dnnl:
          places.push_back(Joined({at(), " (", PlanStepKindName(step.kind), ")"}));
          steps.push_back({ExecutableStep::Kind::Library, nullptr, library_steps.size()});
          library_steps.push_back({step.kind, step.payload.data(), step.payload.size(), places.back().c_str()});
          break;
        default:
          throw PlanError(Joined({where, ": ", at(), " is of kind ", std::to_string(step.kind),
                                  ", which this program can't run (it knows 1..4: code, dnnl, barrier, kernel)"}));
      }
    }
  }
  executable.program = nullptr;
  if (library_steps.empty()) return;
  if (library == nullptr) library = StepLibrary::Open(where, places.front());
  const std::string& needs = executable.manifest->kernels;
  if (needs != library->table().kernels) {
    throw PlanError(Joined({where, ": ", places.front(), " is made for kernels of ",
                            needs.empty() ? "a plan format before 1.2" : "version ", needs, ", and ", library->path(),
                            " has version ", library->table().kernels, ": compile the model again"}));
  }
  executable.program = std::make_shared<const StepProgram>(std::move(library), library_steps, where);
}

}  // namespace llmc
