// Program -> ELF object. Specialised functions are dealt out to several modules by their order alone, never by `jobs`,
// so any number of threads gives the same bytes: each module starts as the kernels' bitcode, of which bodies are read
// when they are needed, gets one function per (kernel, constants) that is the kernel with its constants, and is
// optimised. The phases are in the first module:
// calls in a straight line, or in a loop where layers repeat, with their records in one constant table.
#include "backends/llvm/codegen.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <set>
#include <thread>

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include "ir/diag.h"
#include "runtime/context.h"

namespace llmc {
namespace {

// Functions per module. Each module costs a reading of the bitcode (a few ms); more of them share out better.
constexpr size_t kFunctionsPerModule = 6;
constexpr size_t kMaxModules = 8;
// A layer has fewer calls than this; longer periods are not looked for.
constexpr size_t kMaxPeriod = 64;

[[noreturn]] void Broken(const std::string& what) { LLMC_CHECK(false, "code generation: " + what); }

// One function per (kernel, constants, one_row), in order of first use.
struct Function {
  const KernelCall* call;  // the first that uses it
  std::string name;        // FunctionNames
};

struct Step {
  size_t function;
  const KernelCall* call;
  bool Repeats(const Step& other) const {
    return function == other.function && call->barrier_before == other.call->barrier_before;
  }
};

struct Plan {
  std::vector<Function> functions;
  std::vector<std::vector<Step>> phases;  // as Program.phases
};

Plan Collect(const Program& program) {
  Plan plan;
  const std::vector<std::vector<std::string>> names = FunctionNames(program);
  std::map<std::string_view, size_t> index;
  for (size_t p = 0; p < program.phases.size(); ++p) {
    std::vector<Step>& steps = plan.phases.emplace_back();
    for (size_t c = 0; c < program.phases[p].calls.size(); ++c) {
      const KernelCall& call = program.phases[p].calls[c];
      const auto [it, fresh] = index.try_emplace(names[p][c], plan.functions.size());
      if (fresh) plan.functions.push_back({&call, names[p][c]});
      const KernelCall& first = *plan.functions[it->second].call;
      if (first.record.size() != call.record.size())
        Broken("calls of kernel '" + call.kernel + "' differ in their records");
      if (static_cast<size_t>(std::count(call.constants.begin(), call.constants.end(), std::nullopt)) >
          call.record.size()) {
        Broken("call of kernel '" + call.kernel + "' has too short a record");
      }
      steps.push_back({it->second, &call});
    }
  }
  return plan;
}

void OnDiagnostic(const llvm::DiagnosticInfo* info, void* out) {
  if (info->getSeverity() > llvm::DS_Warning) return;
  llvm::raw_string_ostream stream(*static_cast<std::string*>(out));
  llvm::DiagnosticPrinterRawOStream printer(stream);
  info->print(printer);
  stream << "\n";
}

// The back end's loop strength reduction took more than half of all the time that LLVM takes (it weighs every sum of
// twelve rows' addresses), for code that is no faster. A gate is LLVM's one way to leave it out of one context alone.
class NoLoopStrengthReduction : public llvm::OptPassGate {
 public:
  bool shouldRunPass(const llvm::StringRef pass, llvm::StringRef) override { return pass != "Loop Strength Reduction"; }
  bool isEnabled() const override { return true; }
};

// One module under construction.
class Builder {
 public:
  Builder(std::string_view bitcode, const Target& target, const Plan& plan) : plan_(plan), target_(target) {
    context_.setDiagnosticHandlerCallBack(OnDiagnostic, &messages_);
    context_.setDiscardValueNames(true);
    context_.setOptPassGate(gate_);
    // Lazily: a body is read when it is asked for.
    auto parsed =
        llvm::getLazyBitcodeModule(llvm::MemoryBufferRef({bitcode.data(), bitcode.size()}, "llmc"), context_, true);
    if (!parsed) Broken("kernels' bitcode: " + llvm::toString(parsed.takeError()));
    module_ = std::move(*parsed);
    module_->setModuleIdentifier("llmc");
    module_->setSourceFileName("llmc");
    MakeMachine(target);
    for (const llvm::Function& f : *module_) {
      if (f.isDeclaration() && !f.isIntrinsic()) {
        Broken("kernels call the undefined function '" + f.getName().str() + "'");
      }
    }
    ptr_ = llvm::PointerType::getUnqual(context_);
    i32_ = llvm::Type::getInt32Ty(context_);
    i64_ = llvm::Type::getInt64Ty(context_);
    functions_.resize(plan.functions.size());
  }

