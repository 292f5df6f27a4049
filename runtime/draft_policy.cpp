// The arithmetic of DraftPolicy.
#include "runtime/draft_policy.h"

#include <algorithm>

namespace llmc {
namespace {

constexpr double kPriorWeight = 4;
constexpr double kFade = 0.98;      // of what was seen, with each guess
constexpr uint64_t kForget = 256;   // calls
constexpr double kRise = 1.0 / 16;  // of the way to a higher time, with each call
constexpr double kRow = 0.1;        // of one row's time: what a further row is taken to cost before it is measured
constexpr double kGain = 1.03;      // what guessing must promise over not guessing

}  // namespace

DraftPolicy::DraftPolicy(const std::array<double, kDraftClasses>& prior) {
  for (size_t c = 0; c < kDraftClasses; ++c) {
    right_[c] = kPriorWeight * prior[c];
    seen_[c] = kPriorWeight;
  }
}

void DraftPolicy::Took(uint32_t rows, double nanoseconds) {
  Time& time = times_[rows];
  if (++calls_ - time.call > kForget) time.seen = 0;
  time.nanoseconds = time.seen == 0 || nanoseconds < time.nanoseconds
                         ? nanoseconds
                         : time.nanoseconds + kRise * (nanoseconds - time.nanoseconds);
  time.call = calls_;
  ++time.seen;
}

void DraftPolicy::Saw(uint32_t draft_class, bool right) {
  right_[draft_class] = kFade * right_[draft_class] + (right ? 1 : 0);
  seen_[draft_class] = kFade * seen_[draft_class] + 1;
}

double DraftPolicy::ShareOfRight(uint32_t draft_class) const { return right_[draft_class] / seen_[draft_class]; }

bool DraftPolicy::Known(uint32_t rows) const {
  return times_[rows].seen >= (rows == 1 ? 1 : 2) && calls_ - times_[rows].call < kForget;
}

double DraftPolicy::Cost(uint32_t rows) const {
  if (!Known(1)) return 0;
  const double one = times_[1].nanoseconds;
  uint32_t below = rows, above = rows;
  while (!Known(below)) --below;
  while (above <= kMostRows && !Known(above)) ++above;
  const double low = times_[below].nanoseconds;
  if (above > kMostRows) return low + kRow * one * (rows - below);
  const double part = above == below ? 0 : static_cast<double>(rows - below) / (above - below);
  return low + part * (times_[above].nanoseconds - low);
}

uint32_t DraftPolicy::Choose(std::span<const uint32_t> classes, double each) const {
  const double one = Cost(1);
  if (one == 0) return 0;
  uint32_t best = 0;
  double rate = kGain / one, tokens = 1, all_right = 1;
  for (uint32_t k = 1; k <= std::min<size_t>(classes.size(), kMostRows - 1); ++k) {
    all_right *= ShareOfRight(classes[k - 1]);
    tokens += all_right;
    const double expected = tokens / (Cost(k + 1) + k * each);
    if (expected > rate) best = k, rate = expected;
  }
  return best;
}

}  // namespace llmc
