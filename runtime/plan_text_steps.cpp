// Steps of the plan's text form: one line each, places as space+offset, and what follows from the rest (the size of
// scratch) isn't written.
#include "runtime/plan_steps.h"
#include "runtime/plan_text.h"

namespace llmc {
namespace {

constexpr uint32_t kLastType = 31;

std::string PlaceText(const PlanPlace& place) {
  return std::string(PlanSpaceName(place.space)) + "+" + std::to_string(place.offset);
}

PlanPlace ReadPlace(PlanTextReader& in) {
  const std::string word = in.Word();
  const size_t plus = std::min(word.find('+'), word.size());
  for (uint32_t space = 0; space <= kLastPlanSpace; ++space) {
    PlanPlace place{static_cast<PlanSpace>(space), 0};
    if (plus == word.size() || word.substr(0, plus) != PlanSpaceName(place.space)) continue;
    const auto [end, error] = std::from_chars(word.data() + plus + 1, word.data() + word.size(), place.offset);
    if (plus + 1 == word.size() || error != std::errc() || end != word.data() + word.size()) break;
    return place;
  }
  in.Fail("\"" + word + "\" isn't a place like shared+64");
}

uint32_t ReadType(PlanTextReader& in) {
  const std::string word = in.Word();
  for (uint32_t type = 0; type <= kLastType; ++type) {
    if (!word.empty() && PlanTypeName(type) == word) return type;
  }
  in.Fail("type \"" + word + "\" isn't known");
}

std::string KernelText(const KernelStep& step) {
  std::string text = "kernel " + Quote(step.kernel);
  if (step.one_row) text += " one_row";
  if (!step.constants.empty()) text += " constants " + ListText(step.constants);
  if (!step.words.empty()) text += " words " + ListText(step.words);
  return text;
}

KernelStep ReadKernel(PlanTextReader& in) {
  KernelStep step;
  step.kernel = in.String();
  step.one_row = in.Take("one_row");
  if (in.Take("constants")) step.constants = in.List<int64_t>();
  if (in.Take("words")) step.words = in.List<uint64_t>();
  return step;
}

std::string DnnlText(const DnnlStep& step) {
  constexpr const char* kComputes[] = {"", "f32", "bf16", "blocks"};
  std::string text = std::string("dnnl ") + kComputes[static_cast<size_t>(step.compute)];
  if (step.one_row) text += " one_row";
  text += " rows " + std::to_string(step.max_rows) + " k " + std::to_string(step.k);
  text += " x " + std::string(PlanTypeName(step.x_type)) + " " + PlaceText(step.x);
  text += " w " + std::string(PlanTypeName(step.w_type)) + " " + PlaceText({PlanSpace::Weights, step.w});
  if (step.interleave) text += " interleave";
  if (step.gate != DnnlGate::None) text += " " + std::string(DnnlGateName(step.gate));
  if (step.bias) text += " bias " + PlaceText({PlanSpace::Weights, *step.bias});
  if (step.residual) text += " residual " + PlaceText(*step.residual);
  for (const DnnlStep::Part& part : step.parts) text += " out " + std::to_string(part.n) + " " + PlaceText(part.out);
  return text + " tiles " + std::to_string(step.slice_tiles) + " scratch " + PlaceText(step.scratch);
}

DnnlStep ReadDnnl(PlanTextReader& in) {
  const auto need = [&](const char* word) {
    if (!in.Take(word)) in.Fail(std::string("\"") + word + "\" is missing");
  };
  const auto weights = [&](const char* what) {
    const PlanPlace place = ReadPlace(in);
    if (place.space != PlanSpace::Weights) in.Fail(std::string(what) + " isn't in weights");
    return place.offset;
  };
  DnnlStep step;
  if (in.Take("bf16")) {
    step.compute = DnnlCompute::Bf16;
  } else if (in.Take("blocks")) {
    step.compute = DnnlCompute::Blocks;
  } else {
    need("f32");
  }
  step.one_row = in.Take("one_row");
  need("rows");
  step.max_rows = in.Number<uint32_t>();
  need("k");
  step.k = in.Number<uint64_t>();
  need("x");
  step.x_type = ReadType(in);
  step.x = ReadPlace(in);
  need("w");
  step.w_type = ReadType(in);
  step.w = weights("w");
  step.interleave = in.Take("interleave");
  for (uint32_t gate = 1; gate < kDnnlGates; ++gate) {
    if (in.Take(DnnlGateName(static_cast<DnnlGate>(gate)))) step.gate = static_cast<DnnlGate>(gate);
  }
  if (in.Take("bias")) step.bias = weights("bias");
  if (in.Take("residual")) step.residual = ReadPlace(in);
  while (in.Take("out")) {
    const uint64_t n = in.Number<uint64_t>();
    step.parts.push_back({n, ReadPlace(in)});
  }
  need("tiles");
  step.slice_tiles = in.Number<uint32_t>();
  need("scratch");
  step.scratch = ReadPlace(in);
  step.scratch_bytes = DnnlScratchBytes(step).total();
  return step;
}

}  // namespace

std::string StepText(const PlanStep& step) {
  switch (static_cast<PlanStepKind>(step.kind)) {
    case PlanStepKind::Code: return "code " + Quote(step.payload);
    case PlanStepKind::Barrier: return "barrier";
    case PlanStepKind::Kernel: return KernelText(DecodeKernelStep(step.payload, "kernel step"));
    case PlanStepKind::Dnnl: return DnnlText(DecodeDnnlStep(step.payload, "dnnl step"));
  }
  return std::to_string(step.kind) + " " + Quote(step.payload);
}

PlanStep ReadStep(PlanTextReader& in) {
  const auto kind = [](PlanStepKind k) { return static_cast<uint32_t>(k); };
  if (in.Take("code")) return {kind(PlanStepKind::Code), in.String()};
  if (in.Take("barrier")) return {kind(PlanStepKind::Barrier), ""};
  if (in.Take("kernel")) return {kind(PlanStepKind::Kernel), EncodeStep(ReadKernel(in))};
  if (in.Take("dnnl")) return {kind(PlanStepKind::Dnnl), EncodeStep(ReadDnnl(in))};
  const uint32_t number = in.Number<uint32_t>();
  return {number, in.String()};
}

}  // namespace llmc
