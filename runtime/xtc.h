// XTC ("exclude top choices"): of the tokens that are likely enough all go but the least likely one. llama.cpp's
// sampler of that name (its arithmetic is in f32, this is in double).
#pragma once
#include "runtime/candidates.h"

namespace llmc {

// threshold: of the probability, over 0.5 for none. The tokens with at least that go but for the last of them, by
// descending probability and the higher id last among equals.
void ExcludeTopChoices(Candidates& candidates, double threshold);

}  // namespace llmc
