// A plan's phases compiled once more, in this process, with the time between the kernel calls: what `llmc profile` runs. The
// functions are those of the plan; plans themselves hold no stamps and pay nothing.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/program.h"
#include "ir/module.h"
#include "runtime/context.h"

namespace llmc {

class ProfiledCode {
 public:
  // module: as plan-memory left it. targets: as PlanRequest has them; the best that this CPU runs is taken. Throws
  // UsageError where a phase is a step list, in a build without LLVM, and for targets that this CPU doesn't run.
  ProfiledCode(const Module& module, const std::string& targets, uint32_t threads, int jobs);
  ~ProfiledCode();
  ProfiledCode(const ProfiledCode&) = delete;
  ProfiledCode& operator=(const ProfiledCode&) = delete;

  const Program& program() const;  // a phase for each function of the module, in their order
  const std::string& target() const;
  LlmcPhaseFn Entry(const std::string& phase) const;
  // Ticks of the time-stamp counter at which a thread's last run of a phase began, and at which each call began (behind its
  // barrier) and ended: 1 + 2 * calls. Threads that took no part have those of an earlier run.
  std::span<const uint64_t> Times(size_t phase, uint32_t thread) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The time-stamp counter now, which all cores share on every CPU with AVX2.
uint64_t TimeStamp();

}  // namespace llmc
