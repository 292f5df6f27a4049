// Threads for forward calls: a pool whose threads spin briefly and then sleep between calls, and the rule by which the
// executor uses fewer of them while somebody else needs a core.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace llmc {

// Physical cores that this process may use (affinity, one thread per core, a cgroup's quota rounded up); at least 1.
uint32_t UsableCores();

// Monotonic time.
uint64_t NowNanoseconds();

// Threads 0 .. size - 1, of which the caller of Run is 0. Threads aren't pinned (runtime/README.md, "Threads"). Run
// under the default MXCSR.
class ThreadPool {
 public:
  // Throws PlanError when the system gives no more threads.
  explicit ThreadPool(uint32_t size);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(workers_.size()) + 1; }
  using Work = void (*)(void* data, uint32_t thread);
  // work(data, t) on each thread t < threads (1 <= threads <= size()), at the same time; returns when all have
  // returned. work must not throw. True when the caller had to wait longer than its spin for another thread.
  bool Run(uint32_t threads, Work work, void* data);

 private:
  struct alignas(64) Worker {
    std::atomic<uint32_t> epoch{0};  // futex word; raised for each piece of work
    std::atomic<uint32_t> sleeping{0};
    std::thread thread;
  };
  void Loop(Worker& worker, uint32_t index);
  void Stop();

  std::vector<std::unique_ptr<Worker>> workers_;
  Work work_ = nullptr;
  void* data_ = nullptr;
  uint64_t spin_ = 0;                          // nanoseconds
  alignas(64) std::atomic<uint32_t> left_{0};  // futex word; workers that haven't returned
  std::atomic<uint32_t> caller_sleeping_{0};
  std::atomic<bool> stop_{false};
};

// How many threads the next call uses, told by one-row calls. A call whose threads waited long for each other shares a
// core with somebody; when that repeats, one thread less is tried and kept if it is faster, and the larger number is
// tried again later, more and more rarely while it doesn't pay. Time decides alone: results don't depend on the number.
class ThreadGovernor {
 public:
  // cores: how many can run at once; a first step down from more goes there.
  ThreadGovernor(uint32_t threads, uint32_t cores);
  uint32_t threads() const { return current_; }
  // After a call with threads() threads: its duration, and how often a thread outlasted its spin.
  void Report(uint64_t nanoseconds, uint32_t long_waits);

 private:
  void Enter(uint32_t threads, bool trial);
  uint64_t Mean() const { return calls_ == 0 ? 0 : sum_ / calls_; }

  uint32_t max_, cores_, current_;
  bool trial_ = false;                // current_ is being compared with before_
  uint32_t before_ = 0;               // threads before the trial
  uint64_t before_mean_ = 0;          // their mean duration
  uint32_t calls_ = 0;                // in this window or trial
  uint32_t disturbed_ = 0;            // of them with long waits
  uint64_t sum_ = 0;                  // of their durations
  uint64_t since_trial_ = 0;          // calls since the last trial,
  uint64_t time_since_trial_ = 0;     // and their time
  uint64_t wait_down_ = 0, wait_up_;  // calls until the next trial down or up may start
};

}  // namespace llmc
