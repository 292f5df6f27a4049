// A tiny decoder for tests of everything behind the front end that need a whole model but no files: built from a
// description, as any model is. Weights come from RandomWeights.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "frontend/build_module.h"
#include "frontend/description.h"
#include "ir/module.h"
#include "ir/op.h"

namespace llmc::test {

struct TinyModel {
  int64_t vocab = 40;
  int64_t d_model = 64;
  int64_t n_layers = 2;
  int64_t n_heads = 4;
  int64_t n_kv_heads = 2;
  int64_t d_head = 16;
  int64_t d_ff = 96;
  int64_t context = 160;
  int64_t chunk = 16;
  int64_t window = 0;          // 0: none
  int64_t full_every = 0;      // n: every n-th layer has no window
  DType weights = DType::F32;  // matrices and the embedding table
  DType kv = DType::F16;
  std::string activations = {};  // "": q8 for block weights, else f32
  bool quantize = false;         // a `quantize` in front of every linear of blocks, which else the pass puts there
  bool tied = true;
  bool bias = false;  // on q, k, v
  bool qk_norm = false;
  bool interleaved = false;  // rotary pairs
  double theta = 10000.0;
};

namespace tiny {

inline std::string BlockText(const TinyModel& m, int64_t window) {
  const auto n = [](int64_t v) { return std::to_string(v); };
  return R"({"norm": {"eps": 1e-05}, "attention": {"n_heads": )" + n(m.n_heads) + R"(, "n_kv_heads": )" +
         n(m.n_kv_heads) + R"(, "d_head": )" + n(m.d_head) + R"(, "bias": ")" + (m.bias ? "qkv" : "none") +
         R"(", "qk_norm": ")" + (m.qk_norm ? "per_head" : "none") + R"(", "window": )" + n(window) +
         R"(}, "position": {"theta": )" + std::to_string(m.theta) + R"(, "pairs": ")" +
         (m.interleaved ? "interleaved" : "half") + R"("}, "ffn": {"d_ff": )" + n(m.d_ff) + "}}";
}

// The description; layers with a window, then, if there are such, the one without.
inline Description Describe(const TinyModel& m) {
  std::string layers;
  for (int64_t i = 0; i < m.n_layers; ++i) {
    const bool full = m.full_every > 0 && i % m.full_every == m.full_every - 1;
    layers += std::string(i > 0 ? ", " : "") + (full ? "\"full\"" : "\"layer\"");
  }
  const std::string text = R"({"llmc": 1, "name": "tiny", "vocab": )" + std::to_string(m.vocab) + R"(, "d_model": )" +
                           std::to_string(m.d_model) + R"(, "n_layers": )" + std::to_string(m.n_layers) +
                           R"(, "max_context": )" + std::to_string(m.context) + R"(, "blocks": {"layer": )" +
                           BlockText(m, m.window) + R"(, "full": )" + BlockText(m, 0) + R"(}, "layers": [)" + layers +
                           R"(], "ends": {"tied": )" + (m.tied ? "true" : "false") + "}}";
  return ReadDescription(ParseJson(text, "tiny.json"), "tiny.json");
}

// The same ops with a `quantize` in front of every linear of blocks.
inline void QuantizeInputs(Module& module) {
  Func old = std::move(module.funcs[0]);
  Func& f = module.funcs[0];
  f = Func();
  f.name = old.name;
  std::map<ValueId, Operand> made;
  for (const ValueId p : old.params) {
    const Value& v = old.values[static_cast<size_t>(p)];
    f.params.push_back(AddValue(f, v.name, v.type));
    made[p] = Operand::Local(f.params.back());
  }
  const auto renamed = [&](const Operand& o) { return o.is_global ? o : made.at(o.index); };
  for (const Op& op : old.ops) {
    std::vector<Operand> operands;
    for (const Operand& o : op.operands) operands.push_back(renamed(o));
    std::vector<Name> names;
    for (const ValueId r : op.results) names.push_back(old.values[static_cast<size_t>(r)].name);
    if (op.kind == OpKind::Linear && InfoOf(TypeOf(module, f, operands[1]).dtype).cls == DTypeClass::BLOCK) {
      const Name name(names[0].layer, names[0].base + "_a8");
      operands[0] = Operand::Local(Append(module, f, OpKind::Quantize, {operands[0]}, {}, {name})[0]);
    }
    const std::vector<ValueId> results = Append(module, f, op.kind, operands, op.attrs, names);
    for (size_t i = 0; i < results.size(); ++i) made[op.results[i]] = Operand::Local(results[i]);
  }
  for (const Operand& o : old.returns) f.returns.push_back(renamed(o));
}

}  // namespace tiny

inline Module BuildTiny(const TinyModel& model) {
  const Description d = tiny::Describe(model);
  BoundWeights weights = UnboundWeights(d);
  for (size_t i = 0; i < weights.uses.size(); ++i)
    if (weights.uses[i].kind == WeightKind::Matrix) weights.dtypes[i] = model.weights;
  BuildOptions options;
  options.context = model.context;
  options.chunk = model.chunk;
  options.kv_type = model.kv;
  options.activations = model.activations;
  Module module = BuildModule(d, weights, options);
  if (model.quantize) tiny::QuantizeInputs(module);
  return module;
}

// Token ids that repeat little and stay inside the vocabulary.
inline std::vector<int32_t> TinyTokens(const TinyModel& model, int64_t n) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>((i * 7 + i * i % 11 + 3) % model.vocab));
  return tokens;
}

}  // namespace llmc::test
