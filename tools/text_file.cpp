// Reading and writing by the plan layer's files, with the command line's "-".
#include "tools/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "ir/text.h"
#include "runtime/plan_error.h"
#include "runtime/plan_io.h"
#include "runtime/plan_layout.h"
#include "tools/note.h"

namespace llmc {

std::string IrText(const Module& module, bool schedule, bool flat) {
  if (schedule) return Print(module, {.flat = flat});
  Module bare = module;
  for (Global& global : bare.globals) global.offset.reset();
  for (Func& func : bare.funcs) {
    for (Op& op : func.ops) op.schedule.reset();
    for (Value& value : func.values) value.at.reset();
  }
  return Print(bare, {.flat = flat});
}

void PrintDiag(const Diag& diag) { Note(fmt::format("{}\n", ToText(diag))); }

bool IsPlanFile(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return false;  // opening a pipe would wait for a writer
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  return file && FindPlan(fileno(file.get()), std::filesystem::file_size(path, none)).has_value();
}

namespace {

// What the plan layer says of a file, as a diagnostic: "PATH: rule" becomes place and rule.
[[noreturn]] void FailAs(DiagKind kind, const std::string& path, const PlanError& error) {
  const std::string_view what = error.what();
  Fail(kind, {path, ""}, std::string(what.starts_with(path + ": ") ? what.substr(path.size() + 2) : what));
}

}  // namespace

std::string ReadText(const std::string& path) {
  constexpr size_t kMost = size_t{256} << 20;
  const std::string file = path == "-" ? "/dev/stdin" : path;
  try {
    return ReadWholeFile(file, kMost);
  } catch (const PlanError& error) {
    const bool large = std::string_view(error.what()).find(": more than ") != std::string_view::npos;
    FailAs(large ? DiagKind::TooLarge : DiagKind::FileError, file, error);
  }
}

void WriteText(const std::string& path, const std::string& text) {
  if (path != "-") {
    try {
      OutputFile file(path, OutputFile::Devices::InPlace);
      file.Write(text.data(), text.size());
      file.Publish(false);
      return;
    } catch (const PlanError& error) {
      FailAs(DiagKind::FileError, path, error);
    }
  }
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) != 0 || !whole) Fail(DiagKind::FileError, {"stdout", ""}, std::strerror(errno));
}

}  // namespace llmc
