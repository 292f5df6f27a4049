// Weights of candidates.
#include "runtime/candidates.h"

#include "runtime/math.h"

namespace llmc {

void Candidates::Weigh() {
  if (weighed) return;
  for (Candidate& c : list) c.weight = ExpOfNegative(c.x);
  weighed = true;
}

double Candidates::Sum() {
  Weigh();
  double sum = 0;
  for (const Candidate& c : list) sum += c.weight;
  return sum;
}

}  // namespace llmc
