// Loading: code is read into anonymous memory, hashed there and sealed read+execute, never writable and executable at
// once; weights are mapped where they lie.
#include "runtime/loader.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/memory.h"
#include "runtime/plan.h"

namespace llmc {
namespace {

// A file that is cut while it is mapped.

struct MappedRange {
  std::atomic<uintptr_t> begin{0}, end{0};  // begin 0: free
};
constexpr size_t kRanges = 64;
MappedRange g_ranges[kRanges];

void OnBusError(int signal, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const MappedRange& range : g_ranges) {
    if (at >= range.begin.load() && at < range.end.load()) {
      constexpr char kMessage[] = "llmc: the model file changed while it was in use (SIGBUS in its weights)\n";
      if (write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1) < 0) _exit(1);
      _exit(1);
    }
  }
  // Not ours: as if there were no handler.
  struct sigaction fallback{};
  fallback.sa_handler = SIG_DFL;
  sigaction(signal, &fallback, nullptr);
}

void InstallBusHandler() {
  static const bool installed = [] {
    struct sigaction action{};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  (void)installed;
}

class WatchedRange {
 public:
  WatchedRange(const uint8_t* begin, size_t size) {
    InstallBusHandler();
    for (MappedRange& range : g_ranges) {
      uintptr_t free = 0;
      if (range.begin.compare_exchange_strong(free, reinterpret_cast<uintptr_t>(begin))) {
        range.end = reinterpret_cast<uintptr_t>(begin) + size;
        range_ = &range;
        return;
      }
    }
  }
  ~WatchedRange() {
    if (range_ == nullptr) return;
    range_->end = 0;
    range_->begin = 0;
  }
  WatchedRange(const WatchedRange&) = delete;
  WatchedRange& operator=(const WatchedRange&) = delete;

 private:
  MappedRange* range_ = nullptr;
};

// Mapping.

[[noreturn]] void FailErrno(const std::string& name, const std::string& what) {
  throw PlanError(name + ": " + what + ": " + std::strerror(errno));
}

Reservation MapWeights(const PlanFile& plan, const PlanSection& section, bool populate, const uint8_t** weights) {
  // Address space with room to align to a huge page, then the file over it.
  const size_t room = section.size + 2 * kHugePage;
  void* base = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) FailErrno(plan.name(), "can't reserve address space for the weights");
  Reservation reservation(base, room);
  const uintptr_t aligned = (reinterpret_cast<uintptr_t>(base) + kHugePage - 1) / kHugePage * kHugePage;
  auto* at = static_cast<uint8_t*>(base) + (aligned - reinterpret_cast<uintptr_t>(base));
  if (mmap(at, section.size, PROT_READ, MAP_PRIVATE | MAP_FIXED, plan.fd(),
           static_cast<off_t>(plan.file_offset() + section.offset)) == MAP_FAILED)
    FailErrno(plan.name(), "can't map the weights");
  // Advice: failures change speed alone.
  madvise(at, section.size, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_READ
  if (populate) madvise(at, section.size, MADV_POPULATE_READ);
#endif
  *weights = at;
  return reservation;
}

Reservation SealCode(const PlanFile& plan, const PlanSection& section) {
  Reservation code = Reservation::Zeros(section.size, false, "code");
  plan.ReadInto(section, code.data());
  if (mprotect(code.data(), code.size(), PROT_READ | PROT_EXEC) != 0)
    FailErrno(plan.name(), "can't make the code executable");
  return code;
}

// For `perf`, on request: names of the code's functions (perf looks for them in anonymous memory).
void WritePerfMap(const PlanTarget& target, const uint8_t* code) {
  const char* wanted = std::getenv("LLMC_PERF_MAP");
  if (wanted == nullptr || std::strcmp(wanted, "1") != 0) return;
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) FailErrno(path, "can't write perf's map");
  for (const auto& [name, place] : target.symbols) {
    const unsigned long long begin = reinterpret_cast<uintptr_t>(code) + place.first, size = place.second;
    std::fprintf(file, "%llx %llx %s\n", begin, size, name.c_str());
  }
  std::fclose(file);
}

// Choice.

