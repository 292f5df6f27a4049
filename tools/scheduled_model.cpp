// From a model to the scheduled module.
#include "tools/scheduled_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "backends/backend.h"
#include "ir/options.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/check.h"
#include "passes/resume.h"
#include "tools/note.h"
#include "tools/pass_context.h"
#include "tools/progress.h"
#include "tools/remarks.h"
#include "tools/text_file.h"

namespace llmc {
namespace {

bool Wants(const std::vector<std::string>& names, std::string_view pass) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name == pass || name == "all"; });
}

void PrintIr(const std::string& when, const Module& module, bool changed, bool schedule) {
  Note(fmt::format("# {}{}\n", when, changed ? "" : ": no change"));
  if (changed) Note(IrText(module, schedule));
}

// One numbered file a pass that changed something: 00-import.ir, 01-canonicalize.ir, ... Each with its schedule is input
// for --from.
class Dump {
 public:
  Dump(const std::string& folder, bool schedule) : folder_(folder), schedule_(schedule) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) Fail(DiagKind::FileError, {folder_, ""}, error.message());
  }
  void Write(const std::string& name, const Module& module, bool changed) {
    if (changed) WriteText(fmt::format("{}/{:02}-{}.ir", folder_, number_, name), IrText(module, schedule_));
    ++number_;
  }

 private:
  std::string folder_;
  bool schedule_;
  int number_ = 0;
};

