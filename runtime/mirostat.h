// Mirostat v2 (Basu et al.: "Mirostat: a neural text decoding algorithm that directly controls perplexity", 2021, in
// the form of llama.cpp): tokens whose surprise -log2 p is over mu can't come, and mu follows what came, so that the
// mean surprise comes to tau.
#pragma once
#include "runtime/candidates.h"

namespace llmc {

class Mirostat {
 public:
  // tau: bits a token, over 0. eta: how fast mu follows. mu begins at 2 tau.
  Mirostat(double tau, double eta) : tau_(tau), eta_(eta), mu_(2 * tau) {}
  // Drops what is too surprising; at least the likeliest stays, the lowest id among equals.
  void Truncate(Candidates& candidates) const;
  // p: the share that the token which came had of what Truncate left.
  void Observe(double p);
  double mu() const { return mu_; }

 private:
  double tau_, eta_, mu_;
};

}  // namespace llmc
