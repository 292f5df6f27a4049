// Presence and frequency penalties, with llama.cpp's arithmetic in f32.
#pragma once
#include <cstdint>
#include <span>

namespace llmc {

struct PenaltyOptions {
  float presence = 0;   // taken from the logit of each id that was there
  float frequency = 0;  // the same for each time that it was there
};

// history: the ids that count. Ids without a score have no effect.
void ApplyPenalties(const PenaltyOptions& options, std::span<const int32_t> history, std::span<float> scores);

}  // namespace llmc
