// A text is held back as far as it may still become a stop string.
#include "runtime/stop_strings.h"

#include <algorithm>
#include <utility>

namespace llmc {

std::string StopStrings::Push(std::string_view piece) {
  if (stopped_) return "";
  held_ += piece;
  size_t first = std::string::npos, keep = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, held_.find(stop));
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) keep = n;
    }
  }
  stopped_ = first != std::string::npos;
  std::string out = held_.substr(0, stopped_ ? first : held_.size() - keep);
  held_.erase(0, stopped_ ? held_.size() : out.size());
  return out;
}

std::string StopStrings::Finish() { return std::exchange(held_, ""); }

}  // namespace llmc
