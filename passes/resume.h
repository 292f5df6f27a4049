// Where in the pipeline a module stands, and what may follow: its option `after` names the last pass (import: none has
// run), its option `passes` those that ran.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace llmc {

// Throws InputError at line 1 of `file`: `after` is missing or names no pass; `numerics` is of another version; select-backend's options `backend` and
// `onednn` contradict each other, the functions of the module, or that the pass has not run.
void CheckStage(const Module& module, const std::string& file);

bool HasRun(const Module& module, std::string_view pass);
// The passes that are still to run, in order. The module has been checked.
std::vector<std::string> PassesLeft(const Module& module);
// The backend that select-backend has chosen functions for (llvm when it chose none); nullopt: it has not run.
std::optional<std::string> SelectedBackend(const Module& module);

// An option's value for messages: "f16", "4096", "not set".
std::string OptionText(const AttrValue* value);

}  // namespace llmc
