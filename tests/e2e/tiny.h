// Tiny models after import, for tests of everything behind the front end.
#pragma once
#include <cstdint>
#include <string>

#include "ir/module.h"

namespace llmc {

struct TinyModel {
  int layers = 2;
  int64_t d = 64, heads = 4, kv_heads = 2, head_dim = 32, ff = 96, vocab = 100;
  std::string weights = "f32";  // matrices and embedding
  std::string kv_type = "f16", activations = "f32";
  int64_t context = 64, chunk = 16;
  int64_t window = 0;
  bool qkv_bias = false, qk_norm = false, tied = false, interleaved = false;
};

// After import: @forward alone, weights to be made by RandomWeights.
Module ImportTiny(const TinyModel& tiny);

}  // namespace llmc
