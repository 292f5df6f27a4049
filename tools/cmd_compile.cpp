// llmc compile: a model becomes a plan, or with --stop-after its IR becomes text.
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "ir/text.h"
#include "runtime/plan_io.h"
#include "tools/note.h"
#include "tools/plan_request.h"
#include "tools/progress.h"
#include "tools/text_file.h"

namespace llmc {
namespace {

int Jobs(const CompileFlags& flags) {
  cpu_set_t cpus;
  if (flags.jobs > 0) return flags.jobs;
  return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
}

}  // namespace

PlanRequest RequestOf(const CompileFlags& flags, const ScheduledModel& scheduled) {
  const Model& model = scheduled.model;
  PlanRequest request;
  request.module = &model.module;
  request.weights = model.weights.get();
  request.backend = scheduled.backend;
  request.targets = scheduled.targets;
  request.jobs = Jobs(flags);
  request.self_test = !flags.no_selftest;
  request.allow_nonfinite = flags.model.allow_nonfinite;
  request.build_id = FrontendBuildId();
  request.import_ir = scheduled.import_text;
  request.final_ir = Print(model.module);
  request.tokenizer = model.tokenizer;
  request.chat_template = model.chat_template;
  request.chat = model.chat;
  request.generation = model.generation;
  request.pooling = model.pooling;
  for (const InputHash& input : model.inputs) request.inputs.push_back({input.role, input.path});
  const bool show = isatty(STDERR_FILENO) != 0;
  if (show || flags.time_passes) {
    const AttrValue* bytes = model.module.options.Find("weight_bytes");
    const auto* weights = bytes == nullptr ? nullptr : std::get_if<int64_t>(bytes);
    const auto progress =
        std::make_shared<Progress>(show, flags.time_passes, weights == nullptr ? 0 : static_cast<uint64_t>(*weights));
    request.progress = [progress](std::string_view stage, double done) { (*progress)(stage, done); };
  }
  return request;
}

// The loader without libraries that this llmc was built or installed with.
static std::string ReadLoader() {
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  for (const char* place : {"llmc-run-static", "../libexec/llmc/llmc-run-static"}) {
    const std::filesystem::path path = folder / place;
    if (std::filesystem::is_regular_file(path, none)) return ReadWholeFile(path.string());
  }
  Fail(DiagKind::FileError, {(folder / "llmc-run-static").string(), ""},
       "--standalone puts this program in front of the plan, and it isn't there (it is built where static libraries "
       "are)");
}

// The code to flags.output, and its header beside it.
static int EmitTo(const CompileFlags& flags, const ScheduledModel& scheduled) {
  static const std::map<std::string_view, CodeForm> kForms = {
      {"obj", CodeForm::Object}, {"so", CodeForm::SharedObject}, {"asm", CodeForm::Assembly}, {"ll", CodeForm::LlvmIr}};
  PlanRequest request = RequestOf(flags, scheduled);
  const EmittedCode emitted = EmitPhases(request, kForms.at(flags.emit));
  request.progress = {};
  const std::string header = std::filesystem::path(flags.output).replace_extension(".h").string();
  for (const InputHash& input : scheduled.model.inputs)
    for (const std::string& output : {flags.output, header})
      if (std::error_code none; std::filesystem::equivalent(input.path, output, none))
        Fail(DiagKind::FileError, {output, ""}, "the output is the input " + input.path);
  WriteText(flags.output, emitted.code);
  try {
    WriteText(header, emitted.header);
  } catch (...) {
    std::filesystem::remove(flags.output);
    throw;
  }
  Note(fmt::format("{}: {} bytes; {}: its entries\n", flags.output, emitted.code.size(), header));
  return 0;
}

int CommandCompile(const CompileFlags& given) {
  CompileFlags flags = given;
  if (!flags.emit.empty()) {
    if (!flags.stop_after.empty() || flags.standalone)
      throw UsageError("--emit writes code in place of a plan: it doesn't go with --stop-after or --standalone");
    if (std::filesystem::path(flags.output).extension() == ".h")
      throw UsageError(fmt::format("-o {}: the header of --emit gets that name", flags.output));
    if (std::error_code none;
        std::filesystem::exists(flags.output, none) && !std::filesystem::is_regular_file(flags.output, none))
      throw UsageError(fmt::format("-o {}: code and header go into two files", flags.output));
    if (!flags.target_given) flags.target_cpu = "native";
  }
  if (flags.output.empty() && flags.stop_after.empty())
    throw UsageError("compile needs -o OUT.plan (or --stop-after PASS, which prints the IR)");
  if (flags.output == "-" && flags.stop_after.empty()) throw UsageError("-o -: a plan goes into a file, not to stdout");
  const ScheduledModel scheduled = ScheduleModel(flags);
  if (scheduled.stopped) {
    for (const InputHash& input : scheduled.model.inputs) {
      std::error_code none;
      if (std::filesystem::equivalent(input.path, flags.output, none))
        Fail(DiagKind::FileError, {flags.output, ""}, "the output is the input " + input.path);
    }
    WriteText(flags.output.empty() ? "-" : flags.output, Print(scheduled.model.module));
    return 0;
  }
  if (!flags.emit.empty()) return EmitTo(flags, scheduled);
  if (flags.model.no_weights)
    throw UsageError("a plan needs weights: --no-weights goes with --stop-after, or with describe");
  PlanRequest request = RequestOf(flags, scheduled);
  if (flags.standalone) request.loader = ReadLoader();
  const uint64_t size = WritePlan(request, flags.output);
  request.progress = {};  // its line is gone
  const bool mute = scheduled.model.tokenizer.empty() && !flags.model.no_tokenizer;
  Note(fmt::format("{}: {} bytes{}\n", flags.output, size,
                   mute ? "; the model has no tokenizer, so the plan takes ids alone" : ""));
  return 0;
}

}  // namespace llmc