  void DefineFunctions(size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) DefineFunction(i);
  }

  // stamps: the phase's words of thread 0, or null; the next thread's are words_each further on.
  void DefinePhase(const std::string& name, const std::vector<Step>& steps, const uint64_t* stamps,
                   uint64_t words_each);

  // Everything but the functions made here becomes internal, then the module is checked, optimised and emitted.
  std::string Finish(CodeForm form) {
    Load();
    Retarget(target_);
    llvm::SmallVector<llvm::GlobalValue*> keep;
    for (llvm::Function& f : *module_) {
      if (f.isDeclaration() || made_.contains(&f)) continue;
      f.setVisibility(llvm::GlobalValue::DefaultVisibility);  // before the linkage: an internal function has no other
      f.setDSOLocal(true);
      if (f.getName() == "memcpy" || f.getName() == "memset" || f.getName() == "memmove") {
        // Each module brings its own.
        f.setLinkage(llvm::GlobalValue::WeakODRLinkage);
        f.setVisibility(llvm::GlobalValue::HiddenVisibility);
        keep.push_back(&f);
      } else {
        f.setLinkage(llvm::GlobalValue::InternalLinkage);
      }
    }
    llvm::appendToCompilerUsed(*module_, keep);
    llvm::raw_string_ostream stream(messages_);
    // What clang made is taken as it is; what was made here is looked at.
    for (llvm::Function* f : made_) {
      if (llvm::verifyFunction(*f, &stream)) Broken("function does not verify: " + messages_);
    }
    std::string object = OptimizeAndEmit(*module_, *machine_, form);
    if (!messages_.empty()) Broken(messages_);
    return object;
  }

 private:
  void MakeMachine(const Target& target) {
    std::string error;
    const llvm::Target* found = llvm::TargetRegistry::lookupTarget(module_->getTargetTriple(), error);
    if (found == nullptr) Broken(error);
    llvm::TargetOptions options;
    options.FunctionSections = true;
    options.EmitAddrsig = false;
    options.ExceptionModel = llvm::ExceptionHandling::None;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    options.TrapUnreachable = false;
    for (const std::string& feature : target.llvm_features) features_ += (features_.empty() ? "" : ",") + feature;
    machine_.reset(found->createTargetMachine(module_->getTargetTriple(), "x86-64", "", options, llvm::Reloc::PIC_,
                                              llvm::CodeModel::Small));
    // Asked first, of a machine that surely exists: for an unknown CPU LLVM only prints a warning.
    if (!machine_->getMCSubtargetInfo()->isCPUStringValid(target.llvm_cpu))
      Broken("LLVM knows no CPU '" + target.llvm_cpu + "'");
    machine_.reset(found->createTargetMachine(module_->getTargetTriple(), target.llvm_cpu, features_, options,
                                              llvm::Reloc::PIC_, llvm::CodeModel::Small));
    module_->setDataLayout(machine_->createDataLayout());
  }

  void Materialize(llvm::Function& f) {
    if (llvm::Error error = f.materialize()) Broken("kernels' bitcode: " + llvm::toString(std::move(error)));
  }

  // Reads the bodies that the functions made here need, and drops the rest: of what a constant chooses (CHOICE,
  // kernel.h), only what was chosen.
  void Load() {
    std::vector<llvm::Function*> wanted(made_.begin(), made_.end());
    // The back end may call these for large copies, after the last look at who is used.
    for (const char* name : {"memcpy", "memset", "memmove"}) {
      if (llvm::Function* f = module_->getFunction(name)) wanted.push_back(f);
    }
    std::set<llvm::Function*> seen(wanted.begin(), wanted.end());
    for (size_t i = 0; i < wanted.size(); ++i) {
      Materialize(*wanted[i]);
      for (llvm::BasicBlock& block : *wanted[i]) {
        for (llvm::Instruction& instruction : block) {
          for (llvm::Use& use : instruction.operands()) {
            auto* callee = llvm::dyn_cast<llvm::Function>(use->stripPointerCasts());
            if (callee != nullptr && seen.insert(callee).second) wanted.push_back(callee);
          }
        }
      }
    }
    std::vector<llvm::Function*> rest;
    for (llvm::Function& f : *module_) {
      if (!f.isIntrinsic() && !seen.contains(&f)) rest.push_back(&f);
    }
    for (llvm::Function* f : rest) f->deleteBody();
    for (llvm::Function* f : rest) {
      if (f->use_empty()) f->eraseFromParent();
    }
    if (llvm::Error error = module_->materializeAll()) Broken("kernels' bitcode: " + llvm::toString(std::move(error)));
  }

