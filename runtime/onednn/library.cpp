// The C interface: no exception leaves it, and oneDNN keeps to the calling thread inside it.
#include "runtime/onednn/library.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "backends/kernels/version.h"
#include "runtime/onednn/program.h"
#include "runtime/plan_error.h"

struct LlmcOnednnProgram {
  llmc::onednn::Program program;
};

namespace {

void Tell(const std::string& text, char* message, uint64_t message_size) {
  if (message_size == 0) return;
  const size_t length = std::min<size_t>(text.size(), message_size - 1);
  std::memcpy(message, text.data(), length);
  message[length] = 0;
}

LlmcOnednnProgram* Create(const LlmcOnednnStep* steps, uint64_t count, char* message, uint64_t message_size) {
  try {
    const llmc::onednn::OneThread one_thread;
    if (!llmc::onednn::ThreadsAreHeld())
      throw llmc::PlanError("the OpenMP of oneDNN isn't in this process: it would open threads of its own");
    dnnl_set_verbose(0);  // ONEDNN_VERBOSE would write to the program's standard output
    return new LlmcOnednnProgram{llmc::onednn::Program(steps, count)};
  } catch (const dnnl::error& error) {
    Tell(std::string("oneDNN: ") + error.what(), message, message_size);
  } catch (const std::exception& error) {
    Tell(error.what(), message, message_size);
  }
  return nullptr;
}

void Destroy(LlmcOnednnProgram* program) { delete program; }

uint64_t Primitives(const LlmcOnednnProgram* program) { return program->program.descriptions().size(); }

const char* Describe(const LlmcOnednnProgram* program, uint64_t primitive) {
  return primitive < Primitives(program) ? program->program.descriptions()[primitive].c_str() : "";
}

uint64_t ScratchpadBytes(const LlmcOnednnProgram* program) { return program->program.scratchpad_bytes(); }

uint32_t Run(const LlmcOnednnProgram* program, uint64_t step, const LlmcContext* context, uint32_t thread,
             uint32_t threads, uint8_t* scratchpad) {
  if (step >= program->program.steps()) return 1;
  try {
    const llmc::onednn::OneThread one_thread;
    program->program.Run(step, *context, thread, threads, scratchpad);
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

}  // namespace

// x86-64-v3, which kernels.cpp is compiled for.
extern "C" __attribute__((visibility("default"))) const LlmcOnednnLibrary* llmc_onednn_library(void) {
  static const std::string version = llmc::onednn::VersionText();
  static const std::string kernels = llmc::KernelsVersion();
  static const LlmcOnednnLibrary library = {LLMC_ONEDNN_ABI,
                                            LLMC_ABI_VERSION,
                                            version.c_str(),
                                            kernels.c_str(),
                                            "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
                                            Create,
                                            Destroy,
                                            Primitives,
                                            Describe,
                                            ScratchpadBytes,
                                            Run};
  return &library;
}
