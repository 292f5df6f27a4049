// Computes the self-test's logits. The executor is a layer that backends don't see, and one thread without a cache of
// executables needs none of it: RunCode fills a Context and calls. Plans with step lists are tested against the
// interpreter.
#include "backends/self_test.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <sys/mman.h>

#include "backends/compile_plan.h"
#include "ir/diag.h"
#include "ir/interpreter.h"
#include "runtime/plan_finite.h"
#include "runtime/plan_hash.h"

namespace llmc {
namespace {

constexpr uint32_t kIds = 8;
constexpr uint32_t kNumbers = 32;

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
                           const std::vector<int32_t>& ids, std::optional<bool>* overflow) {
  const Zeros shared(manifest.shared_bytes), scratch(manifest.private_bytes), states(manifest.state_bytes);
  const size_t rows = kind == PhaseKind::Decode ? 1 : ids.size();
  const size_t logit_rows = kind == PhaseKind::Prefill ? 1 : ids.size();
  const size_t width = GivesLogits(kind) ? manifest.vocab : PhaseFor(manifest, kind, rows).width;
  std::vector<float> logits(logit_rows * width);
  const std::vector<int32_t> types(ids.size(), 0);
  const void* inputs[std::size(kEntryInputs)] = {};
  inputs[static_cast<size_t>(EntryInput::Types)] = types.data();
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
  context.inputs = inputs;
  for (size_t pos = 0; pos < ids.size(); pos += rows) {
    context.tokens = ids.data() + pos;
    context.pos = static_cast<uint32_t>(pos);
    context.logits = logits.data() + (kind == PhaseKind::Decode ? pos * manifest.vocab : 0);
    LLMC_CHECK(entry(&context, 0, 1) == 0, "self-test: the code left early");
  }
  if (overflow != nullptr) *overflow = CacheOverflow({states.data(), manifest.state_bytes});
  return logits;
}

namespace {

class NotFiniteLogits : public InputError {
 public:
  using InputError::InputError;
};

// `rows`, from position `first` on, hold a logit that isn't finite.
[[noreturn]] void FailNotFinite(const Manifest& manifest, std::span<const float> rows, size_t first,
                                std::optional<bool> overflow) {
  const size_t width = IsEncoder(manifest) ? manifest.phases[0].width : manifest.vocab;
  const size_t at = FindNotFinite(rows), row = at / width;
  const std::string text =
      IsEncoder(manifest)
          ? "position " + std::to_string(row) + ": number " + std::to_string(at % width) + " of the row isn't finite"
          : NotFiniteText(rows.subspan(row * width, width), at % width, first + row);
  throw NotFiniteLogits({Severity::Error,
                         DiagKind::BadValue,
                         {"self-test", ""},
                         text + CacheOverflowText(manifest.options, overflow),
                         {"--no-selftest leaves the self-test out"}});
}

// Where the interpreter is the oracle: one score of all ids has every row, and prefill and decode give the same bits.
void FromInterpreter(const Manifest& manifest, const Module& module, const WeightSource& source, PlanSelfTest& test) {
  Interpreter interpreter(module, source);
  std::optional<bool> overflow;
  interpreter.on_op = [&](const Func&, const Op&, const std::vector<Tensor>& results) {
    if (results.empty() || overflow) return;
    const Type& type = results[0].type;
    if (type.state >= 0 && type.dtype == DType::F16)
      overflow = CacheOverflow({results[0].as<const uint8_t>(), static_cast<size_t>(2 * ElementCount(type))});
  };
  const std::vector<int32_t> types(test.ids.size(), 0);
  const int32_t first = 0;
  const PhaseKind kind = IsEncoder(manifest) ? PhaseKind::Hidden : PhaseKind::Score;
  const std::vector<float> rows = interpreter.Run(
      PhaseKindName(kind),
      {.tokens = test.ids, .positions = {&first, 1}, .total = static_cast<int64_t>(test.ids.size()), .types = types});
  if (FindNotFinite(rows) < rows.size()) FailNotFinite(manifest, rows, 0, overflow);
  if (kind == PhaseKind::Hidden) {
    test.score = HashOf(rows);
    return;
  }
  const std::vector<float> last(rows.end() - static_cast<std::ptrdiff_t>(manifest.vocab), rows.end());
  if (manifest.numerics == "exact") {
    test.prefill = HashOf(last);
    test.decode = test.score = HashOf(rows);
    return;
  }
  // Rounded activations may round to other values when a sum differs in its last bit, and that grows from layer to
  // layer, to the size of the rounding; so does an f16 cache, less. About eight times what SmolLM2 shows (2.6e-8 with
  // f32 activations, 1.3e-4 with bf16).
  constexpr float kExact = 1e-8f, kF16Cache = 2e-7f, kBf16 = 1e-3f, kCodes = 1e-2f;
  PlanSelfTestLogits& numbers = test.approximate.emplace();
  const uint32_t count = std::min(kNumbers, manifest.vocab);
  for (uint32_t i = 0; i < count; ++i) {
    numbers.at.push_back(static_cast<int32_t>(uint64_t{i} * manifest.vocab / count));
    numbers.prefill.push_back(last[static_cast<size_t>(numbers.at.back())]);
  }
  numbers.decode = numbers.score = numbers.prefill;
  const std::string& activations = module.options.Ident("activations");
  numbers.bound = activations == "q8"                        ? kCodes
                  : activations == "bf16"                    ? kBf16
                  : module.options.Ident("kv_type") == "f32" ? kExact
                                                             : kF16Cache;
}

}  // namespace

static PlanSelfTest KnownLogits(const Manifest& manifest, const std::vector<std::string>& code, const Module& module,
                                const WeightSource& source, const uint8_t* weights) {
  PlanSelfTest test;
  const bool encoder = IsEncoder(manifest);
  const bool fed_tokens = std::all_of(manifest.phases.begin(), manifest.phases.end(), [](const PlanPhase& phase) {
    return IsDecoders(phase.contract) || !GivesLogits(phase.kind);
  });
  if (!fed_tokens) return test;  // it feeds tokens from position 0 and compares logits, or an encoder's rows
  if (encoder && manifest.numerics != "exact") return test;  // hashes alone are kept of rows
  uint32_t count = std::min(kIds, manifest.context);
  const std::vector<PhaseKind> kinds =
      encoder ? std::vector{PhaseKind::Hidden} : std::vector{PhaseKind::Prefill, PhaseKind::Decode, PhaseKind::Score};
  for (const PhaseKind kind : kinds) {
    if (kind == PhaseKind::Decode) continue;
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

  std::vector<size_t> usable;
  for (size_t t = 0; t < manifest.targets.size(); ++t) {
    if (MissingCpuFeatures(manifest.targets[t].features).empty()) usable.push_back(t);
  }
  const bool all_code = std::all_of(manifest.phases.begin(), manifest.phases.end(), [](const PlanPhase& phase) {
    return phase.steps.size() == 1 && phase.steps[0].kind == static_cast<uint32_t>(PlanStepKind::Code);
  });
  if (usable.empty() || !all_code) {
    FromInterpreter(manifest, module, source, test);
    return test;
  }
  for (const size_t t : usable) {
    const Code executable(code[t]);
    const auto run = [&](PhaseKind kind, uint64_t& hash) {
      const PlanPhase& phase = PhaseFor(manifest, kind, kind == PhaseKind::Decode ? 1 : test.ids.size());
      const uint64_t entry = manifest.targets[t].entries.at(phase.steps[0].payload);
      std::optional<bool> overflow;
      const std::vector<float> rows = RunCode(executable.Entry(entry), manifest, kind, weights, test.ids, &overflow);
      if (FindNotFinite(rows) < rows.size())
        FailNotFinite(manifest, rows, kind == PhaseKind::Prefill ? test.ids.size() - 1 : 0, overflow);
      const uint64_t got = HashOf(rows);
      LLMC_CHECK(t == usable[0] || got == hash, "self-test: " + manifest.targets[t].name + " and " +
                                                    manifest.targets[usable[0]].name + " differ in " +
                                                    std::string(PhaseKindName(kind)));
      hash = got;
    };
    if (encoder) {
      run(PhaseKind::Hidden, test.score);
      continue;
    }
    run(PhaseKind::Prefill, test.prefill);
    run(PhaseKind::Decode, test.decode);
    run(PhaseKind::Score, test.score);
  }
  return test;
}

PlanSelfTest MakeSelfTest(const Manifest& manifest, const std::vector<std::string>& code, const Module& module,
                          const WeightSource& source, const uint8_t* weights, bool allow_nonfinite) {
  try {
    return KnownLogits(manifest, code, module, source, weights);
  } catch (const NotFiniteLogits&) {
    if (!allow_nonfinite) throw;
    return {};
  }
}

}  // namespace llmc
