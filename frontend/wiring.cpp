// Layers: where norms stand, and what is added to the stream.
//   sequential    x += mixer(norm x);  x += ffn(norm x); or one of them alone; or two mixers of one norm
//   post          x += norm(mixer x);  x += norm(ffn x)
//   sandwich      x += norm(mixer(norm x));  x += norm(ffn(norm x))
//   encoder       x = norm(x + mixer x);  x = norm(x + ffn x)
//   parallel      x += mixer(n) + ffn(n), n = norm x
//   parallel_two  x += mixer(norm x) + ffn(norm x), two norms of one x
// Behind them, where the model has them: what the layer's own vector of each token gives, and the layer's number.
#include "frontend/wiring.h"

#include <cmath>

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

// What the mixer gives, and the one beside it.
Operand Mixed(Graph& g, int layer, Operand n, const Block& block) {
  const auto of = [&](const Mixer& mixer, double in, double out, const std::string& what) {
    const Operand rows = in == 1.0 ? n : g.Scale(n, in, Name(layer, what + "_rows"));
    const Operand mixed = mixer.Build(g, layer, rows, block);
    return out == 1.0 ? mixed : g.Scale(mixed, out, Name(layer, what + "_mixed"));
  };
  const WiringSpec& wiring = block.wiring;
  const Operand mixed = of(*block.mixer, wiring.mixer_in, wiring.mixer_out, "mixer");
  if (!block.beside->IsThere()) return mixed;
  const Operand other = of(*block.beside, wiring.beside_in, wiring.beside_out, "beside");
  return g.One(OpKind::Add, {mixed, other}, {}, Name(layer, "both"));
}

Operand BuildParts(Graph& g, int layer, Operand x, const Block& block, const Name& name) {
  const WiringSpec& wiring = block.wiring;
  const WiringOrder order = wiring.order;
  auto norm = [&](Operand v, const char* gain, const char* result) {
    return g.Norm(layer, v, gain, block.norm, Name(layer, result));
  };
  if (!block.mixer->IsThere())
    return Joined(g, layer, x, block.ffn->Build(g, layer, norm(x, "ffn_norm", "m"), block), wiring, "ffn_out", name);
  Operand n = NormsInFront(order) && wiring.mixer_norm ? norm(x, "attn_norm", "n") : x;
  Operand mixed = Mixed(g, layer, n, block);
  if (!block.ffn->IsThere()) return Joined(g, layer, x, mixed, wiring, "att_out", name);
  if (NormsBehind(order)) mixed = norm(mixed, "attn_post_norm", "att_normed");
  if (NormsSums(order)) {
    Operand mid = norm(Joined(g, layer, x, mixed, wiring, "att_out", Name(layer, "att_sum")), "attn_post_norm", "mid");
    Operand out = block.ffn->Build(g, layer, mid, block);
    out = Joined(g, layer, mid, out, wiring, "ffn_out", Name(layer, "ffn_sum"));
    return g.Norm(layer, out, "ffn_post_norm", block.norm, name);
  }
  Operand m = n;  // parallel: the same norm
  Operand mid = x;
  if (!Parallel(order)) mid = Joined(g, layer, x, mixed, wiring, "att_out", Name(layer, "mid"));
  if (order != WiringOrder::Parallel) m = NormsInFront(order) ? norm(mid, "ffn_norm", "m") : mid;
  Operand out = block.ffn->Build(g, layer, m, block);
  if (NormsBehind(order)) out = norm(out, "ffn_post_norm", "ffn_normed");
  if (Parallel(order)) mid = Joined(g, layer, x, mixed, wiring, "att_out", Name(layer, "mid"));
  return Joined(g, layer, mid, out, wiring, "ffn_out", name);
}

