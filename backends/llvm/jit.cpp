// ORC over the very object that LLD makes a plan's code of.
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>

#include "backends/llvm/codegen.h"
#include "ir/diag.h"

namespace llmc {
namespace {

[[noreturn]] void Broken(llvm::Error error) {
  LLMC_CHECK(false, "JIT: " + llvm::toString(std::move(error)));
  std::terminate();
}

}  // namespace

struct Jit::Impl {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

Jit::Jit(const std::string& object) : impl_(nullptr) {
  StartLlvm();
  llvm::orc::JITTargetMachineBuilder machine{llvm::Triple("x86_64-pc-linux-gnu")};
  machine.setRelocationModel(llvm::Reloc::PIC_);
  machine.setCodeModel(llvm::CodeModel::Small);
  // The process's symbols stay out: an undefined memcpy must fail here as it fails in LLD.
  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(std::move(machine))
                 .setLinkProcessSymbolsByDefault(false)
                 .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                 .create();
  if (!jit) Broken(jit.takeError());
  if (llvm::Error error = (*jit)->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(object, "llmc")))
    Broken(std::move(error));
  impl_ = new Impl{std::move(*jit)};
}

Jit::~Jit() { delete impl_; }

void* Jit::PhaseEntry(const std::string& phase) const {
  auto address = impl_->jit->lookup("llmc_" + phase);
  if (!address) Broken(address.takeError());
  return address->toPtr<void*>();
}

}  // namespace llmc
