// The tokens that a draw can still give, and the weights that they have in it.
#pragma once
#include <cstdint>
#include <vector>

namespace llmc {

struct Candidate {
  int32_t id;
  double x;       // logit less the highest one, after temperature
  double weight;  // e^x, once they are weighed
};

struct Candidates {
  std::vector<Candidate> list;  // ids ascend
  bool weighed = false;

  // Exponentials cost most: they are taken when a filter wants them, of what is left by then.
  void Weigh();
  // Of all weights; weighs.
  double Sum();
};

// By descending weight, the lower id first among equals.
inline bool ComesBefore(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

}  // namespace llmc
