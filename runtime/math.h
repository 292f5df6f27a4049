// exp and log for sampling and perplexity, in double, the same on every machine: built from +, -, *, / alone, so that
// no C library reaches a result. (The functions that logits depend on are ir/math.h's.)
#pragma once

namespace llmc {

// e^x for x <= 0; relative error under 4e-16; 0 below -708; NaN for NaN.
double ExpOfNegative(double x);
// Natural logarithm for finite normal x > 0; error under 1e-15 * max(1, |log x|).
double NaturalLog(double x);

// The root of a finite x >= 0, within an ulp.
double SquareRoot(double x);

}  // namespace llmc
