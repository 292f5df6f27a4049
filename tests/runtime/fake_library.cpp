// A step library without oneDNN: kernels that add and mix numbers, so that the executor is tested alone. Each kernel
// reads what other threads wrote before the last barrier, and its own scratchpad.
//
//   sums             states: u32 sum of tokens (+ 1) * (2 pos + 1) up to each position; thread 0
//   spread WORD      shared[WORD + 64 row + i] = Mix(sum of the row, i); the threads divide rows x 64
//   logits WORD      logits[row, i] = (shared[i] ^ shared[(7 i + 1) % 64]) & 0xffff; the rows of score, or the last one
//   fail POS THREAD  returns 1 on that thread at that position
// A dnnl step does nothing.
#include "tests/runtime/fake_library.h"

#include <cstdio>
#include <cstring>
#include <new>

#include "runtime/onednn/library.h"
#include "runtime/plan_steps.h"

#ifndef FAKE_ABI
#define FAKE_ABI LLMC_ONEDNN_ABI
#endif
#ifndef FAKE_CONTEXT_ABI
#define FAKE_CONTEXT_ABI LLMC_ABI_VERSION
#endif
#ifndef FAKE_FEATURES
#define FAKE_FEATURES ""
#endif

struct LlmcOnednnProgram {
  std::vector<llmc::KernelStep> steps;
};

namespace {

using namespace llmc;

LlmcOnednnProgram* Create(const LlmcOnednnStep* steps, uint64_t count, char* message, uint64_t message_size) {
  auto* program = new LlmcOnednnProgram;
  try {
    for (uint64_t s = 0; s < count; ++s) {
      const std::string_view payload(steps[s].payload, steps[s].size);
      KernelStep& step = program->steps.emplace_back();
      if (steps[s].kind == static_cast<uint32_t>(PlanStepKind::Dnnl)) {
        DecodeDnnlStep(payload, "step");
        continue;
      }
      step = DecodeKernelStep(payload, "step");
      if (step.kernel != "sums" && step.kernel != "spread" && step.kernel != "logits" && step.kernel != "fail")
        throw PlanError("no kernel " + step.kernel);
    }
    return program;
  } catch (const PlanError& error) {
    std::snprintf(message, message_size, "%s", error.what());
  }
  delete program;
  return nullptr;
}

uint32_t Run(const LlmcOnednnProgram* program, uint64_t index, const LlmcContext* c, uint32_t thread, uint32_t threads,
             uint8_t* scratchpad) {
  const KernelStep& step = program->steps[index];
  auto* sums = reinterpret_cast<uint32_t*>(c->states);
  auto* shared = reinterpret_cast<uint32_t*>(c->shared);
  if (step.kernel == "sums" && thread == 0) {
    for (uint32_t r = 0; r < c->rows; ++r) {
      const uint32_t p = c->pos + r;
      sums[p] = (p > 0 ? sums[p - 1] : 0) + (static_cast<uint32_t>(c->tokens[r]) + 1) * (2 * p + 1);
    }
  } else if (step.kernel == "spread") {
    const uint64_t count = uint64_t{c->rows} * kFakeVocab;
    for (uint64_t i = count * thread / threads; i < count * (thread + 1) / threads; ++i) {
      shared[step.words[0] + i] = FakeMix(sums[c->pos + i / kFakeVocab], static_cast<uint32_t>(i % kFakeVocab));
    }
  } else if (step.kernel == "logits") {
    if (reinterpret_cast<uintptr_t>(scratchpad) % 64 != 0) return 1;
    auto* row = reinterpret_cast<uint32_t*>(scratchpad);
    const uint32_t rows = step.one_row ? 1 : c->rows, first = step.one_row ? c->rows - 1 : 0;
    for (uint32_t r = 0; r < rows; ++r) {
      const uint32_t* from = shared + step.words[0] + uint64_t{kFakeVocab} * (first + r);
      for (uint32_t v = 0; v < kFakeVocab; ++v) row[v] = from[v] ^ from[(7 * v + 1) % kFakeVocab];
      for (uint32_t v = kFakeVocab * thread / threads; v < kFakeVocab * (thread + 1) / threads; ++v)
        c->logits[uint64_t{kFakeVocab} * r + v] = static_cast<float>(row[v] & 0xffff);
    }
  } else if (step.kernel == "fail") {
    return c->pos == step.words[0] && thread == step.words[1] % threads ? 1 : 0;
  }
  return 0;
}

const LlmcOnednnLibrary kLibrary = {
    FAKE_ABI,
    FAKE_CONTEXT_ABI,
    "fake 1.0",
    "fake kernels",
    FAKE_FEATURES,
    Create,
    [](LlmcOnednnProgram* program) { delete program; },
    [](const LlmcOnednnProgram* program) -> uint64_t { return program->steps.size(); },
    [](const LlmcOnednnProgram*, uint64_t) { return "a kernel"; },
    [](const LlmcOnednnProgram*) -> uint64_t { return kFakeVocab * sizeof(uint32_t); },
    Run,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const LlmcOnednnLibrary* llmc_onednn_library(void) {
  return &kLibrary;
}
