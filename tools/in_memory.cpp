// A compiled model as an Executable that keeps everything it points into alive.
#include "tools/in_memory.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <unistd.h>

#include "ir/interpreter.h"
#include "tools/note.h"
#include "tools/plan_request.h"

namespace llmc {
namespace {

struct InMemory {
  ScheduledModel scheduled;
  std::unique_ptr<MemoryPlan> plan;
  std::unique_ptr<Interpreter> interpreter;
};

}  // namespace

Executable CompileInMemory(ScheduledModel scheduled, const CompileFlags& flags, uint32_t threads) {
  if (!scheduled.model.weights) throw UsageError("code that runs needs weights");
  auto memory = std::make_shared<InMemory>();
  memory->scheduled = std::move(scheduled);
  const PlanRequest request = RequestOf(flags, memory->scheduled);
  memory->plan = std::make_unique<MemoryPlan>(request);
  if (isatty(STDERR_FILENO)) Note("\r");

  Executable executable;
  executable.manifest = std::shared_ptr<const Manifest>(memory, &memory->plan->manifest());
  executable.weights = memory->plan->weights();
  executable.weights_size = memory->plan->weights_size();
  executable.tokenizer = memory->scheduled.model.tokenizer;
  executable.chat = memory->scheduled.model.chat;
  if (memory->scheduled.backend == "reference") {
    memory->interpreter = std::make_unique<Interpreter>(
        memory->scheduled.model.module, *memory->scheduled.model.weights,
        std::max(1, static_cast<int>(threads == 0 ? static_cast<uint32_t>(request.jobs) : threads)));
    executable.interpret = [interpreter = memory->interpreter.get()](const ForwardCall& call) {
      const auto pos = static_cast<int32_t>(call.pos);
      const std::vector<float> logits = interpreter->Run(PhaseKindName(call.phase->kind), {.tokens = call.tokens,
                                                                                           .positions = {&pos, 1},
                                                                                           .total = call.total,
                                                                                           .hidden = call.hidden,
                                                                                           .types = call.types});
      std::memcpy(call.logits, logits.data(), logits.size() * sizeof(float));
    };
  } else {
    MakeSteps(executable, [&](const std::string& name) { return memory->plan->Entry(name); }, flags.model.model);
  }
  executable.owner = memory;
  return executable;
}

}  // namespace llmc
