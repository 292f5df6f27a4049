// The figures of `llmc describe --report`.
#include "frontend/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ir/op.h"

namespace llmc {
namespace {

int64_t CountOf(const WeightUse& use) {
  int64_t n = 1;
  for (int64_t d : use.dims) n *= d;
  return n;
}

// The sum of the ops' costs. Only the last row's logits are wanted, so what works for them alone sees one row.
WorkFigures WorkOf(const Module& module, int64_t rows, int64_t total) {
  WorkFigures work{rows, total};
  const Func& f = module.funcs[0];
  const std::vector<bool> for_last = LastRowOps(f);
  for (size_t i = 0; i < f.ops.size(); ++i) {
    const Op& op = f.ops[i];
    const OpDef& def = DefOf(op.kind);
    if (def.cost == nullptr) continue;
    InferContext context{module, f, op, {}};
    for (const Operand& operand : op.operands) context.operand_types.push_back(TypeOf(module, f, operand));
    Cost cost = def.cost(context, for_last[i] ? 1 : rows, total);
    work.weight_macs += cost.weight_macs;
    work.attention_macs += cost.attention_macs;
    work.weight_bytes += cost.weight_bytes;
    work.state_bytes += cost.state_bytes;
  }
  return work;
}

std::string Grouped(int64_t v) {
  std::string digits = std::to_string(v);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}
std::string Grouped(double v) { return Grouped(static_cast<int64_t>(std::llround(v))); }

std::string Line(const std::string& label, const std::string& value, const std::string& rest = "") {
  return fmt::format("{:<34} {:>22}{}{}\n", label, value, rest.empty() ? "" : "  ", rest);
}

std::string WorkLine(const std::string& label, const WorkFigures& w) {
  return Line(
      label, Grouped(w.weight_macs + w.attention_macs),
      fmt::format("multiply-adds ({} with weights, {} with keys and values); reads {} bytes of weights, {} of cache",
                  Grouped(w.weight_macs), Grouped(w.attention_macs), Grouped(w.weight_bytes), Grouped(w.state_bytes)));
}

int64_t ExpertsOf(const Description& d, const WeightUse& use, const char* field) {
  return GetField(d, d.BlockOf(use.name.layer), std::string("ffn.") + field)->integer;
}

}  // namespace

ModelFigures FiguresOf(const Description& d, const BoundWeights& weights, const Module& module, int64_t prefill) {
  ModelFigures out;
  std::vector<int64_t> first_layer(d.blocks.size(), -1);
  for (const auto& [name, block] : d.blocks) {
    std::string mixer(block.mixer->kind());
    if (block.beside->IsThere()) mixer += fmt::format(" and {}", block.beside->kind());
    out.blocks.push_back({.name = name, .mixer = std::move(mixer)});
  }
  for (size_t i = d.layers.size(); i-- > 0;) {
    auto b = static_cast<size_t>(d.layers[i]);
    ++out.blocks[b].layers;
    first_layer[b] = static_cast<int64_t>(i);
  }
  for (const WeightUse& use : weights.uses) {
    if (use.part == WeightPart::Constant || use.fused) continue;  // not learned; counted by its parts
    int64_t n = CountOf(use);
    out.parameters += n;
    out.active += use.part == WeightPart::Experts ? n / ExpertsOf(d, use, "count") * ExpertsOf(d, use, "used") : n;
    if (use.name.layer < 0) {
      (use.part == WeightPart::Embedding ? out.embedding
       : use.part == WeightPart::Head    ? out.head
                                         : out.final_norm) += n;
      continue;
    }
    auto b = static_cast<size_t>(d.layers[static_cast<size_t>(use.name.layer)]);
    if (first_layer[b] != use.name.layer) continue;
    BlockFigures& block = out.blocks[b];
    (use.part == WeightPart::Attention ? block.attention : use.part == WeightPart::Norm ? block.norms : block.ffn) += n;
  }
  // As the graph reads them: a const replaces the weight that it is made from.
  std::vector<bool> replaced(module.globals.size(), false);
  for (const Global& g : module.globals) {
    for (int input : g.recipe.inputs) replaced[static_cast<size_t>(input)] = true;
  }
  int64_t context = module.options.Int("context");
  for (size_t i = 0; i < module.globals.size(); ++i) {
    const Global& g = module.globals[i];
    if (g.kind == GlobalKind::State) {
      const bool past = KindOf(g).holds == StateHolds::PAST;
      const int64_t bytes = ByteSize(g.type) / (past ? 1 : context);
      (past ? out.past_bytes : out.kv_bytes_per_token) += bytes;
      auto b = static_cast<size_t>(d.layers[static_cast<size_t>(g.name.layer)]);
      BlockFigures& block = out.blocks[b];
      if (first_layer[b] == g.name.layer) (past ? block.past_bytes : block.kv_bytes_per_token) += bytes;
    } else if (!replaced[i] && !(g.kind == GlobalKind::Const && g.recipe.kind == RecipeKind::RopeTable)) {
      out.weight_bytes += ByteSize(g.type);
    }
  }
  out.first_token = WorkOf(module, 1, 1);
  out.last_token = WorkOf(module, 1, context);
  int64_t rows = std::clamp<int64_t>(prefill, 1, context);
  out.prefill = WorkOf(module, rows, rows);
  return out;
}

std::string ReportText(const Description& d, const ModelFigures& figures) {
  std::string out =
      Line("parameters", Grouped(figures.parameters), fmt::format("in {} bytes", Grouped(figures.weight_bytes)));
  if (figures.active != figures.parameters) out += Line("  active", Grouped(figures.active), "for a token");
  out += Line("  embedding", Grouped(figures.embedding));
  for (const BlockFigures& b : figures.blocks) {
    out += Line(fmt::format("  {} x {}", b.layers, b.name), Grouped(b.layers * b.total()));
    out += Line("    one layer", Grouped(b.total()),
                fmt::format("{} {}, feed-forward {}, norms {}", b.mixer, Grouped(b.attention), Grouped(b.ffn),
                            Grouped(b.norms)));
  }
  out += Line("  final norm", Grouped(figures.final_norm));
  out += d.ends.tied ? Line("  head", "tied", "the embedding, counted once") : Line("  head", Grouped(figures.head));
  out += Line("cache per token", Grouped(figures.kv_bytes_per_token), "bytes");
  for (const BlockFigures& b : figures.blocks)
    out += Line(fmt::format("  one layer ({})", b.name), Grouped(b.kv_bytes_per_token), "bytes");
  if (figures.past_bytes > 0) {
    out += Line("states of a sequence", Grouped(figures.past_bytes), "bytes");
    for (const BlockFigures& b : figures.blocks)
      if (b.past_bytes > 0) out += Line(fmt::format("  one layer ({})", b.name), Grouped(b.past_bytes), "bytes");
  }
  out += WorkLine("decode, first position", figures.first_token);
  out += WorkLine(fmt::format("decode, position {}", Grouped(figures.last_token.total - 1)), figures.last_token);
  out += WorkLine(fmt::format("prefill of {}", Grouped(figures.prefill.rows)), figures.prefill);
  return out;
}

}  // namespace llmc
