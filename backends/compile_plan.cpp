// From a scheduled module and its weights to a plan file, or to the same thing in memory.
#include "backends/compile_plan.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>

#include "backends/backend.h"
#include "backends/kernels/version.h"
#include "backends/lower.h"
#include "backends/onednn/steps.h"
#include "backends/pack_weights.h"
#include "backends/self_test.h"
#include "backends/sha256.h"
#include "ir/diag.h"
#include "ir/op.h"
#include "ir/round_up.h"
#ifdef LLMC_WITH_LLVM
#include "backends/llvm/object.h"
#endif

namespace llmc {
namespace {

// Text of an option's value, for people and for equality; never read back.
std::string OptionText(const AttrValue& value) {
  struct Visitor {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(float v) const { return fmt::format("{}", v); }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const std::vector<Dim>& v) const {
      std::string text;
      for (const Dim& dim : v) text += (text.empty() ? "" : ",") + ToText(dim);
      return text;
    }
  };
  return std::visit(Visitor{}, value);
}

PhaseKind PhaseKindOf(const Func& func) {
  for (const PhaseKind kind : kPhaseKinds) {
    if (func.name.starts_with(PhaseKindName(kind))) return kind;
  }
  Fail(DiagKind::Unsupported, {"@" + func.name, ""},
       "a plan's functions are phases: prefill, decode, score, hidden or project");
}

// What `--from` can bring: IR that verifies, says that all passes ran, and has no plan.
[[noreturn]] void NoPlan(const std::string& what) {
  Fail(DiagKind::BadPlan, {}, "the module can't become a plan: " + what + " (have all passes run?)");
}

uint32_t Narrow(int64_t value, const char* what) {
  if (value < 0 || value > UINT32_MAX) NoPlan(fmt::format("{} is {}", what, value));
  return static_cast<uint32_t>(value);
}

int64_t OptionOf(const Module& module, const char* name) {
  const AttrValue* value = module.options.Find(name);
  const int64_t* number = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  if (number == nullptr || *number < 0) NoPlan(fmt::format("option {} is missing or no size", name));
  return *number;
}

PlanContract ContractOf(const Func& func) {
  PlanContract contract{func.kind, func.output, {}, false};
  for (const EntryInputInfo& info : kEntryInputs) {
    const Value* input = FindInput(func, info.value);
    if (input == nullptr) continue;
    contract.inputs.push_back(info.value);
    contract.by_row = contract.by_row || (info.value == EntryInput::Pos && !input->type.dims.empty());
  }
  return contract;
}

// Those that functions use have an offset. Layouts say how positions lie: side by side, or one behind the other.
std::vector<PlanState> StatesOf(const Module& module) {
  constexpr uint32_t kSide = 16;  // positions side by side in keys16
  std::vector<PlanState> states;
  for (const Global& global : module.globals) {
    if (global.kind != GlobalKind::State || !global.offset) continue;
    PlanState state;
    state.kind = KindOf(global).value;
    state.offset = static_cast<uint64_t>(*global.offset);
    state.block_bytes = static_cast<uint64_t>(ByteSize(global.type));
    if (KindOf(global).holds == StateHolds::POSITIONS) {
      const bool by_head = global.type.layout == Layout::Keys16 || global.type.layout == Layout::Heads;
      state.blocks = by_head ? Narrow(global.type.dims[1].value, "heads of a state") : 1;
      state.block_bytes /= state.blocks;
      state.slots = Narrow(global.type.dims[0].value, "slots of a state");
      state.unit = global.type.layout == Layout::Keys16 ? kSide : 1;
      state.unit_bytes = state.block_bytes / ((state.slots + state.unit - 1) / state.unit);
      const auto* window = std::get_if<int64_t>(global.attrs.Find("window"));
      state.window = window == nullptr ? 0 : Narrow(*window, "a state's window");
    }
    states.push_back(state);
  }
  std::sort(states.begin(), states.end(), [](const PlanState& a, const PlanState& b) { return a.offset < b.offset; });
  return states;
}

// `lowered`: the function's phase of the program; null for a backend without code.
PlanPhase PhaseOf(const Module& module, const Func& func, const Phase* lowered) {
  PlanPhase phase;
  phase.kind = PhaseKindOf(func);
  phase.contract = ContractOf(func);
  if (func.returns.empty()) NoPlan("@" + func.name + " returns nothing");
  if (!GivesLogits(phase.kind))
    phase.width = Narrow(TypeOf(module, func, func.returns[0]).dims.back().value, "numbers in a row");
  phase.types = Narrow(TableRows(module, func, EntryInput::Types), "types");
  if (const Value* hidden = FindInput(func, EntryInput::Hidden))
    phase.width_in = Narrow(hidden->type.dims.back().value, "numbers in a row");
  const DimRange rows = RangeOf(module, func, Dim("S"));
  phase.min_rows = Narrow(rows.min, "least rows");
  phase.max_rows = Narrow(rows.max, "most rows");
  if (lowered != nullptr && lowered->onednn) {
    phase.steps = StepsOf(*lowered);
  } else {
    phase.steps.push_back({static_cast<uint32_t>(PlanStepKind::Code), func.name});
  }
  return phase;
}

// What isn't equal to the interpreter, in words: float products of oneDNN. Products of blocks are exact.
std::string NumericsOf(const Program& program) {
  std::string phases;
  for (const Phase& phase : program.phases) {
    const bool floats = std::any_of(phase.calls.begin(), phase.calls.end(), [](const KernelCall& call) {
      return call.product && call.product->compute != DnnlCompute::Blocks;
    });
    if (floats) phases += (phases.empty() ? "" : ", ") + phase.name;
  }
  return phases.empty() ? "exact" : "products by oneDNN, in its order of sums: " + phases;
}

// Of functions in order; none for a backend without code.
Program ProgramOf(const PlanRequest& request) {
  OptionOf(*request.module, "weight_bytes");
  return request.backend == "reference" ? Program{} : LowerToProgram(*request.module);
}

// What LlmcContext has since 1.1: places of rows, and inputs by their numbers.
bool NeedsInputs(const PlanContract& c) {
  return c.by_row || std::any_of(c.inputs.begin(), c.inputs.end(), [](EntryInput input) {
           return input == EntryInput::Types || input == EntryInput::Hidden;
         });
}

// All but targets, inputs' hashes and the self-test.
Manifest ManifestOf(const PlanRequest& request, const Program& program) {
  const Module& module = *request.module;
  if (module.funcs.empty()) NoPlan("it has no functions");
  Manifest manifest;
  manifest.model = module.name;
  manifest.backend = request.backend;
  manifest.numerics = NumericsOf(program);
  manifest.build_id = BackendBuildId() + (request.build_id.empty() ? "" : ", " + request.build_id);
  manifest.options = "backend = " + request.backend + "\n";
  for (const auto& [name, value] : module.options.all()) {
    if (name == "passes") {
      manifest.passes = OptionText(value);
    } else if (name != "after" && name != "backend") {
      manifest.options += name + " = " + OptionText(value) + "\n";
    }
  }
  manifest.abi = LLMC_ABI_1_0;
  const int64_t vocabulary = VocabularyOf(module, module.funcs[0]);
  if (vocabulary == 0) NoPlan("@" + module.funcs[0].name + " has no vocabulary");
  manifest.vocab = Narrow(vocabulary, "vocabulary");
  manifest.context = Narrow(OptionOf(module, "context"), "context");
  manifest.shared_bytes = static_cast<uint64_t>(OptionOf(module, "shared_bytes"));
  manifest.private_bytes = static_cast<uint64_t>(OptionOf(module, "private_bytes"));
  manifest.state_bytes = static_cast<uint64_t>(OptionOf(module, "state_bytes"));
  for (size_t i = 0; i < module.funcs.size(); ++i) {
    const Phase* lowered = program.phases.empty() ? nullptr : &program.phases[i];
    manifest.phases.push_back(PhaseOf(module, module.funcs[i], lowered));
    const PlanPhase& phase = manifest.phases.back();
    if (NeedsInputs(phase.contract)) manifest.abi = std::max(manifest.abi, LLMC_ABI_1_1);
    const auto claimed = [](const KernelCall& call) { return call.claimed; };
    if (lowered != nullptr && std::any_of(lowered->calls.begin(), lowered->calls.end(), claimed))
      manifest.abi = LLMC_ABI_1_2;
    if (lowered != nullptr && lowered->onednn) manifest.kernels = KernelsVersion();
    if (phase.kind == PhaseKind::Prefill) manifest.chunk = std::max(manifest.chunk, phase.max_rows);
  }
  if (IsEncoder(manifest)) {  // a call is a sequence
    for (const PlanPhase& phase : manifest.phases) manifest.chunk = std::max(manifest.chunk, phase.max_rows);
  }
  manifest.states = StatesOf(module);
  manifest.generation = request.generation;
  manifest.pooling = request.pooling;
  return manifest;
}

void Report(const PlanRequest& request, std::string_view stage, double done) {
  if (request.progress) request.progress(stage, done);
}

// The phases that are machine code.
Program CodePhases(Program program) {
  std::erase_if(program.phases, [](const Phase& phase) { return phase.onednn; });
  return program;
}

#ifdef LLMC_WITH_LLVM
// Adds targets to the manifest; returns their code, in order.
std::vector<std::string> CompileTargets(const PlanRequest& request, const std::vector<Target>& targets,
                                        const Program& program, Manifest& manifest) {
  std::vector<std::string> code;
  for (const Target& target : targets) {
    Report(request, "code", static_cast<double>(code.size()) / static_cast<double>(targets.size()));
    CodeBlob blob = LinkObject(CompileObject(program, target, request.jobs));
    manifest.targets.push_back({target.name, target.features, std::move(blob.entries), std::move(blob.symbols)});
    code.push_back(std::move(blob.bytes));
  }
  Report(request, "code", 1);
  return code;
}
#endif

// Memory of whole huge pages, zero; huge pages asked for.
class Pages {
 public:
  explicit Pages(uint64_t size) : size_(RoundUp(size, kHugePage) + kHugePage) {
    base_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) throw PlanError(fmt::format("out of memory: {} bytes for the weights", size));
    const uint64_t over = reinterpret_cast<uintptr_t>(base_) % kHugePage;
    begin_ = static_cast<uint8_t*>(base_) + (kHugePage - over) % kHugePage;
    madvise(begin_, size_ - kHugePage, MADV_HUGEPAGE);
  }
  ~Pages() { munmap(base_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  uint8_t* begin() const { return begin_; }

 private:
  uint64_t size_;
  void* base_;
  uint8_t* begin_;
};

}  // namespace

EmittedCode EmitPhases(const PlanRequest& request, CodeForm form) {
  CheckBackend(request.backend);
#ifdef LLMC_WITH_LLVM
  const Program program = ProgramOf(request);
  Manifest manifest = ManifestOf(request, program);
  const Program code = CodePhases(program);
  const std::vector<Target> targets = TargetsOf(request.targets);
  if (targets.size() != 1)
    throw UsageError(fmt::format("code is written for one target, not for {}: --target-cpu NAME", request.targets));
  if (code.phases.empty()) throw UsageError(fmt::format("no phase is machine code with --backend {}", request.backend));
  manifest.targets.push_back({targets[0].name, targets[0].features, {}, {}});
  return {EmitCode(code, targets[0], form, request.jobs), CodeHeader(manifest)};
#else
  (void)form;
  throw UsageError("this build has no LLVM: it makes no code");
#endif
}

std::string Disassemble(std::string_view code, uint64_t begin, uint64_t size,
                        const std::map<std::string, std::pair<uint64_t, uint64_t>>& symbols) {
#ifdef LLMC_WITH_LLVM
  return DisassembleX86(code, begin, size, symbols);
#else
  (void)code, (void)begin, (void)size, (void)symbols;
  throw UsageError("this build has no LLVM, and so no disassembler");
#endif
}

uint64_t WritePlan(const PlanRequest& request, const std::string& path) {
  CheckBackend(request.backend);
  LLMC_CHECK(request.weights != nullptr, "a plan needs weights");
  const Module& module = *request.module;
  const Program program = ProgramOf(request);
  Manifest manifest = ManifestOf(request, program);
  std::vector<std::string> code;
  const Program code_phases = CodePhases(program);
#ifdef LLMC_WITH_LLVM
  const std::vector<Target> targets =
      TargetsOf(request.targets);  // a wrong name is an error even where nothing is code
  if (!code_phases.phases.empty()) code = CompileTargets(request, targets, code_phases, manifest);
#endif
  std::vector<uint64_t> code_sizes;
  code_sizes.reserve(code.size());
  for (const std::string& bytes : code) code_sizes.push_back(bytes.size());
  CheckManifest(manifest, code_sizes, WeightBytes(module), path);
  PlanWriter::Options options;
  options.path = path;
  options.weights_size = WeightBytes(module);
  options.other_size += request.import_ir.size() + request.final_ir.size() + request.tokenizer.size() +
                        request.chat_template.size() + request.chat.size();
  for (const std::string& bytes : code) options.other_size += bytes.size();
  for (const PlanRequest::Input& input : request.inputs) options.inputs.push_back(input.path);
  options.sha256 = MakeSha256;
  options.loader = request.loader;
  if (!request.loader.empty() && !manifest.kernels.empty())
    Fail(DiagKind::Unsupported, {path, ""},
         "a standalone program has no library for kernel and dnnl steps (--backend llvm)");
  // From here on there is a temporary file beside `path`, gone again should anything throw.
  PlanWriter writer(std::move(options));
  Report(request, "inputs", 0);
  for (const PlanRequest::Input& input : request.inputs)
    manifest.inputs.push_back({input.role, Sha256OfFile(input.path)});
  Report(request, "inputs", 1);
  StreamWeights(
      module, *request.weights, request.jobs, [&](std::span<const uint8_t> bytes) { writer.AppendWeights(bytes); },
      [&](double done) { Report(request, "weights", done); });
  if (request.self_test && (OptionOf(module, "weight_bytes") <= kSelfTestWeights || request.self_test_large)) {
    Report(request, "self-test", 0);
    manifest.self_test =
        MakeSelfTest(manifest, code, module, *request.weights, writer.MapWeights(), request.allow_nonfinite);
    Report(request, "self-test", 1);
  }
  Report(request, "file", 0);
  for (const std::string& bytes : code) writer.AddSection(SectionKind::Code, bytes);
  writer.AddSection(SectionKind::Tokenizer, request.tokenizer);
  writer.AddSection(SectionKind::ChatTemplate, request.chat_template);
  writer.AddSection(SectionKind::Chat, request.chat);
  writer.AddSection(SectionKind::ImportIr, request.import_ir);
  writer.AddSection(SectionKind::FinalIr, request.final_ir);
  const uint64_t size = writer.Finish(manifest);
  Report(request, "file", 1);
  return size;
}

struct MemoryPlan::Impl {
  Manifest manifest;
  uint64_t weights_size = 0;
  std::unique_ptr<Pages> weights;
#ifdef LLMC_WITH_LLVM
  std::unique_ptr<Jit> jit;
#endif
};

MemoryPlan::MemoryPlan(const PlanRequest& request) : impl_(std::make_unique<Impl>()) {
  CheckBackend(request.backend);
  LLMC_CHECK(request.weights != nullptr, "a plan needs weights");
  const Program program = ProgramOf(request);
  impl_->manifest = ManifestOf(request, program);
  const Program code_phases = CodePhases(program);
#ifdef LLMC_WITH_LLVM
  const std::vector<Target> targets = TargetsOf(request.targets);  // as in a plan, a wrong name is always an error
  if (!code_phases.phases.empty()) {
    const Target& target = BestTargetHere(targets);
    impl_->manifest.targets.push_back({target.name, target.features, {}, {}});
    impl_->jit = std::make_unique<Jit>(CompileObject(code_phases, target, request.jobs));
    Report(request, "code", 1);
  }
#endif
  // The interpreter reads its weights from their source.
  if (request.backend == "reference") return;
  impl_->weights_size = WeightBytes(*request.module);
  impl_->weights = std::make_unique<Pages>(impl_->weights_size);
  FillWeights(*request.module, *request.weights, request.jobs, impl_->weights->begin(),
              [&](double done) { Report(request, "weights", done); });
}

MemoryPlan::~MemoryPlan() = default;
const Manifest& MemoryPlan::manifest() const { return impl_->manifest; }
const uint8_t* MemoryPlan::weights() const { return impl_->weights ? impl_->weights->begin() : nullptr; }
uint64_t MemoryPlan::weights_size() const { return impl_->weights_size; }

LlmcPhaseFn MemoryPlan::Entry(const std::string& name) const {
#ifdef LLMC_WITH_LLVM
  if (impl_->jit) return reinterpret_cast<LlmcPhaseFn>(impl_->jit->PhaseEntry(name));
#endif
  LLMC_CHECK(false, "backend " + impl_->manifest.backend + " has no code for " + name);
  return nullptr;
}

}  // namespace llmc
