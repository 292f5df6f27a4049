// LLVM as a library: its version, and its target, registered once.
#include <mutex>

#include <llvm/Config/llvm-config.h>
#include <llvm/Support/TargetSelect.h>

#include "backends/llvm/codegen.h"

namespace llmc {

std::string LlvmVersion() { return LLVM_VERSION_STRING; }

void StartLlvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86Disassembler();
    LLVMInitializeX86AsmParser();  // inline assembly (the barrier's system call)
  });
}

}  // namespace llmc
