// The optimiser's pipeline and object emission: the only file that pays for LLVM's pass headers.
#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/SCCP.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "backends/llvm/codegen.h"
#include "ir/diag.h"

namespace llmc {
namespace {

// Freestanding: no pass may invent a call to a library function.
llvm::TargetLibraryInfoImpl NoLibrary(const llvm::TargetMachine& machine) {
  llvm::TargetLibraryInfoImpl info(machine.getTargetTriple());
  info.disableAllFunctions();
  return info;
}

// Inlining by order (AlwaysInline on the call), then LLVM's own function simplification: constants reach the loops and
// unroll them. No vectoriser: kernels use explicit vectors, so speed does not hang on its mood, and it would cost a
// third of the time.
void Optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(NoLibrary(machine)); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass(/*InsertLifetimeIntrinsics=*/false));
  passes.addPass(llvm::GlobalDCEPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(
      builder.buildFunctionSimplificationPipeline(llvm::OptimizationLevel::O2, llvm::ThinOrFullLTOPhase::None)));
  passes.run(module, modules);
}

}  // namespace

void FoldConstants(llvm::Function& function) {
  llvm::FunctionAnalysisManager analyses;
  llvm::PassBuilder builder;
  builder.registerFunctionAnalyses(analyses);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SCCPPass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::ADCEPass());
  passes.run(function, analyses);
}

std::string OptimizeAndEmit(llvm::Module& module, llvm::TargetMachine& machine, CodeForm form) {
  Optimize(module, machine);
  llvm::SmallVector<char, 0> written;
  llvm::raw_svector_ostream stream(written);
  if (form == CodeForm::LlvmIr) {
    module.print(stream, nullptr);
    return {written.data(), written.size()};
  }
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(NoLibrary(machine)));
  const auto type =
      form == CodeForm::Assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  const bool refused = machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true);
  LLMC_CHECK(!refused, "LLVM's target machine does not emit objects");
  passes.run(module);
  return {written.data(), written.size()};
}

}  // namespace llmc
