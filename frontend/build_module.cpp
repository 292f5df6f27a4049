// The graph of a description: the embedding, the layers, the head. Names: the stream that enters layer i is %b{i}.x,
// the embedding's result %b0.x.
#include "frontend/build_module.h"

#include <functional>

#include "frontend/graph.h"
#include "frontend/wiring.h"

namespace llmc {
namespace {

// Rows of the embedding, scaled, with those of their types and positions, and normed. What comes last is the stream.
Operand Embedded(Graph& g, const EndsSpec& ends, const NormSpec& norm) {
  struct Step {
    std::string name;
    std::function<Operand(Operand, Name)> build;
  };
  std::vector<Step> steps;
  if (ends.embed_scale != 1.0)
    steps.push_back(
        {"embed_scaled", [&](Operand x, Name name) { return g.Scale(x, ends.embed_scale, std::move(name)); }});
  if (ends.token_types > 0)
    steps.push_back({"typed", [&](Operand x, Name name) {
                       Operand t = g.One(OpKind::Embed, {g.Weight(-1, "type_embed"), g.types()}, {}, Name("type"));
                       return g.One(OpKind::Add, {x, t}, {}, std::move(name));
                     }});
  if (ends.learned_positions)
    steps.push_back({"placed", [&](Operand x, Name name) {
                       Attrs attrs;
                       if (ends.position_offset != 0) attrs.Set("offset", ends.position_offset);
                       Operand p = g.One(OpKind::PositionEmbed, {g.Weight(-1, "pos_embed"), g.tokens(), g.pos()}, attrs,
                                         Name("position"));
                       return g.One(OpKind::Add, {x, p}, {}, std::move(name));
                     }});
  if (ends.embed_norm)
    steps.push_back({"", [&](Operand x, Name name) { return g.Norm(-1, x, "embed_norm", norm, std::move(name)); }});
  const Name stream(0, "x");
  Operand x = g.One(OpKind::Embed, {g.Weight(-1, "embed"), g.tokens()}, {}, steps.empty() ? stream : Name("embedded"));
  for (size_t i = 0; i < steps.size(); ++i) x = steps[i].build(x, i + 1 == steps.size() ? stream : Name(steps[i].name));
  return x;
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
  Operand x = Embedded(g, d.ends, d.BlockOf(0).norm);
  for (int i = 0; i < static_cast<int>(d.model.n_layers); ++i) x = BuildLayer(g, i, x, d.BlockOf(i));
  if (d.ends.final_norm) x = g.Norm(-1, x, "final_norm", d.BlockOf(d.model.n_layers - 1).norm, Name("n"));
  return g.Finish(d.ends.output == ModelOutput::Hidden ? x : Logits(g, x, d.ends));
}

}  // namespace llmc
