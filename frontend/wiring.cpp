// Layers: where norms stand, and what is added to the stream.
//   sequential    x += mixer(norm x);  x += ffn(norm x)
//   post          x += norm(mixer x);  x += norm(ffn x)
//   sandwich      x += norm(mixer(norm x));  x += norm(ffn(norm x))
//   encoder       x = norm(x + mixer x);  x = norm(x + ffn x)
//   parallel      x += mixer(n) + ffn(n), n = norm x
//   parallel_two  x += mixer(norm x) + ffn(norm x), two norms of one x
#include "frontend/wiring.h"

namespace llmc {
namespace {

bool NormsInFront(WiringOrder order) { return order != WiringOrder::Post && order != WiringOrder::Encoder; }
bool NormsBehind(WiringOrder order) { return order == WiringOrder::Post || order == WiringOrder::Sandwich; }
bool NormsSums(WiringOrder order) { return order == WiringOrder::Encoder; }
bool Parallel(WiringOrder order) { return order == WiringOrder::Parallel || order == WiringOrder::ParallelTwo; }

// x + residual * part.
Operand Joined(Graph& g, int layer, Operand x, Operand part, const WiringSpec& wiring, const std::string& base,
               Name name) {
  if (wiring.residual != 1.0) part = g.Scale(part, wiring.residual, Name(layer, base + "_scaled"));
  return g.One(OpKind::Add, {x, part}, {}, std::move(name));
}

}  // namespace

void AddLayerWeights(const Block& block, const ModelSpec& model, WeightRows& out) {
  const SizeRule d_model{model.d_model, "d_model"};
  const WiringOrder order = block.wiring.order;
  auto norm = [&](const char* base, bool present) { out.Norm(block.norm, base, d_model, present); };
  norm("attn_norm", NormsInFront(order) && block.wiring.mixer_norm);
  block.mixer->AddWeights(block, model, out);
  norm("attn_post_norm", NormsBehind(order) || NormsSums(order));
  norm("ffn_norm", NormsInFront(order) && order != WiringOrder::Parallel);
  block.ffn->AddWeights(block, model, out);
  norm("ffn_post_norm", NormsBehind(order) || NormsSums(order));
}

Operand BuildLayer(Graph& g, int layer, Operand x, const Block& block) {
  const WiringSpec& wiring = block.wiring;
  const WiringOrder order = wiring.order;
  auto norm = [&](Operand v, const char* gain, const char* name) {
    return g.Norm(layer, v, gain, block.norm, Name(layer, name));
  };
  Operand n = NormsInFront(order) && wiring.mixer_norm ? norm(x, "attn_norm", "n") : x;
  Operand mixed = block.mixer->Build(g, layer, n, block);
  if (NormsBehind(order)) mixed = norm(mixed, "attn_post_norm", "att_normed");
  if (NormsSums(order)) {
    Operand mid = norm(Joined(g, layer, x, mixed, wiring, "att_out", Name(layer, "att_sum")), "attn_post_norm", "mid");
    Operand out = block.ffn->Build(g, layer, mid, block);
    out = Joined(g, layer, mid, out, wiring, "ffn_out", Name(layer, "ffn_sum"));
    return g.Norm(layer, out, "ffn_post_norm", block.norm, Name(layer + 1, "x"));
  }
  Operand m = n;  // parallel: the same norm
  Operand mid = x;
  if (!Parallel(order)) mid = Joined(g, layer, x, mixed, wiring, "att_out", Name(layer, "mid"));
  if (order != WiringOrder::Parallel) m = NormsInFront(order) ? norm(mid, "ffn_norm", "m") : mid;
  Operand out = block.ffn->Build(g, layer, m, block);
  if (NormsBehind(order)) out = norm(out, "ffn_post_norm", "ffn_normed");
  if (Parallel(order)) mid = Joined(g, layer, x, mixed, wiring, "att_out", Name(layer, "mid"));
  return Joined(g, layer, mid, out, wiring, "ffn_out", Name(layer + 1, "x"));
}

}  // namespace llmc
