// The options of llmc's commands (DESIGN of the command line: README.md, "Commands"), as llmc.cpp parses them, and the
// commands themselves. A command returns the exit status, or throws: UsageError 2, InputError and PlanError 1, anything
// else 3.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "frontend/frontend.h"
#include "passes/pass.h"

namespace llmc {

// Flags of `compile`, and of `run` with a MODEL.
struct CompileFlags {
  ModelOptions model;
  std::string output;
  std::string backend = "llvm";
  std::string target_cpu = kDefaultTargets;
  std::string dump_ir;
  std::vector<std::string> print_after, print_before;  // pass names; "all"
  std::string stop_after;
  std::vector<std::string> disable_pass;
  bool remarks = false, check = false, time_passes = false;
  bool no_schedule = false;  // in what is printed and dumped
  std::string emit;          // obj, so, asm, ll: the code in place of a plan
  std::string from;
  bool no_selftest = false;
  bool standalone = false;
  int jobs = 0;  // 0: the CPUs this process may use
  // Which options were given on the command line, for contradictions with --from.
  bool context_given = false, chunk_given = false, kv_type_given = false, activations_given = false,
       quantize_given = false, backend_given = false, target_given = false;
  std::string compiling;  // an option that was given and means nothing to a plan that exists; empty: none
};

struct OptFlags {
  std::string file;    // "-": stdin
  std::string passes;  // comma-separated
  std::string output = "-";
  bool list_passes = false, flat = false, remarks = false;
  bool verify_each = false, time_passes = false, stats = false, no_schedule = false, json = false;
};

struct DescribeFlags {
  ModelOptions model;
  bool report = false;
  int64_t prefill = 512;
};

struct InspectFlags {
  std::string plan;
  std::optional<std::string> ir;  // "": the final IR; a pass's name, or "import"
  bool verify = false;
  bool text = false;
  bool schedule = false, memory = false, weights = false, code = false, recipe = false;  // at most one
  std::optional<std::string> assembly;  // with code; "": of all functions
  std::string target;                   // with code; "": all targets
  uint32_t threads = 1, context = 0;    // of memory; context 0: the plan's
  bool json = false;
};

struct ExplainFlags {
  std::string plan;
  std::string name;  // "%b0.q", "$b0.wq"; "": what every pass did
  bool json = false;
};

struct AssembleFlags {
  std::string file;  // "-": stdin
  std::string output;
};

struct TokenizeFlags {
  std::string path;  // a plan, a model's folder, a tokenizer.json, a tokenizer.model or a GGUF file
  std::optional<std::string> text, file, pair, decode;
  bool pieces = false, bytes = false, offsets = false;  // what is printed in place of the ids
  bool no_special = false, no_parse_special = false;
};

// The workbench. `compile` has the model's options, backend, target, passes left out and -j.
struct VerifyFlags {
  CompileFlags compile;
  bool whole = false, json = false;
};

struct BisectFlags {
  CompileFlags compile;
  std::string stages, reference, against;  // at most one
  std::string tokens;                      // of the reference
  double tolerance = 0;                    // NMSE; 0: bits, for a reference 1e-2
  std::string reduce;
  bool json = false;
};

struct TraceFlags {
  CompileFlags compile;      // model.model may be a plan
  std::string text, tokens;  // neither: eight seeded ids
  std::string stage;         // of a model: "" or import, or a pass
  int layer = -1;            // -1: all
  std::string op;            // an op's name or a value's; "": all
  std::string npy, compare, map;
  double tolerance = 1e-3;
  bool json = false;
};

struct ProfileFlags {
  std::string plan;
  std::optional<uint32_t> prompt, count;  // tokens; 256 and 32, or what the context has room for
  uint32_t repeats = 3, threads = 0;      // measured prompts; 0: the cores
  bool layers = false, json = false;
};

struct DiffFlags {
  std::string a, b;  // plans, *.ir files or models
  bool json = false;
};

int CommandDiff(const DiffFlags& flags);
int CommandVerify(const VerifyFlags& flags);
int CommandBisect(const BisectFlags& flags);
int CommandTrace(const TraceFlags& flags);
int CommandProfile(const ProfileFlags& flags);

int CommandCompile(const CompileFlags& flags);
int CommandOpt(const OptFlags& flags);
int CommandDescribe(const DescribeFlags& flags);
int CommandExplain(const ExplainFlags& flags);
int CommandInspect(const InspectFlags& flags);
int CommandAssemble(const AssembleFlags& flags);
int CommandTokenize(const TokenizeFlags& flags);
// `arguments` are llmc-run's, without PLAN.
int CommandRun(const CompileFlags& flags, const std::vector<std::string>& arguments);

}  // namespace llmc