  // Function attributes beat the target machine's settings, so they are rewritten. A feature that a kernel was compiled
  // with and the target lacks would abort the process during instruction selection; a name that nobody defines would
  // fail later and say less.
  void Retarget(const Target& target) {
    for (llvm::Function& f : *module_) {
      if (f.isIntrinsic()) continue;
      llvm::SmallVector<llvm::StringRef> wanted;
      f.getFnAttribute("target-features").getValueAsString().split(wanted, ',');
      for (llvm::StringRef feature : wanted) {
        if (feature.starts_with("+") && !machine_->getMCSubtargetInfo()->checkFeatures(feature.str())) {
          Broken("target '" + target.llvm_cpu + "' lacks " + feature.str() + ", which kernel " + f.getName().str() +
                 " needs");
        }
      }
      f.removeFnAttr("tune-cpu");
      f.removeFnAttr("target-features");
      f.removeFnAttr("target-cpu");
      f.removeFnAttr(llvm::Attribute::UWTable);
      SetTarget(f);
      // Whatever a kernel is made of must see its constants, so a helper that clang left out of line (a large lambda),
      // or was told to leave there (CHOICE, kernel.h), goes in.
      if (f.hasLocalLinkage()) {
        f.removeFnAttr(llvm::Attribute::NoInline);
        f.addFnAttr(llvm::Attribute::AlwaysInline);
      }
    }
  }

  void SetTarget(llvm::Function& f) {
    f.addFnAttr("target-cpu", machine_->getTargetCPU());
    if (!features_.empty()) f.addFnAttr("target-features", features_);
  }

  // "no-builtins" must match the kernels', else nothing inlines; "min-legal-vector-width" stays absent, which means
  // unlimited.
  llvm::Function* Make(llvm::FunctionType* type, const std::string& name,
                       llvm::GlobalValue::VisibilityTypes visibility) {
    llvm::Function* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, *module_);
    if (f->getName() != name) Broken("two functions called '" + name + "'");
    f->setVisibility(visibility);
    f->setDSOLocal(true);
    f->addFnAttr("no-builtins");
    f->addFnAttr("no-jump-tables", "true");
    f->addFnAttr(llvm::Attribute::NoUnwind);
    f->addFnAttr(llvm::Attribute::NoInline);
    SetTarget(*f);
    made_.insert(f);
    return f;
  }

  llvm::FunctionType* KernelType(size_t constants) {
    std::vector<llvm::Type*> params = {ptr_, i32_, i32_, i32_, ptr_};
    params.insert(params.end(), constants, i64_);
    return llvm::FunctionType::get(llvm::Type::getVoidTy(context_), params, false);
  }

  llvm::Function* Declare(size_t index) {
    llvm::Function*& f = functions_[index];
    if (f == nullptr) f = Make(KernelType(0), plan_.functions[index].name, llvm::GlobalValue::HiddenVisibility);
    return f;
  }

  void DefineFunction(size_t index) {
    const KernelCall& call = *plan_.functions[index].call;
    llvm::Function* kernel = module_->getFunction(call.kernel);
    if (kernel == nullptr) Broken("no kernel '" + call.kernel + "'");
    if (kernel->getFunctionType() != KernelType(call.constants.size())) {
      Broken("kernel '" + call.kernel + "' takes other parameters than the call's " +
             std::to_string(call.constants.size()) + " constants");
    }
    llvm::Function* f = Declare(index);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context_, "", f));
    llvm::SmallVector<llvm::Value*> args;
    for (llvm::Argument& arg : f->args()) args.push_back(&arg);
    if (call.one_row) args[3] = b.getInt32(1);
    const auto unbound = std::count(call.constants.begin(), call.constants.end(), std::nullopt);
    size_t word = call.record.size() - static_cast<size_t>(unbound);
    for (const std::optional<int64_t>& constant : call.constants) {
      if (constant) {
        args.push_back(b.getInt64(static_cast<uint64_t>(*constant)));
      } else {
        args.push_back(b.CreateLoad(i64_, b.CreateConstInBoundsGEP1_64(i64_, f->getArg(4), word++)));
      }
    }
    llvm::CallInst* inlined = b.CreateCall(kernel, args);
    b.CreateRetVoid();
    Materialize(*kernel);
    llvm::InlineFunctionInfo info;
    if (!llvm::InlineFunction(*inlined, info).isSuccess()) Broken("kernel '" + call.kernel + "' can't be inlined");
    FoldConstants(*f);
  }

  const Plan& plan_;
  const Target& target_;
  std::string messages_;
  std::string features_;
  NoLoopStrengthReduction gate_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::Module> module_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::SmallPtrSet<llvm::Function*, 32> made_;
  std::vector<llvm::Function*> functions_;  // by index in plan_.functions; null: not yet used in this module
  llvm::Type* ptr_ = nullptr;
  llvm::IntegerType* i32_ = nullptr;
  llvm::IntegerType* i64_ = nullptr;
};

