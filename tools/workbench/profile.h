// Where a call's time goes: a plan's phases with stamps between their kernel calls (backends/profiled_code.h), mapped to
// the ops of the final IR that each call computes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan.h"
#include "tools/workbench/report.h"

namespace llmc {

struct ProfileOptions {
  // Tokens of the measured prompts, and decodes behind the last one (0: none). Not given: 256 and 32, or half of a context
  // that is smaller and what is left of it.
  std::optional<uint32_t> prompt, decodes;
  uint32_t prefills = 3;  // measured ones; one more comes first
  uint32_t threads = 0;   // 0: the cores this process may use
};

// Times are of the median call, in seconds.
struct CallProfile {
  std::string function;  // KERNEL.N, as `llmc inspect --code` lists it
  std::string ops;       // "linear + gated"
  std::string value;     // the last result: "%b3.act"
  int layer = -1;
  double work = 0, wait = 0;  // in the call, and before it at its barrier; mean of the threads
  double bytes = 0;           // of weights and states that it must read once
  double operations = 0;      // twice the multiply-adds
};
struct PhaseProfile {
  std::string name;    // "decode"
  uint32_t rows = 0;   // of a call, the most
  uint32_t calls = 0;  // that a token or prompt takes
  uint64_t samples = 0;
  double wall = 0;       // seconds of a token (decode) or prompt (prefill), from outside
  double inside = 0;     // of that, from the first thread to begin to the last to end
  double accounted = 0;  // seconds of `wall` in the rows below
  std::vector<CallProfile> steps;
  struct Thread {
    double work = 0, wait = 0;
  };
  std::vector<Thread> threads;
};
struct Profile {
  std::string target;
  uint32_t threads = 0;
  double stream = 0;  // bytes a second at which the threads read the weights
  std::vector<PhaseProfile> phases;
};

// Runs the plan at `path` on seeded tokens. Throws PlanError and UsageError: what LoadPlan and ProfiledCode refuse, more
// positions than the context has.
Profile MeasureProfile(const std::string& path, const ProfileOptions& options);

// A table a phase: calls of one function and value over all layers are a row.
Report ProfileReport(const Profile& profile, bool by_layer);

}  // namespace llmc
