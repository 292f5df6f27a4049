// Inside of code generation: what program.h's functions are made of, open for tests. No LLVM header here: few files pay
// for those.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/llvm/object.h"

namespace llvm {
class Function;
class Module;
class TargetMachine;
}  // namespace llvm

namespace llmc {

std::string LlvmVersion();  // "19.1.7"

// The kernels' bitcode for a target's ISA level, embedded in this program.
std::string_view KernelBitcode(const Target& target);

// CompileObject with the kernels given.
std::string CompileObjectFrom(std::string_view bitcode, const Program& program, const Target& target, int jobs,
                              const Stamps& stamps = {});

// Registers LLVM's target once.
void StartLlvm();

// Propagates constants and drops what they make unreachable, so that what is left says what is called (optimize.cpp).
void FoldConstants(llvm::Function& function);
// Runs the optimiser over a specialised module and emits its object, assembly or IR (optimize.cpp).
std::string OptimizeAndEmit(llvm::Module& module, llvm::TargetMachine& machine, CodeForm form);

// One relocatable object out of several. LLD is not thread-safe: serialised here.
std::string MergeObjects(const std::vector<std::string>& objects);
// The ELF shared object: readable by gdb, objdump and perf. soname: what programs that are linked with it look for; "": the
// path that it was linked by.
std::string LinkShared(const std::string& object, const std::string& soname = "llmc");
// Checks that a shared object needs nothing from a loader, and lays it out flat.
CodeBlob Flatten(const std::string& shared_object);

}  // namespace llmc
