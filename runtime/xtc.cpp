// One pass for the least likely of the likely ones, one that drops the others.
#include "runtime/xtc.h"

namespace llmc {

void ExcludeTopChoices(Candidates& candidates, double threshold) {
  if (threshold > 0.5) return;  // two tokens can't both have that much
  const double least = threshold * candidates.Sum();
  const Candidate* last = nullptr;
  for (const Candidate& c : candidates.list) {
    if (c.weight >= least && (last == nullptr || ComesBefore(*last, c))) last = &c;
  }
  if (last == nullptr) return;
  const Candidate kept = *last;
  std::erase_if(candidates.list, [&](const Candidate& c) { return c.weight >= least && c.id != kept.id; });
}

}  // namespace llmc
