// The C header that goes with emitted code.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/llvm/object.h"
#include "ir/diag.h"

extern "C" const char llmc_context_header[], llmc_context_header_end[];  // runtime/context.h, by embed.S

namespace llmc {

std::string CodeHeader(const Manifest& manifest) {
  LLMC_CHECK(manifest.targets.size() == 1, "a header is of one target's code");
  std::string text = fmt::format(
      "// Entries of the code that llmc made of \"{}\" for {} (needs {}): C declarations.\n"
      "// Every thread t of n enters with the same context and (t, n). Positions, states and arenas: LlmcContext, "
      "below.\n"
      "// Weights are those of a plan of the same model and options, as they lie in its section (llmc inspect "
      "--json).\n",
      manifest.model, manifest.targets[0].name, fmt::join(manifest.targets[0].features, " "));
  text += std::string(llmc_context_header, llmc_context_header_end);
  text += fmt::format(
      "\n// What a caller provides, in bytes; states are zero at first, all else may hold anything.\n"
      "#define LLMC_MODEL_SHARED_BYTES {}ull   // LlmcContext.shared\n"
      "#define LLMC_MODEL_PRIVATE_BYTES {}ull  // of each thread: LlmcContext.scratch_stride\n"
      "#define LLMC_MODEL_STATE_BYTES {}ull    // LlmcContext.states\n"
      "#define LLMC_MODEL_ABI {}u              // the lowest LlmcContext.abi that it runs with\n"
      "#define LLMC_MODEL_VOCAB {}u            // tokens are below; a row of logits is as many f32\n"
      "#define LLMC_MODEL_CONTEXT {}u          // positions are below\n",
      manifest.shared_bytes, manifest.private_bytes, manifest.state_bytes, manifest.abi, manifest.vocab,
      manifest.context);
  text += "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
  for (const PlanPhase& phase : manifest.phases) {
    for (const PlanStep& step : phase.steps) {
      if (step.kind != static_cast<uint32_t>(PlanStepKind::Code)) continue;
      text += fmt::format(
          "// {}..{} rows; {} of {}.\n"
          "uint32_t llmc_{}(const LlmcContext* context, uint32_t thread, uint32_t threads);\n",
          phase.min_rows, phase.max_rows, phase.width == 0 ? "logits" : fmt::format("rows of {} numbers", phase.width),
          GivesEveryRow(phase.kind) ? "every row" : "the last row", step.payload);
    }
  }
  return text + "#ifdef __cplusplus\n}\n#endif\n";
}

}  // namespace llmc
