// From a model to the scheduled module.
#include "tools/lowering.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "backends/backend.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/check.h"
#include "runtime/plan_layout.h"

namespace llmc {
namespace {

bool Wants(const std::vector<std::string>& names, std::string_view pass) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name == pass || name == "all"; });
}

void PrintIr(const std::string& when, const Module& module, bool changed) {
  fmt::print(stderr, "# {}{}\n", when, changed ? "" : ": no change");
  if (changed) fmt::print(stderr, "{}", Print(module));
}

// One numbered file a pass that changed something: 00-import.ir, 01-canonicalize.ir, ... Each is input for --from.
class Dump {
 public:
  explicit Dump(const std::string& folder) : folder_(folder) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) Fail(DiagKind::FileError, {folder_, ""}, error.message());
  }
  void Write(const std::string& name, const Module& module, bool changed) {
    if (changed) WriteText(fmt::format("{}/{:02}-{}.ir", folder_, number_, name), Print(module));
    ++number_;
  }

 private:
  std::string folder_;
  int number_ = 0;
};

// `option` was given and says something else than the module of --from.
void CheckOption(const Module& module, const std::string& file, const char* flag, bool given, const char* option,
                 const AttrValue& wanted) {
  const AttrValue* has = module.options.Find(option);
  if (given && has != nullptr && *has != wanted)
    throw UsageError(fmt::format("{} contradicts \"{}\" in {}", flag, option, file));
}

// The module of --from, with the weights of MODEL: each weight must be one of the model's, of the same type.
Module ReadModule(const CompileFlags& flags, const Module& imported) {
  Module module = Parse(ReadText(flags.from), flags.from);
  Verify(module, flags.from);
  CheckOption(module, flags.from, "--context", flags.context_given, "context", flags.model.context);
  CheckOption(module, flags.from, "--chunk", flags.chunk_given, "chunk", flags.model.chunk);
  CheckOption(module, flags.from, "--kv-type", flags.kv_type_given, "kv_type", flags.model.kv_type);
  CheckOption(module, flags.from, "--activations", flags.activations_given, "activations", flags.model.activations);
  for (const Global& global : module.globals) {
    if (global.kind != GlobalKind::Weight) continue;
    const int index = imported.FindGlobal(global.name);
    if (index < 0)
      Fail(DiagKind::UnknownName, {flags.from, std::to_string(global.line)},
           fmt::format("{} has no weight ${}", flags.model.model, ToText(global.name)));
    const Type& type = imported.globals[static_cast<size_t>(index)].type;
    if (type != global.type)
      Fail(DiagKind::TypeMismatch, {flags.from, std::to_string(global.line)},
           fmt::format("${} is {}, in {} it is {}", ToText(global.name), ToText(global.type), flags.model.model,
                       ToText(type)));
  }
  return module;
}

// The passes that are still to run on a module that says `after = PASS`.
std::vector<std::string> Remaining(const Module& module) {
  std::vector<std::string> names;
  const std::string& after = module.options.Ident("after");
  bool behind = FindPass(after) == nullptr;
  for (const PassInfo& pass : AllPasses()) {
    if (behind) names.emplace_back(pass.name);
    behind = behind || pass.name == after;
  }
  return names;
}

}  // namespace

void PrintDiag(const Diag& diag) { fmt::print(stderr, "{}\n", ToText(diag)); }

bool IsPlanFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  char magic[sizeof kPlanMagic];
  return file && std::fread(magic, 1, sizeof magic, file.get()) == sizeof magic &&
         std::memcmp(magic, kPlanMagic, sizeof magic) == 0;
}

PassContext ContextOf(bool remarks) {
  PassContext context;
  context.kernels.fused = FusedKernels();
  if (remarks) context.remark = PrintDiag;
  return context;
}

