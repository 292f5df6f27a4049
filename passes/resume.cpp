// The rules of modules that come as text from the middle of the pipeline.
#include "passes/resume.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/diag.h"
#include "ir/math.h"
#include "passes/pass.h"

namespace llmc {
namespace {

// `backend` is onednn or auto, and `onednn` lists functions of the module, all of them for onednn.
void CheckSelection(const Module& module, const std::string& file) {
  const auto fail = [&](const std::string& rule) { Fail(DiagKind::BadAttribute, {file, "1"}, rule); };
  const AttrValue *backend = module.options.Find("backend"), *onednn = module.options.Find("onednn");
  if (backend == nullptr && onednn == nullptr) return;
  if (!HasRun(module, "select-backend")) fail("the module has select-backend's options, and the pass has not run");
  const std::string name = OptionText(backend);
  if (name != "onednn" && name != "auto")
    fail(fmt::format("the module's option backend is {}; with select-backend's choice it is onednn or auto", name));
  const auto* listed = onednn == nullptr ? nullptr : std::get_if<std::vector<Dim>>(onednn);
  if (onednn != nullptr && listed == nullptr)
    fail(fmt::format("the module's option onednn is {}; it is a list of functions", OptionText(onednn)));
  size_t functions = 0;
  for (const Func& func : module.funcs) functions += RunsOnOnednn(module, func) ? 1 : 0;
  if (functions != (listed == nullptr ? 0 : listed->size()))
    fail("the module's option onednn lists what is no function, or one twice");
  if (name == "onednn" && functions != module.funcs.size())
    fail(fmt::format("the module's option backend is onednn, and onednn lists {} of {} functions", functions,
                     module.funcs.size()));
}

}  // namespace

std::string OptionText(const AttrValue* value) {
  if (value == nullptr) return "not set";
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  if (const auto* flag = std::get_if<bool>(value)) return *flag ? "true" : "false";
  const auto* number = std::get_if<int64_t>(value);
  return number == nullptr ? "of another kind" : std::to_string(*number);
}

void CheckStage(const Module& module, const std::string& file) {
  const AttrValue* option = module.options.Find("after");
  const std::string* after = option == nullptr ? nullptr : std::get_if<std::string>(option);
  if (after == nullptr || (*after != "import" && FindPass(*after) == nullptr))
    Fail(DiagKind::BadAttribute, {file, "1"},
         fmt::format("the module's option after is {}; it names a pass, or import", OptionText(option)));
  const AttrValue* numerics = module.options.Find("numerics");
  if (numerics == nullptr || *numerics != AttrValue(math::kNumerics))
    Fail(DiagKind::BadAttribute, {file, "1"},
         fmt::format("the module's option numerics is {}; this llmc computes by version {} (ir/README.md)",
                     OptionText(numerics), math::kNumerics));
  CheckSelection(module, file);
}

bool HasRun(const Module& module, std::string_view pass) {
  const AttrValue* list = module.options.Find("passes");
  const auto* ran = list == nullptr ? nullptr : std::get_if<std::vector<Dim>>(list);
  return ran != nullptr && std::find(ran->begin(), ran->end(), Dim(std::string(pass))) != ran->end();
}

std::vector<std::string> PassesLeft(const Module& module) {
  std::vector<std::string> names;
  const std::string& after = module.options.Ident("after");
  bool behind = FindPass(after) == nullptr;
  for (const PassInfo& pass : AllPasses()) {
    if (behind) names.emplace_back(pass.name);
    behind = behind || pass.name == after;
  }
  return names;
}

std::optional<std::string> SelectedBackend(const Module& module) {
  if (!HasRun(module, "select-backend")) return std::nullopt;
  const AttrValue* option = module.options.Find("backend");
  const auto* chosen = option == nullptr ? nullptr : std::get_if<std::string>(option);
  return chosen != nullptr ? *chosen : "llvm";
}

}  // namespace llmc
