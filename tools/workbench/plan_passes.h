// A plan's passes, run again: its IR after any of them, and what they had to say. Nothing of the plan is executed.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/diag.h"
#include "ir/module.h"
#include "passes/pass.h"
#include "runtime/plan.h"

namespace llmc {

// The passes that made the plan, in order.
std::vector<std::string> PassesOf(const PlanFile& plan);
// The module behind `pass` ("" : behind the last one), as import's text and the same passes give it; `remarks` are theirs,
// layers folded, and `after` is called when they are out. Throws PlanError when this llmc's passes don't make the plan's final text, UsageError for a pass that
// didn't run.
Module RunPassesOf(const PlanFile& plan, const std::string& pass, const DiagSink& remarks = {},
                   const std::function<void(const PassInfo&, bool changed)>& after = {});

}  // namespace llmc
