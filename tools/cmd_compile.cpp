// llmc compile: a model becomes a plan, or with --stop-after its IR becomes text.
#include <chrono>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "ir/text.h"
#include "runtime/plan_io.h"
#include "tools/note.h"
#include "tools/plan_request.h"
#include "tools/text_file.h"

namespace llmc {
namespace {

int Jobs(const CompileFlags& flags) {
  cpu_set_t cpus;
  if (flags.jobs > 0) return flags.jobs;
  return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
}

// Progress on a terminal (one line that is written over), and with --time-passes the time of each stage that ends.
class Stages {
 public:
  Stages(bool show, bool time) : show_(show), time_(time) {}
  void operator()(std::string_view stage, double done) {
    const auto now = std::chrono::steady_clock::now();
    if (stage != stage_) {
      stage_ = stage;
      percent_ = -1;
    }
    const int percent = static_cast<int>(done * 100);
    if (show_ && percent != percent_) Note(fmt::format("\r{:<12} {:3}%", stage, percent));
    if (show_) std::fflush(stderr);
    if (done >= 1 && percent_ < 100) {
      if (time_)
        Note(fmt::format("{}{:<24} {:8.3f} ms\n", show_ ? "\r" : "", stage,
                         std::chrono::duration<double, std::milli>(now - begin_).count()));
      begin_ = now;
    }
    percent_ = percent;
  }

 private:
  bool show_, time_;
  std::string stage_;
  int percent_ = -1;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

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
  for (const InputHash& input : model.inputs) request.inputs.push_back({input.role, input.path});
  const bool show = isatty(STDERR_FILENO) != 0;
  if (show || flags.time_passes) request.progress = Stages(show, flags.time_passes);
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

int CommandCompile(const CompileFlags& flags) {
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
  if (flags.model.no_weights)
    throw UsageError("a plan needs weights: --no-weights goes with --stop-after, or with describe");
  PlanRequest request = RequestOf(flags, scheduled);
  if (flags.standalone) request.loader = ReadLoader();
  const uint64_t size = WritePlan(request, flags.output);
  Note(fmt::format("{}{}: {} bytes\n", isatty(STDERR_FILENO) ? "\r" : "", flags.output, size));
  return 0;
}

}  // namespace llmc
