// The progress line.
#include "tools/progress.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/note.h"

namespace llmc {

std::string PassTimeText(std::string_view pass, double seconds, bool changed) {
  return fmt::format("{:<24} {:8.3f} ms{}\n", pass, seconds * 1e3, changed ? "" : "  (no change)");
}

std::string ProgressText(std::string_view stage, double done, uint64_t bytes, double seconds) {
  constexpr int kWidth = 24;
  constexpr double kMiB = 1 << 20;
  const int filled = std::clamp(static_cast<int>(done * kWidth), 0, kWidth);
  std::string bar(static_cast<size_t>(kWidth), ' ');
  std::fill_n(bar.begin(), filled, '=');
  if (filled < kWidth) bar[static_cast<size_t>(filled)] = '>';
  std::string text = fmt::format("{:<12} [{}] {:3} %", stage, bar, static_cast<int>(done * 100));
  if (bytes == 0) return text;
  const double whole = static_cast<double>(bytes) / kMiB;
  text += fmt::format("  {:.1f} of {:.1f} MiB", whole * done, whole);
  if (seconds > 0 && done > 0) text += fmt::format(", {:.0f} MiB/s", whole * done / seconds);
  return text;
}

Progress::~Progress() { Clear(); }

void Progress::Clear() {
  if (shown_) Note("\r\033[K");
  shown_ = false;
}

void Progress::operator()(std::string_view stage, double done) {
  const auto now = std::chrono::steady_clock::now();
  if (stage != stage_) {
    stage_ = stage;
    percent_ = -1;
  }
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const int percent = static_cast<int>(done * 100);
  if (show_ && percent != percent_) {
    Note("\r\033[K" + ProgressText(stage, done, stage == "weights" ? weight_bytes_ : 0, seconds));
    std::fflush(stderr);
    shown_ = true;
  }
  if (done >= 1 && percent_ < 100) {
    if (time_) {
      Clear();
      Note(PassTimeText(stage, seconds));
    }
    begin_ = now;
  }
  percent_ = percent;
}

}  // namespace llmc
