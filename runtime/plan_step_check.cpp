// The rules of step lists (runtime/README.md, "Steps"): each payload is whole, and what a dnnl step reads and writes
// lies inside the arenas. What the words of a kernel step mean is known to the library alone, which checks the kernel's
// name and how many there are; a kernel step is as trusted as code.
#include "runtime/plan_step_check.h"

#include <algorithm>

#include "runtime/plan_layout.h"
#include "runtime/plan_steps.h"

namespace llmc {
namespace {

std::string Str(uint64_t value) { return std::to_string(value); }

class StepChecker {
 public:
  StepChecker(const Manifest& m, uint64_t weights_size, const PlanPhase& phase, size_t step, std::string_view where)
      : m_(m), weights_size_(weights_size), phase_(phase), step_(step), where_(where) {}

  void Run() const {
    const PlanStep& step = phase_.steps[step_];
    switch (static_cast<PlanStepKind>(step.kind)) {
      case PlanStepKind::Code: Code(step.payload); return;
      case PlanStepKind::Barrier:
        if (!step.payload.empty()) Fail({"a payload of ", Str(step.payload.size()), " bytes"});
        return;
      case PlanStepKind::Kernel: DecodeKernelStep(step.payload, Place()); return;
      case PlanStepKind::Dnnl: Dnnl(DecodeDnnlStep(step.payload, Place())); return;
    }
    // Another kind: of a plan that says more than this program knows; refused when it is to be run.
  }

 private:
  std::string Place() const {
    return Joined({where_, ": manifest: phase ", PhaseKindName(phase_.kind), " of ", Str(phase_.min_rows), "..",
                   Str(phase_.max_rows), " rows, step ", Str(step_), " (", PlanStepKindName(phase_.steps[step_].kind),
                   ")"});
  }
  [[noreturn]] void Fail(std::initializer_list<std::string_view> rule) const {
    throw PlanError(Joined({Place(), ": ", Joined(rule)}));
  }

  // Names reach messages and perf's map: printable ASCII only.
  void Code(const std::string& name) const {
    const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
    if (name.empty() || name.size() > kMaxName || !printable)
      Fail({"the entry's name isn't 1..", Str(kMaxName), " printable characters"});
  }

  uint64_t SizeOf(PlanSpace space) const {
    switch (space) {
      case PlanSpace::Weights: return weights_size_;
      case PlanSpace::Shared: return m_.shared_bytes;
      case PlanSpace::Private: return m_.private_bytes;
      case PlanSpace::States: return m_.state_bytes;
      case PlanSpace::Logits: return OutputBytes(m_, phase_);
      case PlanSpace::Hidden: return InputBytes(m_, phase_, EntryInput::Hidden);
      case PlanSpace::Types:
      case PlanSpace::Tokens: break;
    }
    return 0;
  }
  void Inside(const char* what, const PlanPlace& place, uint64_t bytes) const {
    const uint64_t size = SizeOf(place.space);
    if (bytes > size || place.offset > size - bytes) {
      Fail({what, " at ", Str(place.offset), " + ", Str(bytes), " of ", Str(size), " bytes of ",
            PlanSpaceName(place.space)});
    }
  }

  void Dnnl(const DnnlStep& step) const {
    const uint32_t rows = step.one_row ? 1 : phase_.max_rows;
    if (step.max_rows != rows) Fail({"up to ", Str(step.max_rows), " rows, the phase has ", Str(rows)});
    const uint64_t matrices = step.gate == DnnlGate::None ? 1 : 2;
    const uint64_t x_bytes = rows * PlanRowBytes(step.x_type, step.k);
    Inside("x", step.x, x_bytes);
    Apart(step, "x", step.x, x_bytes);
    uint64_t tiles = 0, columns = 0;
    for (size_t p = 0; p < step.parts.size(); ++p) {
      const DnnlStep::Part& part = step.parts[p];
      tiles += (part.n + kPlanTile - 1) / kPlanTile * matrices;
      columns += part.n * matrices;
      const uint64_t bytes = rows * part.n * sizeof(float);
      Inside("out", part.out, bytes);
      Apart(step, "out", part.out, bytes);
      // Other threads still read what one has written over.
      if (Meet(part.out, bytes, step.x, x_bytes)) Fail({"out lies in x"});
      for (size_t q = 0; q < p; ++q) {
        if (Meet(part.out, bytes, step.parts[q].out, rows * step.parts[q].n * sizeof(float)))
          Fail({"part ", Str(p), " lies in part ", Str(q)});
      }
      if (step.residual) {
        Inside("residual", *step.residual, bytes);
        if (*step.residual != part.out && Meet(part.out, bytes, *step.residual, bytes))
          Fail({"out lies in the residual, elsewhere than at its start"});
        Apart(step, "residual", *step.residual, bytes);
      }
    }
    Inside("w", {PlanSpace::Weights, step.w}, tiles * PlanTileBytes(step.w_type, step.k));
    if (step.bias) Inside("bias", {PlanSpace::Weights, *step.bias}, columns * sizeof(float));
    Inside("scratch", step.scratch, step.scratch_bytes);
  }
  static bool Meet(const PlanPlace& a, uint64_t a_bytes, const PlanPlace& b, uint64_t b_bytes) {
    return a.space == b.space && a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
  }
  // Scratch is written while operands are read and results written.
  void Apart(const DnnlStep& step, const char* what, const PlanPlace& place, uint64_t bytes) const {
    if (place.space != PlanSpace::Private || step.scratch_bytes == 0) return;
    const bool behind = step.scratch.offset >= place.offset && step.scratch.offset - place.offset >= bytes;
    const bool before = place.offset >= step.scratch.offset && place.offset - step.scratch.offset >= step.scratch_bytes;
    if (!behind && !before) {
      Fail({what, " at private + ", Str(place.offset), " of ", Str(bytes), " bytes lies in the scratch at ",
            Str(step.scratch.offset), " of ", Str(step.scratch_bytes)});
    }
  }

  static constexpr size_t kMaxName = 4096;
  const Manifest& m_;
  uint64_t weights_size_;
  const PlanPhase& phase_;
  size_t step_;
  std::string_view where_;
};

}  // namespace

std::string_view PlanStepKindName(uint32_t kind) {
  constexpr std::string_view kNames[] = {"", "code", "dnnl", "barrier", "kernel"};
  return kind < std::size(kNames) ? kNames[kind] : "";
}

void CheckSteps(const Manifest& manifest, uint64_t weights_size, std::string_view where) {
  uint64_t steps = 0, bytes = 0;
  for (const PlanPhase& phase : manifest.phases) {
    steps += phase.steps.size();
    for (const PlanStep& step : phase.steps) bytes += step.payload.size();
  }
  const auto bound = [&](const char* what, uint64_t value, uint64_t most) {
    if (value > most)
      throw PlanError(Joined({where, ": manifest: ", what, " ", Str(value), " isn't in 0..", Str(most)}));
  };
  bound("steps", steps, kMaxSteps);
  bound("bytes of steps", bytes, kMaxStepBytes);
  for (const PlanPhase& phase : manifest.phases) {
    for (size_t s = 0; s < phase.steps.size(); ++s) StepChecker(manifest, weights_size, phase, s, where).Run();
  }
}

}  // namespace llmc