// The longest saving from here: `period` steps, `times` over.
struct Repeat {
  size_t period = 1;
  size_t times = 1;
};
Repeat FindRepeat(const std::vector<Step>& steps, size_t at) {
  Repeat best;
  for (size_t period = 1; period <= kMaxPeriod && at + 2 * period <= steps.size(); ++period) {
    size_t same = 0;
    while (at + period + same < steps.size() && steps[at + same].Repeats(steps[at + period + same])) ++same;
    const size_t times = 1 + same / period;
    if ((times - 1) * period > (best.times - 1) * best.period) best = {period, times};
  }
  return best;
}

void Builder::DefinePhase(const std::string& name, const std::vector<Step>& steps, const uint64_t* stamps,
                          uint64_t words_each) {
  std::vector<uint64_t> words;
  for (const Step& step : steps) words.insert(words.end(), step.call->record.begin(), step.call->record.end());
  words.push_back(0);  // an empty table has an address too
  llvm::Constant* table_data = llvm::ConstantDataArray::get(context_, words);
  auto* table = new llvm::GlobalVariable(*module_, table_data->getType(), true, llvm::GlobalValue::InternalLinkage,
                                         table_data, name + ".records");
  table->setAlignment(llvm::Align(64));

  llvm::Function* f =
      Make(llvm::FunctionType::get(i32_, {ptr_, i32_, i32_}, false), name, llvm::GlobalValue::ProtectedVisibility);
  llvm::Value *context = f->getArg(0), *thread = f->getArg(1), *threads = f->getArg(2);
  llvm::Function* barrier = module_->getFunction("llmc_barrier");
  if (barrier == nullptr || barrier->getFunctionType() != f->getFunctionType()) Broken("kernels lack llmc_barrier");
  // Called from every phase at every step: one copy, and no need to optimise it here and there.
  barrier->addFnAttr(llvm::Attribute::NoInline);

  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context_, "", f));
  llvm::BasicBlock* aborted = llvm::BasicBlock::Create(context_, "");
  llvm::Value* rows =
      b.CreateLoad(i32_, b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), context, offsetof(LlmcContext, rows)));
  llvm::Value* own = nullptr;  // this thread's stamps
  if (stamps != nullptr) {
    llvm::Value* bytes = b.CreateMul(b.CreateZExt(thread, i64_), b.getInt64(words_each * sizeof(uint64_t)));
    own = b.CreateIntToPtr(b.CreateAdd(bytes, b.getInt64(reinterpret_cast<uintptr_t>(stamps))), ptr_);
  }
  uint64_t word_of_stamp = 0;
  const auto stamp = [&] {
    if (own == nullptr) return;
    llvm::Value* now = b.CreateIntrinsic(llvm::Intrinsic::readcyclecounter, {}, {});
    b.CreateStore(now, b.CreateConstInBoundsGEP1_64(i64_, own, word_of_stamp++), /*isVolatile=*/true);
  };
  stamp();
  const auto emit = [&](const Step& step, llvm::Value* record) {
    if (step.call->barrier_before) {
      llvm::Value* left = b.CreateICmpNE(b.CreateCall(barrier, {context, thread, threads}), b.getInt32(0));
      llvm::BasicBlock* next = llvm::BasicBlock::Create(context_, "", f);
      b.CreateCondBr(left, aborted, next);
      b.SetInsertPoint(next);
    }
    stamp();
    b.CreateCall(Declare(step.function), {context, thread, threads, rows, record});
    stamp();
  };

  size_t word = 0;
  for (size_t at = 0; at < steps.size();) {
    const Repeat repeat = own == nullptr ? FindRepeat(steps, at) : Repeat{};  // each call has stamps of its own
    llvm::Value* base = b.CreateConstInBoundsGEP1_64(i64_, table, word);
    size_t stride = 0;
    for (size_t i = 0; i < repeat.period; ++i) stride += steps[at + i].call->record.size();
    llvm::Value* round = base;
    llvm::Value* counter = nullptr;
    llvm::BasicBlock* before = b.GetInsertBlock();
    llvm::BasicBlock* loop = nullptr;
    if (repeat.times > 1) {
      loop = llvm::BasicBlock::Create(context_, "", f);
      b.CreateBr(loop);
      b.SetInsertPoint(loop);
      llvm::PHINode* i = b.CreatePHI(i64_, 2);
      i->addIncoming(b.getInt64(0), before);
      counter = i;
      round = b.CreateInBoundsGEP(i64_, base, b.CreateMul(i, b.getInt64(stride)));
    }
    size_t offset = 0;
    for (size_t i = 0; i < repeat.period; ++i) {
      emit(steps[at + i], b.CreateConstInBoundsGEP1_64(i64_, round, offset));
      offset += steps[at + i].call->record.size();
    }
    if (loop != nullptr) {
      llvm::Value* next = b.CreateAdd(counter, b.getInt64(1));
      llvm::cast<llvm::PHINode>(counter)->addIncoming(next, b.GetInsertBlock());
      llvm::BasicBlock* done = llvm::BasicBlock::Create(context_, "", f);
      b.CreateCondBr(b.CreateICmpEQ(next, b.getInt64(repeat.times)), done, loop);
      b.SetInsertPoint(done);
    }
    at += repeat.period * repeat.times;
    word += stride * repeat.times;
  }
  b.CreateRet(b.getInt32(0));
  if (aborted->hasNPredecessors(0)) {
    delete aborted;
    return;
  }
  aborted->insertInto(f);
  b.SetInsertPoint(aborted);
  b.CreateRet(b.getInt32(1));
}

