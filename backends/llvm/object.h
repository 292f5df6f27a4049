// From a Program (backends/program.h) to machine code: targets, relocatable object, blob, and the same object in this
// process.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backends/code_form.h"
#include "backends/program.h"

namespace llmc {

// A target CPU: "x86-64-v3-vnni". `features` are the /proc/cpuinfo-style names that the loader checks ("avx2", "fma",
// "f16c", ...).
struct Target {
  std::string name;
  std::string llvm_cpu;
  std::vector<std::string> llvm_features;  // "+avx2" ... on top of llvm_cpu
  std::vector<std::string> features;
};
// Every target there is, smallest first.
std::vector<Target> AllTargets();
// One of them, or "native" (the best of them for this machine). Throws UsageError for others, listing what there is.
Target TargetFromName(std::string_view name);
// Those of a list with commas, each once, in its order.
std::vector<Target> TargetsOf(const std::string& list);
// The one that the loader would pick here (runtime/loader.h). Throws UsageError, with what is missing, if there is none.
const Target& BestTargetHere(const std::vector<Target>& targets);

// Machine code that needs no relocation: mapped read+execute at any page boundary, it runs.
struct CodeBlob {
  std::string bytes;                        // padded to 4096
  std::map<std::string, uint64_t> entries;  // phase name -> offset
  std::map<std::string, std::pair<uint64_t, uint64_t>>
      symbols;  // specialised functions: name -> (offset, size), for profiles
};

// Where phases write the processor's time-stamp counter, for profiles: thread t from words + t * stride on. A phase has
// 1 + 2 * calls words: when it began, and when each call began (behind its barrier) and ended.
struct Stamps {
  uint64_t* words = nullptr;    // null: nowhere
  uint64_t stride = 0;          // at least the words of all phases
  std::vector<uint64_t> first;  // each phase's first word
};

// Specialise, optimise, emit one ELF object. Deterministic: the same program, target and build give the same bytes,
// whatever `jobs`. With stamps it runs in this process alone.
std::string CompileObject(const Program& program, const Target& target, int jobs, const Stamps& stamps = {});
std::string EmitCode(const Program& program, const Target& target, CodeForm form, int jobs);
// C declarations of a plan's entries, and what a caller must provide (runtime/context.h).
std::string CodeHeader(const Manifest& manifest);
// LLD as a library, then checks that nothing is left to relocate, resolve or write (backends/README.md).
CodeBlob LinkObject(const std::string& object);

// x86-64 code as text, Intel's spelling: a line an instruction, "offset<tab>instruction", offsets from the start of
// `code` in hexadecimal. Targets of jumps and calls are named by `symbols` where they begin one. Bytes that are no
// instruction are ".byte" lines.
std::string DisassembleX86(std::string_view code, uint64_t begin, uint64_t size,
                           const std::map<std::string, std::pair<uint64_t, uint64_t>>& symbols);

// The same object in this process, through ORC. Lives as long as the Jit.
class Jit {
 public:
  explicit Jit(const std::string& object);
  ~Jit();
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;
  void* PhaseEntry(const std::string& phase) const;  // an LlmcPhaseFn

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace llmc
