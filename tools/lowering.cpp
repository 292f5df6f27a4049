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
#include <unistd.h>

#include "backends/backend.h"
#include "ir/math.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/check.h"
#include "runtime/plan_layout.h"
#include "tools/note.h"
#include "tools/pass_context.h"

namespace llmc {
namespace {

bool Wants(const std::vector<std::string>& names, std::string_view pass) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name == pass || name == "all"; });
}

void PrintIr(const std::string& when, const Module& module, bool changed) {
  Note(fmt::format("# {}{}\n", when, changed ? "" : ": no change"));
  if (changed) Note(Print(module));
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

std::string Said(const AttrValue* value) {
  if (value == nullptr) return "not set";
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  const auto* number = std::get_if<int64_t>(value);
  return number == nullptr ? "of another kind" : std::to_string(*number);
}

bool HasRun(const Module& module, const std::string& pass) {
  const AttrValue* list = module.options.Find("passes");
  const auto* ran = list == nullptr ? nullptr : std::get_if<std::vector<Dim>>(list);
  return ran != nullptr && std::find(ran->begin(), ran->end(), Dim(pass)) != ran->end();
}

// select-backend's options agree: `backend` is onednn or auto, and `onednn` lists functions of the module, all of them
// for onednn.
void CheckSelection(const Module& module, const std::string& file) {
  const auto fail = [&](const std::string& rule) { Fail(DiagKind::BadAttribute, {file, "1"}, rule); };
  const AttrValue *backend = module.options.Find("backend"), *onednn = module.options.Find("onednn");
  if (backend == nullptr && onednn == nullptr) return;
  if (!HasRun(module, "select-backend")) fail("the module has select-backend's options, and the pass has not run");
  const std::string name = Said(backend);
  if (name != "onednn" && name != "auto")
    fail(fmt::format("the module's option backend is {}; with select-backend's choice it is onednn or auto", name));
  const auto* listed = onednn == nullptr ? nullptr : std::get_if<std::vector<Dim>>(onednn);
  if (onednn != nullptr && listed == nullptr)
    fail(fmt::format("the module's option onednn is {}; it is a list of functions", Said(onednn)));
  size_t functions = 0;
  for (const Func& func : module.funcs) functions += RunsOnOnednn(module, func) ? 1 : 0;
  if (functions != (listed == nullptr ? 0 : listed->size()))
    fail("the module's option onednn lists what is no function, or one twice");
  if (name == "onednn" && functions != module.funcs.size())
    fail(fmt::format("the module's option backend is onednn, and onednn lists {} of {} functions", functions,
                     module.funcs.size()));
}

// The module of --from. Its option `after` says where in the pipeline it stands.
Module ReadModule(const std::string& file) {
  Module module = Parse(ReadText(file), file);
  Verify(module, file);
  const AttrValue* option = module.options.Find("after");
  const std::string* after = option == nullptr ? nullptr : std::get_if<std::string>(option);
  if (after == nullptr || (*after != "import" && FindPass(*after) == nullptr))
    Fail(DiagKind::BadAttribute, {file, "1"},
         fmt::format("the module's option after is {}; it names a pass, or import", Said(option)));
  const AttrValue* numerics = module.options.Find("numerics");
  if (numerics == nullptr || *numerics != AttrValue(math::kNumerics))
    Fail(DiagKind::BadAttribute, {file, "1"},
         fmt::format("the module's option numerics is {}; this llmc computes by version {} (ir/README.md)",
                     Said(numerics), math::kNumerics));
  CheckSelection(module, file);
  return module;
}

// What the command line leaves open is as the module of --from says, so that MODEL is imported as it was for that
// module.
void TakeOptions(const Module& from, CompileFlags& flags) {
  ModelOptions& model = flags.model;
  const auto take = [&]<typename T>(const char* option, bool given, T& value, auto allows) {
    const AttrValue* said = given ? nullptr : from.options.Find(option);
    const T* known = said == nullptr ? nullptr : std::get_if<T>(said);
    if (known != nullptr && allows(*known)) value = *known;  // CheckFrom reports what isn't allowed
  };
  const auto positive = [](int64_t value) { return value > 0; };
  const auto one_of = [](auto... known) { return [=](std::string_view value) { return ((value == known) || ...); }; };
  take("context", flags.context_given, model.context, positive);
  take("chunk", flags.chunk_given, model.chunk, positive);
  take("kv_type", flags.kv_type_given, model.kv_type, one_of("f16", "f32"));
  take("activations", flags.activations_given, model.activations, one_of("q8", "f32", "bf16"));
  take("quantize", flags.quantize_given, model.quantize, one_of("q8_0", "q4_0"));
  int64_t seed = -1;
  take("random", !model.weights.empty() || model.no_weights, seed, [](int64_t value) { return value >= 0; });
  if (seed >= 0) model.weights = fmt::format("random:{}", seed);
}

// The module of --from goes with MODEL as it was imported with the command line's options: each option that import
// records is the same, and each weight is one of the model's, of the same type. What differs although the command line
// leaves it open (`given` is the command line) is the module's fault.
void CheckFrom(const Module& module, const Module& imported, const CompileFlags& flags, const CompileFlags& given) {
  const struct {
    const char *option, *flag;
    bool given;
  } options[] = {
      {"context", "--context", given.context_given},    {"chunk", "--chunk", given.chunk_given},
      {"kv_type", "--kv-type", given.kv_type_given},    {"activations", "--activations", given.activations_given},
      {"quantize", "--quantize", given.quantize_given}, {"random", "--weights", !given.model.weights.empty()}};
  for (const auto& [option, flag, on_command_line] : options) {
    if (flags.model.no_weights && std::string_view(option) == "random") continue;
    const AttrValue *has = module.options.Find(option), *wanted = imported.options.Find(option);
    if (has == nullptr ? wanted == nullptr : wanted != nullptr && *has == *wanted) continue;
    if (on_command_line)
      throw UsageError(
          fmt::format("{} contradicts {}: {} is {}, there {}", flag, flags.from, option, Said(wanted), Said(has)));
    Fail(DiagKind::BadAttribute, {flags.from, "1"},
         fmt::format("the module's option {} is {}; import of {} makes it {}", option, Said(has), flags.model.model,
                     Said(wanted)));
  }
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
}

// The backend that the passes choose for: the command line's, or the one of the module of --from, where they may have
// chosen already.
std::string BackendOf(const Module& module, const CompileFlags& flags) {
  if (flags.from.empty()) return flags.backend;
  const AttrValue* option = module.options.Find("backend");
  const auto* chosen = option == nullptr ? nullptr : std::get_if<std::string>(option);
  if (!HasRun(module, "select-backend")) return flags.backend;
  const std::string has = chosen != nullptr ? *chosen : "llvm";
  const bool plain = has == "llvm" && flags.backend == "reference";  // one IR for both
  if (flags.backend_given && flags.backend != has && !plain)
    throw UsageError(fmt::format("--backend {} contradicts {}, which is for {}", flags.backend, flags.from, has));
  return flags.backend_given ? flags.backend : has;
}

// The targets that the passes choose for, the same way: auto has recorded them.
std::string TargetsFor(const Module& module, const CompileFlags& flags) {
  const std::string has = flags.from.empty() ? "" : TargetsOf(module);
  if (flags.target_given && !has.empty() && flags.target_cpu != has)
    throw UsageError(fmt::format("--target-cpu {} contradicts {}, which is for {}", flags.target_cpu, flags.from, has));
  return has.empty() ? flags.target_cpu : has;
}

// What the command line leaves out has not run; where it stops is still ahead, or where the module stands.
void CheckPassesLeft(const Module& module, const CompileFlags& flags, const std::vector<std::string>& left) {
  for (const std::string& pass : flags.disable_pass)
    if (HasRun(module, pass))
      throw UsageError(fmt::format("--disable-pass {} contradicts {}, where it has run", pass, flags.from));
  const std::string& stop = flags.stop_after;
  const bool known = stop == "import" || FindPass(stop) != nullptr;
  if (known && stop != module.options.Ident("after") && std::find(left.begin(), left.end(), stop) == left.end())
    throw UsageError(fmt::format("--stop-after {} contradicts {}, which is behind it", stop, flags.from));
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

void PrintDiag(const Diag& diag) { Note(fmt::format("{}\n", ToText(diag))); }

bool IsPlanFile(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return false;  // opening a pipe would wait for a writer
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  char magic[sizeof kPlanMagic];
  return file && std::fread(magic, 1, sizeof magic, file.get()) == sizeof magic &&
         std::memcmp(magic, kPlanMagic, sizeof magic) == 0;
}

std::string ReadText(const std::string& path) {
  constexpr size_t kMost = size_t{256} << 20;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"),
                                                       [](std::FILE* f) { return f == stdin ? 0 : std::fclose(f); });
  if (!file) Fail(DiagKind::FileError, {path, ""}, std::strerror(errno));
  std::string text;
  char buffer[1 << 16];
  for (size_t n = sizeof buffer; n == sizeof buffer;) {
    n = std::fread(buffer, 1, sizeof buffer, file.get());
    text.append(buffer, n);
    if (text.size() > kMost) Fail(DiagKind::TooLarge, {path, ""}, fmt::format("more than {} bytes", kMost));
  }
  if (std::ferror(file.get())) Fail(DiagKind::FileError, {path, ""}, std::strerror(errno));
  return text;
}

void WriteText(const std::string& path, const std::string& text) {
  const bool to_stdout = path == "-";
  // A rename would put a file in the place of a device, or of a link such as /dev/stdout.
  std::error_code none;
  const std::filesystem::file_status found = std::filesystem::status(path, none);
  const bool in_place = to_stdout || (exists(found) && !is_regular_file(found));
  const std::string target = is_regular_file(found) ? std::filesystem::canonical(path, none).string() : path;
  const std::string written = in_place ? path : fmt::format("{}.{}.part", target, getpid());
  std::FILE* file = to_stdout ? stdout : std::fopen(written.c_str(), "wb");
  if (file == nullptr) Fail(DiagKind::FileError, {path, ""}, std::strerror(errno));
  bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = std::fflush(file) == 0 && good;
  int error = errno;
  if (!to_stdout) good = std::fclose(file) == 0 && good;
  if (!in_place) {
    if (good && std::rename(written.c_str(), target.c_str()) != 0) {
      error = errno;
      good = false;
    }
    if (!good) std::remove(written.c_str());
  }
  if (!good) Fail(DiagKind::FileError, {to_stdout ? "stdout" : path, ""}, std::strerror(error));
}

Lowered Lower(const CompileFlags& given) {
  Lowered lowered;
  CheckBackend(given.backend);
  CompileFlags flags = given;
  Module from;
  if (!flags.from.empty()) {
    from = ReadModule(flags.from);
    TakeOptions(from, flags);
  }
  ModelOptions options = flags.model;
  options.sink = PrintDiag;
  const auto start = std::chrono::steady_clock::now();
  lowered.model = LoadModel(options);
  if (flags.time_passes)
    Note(fmt::format("{:<24} {:8.3f} ms\n", "import",
                     std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()));
  Module& module = lowered.model.module;
  if (!flags.from.empty()) CheckFrom(from, module, flags, given);
  if (!flags.from.empty() && from.options.Ident("after") == "import") module = from;
  lowered.import_text = Print(module);
  if (!flags.from.empty()) module = std::move(from);
  if (!flags.context_given && flags.from.empty())
    Note(fmt::format("context: {} positions\n", module.options.Int("context")));

  lowered.backend = BackendOf(module, flags);
  CheckBackend(lowered.backend);
  lowered.targets = TargetsFor(module, flags);
  PipelineOptions pipeline;
  pipeline.file = flags.from.empty() ? flags.model.model : flags.from;
  pipeline.disabled.insert(flags.disable_pass.begin(), flags.disable_pass.end());
  pipeline.stop_after = flags.stop_after == "import" ? "" : flags.stop_after;
  pipeline.passes = Remaining(module);
  if (!flags.from.empty()) CheckPassesLeft(module, flags, pipeline.passes);
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
      Note(fmt::format("{:<24} {:8.3f} ms{}\n", pass.name, seconds * 1e3, changed ? "" : "  (no change)"));
    if (Wants(flags.print_after, pass.name)) PrintIr(fmt::format("after {}", pass.name), now, changed);
    if (dump) dump->Write(std::string(pass.name), now, changed);
    if (check) check->After(pass, now);
  };
  const bool stands = flags.stop_after == module.options.Ident("after");  // nothing is left to do
  PassContext context = ContextFor(lowered.backend, lowered.targets);
  if (flags.remarks) context.remark = PrintDiag;
  if (!stands && !pipeline.passes.empty()) RunPipeline(module, context, pipeline);
  lowered.stopped = !flags.stop_after.empty();
  return lowered;
}

}  // namespace llmc
