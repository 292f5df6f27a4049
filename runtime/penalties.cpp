// Counts by sorting: a history is short beside a vocabulary.
#include "runtime/penalties.h"

#include <algorithm>
#include <vector>

namespace llmc {

void ApplyPenalties(const PenaltyOptions& options, std::span<const int32_t> history, std::span<float> scores) {
  if (options.presence == 0 && options.frequency == 0) return;
  std::vector<int32_t> ids(history.begin(), history.end());
  std::sort(ids.begin(), ids.end());
  for (auto at = ids.begin(); at != ids.end();) {
    const auto end = std::upper_bound(at, ids.end(), *at);
    const auto count = static_cast<float>(end - at);
    if (*at >= 0 && static_cast<size_t>(*at) < scores.size()) {
      float& score = scores[static_cast<size_t>(*at)];
      score = score - (count * options.frequency + options.presence);
    }
    at = end;
  }
}

}  // namespace llmc
