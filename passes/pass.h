// Passes: functions from module to module, run by one wrapper (RunPipeline) that times them, verifies what they leave,
// prints, and can skip them. The list of passes and its order is passes/passes.def; passes/README.md gives the reasons.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"
#include "ir/module.h"

namespace llmc {

// How the columns of a product with a weight are cut: slices of `tiles` tiles of 16 columns, each computed by one
// thread in `scratch_bytes` of its own memory (0: none).
struct SlicePlan {
  int64_t tiles = 1;
  int64_t scratch_bytes = 0;
};

// What a backend offers to plan-schedule. Filled by tools from the backend.
struct KernelTable {
  // Whether `ops`, each reading its predecessor's last result (through views, which aren't listed), exist as one
  // function. Empty: nothing does.
  std::function<bool(const Module&, const Func&, const std::vector<const Op*>& ops)> computes = {};
  // For backends that compute products with weights in slices; `gate`: the op that takes its pair of results in the
  // same function, or null. Empty: they don't.
  std::function<SlicePlan(const Module&, const Func&, const Op& product, const Op* gate)> slice = {};
};

// Where `--backend auto` lets a function run, and why.
struct BackendChoice {
  bool onednn = false;
  std::string reason;
};

struct PassContext {
  KernelTable kernels;           // of llvm
  KernelTable onednn;            // of the functions that select-backend gives to oneDNN
  std::string backend = "llvm";  // asked for: llvm, reference, onednn, auto
  std::string targets = {};      // for auto: what it chooses for
  std::function<BackendChoice(const Module&, const Func&)> choose = {};  // for auto
  DiagSink remark = {};                                                  // may be empty
  // "fuse-qkv: b3: q is q4_1, v is q8_0": what fired, what didn't and why.
  void Remark(std::string_view pass, const std::string& text) const;
};

// What a pass promises of the results: every bit; the same sums in another order, or factored in another way; or fewer
// bits of what is summed.
enum class Exactness : uint8_t { Exact, Reassociates, Rounds };
std::string_view ExactnessText(Exactness exactness);
// The NMSE of a row of results that such a pass may make; 0: none. What rounds: int8 activations of a small random model
// stay well below, and bf16 ones of SmolLM2. What reassociates: latents in a cache of q8_0 in place of keys and values.
double MostNmse(Exactness exactness);

struct PassInfo {
  std::string_view name;
  bool optional;
  Exactness exactness;
  std::string_view summary;
  bool (*run)(Module&, const PassContext&);  // true when it changed the module
  bool exact() const { return exactness == Exactness::Exact; }
};
const std::vector<PassInfo>& AllPasses();
const PassInfo* FindPass(std::string_view name);

#define PASS(function, name, need, exactness, summary) bool function(Module& module, const PassContext& context);
#include "passes/passes.def"
#undef PASS

struct PipelineOptions {
  std::vector<std::string> passes;  // empty: all
  std::set<std::string> disabled;   // optional passes only
  std::string stop_after;           // "": to the end
  std::string file;                 // names the module in diagnostics
  // Called around every pass that runs, in order. Printing, dumping and checking live in these.
  std::function<void(const PassInfo&, const Module&)> before;
  std::function<void(const PassInfo&, const Module&, bool changed, double seconds)> after;
};

// Runs the passes, keeps the module's options `after` and `passes` up to date, verifies after each. Throws UsageError
// for an unknown pass or a required one that is disabled, InputError for a module that does not verify (naming the
// pass), InternalError when a pass lies about "changed".
void RunPipeline(Module& module, const PassContext& context, const PipelineOptions& options = {});

}  // namespace llmc
