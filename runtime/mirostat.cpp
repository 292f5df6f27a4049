// Truncation by surprise, and the controller.
#include "runtime/mirostat.h"

#include <algorithm>

#include "runtime/math.h"

namespace llmc {
namespace {

constexpr double kLog2 = 0.693147180559945309417;  // ln 2

}  // namespace

void Mirostat::Truncate(Candidates& candidates) const {
  if (candidates.list.empty()) return;
  const double log_sum = NaturalLog(candidates.Sum());
  const Candidate likeliest = *std::min_element(candidates.list.begin(), candidates.list.end(), ComesBefore);
  std::erase_if(candidates.list,
                [&](const Candidate& c) { return c.id != likeliest.id && (log_sum - c.x) / kLog2 > mu_; });
}

void Mirostat::Observe(double p) { mu_ -= eta_ * (-NaturalLog(p) / kLog2 - tau_); }

}  // namespace llmc
