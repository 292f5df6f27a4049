// The thread pool (futexes), the count of cores, and the governor's arithmetic.
#include "runtime/threads.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string>
#include <system_error>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/cpu_quota.h"
#include "runtime/plan_error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace llmc {
namespace {

// Between calls a generation loop samples and prints, which takes less; a wake-up by futex takes about as long.
constexpr uint64_t kSpin = 100'000;

void FutexWait(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void FutexWake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Spins until done(), at most `limit` nanoseconds; whether it is done.
template <typename Done>
bool SpinUntil(uint64_t limit, Done done) {
  if (done()) return true;
  if (limit == 0) return false;
  const uint64_t end = NowNanoseconds() + limit;
  do {
    for (int i = 0; i < 16; ++i) {
      Pause();
      if (done()) return true;
    }
  } while (NowNanoseconds() < end);
  return false;
}

// Kernels rely on round to nearest and on denormals; callers may have changed theirs.
class DefaultFloatingPoint {
 public:
#if defined(__x86_64__)
  DefaultFloatingPoint() : old_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~DefaultFloatingPoint() { _mm_setcsr(old_); }

 private:
  unsigned old_;
#else
  DefaultFloatingPoint() {}
  ~DefaultFloatingPoint() {}
#endif
 public:
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;
};

std::string FirstLine(const std::string& path) {
  std::string line;
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    char buffer[256];
    if (std::fgets(buffer, sizeof(buffer), file) != nullptr) line = buffer;
    std::fclose(file);
  }
  return line;
}

}  // namespace

uint64_t NowNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

uint32_t UsableCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  std::set<std::string> cores;  // by the list of their hardware threads
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string name = std::to_string(cpu);
    const std::string siblings = FirstLine("/sys/devices/system/cpu/cpu" + name + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? name : siblings);
  }
  uint32_t count = static_cast<uint32_t>(cores.size());
  if (const uint32_t quota = QuotaCores(); quota > 0) count = std::min(count, quota);
  return std::max(count, 1u);
}

ThreadPool::ThreadPool(uint32_t size) {
  spin_ = size <= UsableCores() ? kSpin : 0;  // with fewer cores than threads, a spinning one keeps a working one off
  workers_.reserve(size - 1);
  for (uint32_t index = 1; index < size; ++index) {
    auto worker = std::make_unique<Worker>();
    try {
      worker->thread = std::thread([this, w = worker.get(), index] { Loop(*w, index); });
    } catch (const std::system_error& error) {
      Stop();
      throw PlanError("can't start thread " + std::to_string(index + 1) + " of " + std::to_string(size) + ": " +
                      error.what());
    }
    workers_.push_back(std::move(worker));
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  stop_ = true;
  for (const std::unique_ptr<Worker>& worker : workers_) {
    worker->epoch.fetch_add(1);
    FutexWake(worker->epoch);
    worker->thread.join();
  }
}

void ThreadPool::Loop(Worker& worker, uint32_t index) {
  const DefaultFloatingPoint floating_point;
  uint32_t seen = 0;
  while (true) {
    const auto raised = [&] { return worker.epoch.load(std::memory_order_acquire) != seen; };
    while (!SpinUntil(spin_, raised)) {
      // The caller raises the epoch and then looks at `sleeping`; this is the other order, so one of the two sees the
      // other.
      worker.sleeping.store(1);
      if (worker.epoch.load() == seen) FutexWait(worker.epoch, seen);
      worker.sleeping.store(0);
    }
    seen = worker.epoch.load(std::memory_order_acquire);
    if (stop_) return;
    work_(data_, index);
    if (left_.fetch_sub(1) == 1 && caller_sleeping_.load() != 0) FutexWake(left_);
  }
}

bool ThreadPool::Run(uint32_t threads, Work work, void* data) {
  work_ = work;
  data_ = data;
  left_.store(threads - 1);
  for (uint32_t w = 0; w + 1 < threads; ++w) {
    Worker& worker = *workers_[w];
    worker.epoch.fetch_add(1);
    if (worker.sleeping.load() != 0) FutexWake(worker.epoch);
  }
  {
    const DefaultFloatingPoint floating_point;
    work(data, 0);
  }
  if (SpinUntil(spin_, [this] { return left_.load(std::memory_order_acquire) == 0; })) return false;
  caller_sleeping_.store(1);
  for (uint32_t left = left_.load(); left != 0; left = left_.load()) FutexWait(left_, left);
  caller_sleeping_.store(0);
  return true;
}

// Governor.

namespace {

constexpr uint32_t kWindow = 8;                   // calls that are looked at together
constexpr uint32_t kDisturbed = 3;                // of them with long waits: try fewer threads
constexpr uint32_t kTrial = 6;                    // calls of a trial
constexpr uint64_t kFirstWait = 32;               // calls until more threads are tried again,
constexpr uint64_t kLongestWait = 1024;           // doubling up to this,
constexpr uint64_t kLongestTime = 5'000'000'000;  // or this many nanoseconds

}  // namespace

ThreadGovernor::ThreadGovernor(uint32_t threads, uint32_t cores)
    : max_(threads), cores_(std::max(cores, 1u)), current_(threads), wait_up_(kFirstWait) {}

void ThreadGovernor::Enter(uint32_t threads, bool trial) {
  before_ = current_;
  before_mean_ = Mean();
  current_ = threads;
  trial_ = trial;
  calls_ = 0;
  disturbed_ = 0;
  sum_ = 0;
  since_trial_ = 0;
  time_since_trial_ = 0;
}

void ThreadGovernor::Report(uint64_t nanoseconds, uint32_t long_waits) {
  ++calls_;
  sum_ += nanoseconds;
  if (long_waits > 0) ++disturbed_;
  ++since_trial_;
  time_since_trial_ += nanoseconds;
  if (trial_) {
    if (calls_ < kTrial && sum_ < kTrial * before_mean_)
      return;  // what is that slow after fewer calls needs no more of them
    const bool down = current_ < before_;
    const bool better = calls_ >= kTrial && Mean() < before_mean_;
    uint64_t& wait = down ? wait_down_ : wait_up_;
    wait = better ? (down ? 0 : kFirstWait) : std::clamp(wait * 2, kFirstWait, kLongestWait);
    Enter(better ? current_ : before_, false);
    return;
  }
  if (disturbed_ >= kDisturbed && current_ > 1 && since_trial_ > wait_down_) {
    Enter(current_ > cores_ ? cores_ : current_ - 1, true);
  } else if (current_ < max_ &&
             (since_trial_ >= wait_up_ || (since_trial_ >= kFirstWait && time_since_trial_ >= kLongestTime))) {
    Enter(current_ + 1, true);
  } else if (calls_ == kWindow) {
    calls_ /= 2;  // the older half of the window fades
    disturbed_ /= 2;
    sum_ /= 2;
  }
}

}  // namespace llmc
