// Computes the self-test's logits. The executor is a layer that backends don't see, and one thread without a cache of
// executables needs none of it: RunCode fills a Context and calls.
#include "backends/self_test.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <sys/mman.h>

#include "backends/compile_plan.h"
#include "ir/diag.h"
#include "ir/interpreter.h"
#include "runtime/plan_hash.h"

namespace llmc {
namespace {

constexpr uint32_t kIds = 8;

const PlanPhase& PhaseFor(const Manifest& manifest, PhaseKind kind, size_t rows) {
  for (const PlanPhase& phase : manifest.phases) {
    // Decode gives what a prefill of one row gives, and may be the only phase for it.
    const bool same =
        phase.kind == kind || (rows == 1 && kind == PhaseKind::Prefill && phase.kind == PhaseKind::Decode);
    if (same && phase.min_rows <= rows && rows <= phase.max_rows) return phase;
  }
  LLMC_CHECK(false, "no phase " + std::string(PhaseKindName(kind)) + " for " + std::to_string(rows) + " rows");
  return manifest.phases[0];
}

// Zero pages, reserved and touched as they fill: caches are large and the self-test is short.
class Zeros {
 public:
  explicit Zeros(uint64_t size)
      : size_(size + 4096),
        at_(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (at_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Zeros() { munmap(at_, size_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  uint8_t* data() const { return static_cast<uint8_t*>(at_); }
  uint64_t size() const { return size_; }

 private:
  uint64_t size_;
  void* at_;
};

// A target's code, executable.
class Code {
 public:
  explicit Code(const std::string& bytes) : pages_(bytes.size()) {
    std::memcpy(pages_.data(), bytes.data(), bytes.size());
    if (mprotect(pages_.data(), pages_.size() / 4096 * 4096, PROT_READ | PROT_EXEC) != 0)
      throw PlanError("self-test: this system refuses executable memory");
  }
  LlmcPhaseFn Entry(uint64_t offset) const { return reinterpret_cast<LlmcPhaseFn>(pages_.data() + offset); }

 private:
  Zeros pages_;
};

uint64_t HashOf(const std::vector<float>& logits) { return Xxh3Of(logits.data(), logits.size() * sizeof(float)); }

}  // namespace

std::vector<float> RunCode(LlmcPhaseFn entry, const Manifest& manifest, PhaseKind kind, const uint8_t* weights,
                           const std::vector<int32_t>& ids) {
  const Zeros shared(manifest.shared_bytes), scratch(manifest.private_bytes), states(manifest.state_bytes);
  const size_t rows = kind == PhaseKind::Decode ? 1 : ids.size();
  const size_t logit_rows = kind == PhaseKind::Prefill ? 1 : ids.size();
  std::vector<float> logits(logit_rows * manifest.vocab);
  alignas(64) LlmcBarrier barrier{};
  const uint32_t abort_request = 0;
  LlmcContext context{};
  context.weights = weights;
  context.shared = shared.data();
  context.scratch = scratch.data();
  context.scratch_stride = manifest.private_bytes;
  context.states = states.data();
  context.rows = static_cast<uint32_t>(rows);
  context.total = static_cast<uint32_t>(ids.size());
  context.abi = LLMC_ABI_VERSION;
  context.barrier = &barrier;
  context.abort_request = &abort_request;
  for (size_t pos = 0; pos < ids.size(); pos += rows) {
    context.tokens = ids.data() + pos;
    context.pos = static_cast<uint32_t>(pos);
    context.logits = logits.data() + (kind == PhaseKind::Decode ? pos * manifest.vocab : 0);
    LLMC_CHECK(entry(&context, 0, 1) == 0, "self-test: the code left early");
  }
  return logits;
}

PlanSelfTest MakeSelfTest(const Manifest& manifest, const std::vector<std::string>& code, const Module& module,
                          const WeightSource& source, const uint8_t* weights) {
  PlanSelfTest test;
  uint32_t count = std::min(kIds, manifest.context);
  for (const PhaseKind kind : {PhaseKind::Prefill, PhaseKind::Score}) {
    uint32_t most = 0;
    for (const PlanPhase& phase : manifest.phases) {
      if (phase.kind == kind) most = std::max(most, phase.max_rows);
    }
    count = std::min(count, most);
  }
  if (count == 0) return test;  // a phase is missing: nothing to compare with
  // Spread over the vocabulary, the same for all models of one size.
  for (uint32_t i = 0; i < count; ++i)
    test.ids.push_back(static_cast<int32_t>((uint64_t{i} * 7919 + 1) % manifest.vocab));

  size_t usable = manifest.targets.size();
  for (size_t t = 0; t < manifest.targets.size(); ++t) {
    if (MissingCpuFeatures(manifest.targets[t].features).empty()) usable = t;
  }
  const auto run = [&](PhaseKind kind) {
    const PlanPhase& phase = PhaseFor(manifest, kind, kind == PhaseKind::Decode ? 1 : test.ids.size());
    const std::string& name = phase.steps[0].payload;
    if (usable < manifest.targets.size()) {
      const Code executable(code[usable]);
      return RunCode(executable.Entry(manifest.targets[usable].entries.at(name)), manifest, kind, weights, test.ids);
    }
    Interpreter interpreter(module, source);
    const auto total = static_cast<int64_t>(test.ids.size());
    if (kind != PhaseKind::Decode) return interpreter.Run(name, test.ids, 0, total);
    std::vector<float> logits;
    for (int64_t pos = 0; pos < total; ++pos) {
      const std::vector<float> row =
          interpreter.Run(name, std::span(test.ids).subspan(static_cast<size_t>(pos), 1), pos, total);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    return logits;
  };
  test.prefill = HashOf(run(PhaseKind::Prefill));
  test.decode = HashOf(run(PhaseKind::Decode));
  test.score = HashOf(run(PhaseKind::Score));
  return test;
}

}  // namespace llmc
