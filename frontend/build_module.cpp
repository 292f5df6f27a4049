// The graph of a description: the embedding, the layers, the head. Names: the stream that enters layer i is %b{i}.x,
// the embedding's result %b0.x.
#include "frontend/build_module.h"

#include "frontend/graph.h"
#include "frontend/wiring.h"

namespace llmc {
namespace {

// Rows of the embedding, scaled, with those of their positions.
Operand Embedded(Graph& g, const EndsSpec& ends) {
  const bool scaled = ends.embed_scale != 1.0;
  const Name stream(0, "x");
  Operand x = g.One(OpKind::Embed, {g.Weight(-1, "embed"), g.tokens()}, {},
                    scaled || ends.learned_positions ? Name("embedded") : stream);
  if (scaled) x = g.Scale(x, ends.embed_scale, ends.learned_positions ? Name("embed_scaled") : stream);
  if (!ends.learned_positions) return x;
  Attrs attrs;
  if (ends.position_offset != 0) attrs.Set("offset", ends.position_offset);
  Operand p = g.One(OpKind::PositionEmbed, {g.Weight(-1, "pos_embed"), g.tokens(), g.pos()}, attrs, Name("position"));
  return g.One(OpKind::Add, {x, p}, {}, stream);
}

Operand Logits(Graph& g, Operand n, const EndsSpec& ends) {
  const bool scaled = ends.logit_scale != 1.0;
  const bool capped = ends.logit_cap != 0;
  Operand logits = g.Linear(-1, n, ends.tied ? "embed" : "head", "head_bias", scaled || capped ? "head_out" : "logits");
  if (scaled) logits = g.Scale(logits, ends.logit_scale, Name(capped ? "scaled" : "logits"));
  if (!capped) return logits;
  Attrs attrs;
  attrs.Set("cap", static_cast<float>(ends.logit_cap));
  return g.One(OpKind::SoftCap, {logits}, attrs, Name("logits"));
}

}  // namespace

Module BuildModule(const Description& d, const BoundWeights& weights, const BuildOptions& options) {
  Graph g(d, weights, options);
  Operand x = Embedded(g, d.ends);
  for (int i = 0; i < static_cast<int>(d.model.n_layers); ++i) x = BuildLayer(g, i, x, d.BlockOf(i));
  Operand n = g.Norm(-1, x, "final_norm", d.BlockOf(d.model.n_layers - 1).norm, Name("n"));
  return g.Finish(Logits(g, n, d.ends));
}

}  // namespace llmc