std::string ReadText(const std::string& path) {
  constexpr size_t kMost = size_t{256} << 20;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"),
                                                       [](std::FILE* f) { return f == stdin ? 0 : std::fclose(f); });
  if (!file) Fail(DiagKind::FileError, {path, ""}, std::strerror(errno));
  std::string text;
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, file.get())) > 0;) {
    text.append(buffer, n);
    if (text.size() > kMost) Fail(DiagKind::TooLarge, {path, ""}, fmt::format("more than {} bytes", kMost));
  }
  if (std::ferror(file.get())) Fail(DiagKind::FileError, {path, ""}, std::strerror(errno));
  return text;
}

void WriteText(const std::string& path, const std::string& text) {
  const bool to_stdout = path == "-";
  const std::string temporary = path + ".part";
  std::FILE* file = to_stdout ? stdout : std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) Fail(DiagKind::FileError, {path, ""}, std::strerror(errno));
  bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = std::fflush(file) == 0 && good;
  int error = errno;
  if (!to_stdout) {
    good = std::fclose(file) == 0 && good;
    if (good && std::rename(temporary.c_str(), path.c_str()) != 0) {
      error = errno;
      good = false;
    }
    if (!good) std::remove(temporary.c_str());
  }
  if (!good) Fail(DiagKind::FileError, {path, ""}, std::strerror(error));
}

Lowered Lower(const CompileFlags& flags) {
  Lowered lowered;
  ModelOptions options = flags.model;
  options.sink = PrintDiag;
  const auto start = std::chrono::steady_clock::now();
  lowered.model = LoadModel(options);
  if (flags.time_passes)
    fmt::print(stderr, "{:<24} {:8.3f} ms\n", "import",
               std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  Module& module = lowered.model.module;
  lowered.import_text = Print(module);
  if (!flags.from.empty()) module = ReadModule(flags, module);
  if (!flags.context_given && flags.from.empty())
    fmt::print(stderr, "context: {} positions\n", module.options.Int("context"));

  PipelineOptions pipeline;
  pipeline.file = flags.from.empty() ? flags.model.model : flags.from;
  pipeline.disabled.insert(flags.disable_pass.begin(), flags.disable_pass.end());
  pipeline.stop_after = flags.stop_after == "import" ? "" : flags.stop_after;
  pipeline.passes = Remaining(module);
  for (const std::vector<std::string>* names : {&flags.print_after, &flags.print_before})
    for (const std::string& name : *names)
      if (name != "all" && name != "import" && FindPass(name) == nullptr)
        throw UsageError(fmt::format("no pass is called \"{}\" (llmc opt --list-passes)", name));

  std::unique_ptr<Dump> dump;
  if (!flags.dump_ir.empty()) {
    dump = std::make_unique<Dump>(flags.dump_ir);
    dump->Write("import", module, true);
  }
  if (Wants(flags.print_after, "import")) PrintIr("after import", module, true);
  std::unique_ptr<PassCheck> check;
  if (flags.check) {
    if (!lowered.model.weights) throw UsageError("--check evaluates the model: it needs weights");
    check = std::make_unique<PassCheck>(module, *lowered.model.weights);
  }
  pipeline.before = [&](const PassInfo& pass, const Module& now) {
    if (Wants(flags.print_before, pass.name)) PrintIr(fmt::format("before {}", pass.name), now, true);
  };
  pipeline.after = [&](const PassInfo& pass, const Module& now, bool changed, double seconds) {
    if (flags.time_passes)
      fmt::print(stderr, "{:<24} {:8.3f} ms{}\n", pass.name, seconds * 1e3, changed ? "" : "  (no change)");
    if (Wants(flags.print_after, pass.name)) PrintIr(fmt::format("after {}", pass.name), now, changed);
    if (dump) dump->Write(std::string(pass.name), now, changed);
    if (check) check->After(pass, now);
  };
  if (flags.stop_after != "import" && !pipeline.passes.empty()) RunPipeline(module, ContextOf(flags.remarks), pipeline);
  lowered.stopped = !flags.stop_after.empty();
  return lowered;
}

}  // namespace llmc