// The module of --from.
Module ReadModule(const std::string& file) {
  Module module = Parse(ReadText(file), file);
  Verify(module, file);
  CheckStage(module, file);
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
  const auto take_text = [&](const char* option, bool given, std::string& value) {
    take(option, given, value, [option](std::string_view text) { return IsOptionValue(option, text); });
  };
  take("context", flags.context_given, model.context, positive);
  take("chunk", flags.chunk_given, model.chunk, positive);
  take_text("kv_type", flags.kv_type_given, model.kv_type);
  take_text("activations", flags.activations_given, model.activations);
  take_text("quantize", flags.quantize_given, model.quantize);
  take("hidden", model.hidden, model.hidden, [](bool) { return true; });
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
      {"quantize", "--quantize", given.quantize_given}, {"random", "--weights", !given.model.weights.empty()},
      {"hidden", "--hidden", given.model.hidden}};
  for (const auto& [option, flag, on_command_line] : options) {
    if (flags.model.no_weights && std::string_view(option) == "random") continue;
    const AttrValue *has = module.options.Find(option), *wanted = imported.options.Find(option);
    if (has == nullptr ? wanted == nullptr : wanted != nullptr && *has == *wanted) continue;
    if (on_command_line)
      throw UsageError(fmt::format("{} contradicts {}: {} is {}, there {}", flag, flags.from, option,
                                   OptionText(wanted), OptionText(has)));
    Fail(DiagKind::BadAttribute, {flags.from, "1"},
         fmt::format("the module's option {} is {}; import of {} makes it {}", option, OptionText(has),
                     flags.model.model, OptionText(wanted)));
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

// Whether the module of --from is what the passes that have run on it make of the model as it was imported: then it
// adds nothing to what the plan is made from.
bool IsMadeFrom(const Module& from, Module imported) {
  PipelineOptions pipeline;
  if (const AttrValue* ran = from.options.Find("passes"))
    for (const Dim& pass : std::get<std::vector<Dim>>(*ran)) pipeline.passes.push_back(ToText(pass));
  const AttrValue* backend = from.options.Find("backend");
  const auto* name = backend == nullptr ? nullptr : std::get_if<std::string>(backend);
  PassContext context = ContextFor(name == nullptr ? "llvm" : *name, TargetsOf(from));
  context.choose = [&from](const Module&, const Func& func) {  // what auto chose may have been on another CPU
    return BackendChoice{RunsOnOnednn(from, func), "as in the module"};
  };
  try {
    if (!pipeline.passes.empty()) RunPipeline(imported, context, pipeline);
  } catch (const InputError&) {
    return false;
  }
  return Print(imported) == Print(from);
}

// What made a plan is what it says: a module that is not the model's is an input of its own, and the description that
// it contradicts is named as such.
void NoteInputs(const Module& from, const CompileFlags& flags, Model& model) {
  if (IsMadeFrom(from, model.module)) return;
  std::string path = flags.model.model;
  for (InputHash& input : model.inputs) {
    if (input.role != "config") continue;
    input.role = "config-contradicted-by-ir";
    path = input.path;
  }
  PrintDiag({Severity::Warning,
             DiagKind::BadAttribute,
             {flags.from, ""},
             fmt::format("the module isn't what import and passes make of {}: the plan computes by the module", path),
             {}});
  model.inputs.push_back({"ir", flags.from});
}

// The backend that the passes choose for: the command line's, or the one of the module of --from, where they may have
// chosen already.
std::string BackendOf(const Module& module, const CompileFlags& flags) {
  if (flags.from.empty()) return flags.backend;
  const std::optional<std::string> selected = SelectedBackend(module);
  if (!selected) return flags.backend;
  const std::string& has = *selected;
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

}  // namespace

ScheduledModel ScheduleModel(const CompileFlags& given) {
  ScheduledModel scheduled;
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
  scheduled.model = LoadModel(options);
  if (flags.time_passes)
    Note(PassTimeText("import", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
  Module& module = scheduled.model.module;
  if (!flags.from.empty()) {
    CheckFrom(from, module, flags, given);
    NoteInputs(from, flags, scheduled.model);
  }
  if (!flags.from.empty() && from.options.Ident("after") == "import") module = from;
  scheduled.import_text = Print(module);
  if (!flags.from.empty()) module = std::move(from);
  if (!flags.context_given && flags.from.empty())
    Note(fmt::format("context: {} positions\n", module.options.Int("context")));

  scheduled.backend = BackendOf(module, flags);
  CheckBackend(scheduled.backend);
  scheduled.targets = TargetsFor(module, flags);
  PipelineOptions pipeline;
  pipeline.file = flags.from.empty() ? flags.model.model : flags.from;
  pipeline.disabled.insert(flags.disable_pass.begin(), flags.disable_pass.end());
  pipeline.stop_after = flags.stop_after == "import" ? "" : flags.stop_after;
  pipeline.passes = PassesLeft(module);
  if (!flags.from.empty()) CheckPassesLeft(module, flags, pipeline.passes);
  for (const std::vector<std::string>* names : {&flags.print_after, &flags.print_before})
    for (const std::string& name : *names)
      if (name != "all" && name != "import" && FindPass(name) == nullptr)
        throw UsageError(fmt::format("no pass is called \"{}\" (llmc opt --list-passes)", name));

  std::unique_ptr<Dump> dump;
  if (!flags.dump_ir.empty()) {
    dump = std::make_unique<Dump>(flags.dump_ir, !flags.no_schedule);
    dump->Write("import", module, true);
  }
  if (Wants(flags.print_after, "import")) PrintIr("after import", module, true, !flags.no_schedule);
  std::unique_ptr<PassCheck> check;
  if (flags.check) {
    if (!scheduled.model.weights) throw UsageError("--check evaluates the model: it needs weights");
    check = std::make_unique<PassCheck>(module, *scheduled.model.weights);
  }
  const bool quiet = !flags.remarks && !flags.check && !flags.time_passes && flags.print_after.empty() &&
                     flags.print_before.empty();  // nothing else is written between the passes
  Progress progress(quiet && isatty(STDERR_FILENO) != 0, false, 0);
  const double passes = static_cast<double>(pipeline.passes.size());
  double done = 0;
  pipeline.before = [&](const PassInfo& pass, const Module& now) {
    progress(pass.name, done++ / passes);
    if (Wants(flags.print_before, pass.name))
      PrintIr(fmt::format("before {}", pass.name), now, true, !flags.no_schedule);
  };
  Remarks remarks(PrintDiag);
  pipeline.after = [&](const PassInfo& pass, const Module& now, bool changed, double seconds) {
    if (flags.time_passes) Note(PassTimeText(pass.name, seconds, changed));
    if (Wants(flags.print_after, pass.name))
      PrintIr(fmt::format("after {}", pass.name), now, changed, !flags.no_schedule);
    if (dump) dump->Write(std::string(pass.name), now, changed);
    remarks.Flush();
    if (check) check->After(pass, now);
  };
  const bool stands = flags.stop_after == module.options.Ident("after");  // nothing is left to do
  PassContext context = ContextFor(scheduled.backend, scheduled.targets);
  if (flags.remarks) context.remark = [&](const Diag& diag) { remarks.Add(diag); };
  if (!stands && !pipeline.passes.empty()) RunPipeline(module, context, pipeline);
  scheduled.stopped = !flags.stop_after.empty();
  return scheduled;
}

}  // namespace llmc