// The target with the most features among those that this CPU has; the first of equals.
size_t PickTarget(const Manifest& m, const std::string& name) {
  size_t best = m.targets.size();
  std::string missing;
  for (size_t t = 0; t < m.targets.size(); ++t) {
    const std::vector<std::string> lacks = MissingCpuFeatures(m.targets[t].features);
    if (lacks.empty()) {
      if (best == m.targets.size() || m.targets[t].features.size() > m.targets[best].features.size()) best = t;
      continue;
    }
    missing += (missing.empty() ? "" : "; ") + m.targets[t].name + " needs";
    for (const std::string& feature : lacks) missing += ' ' + feature;
  }
  if (best == m.targets.size())
    throw PlanError(name + ": this CPU (" + CpuName() + ") can't run any target of the plan: " + missing);
  return best;
}

struct Loaded {
  PlanFile plan;
  struct stat opened{};
  Reservation weights, code;
  std::string tokenizer, chat;
  std::unique_ptr<WatchedRange> watched;
};

}  // namespace

Executable LoadPlan(const std::string& path, const LoadOptions& options) { return LoadPlan(PlanFile(path), options); }

Executable LoadPlan(PlanFile opened, const LoadOptions& options, std::span<const uint8_t> memory) {
  const std::string path = opened.name();
  auto loaded = std::make_shared<Loaded>(Loaded{std::move(opened), {}, {}, {}, {}, {}, nullptr});
  const PlanFile& plan = loaded->plan;
  const Manifest& m = plan.manifest();
  const bool mapped = plan.fd() >= 0;
  if (mapped && fstat(plan.fd(), &loaded->opened) != 0) FailErrno(path, "can't look at the file");
  if (m.backend == "reference")
    throw PlanError(path + ": a plan of backend " + m.backend +
                    " has no code; `llmc run MODEL --backend reference` runs its model");

  Executable executable;
  executable.manifest = std::make_shared<const Manifest>(m);
  executable.plan_hash = plan.hash();
  loaded->tokenizer = plan.Read(SectionKind::Tokenizer);
  executable.tokenizer = loaded->tokenizer;
  loaded->chat = plan.Read(SectionKind::Chat);
  executable.chat = loaded->chat;
  // Without a target there are no code steps (CheckManifest).
  const std::map<std::string, uint64_t>* entries = nullptr;
  if (!m.targets.empty()) {
    const size_t target = PickTarget(m, path);
    loaded->code = SealCode(plan, *plan.Find(SectionKind::Code, static_cast<uint32_t>(target)));
    WritePerfMap(m.targets[target], loaded->code.data());
    entries = &m.targets[target].entries;
  }
  MakeSteps(
      executable,
      [&](const std::string& name) { return reinterpret_cast<LlmcPhaseFn>(loaded->code.data() + entries->at(name)); },
      path);
  if (const PlanSection* weights = plan.Find(SectionKind::Weights); weights != nullptr && mapped) {
    loaded->weights = MapWeights(plan, *weights, options.populate, &executable.weights);
    executable.weights_size = weights->size;
    loaded->watched = std::make_unique<WatchedRange>(executable.weights, weights->size);
  } else if (weights != nullptr) {
    executable.weights = memory.data() + weights->offset;
    executable.weights_size = weights->size;
    if (reinterpret_cast<uintptr_t>(executable.weights) % 64 != 0) {
      loaded->weights = Reservation::Zeros(weights->size, weights->size >= kHugeWeights, "the weights");
      std::memcpy(loaded->weights.data(), executable.weights, weights->size);
      executable.weights = loaded->weights.data();
    }
  }
  if (mapped) {
    executable.check_unchanged = [loaded] {
      struct stat now{};
      struct stat& then = loaded->opened;
      const bool known = fstat(loaded->plan.fd(), &now) == 0 && now.st_size == then.st_size;
      if (known && now.st_mtim.tv_sec == then.st_mtim.tv_sec && now.st_mtim.tv_nsec == then.st_mtim.tv_nsec) return;
      // A new time alone is no change. Weights aren't looked at again: that would take as long as the run.
      if (!known || !loaded->plan.Unchanged())
        throw PlanError(loaded->plan.name() + ": the model file changed while it was in use");
      then = now;
    };
  }
  executable.owner = loaded;
  return executable;
}

}  // namespace llmc
