// Tiny models by the names of these tests.
#include "tests/e2e/tiny.h"

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/tiny_model.h"

namespace llmc {

Module ImportTiny(const TinyModel& tiny) {
  test::TinyModel model;
  model.vocab = tiny.vocab;
  model.d_model = tiny.d;
  model.n_layers = tiny.layers;
  model.n_heads = tiny.heads;
  model.n_kv_heads = tiny.kv_heads;
  model.d_head = tiny.head_dim;
  model.d_ff = tiny.ff;
  model.context = tiny.context;
  model.chunk = tiny.chunk;
  model.window = tiny.window;
  model.weights = *DTypeFromText(tiny.weights);
  model.kv = *DTypeFromText(tiny.kv_type);
  model.activations = tiny.activations;
  model.tied = tiny.tied;
  model.bias = tiny.qkv_bias;
  model.qk_norm = tiny.qk_norm;
  model.interleaved = tiny.interleaved;
  Module module = Parse(Print(test::BuildTiny(model)), "tiny");
  Verify(module, "tiny");
  return module;
}

}  // namespace llmc