// One text a module; what several modules hold together is the program.
std::vector<std::string> EmitModules(std::string_view bitcode, const Plan& plan, const Program& program,
                                     const Target& target, CodeForm form, size_t modules, int jobs,
                                     const Stamps& stamps) {
  const size_t count = plan.functions.size();
  std::vector<std::string> written(modules);
  std::vector<std::exception_ptr> errors(modules);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t m = next++; m < modules; m = next++) {
      try {
        const size_t first = count * m / modules, end = count * (m + 1) / modules;
        Builder builder(bitcode, target, plan);
        builder.DefineFunctions(first, end);
        if (m == 0) {
          for (size_t p = 0; p < program.phases.size(); ++p)
            builder.DefinePhase("llmc_" + program.phases[p].name, plan.phases[p],
                                stamps.words == nullptr ? nullptr : stamps.words + stamps.first.at(p), stamps.stride);
        }
        written[m] = builder.Finish(form);
      } catch (...) {
        errors[m] = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> threads;
  for (size_t t = 1; t < std::min(modules, static_cast<size_t>(std::max(jobs, 1))); ++t) threads.emplace_back(work);
  work();
  threads.clear();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return written;
}

}  // namespace

std::string CompileObjectFrom(std::string_view bitcode, const Program& program, const Target& target, int jobs,
                              const Stamps& stamps) {
  StartLlvm();
  const Plan plan = Collect(program);
  const size_t modules = std::clamp<size_t>(plan.functions.size() / kFunctionsPerModule, 1, kMaxModules);
  return MergeObjects(EmitModules(bitcode, plan, program, target, CodeForm::Object, modules, jobs, stamps));
}

std::string CompileObject(const Program& program, const Target& target, int jobs, const Stamps& stamps) {
  return CompileObjectFrom(KernelBitcode(target), program, target, jobs, stamps);
}

std::string EmitCode(const Program& program, const Target& target, CodeForm form, int jobs) {
  if (form == CodeForm::Object) return CompileObject(program, target, jobs);
  if (form == CodeForm::SharedObject) return LinkShared(CompileObject(program, target, jobs), "");
  StartLlvm();
  return EmitModules(KernelBitcode(target), Collect(program), program, target, form, 1, 1, {})[0];
}

}  // namespace llmc
