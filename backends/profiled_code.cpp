// The phases with stamps, through ORC.
#include "backends/profiled_code.h"

#include <algorithm>

#include <x86intrin.h>

#include "backends/lower.h"
#include "ir/diag.h"
#include "ir/round_up.h"
#ifdef LLMC_WITH_LLVM
#include "backends/llvm/object.h"
#endif

namespace llmc {

struct ProfiledCode::Impl {
  Program program;
  std::string target;
#ifdef LLMC_WITH_LLVM
  Stamps stamps;
  std::vector<uint64_t> words;
  std::unique_ptr<Jit> jit;
#endif
};

#ifdef LLMC_WITH_LLVM
ProfiledCode::ProfiledCode(const Module& module, const std::string& targets, uint32_t threads, int jobs)
    : impl_(std::make_unique<Impl>()) {
  Impl& my = *impl_;
  my.program = LowerToProgram(module);
  for (const Phase& phase : my.program.phases) {
    if (phase.onednn)
      throw UsageError("@" + phase.name +
                       " is a list of oneDNN's steps: machine code alone has profiles (--backend llvm)");
    my.stamps.first.push_back(my.stamps.stride);
    my.stamps.stride += 1 + 2 * phase.calls.size();
  }
  my.stamps.stride = RoundUp(my.stamps.stride, 8);  // no cache line is of two threads
  my.words.resize(my.stamps.stride * threads + 8);
  my.stamps.words = my.words.data();
  while (reinterpret_cast<uintptr_t>(my.stamps.words) % 64 != 0) ++my.stamps.words;
  const std::vector<Target> list = TargetsOf(targets);
  const Target& target = BestTargetHere(list);
  my.target = target.name;
  my.jit = std::make_unique<Jit>(CompileObject(my.program, target, jobs, my.stamps));
}

LlmcPhaseFn ProfiledCode::Entry(const std::string& phase) const {
  return reinterpret_cast<LlmcPhaseFn>(impl_->jit->PhaseEntry(phase));
}

std::span<const uint64_t> ProfiledCode::Times(size_t phase, uint32_t thread) const {
  return {impl_->stamps.words + thread * impl_->stamps.stride + impl_->stamps.first.at(phase),
          1 + 2 * impl_->program.phases.at(phase).calls.size()};
}
#else
ProfiledCode::ProfiledCode(const Module&, const std::string&, uint32_t, int) {
  throw UsageError("this build has no LLVM: it makes no code");
}
LlmcPhaseFn ProfiledCode::Entry(const std::string&) const { return nullptr; }
std::span<const uint64_t> ProfiledCode::Times(size_t, uint32_t) const { return {}; }
#endif

ProfiledCode::~ProfiledCode() = default;
const Program& ProfiledCode::program() const { return impl_->program; }
const std::string& ProfiledCode::target() const { return impl_->target; }

uint64_t TimeStamp() { return __rdtsc(); }

}  // namespace llmc
