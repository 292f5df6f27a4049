// The graph of a description: the embedding, the layers, the head. Names: the stream that enters layer i is %b{i}.x,
// the embedding's result %b0.x.
#include "frontend/build_module.h"

#include "frontend/graph.h"
#include "frontend/wiring.h"

namespace llmc {

Module BuildModule(const Description& d, const BoundWeights& weights, const BuildOptions& options) {
  Graph g(d, weights, options);
  Operand x = g.One(OpKind::Embed, {g.Weight(-1, "embed"), g.tokens()}, {}, Name(0, "x"));
  for (int i = 0; i < static_cast<int>(d.model.n_layers); ++i) x = BuildLayer(g, i, x, d.BlockOf(i));
  Operand n = g.Norm(-1, x, "final_norm", d.BlockOf(d.model.n_layers - 1).norm, Name("n"));
  return g.Finish(g.Linear(-1, n, d.ends.tied ? "embed" : "head", "head_bias", "logits"));
}

}  // namespace llmc
