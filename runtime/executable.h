// A model that can run: a loaded plan, or what the compiler holds in memory.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/context.h"
#include "runtime/plan.h"

namespace llmc {

class StepLibrary;
class StepProgram;

// One call of a phase without code: the interpreter's side of `llmc run --backend reference`.
struct ForwardCall {
  const PlanPhase* phase = nullptr;
  std::span<const int32_t> tokens;  // of positions pos ..
  uint32_t pos = 0, total = 0;      // as in LlmcContext
  float* logits = nullptr;          // f32[1 or rows, vocab], or the hidden rows, to be filled
  std::span<const int32_t> types = {};
  std::span<const float> hidden = {};  // of a phase that takes rows
};

// A step that every thread of a call walks over.
struct ExecutableStep {
  enum class Kind : uint8_t { Code, Library, Barrier };
  Kind kind = Kind::Barrier;
  LlmcPhaseFn code = nullptr;  // of Code
  uint64_t index = 0;          // of Library: the step's number in the program
};

struct Executable {
  std::shared_ptr<const Manifest> manifest;
  std::vector<std::vector<ExecutableStep>> steps;  // of each phase of the manifest. Empty when `interpret` is set
  std::shared_ptr<const StepProgram> program;      // what Library steps run; null without such steps
  std::function<void(const ForwardCall&)> interpret;
  const uint8_t* weights = nullptr;  // 64-byte aligned
  uint64_t weights_size = 0;
  uint64_t plan_hash = 0;      // PlanFile::hash; 0: no plan's
  std::string_view tokenizer;  // tables (runtime/tokenizer.h), kept by `owner`; empty: none
  std::string_view chat;       // chat templates (runtime/chat_template.h), kept by `owner`; empty: none
  // Throws PlanError when what `weights` points to has changed since it was opened; may be empty.
  std::function<void()> check_unchanged;
  std::shared_ptr<void> owner;  // keeps code, weights and tables alive
};

// Fills steps and program from the manifest. entry: the function of a code step, by its payload. library: what kernel
// and dnnl steps run on; null: the one that StepLibrary::Open finds, when there are such steps. Throws PlanError, which
// begins with `where`: steps of unknown kinds; what StepLibrary::Open and StepProgram refuse.
void MakeSteps(Executable& executable, const std::function<LlmcPhaseFn(const std::string& name)>& entry,
               std::string_view where, std::shared_ptr<const StepLibrary> library = nullptr);

// Throws PlanError where a call of several rows doesn't give each row the bits of a call of one: products of oneDNN in f32
// or bf16 add in an order that depends on the rows.
void CheckRowsAreAlike(const Manifest& manifest);

}  // namespace llmc
