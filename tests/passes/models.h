// Texts of small models for the tests of passes: what import makes, by parameters.
#pragma once
#include <cstdint>
#include <string>

#include "ir/text.h"
#include "tests/support/tiny_model.h"

namespace llmc::test {

struct ModelShape {
  int layers = 2;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 8;
  int ffn = 48;
  int vocab = 40;
  int context = 64;
  int chunk = 16;
  std::string dtype = "f32";  // of matrices
  std::string kv_type = "f16";
  std::string activations = "q8";
  int window = 0;        // 0: none
  int full_every = 0;    // n: every n-th layer has no window
  bool bias = false;     // of query, key, value
  bool qk_norm = false;  // a norm per head before rope
  bool tied = true;
};

inline std::string ModelText(const ModelShape& m) {
  TinyModel tiny;
  tiny.vocab = m.vocab;
  tiny.d_model = int64_t{m.heads} * m.head_dim;
  tiny.n_layers = m.layers;
  tiny.n_heads = m.heads;
  tiny.n_kv_heads = m.kv_heads;
  tiny.d_head = m.head_dim;
  tiny.d_ff = m.ffn;
  tiny.context = m.context;
  tiny.chunk = m.chunk;
  tiny.window = m.window;
  tiny.full_every = m.full_every;
  tiny.weights = *DTypeFromText(m.dtype);
  tiny.kv = *DTypeFromText(m.kv_type);
  tiny.activations = m.activations;
  tiny.tied = m.tied;
  tiny.bias = m.bias;
  tiny.qk_norm = m.qk_norm;
  return Print(BuildTiny(tiny));
}

}  // namespace llmc::test
