// A tiny decoder built in memory, as import builds it: for tests of the interpreter, passes, kernels and backends that
// need a whole model but no files. Weights come from RandomWeights. Everything that changes the graph is a field of
// TinyModel.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ir/math.h"
#include "ir/math_f64.h"
#include "ir/module.h"
#include "ir/op.h"
#include "ir/weights.h"

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
  DType weights = DType::F32;  // matrices and the embedding table
  DType kv = DType::F16;
  bool quantize = false;  // activations: a `quantize` before every linear of blocks (else the pass does it, or nothing)
  bool tied = true;
  bool bias = false;  // on q, k, v
  bool qk_norm = false;
  bool interleaved = false;  // rotary pairs
  float theta = 10000.0F;
};

namespace tiny {

class Builder {
 public:
  explicit Builder(const TinyModel& m) : m_(m) {}

  Module Build() {
    module_.name = "tiny";
    module_.dims = {{"S", 1, m_.context}};
    Options();
    DeclareGlobals();
    module_.funcs.emplace_back();
    Func& f = func();
    f.name = "forward";
    f.params = {AddValue(f, Name("tokens"), {DType::I32, {Dim("S")}, Layout::Rows, -1}),
                AddValue(f, Name("pos"), {DType::I32, {}, Layout::Rows, -1}),
                AddValue(f, Name("total"), {DType::I32, {}, Layout::Rows, -1})};
    Operand x = One(OpKind::Embed, {Weight(-1, "embed"), Operand::Local(f.params[0])}, {}, Name(0, "x"));
    for (int i = 0; i < static_cast<int>(m_.n_layers); ++i) x = Layer(i, x);
    const Operand n = Norm(x, -1, "final_norm", Name("n"));
    f.returns = {Linear(n, -1, m_.tied ? "embed" : "head", "", Name("logits"))};
    return std::move(module_);
  }

 private:
  Func& func() { return module_.funcs[0]; }

  void Options() {
    Attrs& o = module_.options;
    o.Set("after", std::string("import"));
    o.Set("numerics", math::kNumerics);
    o.Set("context", m_.context);
    o.Set("kv_type", std::string(InfoOf(m_.kv).text));
    o.Set("activations", std::string(InfoOf(m_.weights).cls == DTypeClass::BLOCK ? "q8" : "f32"));
    o.Set("chunk", m_.chunk);
  }

  int AddGlobal(GlobalKind kind, int layer, const std::string& base, Type type) {
    Global g;
    g.kind = kind;
    g.name = Name(layer, base);
    g.type = std::move(type);
    if (kind == GlobalKind::State) g.type.state = static_cast<int>(module_.globals.size());
    module_.globals.push_back(std::move(g));
    return static_cast<int>(module_.globals.size()) - 1;
  }
  void AddWeight(int layer, const std::string& base, std::vector<Dim> dims) {
    const DType dtype = dims.size() == 1 ? DType::F32 : m_.weights;
    AddGlobal(GlobalKind::Weight, layer, base, {dtype, std::move(dims), Layout::Rows, -1});
  }
  void AddRopeTable(int layer, const std::string& base) {
    const int index =
        AddGlobal(GlobalKind::Const, layer, base, {DType::F32, {Dim(m_.context), Dim(m_.d_head)}, Layout::Rows, -1});
    Recipe& recipe = module_.globals[static_cast<size_t>(index)].recipe;
    recipe.kind = RecipeKind::RopeTable;
    recipe.attrs.Set("theta", m_.theta);
  }
  void AddState(int layer, const std::string& base) {
    const int index = AddGlobal(GlobalKind::State, layer, base,
                                {m_.kv, {Dim(m_.context), Dim(m_.n_kv_heads), Dim(m_.d_head)}, Layout::Rows, -1});
    Attrs& attrs = module_.globals[static_cast<size_t>(index)].attrs;
    attrs.Set("kind", std::string("kv"));
    if (m_.window > 0) {
      attrs.Set("window", m_.window);
    } else {
      attrs.Set("window", std::string("none"));
    }
  }

  void DeclareGlobals() {
    const int64_t q = m_.n_heads * m_.d_head;
    const int64_t kv = m_.n_kv_heads * m_.d_head;
    AddWeight(-1, "embed", {Dim(m_.vocab), Dim(m_.d_model)});
    for (int i = 0; i < static_cast<int>(m_.n_layers); ++i) {
      AddWeight(i, "attn_norm", {Dim(m_.d_model)});
      AddWeight(i, "wq", {Dim(q), Dim(m_.d_model)});
      AddWeight(i, "wk", {Dim(kv), Dim(m_.d_model)});
      AddWeight(i, "wv", {Dim(kv), Dim(m_.d_model)});
      if (m_.bias) {
        AddWeight(i, "bq", {Dim(q)});
        AddWeight(i, "bk", {Dim(kv)});
        AddWeight(i, "bv", {Dim(kv)});
      }
      if (m_.qk_norm) {
        AddWeight(i, "q_norm", {Dim(m_.d_head)});
        AddWeight(i, "k_norm", {Dim(m_.d_head)});
      }
      AddWeight(i, "wo", {Dim(m_.d_model), Dim(q)});
      AddWeight(i, "ffn_norm", {Dim(m_.d_model)});
      AddWeight(i, "w_gate", {Dim(m_.d_ff), Dim(m_.d_model)});
      AddWeight(i, "w_up", {Dim(m_.d_ff), Dim(m_.d_model)});
      AddWeight(i, "w_down", {Dim(m_.d_model), Dim(m_.d_ff)});
      AddRopeTable(i, "rope_q");
      AddRopeTable(i, "rope_k");
      AddState(i, "k");
      AddState(i, "v");
    }
    AddWeight(-1, "final_norm", {Dim(m_.d_model)});
    if (!m_.tied) AddWeight(-1, "head", {Dim(m_.vocab), Dim(m_.d_model)});
  }

