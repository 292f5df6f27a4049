// From a scheduled module and its weights to a plan file, or to the same thing in memory.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "backends/code_form.h"
#include "ir/module.h"
#include "ir/weights.h"
#include "runtime/context.h"
#include "runtime/plan.h"

namespace llmc {

struct PlanRequest {
  const Module* module = nullptr;  // as plan-memory left it, verified
  const WeightSource* weights = nullptr;
  std::string backend = "llvm";
  std::string targets = "native";  // comma-separated; the command line says more
  int jobs = 1;                    // threads; never reaches the bytes
  bool self_test = true;
  bool allow_nonfinite = false;                // logits of the self-test that aren't finite leave it out; else an error
  bool self_test_large = false;                // also above kSelfTestWeights bytes of weights
  std::string build_id;                        // appended to BackendBuildId(): hashes of what other layers embed
  std::string import_ir, final_ir;             // texts
  std::string tokenizer, chat_template, chat;  // sections' bytes; empty: none
  std::string loader;                          // a program to put in front of the plan; empty: none
  PlanGeneration generation;
  PlanPooling pooling;
  struct Input {
    std::string role, path;
  };
  std::vector<Input> inputs;                                          // read and hashed again here
  std::function<void(std::string_view stage, double done)> progress;  // 0..1; may be empty; any thread, one at a time
};
inline constexpr int64_t kSelfTestWeights = int64_t{1} << 30;

// Writes the plan to `path`; returns the file's size. Throws PlanError (runtime/plan.h, PlanWriter), InputError (an op
// that the backend can't do), UsageError (backend, targets). Whatever happens, `path` is a whole plan or untouched.
uint64_t WritePlan(const PlanRequest& request, const std::string& path);

// The code of a module's phases for one target, and a C header of its entries. Needs no weights.
struct EmittedCode {
  std::string code;  // bytes or text
  std::string header;
};
// Throws UsageError: not one target in the list; no phase is machine code; a build without LLVM.
EmittedCode EmitPhases(const PlanRequest& request, CodeForm form);

// A plan in memory: the weights in pages of their own, and (backend llvm) the object of the best target of the list
// that this machine runs, through ORC. UsageError if it runs none.
class MemoryPlan {
 public:
  explicit MemoryPlan(const PlanRequest& request);
  ~MemoryPlan();
  MemoryPlan(const MemoryPlan&) = delete;
  MemoryPlan& operator=(const MemoryPlan&) = delete;
  const Manifest& manifest() const;
  const uint8_t* weights() const;  // 2 MiB aligned; null for backend reference, whose interpreter reads the source
  uint64_t weights_size() const;
  LlmcPhaseFn Entry(const std::string& name) const;  // by the payload of a code step

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The logits that `ids` give from position 0 on cleared states, by one thread: all ids at once (prefill, score) or one
// after another (decode; rows one after the other). What the self-test hashes. overflow: CacheOverflow of the caches,
// if it isn't null.
std::vector<float> RunCode(LlmcPhaseFn entry, const Manifest& manifest, PhaseKind kind, const uint8_t* weights,
                           const std::vector<int32_t>& ids, std::optional<bool>* overflow = nullptr);

}  // namespace llmc
