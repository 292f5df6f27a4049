// Progress of a compilation: a line on a terminal that is written over, and times for --time-passes.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace llmc {

// A line of --time-passes, for a pass or a stage.
std::string PassTimeText(std::string_view pass, double seconds, bool changed = true);

// "weights      [=====>    ]  52 %  51.3 of 98.7 MiB, 270 MiB/s". bytes: of the whole stage, 0: it isn't measured in
// bytes; seconds: since it began.
std::string ProgressText(std::string_view stage, double done, uint64_t bytes, double seconds);

class Progress {
 public:
  // show: stderr is a terminal. weight_bytes: of the stage "weights".
  Progress(bool show, bool time, uint64_t weight_bytes) : show_(show), time_(time), weight_bytes_(weight_bytes) {}
  ~Progress();  // the line is gone, whatever comes next: a result or an error
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // done: 0..1. A stage that reaches 1 has ended.
  void operator()(std::string_view stage, double done);

 private:
  void Clear();

  bool show_, time_, shown_ = false;
  uint64_t weight_bytes_;
  std::string stage_;
  int percent_ = -1;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace llmc
