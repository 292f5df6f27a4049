// What llmc inspect shows of a plan, as reports. They read the plan and compute from it; nothing of it is executed, so that
// plans of any CPU can be looked at.
#pragma once
#include <cstdint>
#include <string>

#include "ir/module.h"
#include "runtime/plan.h"
#include "tools/workbench/report.h"

namespace llmc {

// The plan's final IR, verified.
Module FinalModule(const PlanFile& plan);

// Everything of the manifest, and the sections.
Report SummaryReport(const PlanFile& plan);
// What the loader and a session of `threads` map, to the byte; the peak by positions; each state; what lies in the
// arenas and from which step to which. context: positions that a run fills, 0: the plan's.
Report MemoryReport(const PlanFile& plan, uint32_t threads, uint32_t context);
// Every stored tensor by its offset: how it is made, type, layout, bytes, XXH3-64 of its bytes in the plan.
Report WeightsReport(const PlanFile& plan);
// Entries and functions of each target (only: that one alone; "": all). Throws UsageError for a target that the plan
// hasn't.
Report CodeReport(const PlanFile& plan, const std::string& only);
// Functions as instructions (function: "" for all of them). Throws UsageError for a function that no target has.
Report AssemblyReport(const PlanFile& plan, const std::string& only, const std::string& function);
// The same as a listing, functions apart.
std::string AssemblyText(const Report& assembly);
// A phase's steps as stored, and the kernel calls that they are: step between barriers, function, what threads divide.
Report ScheduleReport(const PlanFile& plan);
// The command that makes the plan, with MODEL and the like where paths stood, and the hashes of its inputs.
Report RecipeReport(const PlanFile& plan);

// "3fb2..." of a digest.
std::string HexText(const Sha256Digest& digest);
// A kernel call of a phase, or where a plan has no code the ops of one function.
struct CallView {
  std::string function;     // KERNEL.N, as --code lists it; "dnnl" for a product by oneDNN; "": no code
  std::vector<size_t> ops;  // of the function
  bool claimed = false;     // threads take over one another's tiles
};
// By the functions of the module, which is the plan's final one.
std::vector<std::vector<CallView>> CallsOf(const PlanFile& plan, const Module& module);
// "linear + gated + quantize".
std::string OpsText(const Func& func, const CallView& call);
// "shared+128", "private+0", "none", "logits" (returned), "caches" (a state).
std::string PlaceText(const Func& func, ValueId value);
std::string NameText(const Module& module, const Func& func, Operand operand);  // "%b0.q", "$b0.wq"

}  // namespace llmc