// The layer's vector of each token: (norm(product of the embedding / sqrt(d_model)) + row of its table * sqrt(P)) / sqrt(2).
Operand OwnVector(Graph& g, int layer, const Block& block) {
  const int64_t p = g.model().per_layer, layers = g.model().n_layers;
  const auto root = [](int64_t n) { return std::sqrt(static_cast<double>(n)); };
  const Operand table =
      g.LayerRows(layer, "layer_embed",
                  {.whole = {}, .begin = layer, .count = 1, .every = layers, .times = g.model().per_layer_vocab});
  Operand row = g.One(OpKind::Embed, {table, g.tokens()}, {}, Name(layer, "own_row"));
  row = g.Scale(row, root(p), Name(layer, "own_row_scaled"));
  const Operand weight = g.LayerRows(layer, "layer_proj", {.whole = {}, .begin = layer * p, .count = p});
  Operand made = g.One(OpKind::Linear, {g.MadeIn(0, "x"), weight}, {}, Name(layer, "own_made"));
  made = g.Scale(made, 1 / root(g.model().d_model), Name(layer, "own_made_scaled"));
  Attrs attrs;
  attrs.Set("eps", static_cast<float>(block.norm.eps));
  made = g.One(OpKind::RmsNorm, {made, g.Weight(-1, "layer_proj_norm")}, attrs, Name(layer, "own_normed"));
  const Operand sum = g.One(OpKind::Add, {made, row}, {}, Name(layer, "own_sum"));
  return g.Scale(sum, 1 / root(2), Name(layer, "own"));
}

// x + norm(up(act(gate x) * the layer's vector)).
Operand WithOwn(Graph& g, int layer, Operand x, const Block& block, const Name& name) {
  const Operand own = OwnVector(g, layer, block);
  Attrs attrs;
  attrs.Set("act", std::string(ChoiceText(block.wiring.per_layer_act)));
  const Operand gate = g.Linear(layer, x, "w_own_gate", "", "own_gate");
  const Operand h = g.One(OpKind::Gated, {gate, own}, attrs, Name(layer, "own_h"));
  const Operand up = g.Linear(layer, h, "w_own_up", "", "own_out");
  const Operand normed = g.Norm(layer, up, "own_norm", block.norm, Name(layer, "own_out_normed"));
  return g.One(OpKind::Add, {x, normed}, {}, name);
}

}  // namespace

void AddLayerWeights(const Block& block, const ModelSpec& model, WeightRows& out) {
  const SizeRule d_model{model.d_model, "d_model"};
  const WiringOrder order = block.wiring.order;
  auto norm = [&](const char* base, bool present) { out.Norm(block.norm, base, d_model, present); };
  norm("attn_norm", block.mixer->IsThere() && NormsInFront(order) && block.wiring.mixer_norm);
  block.mixer->AddWeights(block, model, out);
  block.beside->AddWeights(block, model, out);
  norm("attn_post_norm", NormsBehind(order) || NormsSums(order));
  norm("ffn_norm", block.ffn->IsThere() && NormsInFront(order) && order != WiringOrder::Parallel);
  block.ffn->AddWeights(block, model, out);
  norm("ffn_post_norm", NormsBehind(order) || NormsSums(order));
  const bool own = model.per_layer > 0;
  const SizeRule per_layer{model.per_layer, "per_layer"};
  out.Matrix(WeightPart::Ffn, "w_own_gate", per_layer, d_model, own);
  out.Matrix(WeightPart::Ffn, "w_own_up", d_model, per_layer, own);
  norm("own_norm", own);
  out.FlatGain(WeightPart::Constant, "layer_scalar", {1, "1"}, block.wiring.scalar);
}

Operand BuildLayer(Graph& g, int layer, Operand x, const Block& block) {
  const bool own = g.model().per_layer > 0, scalar = block.wiring.scalar;
  const Name left(layer + 1, "x");
  x = BuildParts(g, layer, x, block, own || scalar ? Name(layer, "parts") : left);
  if (own) x = WithOwn(g, layer, x, block, scalar ? Name(layer, "with_own") : left);
  if (!scalar) return x;
  // The number as a row: `mul` takes one for each column.
  const Operand row = g.Repeated(layer, "layer_scalar", g.model().d_model);
  return g.One(OpKind::Mul, {x, row}, {}, left);
}

}  // namespace llmc