  Operand Weight(int layer, const std::string& base) const {
    const int index = module_.FindGlobal(Name(layer, base));
    LLMC_CHECK(index >= 0, "tiny model: no global " + base);
    return Operand::OfGlobal(index);
  }
  Operand One(OpKind kind, std::vector<Operand> operands, Attrs attrs, Name name) {
    return Operand::Local(Append(module_, func(), kind, std::move(operands), std::move(attrs), {std::move(name)})[0]);
  }
  Operand Norm(Operand x, int layer, const std::string& gain, Name name) {
    Attrs attrs;
    attrs.Set("eps", 1e-5F);
    return One(OpKind::RmsNorm, {x, Weight(layer, gain)}, attrs, std::move(name));
  }
  Operand Linear(Operand x, int layer, const std::string& w, const std::string& bias, Name name) {
    if (m_.quantize && InfoOf(m_.weights).cls == DTypeClass::BLOCK) {
      x = One(OpKind::Quantize, {x}, {}, Name(name.layer, name.base + "_a8"));
    }
    std::vector<Operand> operands = {x, Weight(layer, w)};
    if (!bias.empty()) operands.push_back(Weight(layer, bias));
    return One(OpKind::Linear, std::move(operands), {}, std::move(name));
  }
  Operand Reshape(Operand x, std::vector<Dim> to, Name name) {
    Attrs attrs;
    attrs.Set("to", std::move(to));
    return One(OpKind::Reshape, {x}, attrs, std::move(name));
  }
  Operand Rope(int i, Operand x, const std::string& what) {
    Attrs attrs;
    attrs.Set("pairs", std::string(m_.interleaved ? "interleaved" : "half"));
    return One(OpKind::Rope, {x, Weight(i, "rope_" + what), Operand::Local(func().params[1])}, attrs,
               Name(i, what + "_rot"));
  }

  Operand Attention(int i, Operand x) {
    const Operand pos = Operand::Local(func().params[1]);
    const auto heads = [&](const std::string& what, int64_t n) {
      const Operand flat = Linear(x, i, "w" + what, m_.bias ? "b" + what : "", Name(i, what + "_new"));
      return Reshape(flat, {Dim("S"), Dim(n), Dim(m_.d_head)}, Name(i, what + "_heads"));
    };
    Operand q = heads("q", m_.n_heads);
    Operand k = heads("k", m_.n_kv_heads);
    const Operand v = heads("v", m_.n_kv_heads);
    if (m_.qk_norm) {
      q = Norm(q, i, "q_norm", Name(i, "q_normed"));
      k = Norm(k, i, "k_norm", Name(i, "k_normed"));
    }
    q = Rope(i, q, "q");
    k = Rope(i, k, "k");
    const Operand keys = One(OpKind::KvAppend, {Weight(i, "k"), k, pos}, {}, Name(i, "keys"));
    const Operand values = One(OpKind::KvAppend, {Weight(i, "v"), v, pos}, {}, Name(i, "values"));
    Attrs attrs;
    attrs.Set("scale", math::AttentionScale(m_.d_head));
    if (m_.window > 0) attrs.Set("window", m_.window);
    const Operand out = One(OpKind::Attention, {q, keys, values, pos}, attrs, Name(i, "att"));
    const Operand rows = Reshape(out, {Dim("S"), Dim(m_.n_heads * m_.d_head)}, Name(i, "att_row"));
    return Linear(rows, i, "wo", "", Name(i, "att_out"));
  }

  Operand Layer(int i, Operand x) {
    const Operand n = Norm(x, i, "attn_norm", Name(i, "n"));
    const Operand mid = One(OpKind::Add, {x, Attention(i, n)}, {}, Name(i, "mid"));
    const Operand m = Norm(mid, i, "ffn_norm", Name(i, "m"));
    const Operand gate = Linear(m, i, "w_gate", "", Name(i, "gate"));
    const Operand up = Linear(m, i, "w_up", "", Name(i, "up"));
    const Operand h = One(OpKind::Gated, {gate, up}, {}, Name(i, "h"));
    return One(OpKind::Add, {mid, Linear(h, i, "w_down", "", Name(i, "ffn_out"))}, {}, Name(i + 1, "x"));
  }

  TinyModel m_;
  Module module_;
};

}  // namespace tiny

inline Module BuildTiny(const TinyModel& model) { return tiny::Builder(model).Build(); }

// Token ids that repeat little and stay inside the vocabulary.
inline std::vector<int32_t> TinyTokens(const TinyModel& model, int64_t n) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>((i * 7 + i * i % 11 + 3) % model.vocab));
  return tokens;
}

}  // namespace llmc::test
