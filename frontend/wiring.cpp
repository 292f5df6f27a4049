// Layers: x += mixer(norm(x)), then x += ffn(norm(x)).
#include "frontend/wiring.h"

namespace llmc {

void AddLayerWeights(const Block& block, const ModelSpec& model, WeightRows& out) {
  const SizeRule d_model{model.d_model, "d_model"};
  out.Gain(WeightPart::Norm, "attn_norm", d_model);
  block.mixer->AddWeights(block, model, out);
  out.Gain(WeightPart::Norm, "ffn_norm", d_model);
  block.ffn->AddWeights(block, model, out);
}

Operand BuildLayer(Graph& g, int layer, Operand x, const Block& block) {
  Operand n = g.Norm(layer, x, "attn_norm", block.norm, Name(layer, "n"));
  Operand mid = g.One(OpKind::Add, {x, block.mixer->Build(g, layer, n, block)}, {}, Name(layer, "mid"));
  Operand m = g.Norm(layer, mid, "ffn_norm", block.norm, Name(layer, "m"));
  return g.One(OpKind::Add, {mid, block.ffn->Build(g, layer, m)}, {}, Name(layer + 1, "x"));
}

}  // namespace llmc
