// The graph of a description, switching on choices alone. Names: the stream that enters layer i is %b{i}.x, the
// embedding's result %b0.x.
#include "frontend/build_module.h"

#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "ir/math.h"
#include "ir/math_f64.h"
#include "ir/op.h"

namespace llmc {
namespace {

class Builder {
 public:
  Builder(const Description& d, const BoundWeights& weights, const BuildOptions& options)
      : d_(d), weights_(weights), options_(options) {}

  Module Build() {
    module_.name = d_.model.name;
    module_.dims.push_back({"S", 1, options_.context});
    for (size_t i = 0; i < weights_.uses.size(); ++i) AddWeight(weights_.uses[i], weights_.dtypes[i]);
    Options();
    module_.funcs.emplace_back();
    Func& f = func();
    f.name = "forward";
    f.params = {AddValue(f, Name("tokens"), {DType::I32, {Dim("S")}}), AddValue(f, Name("pos"), {DType::I32, {}}),
                AddValue(f, Name("total"), {DType::I32, {}})};
    Operand x = One(OpKind::Embed, {Weight(-1, "embed"), Operand::Local(f.params[0])}, {}, Name(0, "x"));
    for (int i = 0; i < static_cast<int>(d_.model.n_layers); ++i) x = Layer(i, x);
    Operand n = Norm(x, Weight(-1, "final_norm"), d_.BlockOf(d_.model.n_layers - 1).norm, Name("n"));
    Operand logits = One(OpKind::Linear, {n, Weight(-1, d_.ends.tied ? "embed" : "head")}, {}, Name("logits"));
    f.returns = {logits};
    return std::move(module_);
  }

 private:
  Func& func() { return module_.funcs[0]; }

  void Options() {
    Attrs& o = module_.options;
    o.Set("after", std::string("import"));
    o.Set("numerics", math::kNumerics);
    o.Set("context", options_.context);
    o.Set("kv_type", std::string(InfoOf(options_.kv_type).text));
    o.Set("activations",
          !options_.activations.empty() ? options_.activations : std::string(has_blocks_ ? "q8" : "f32"));
    o.Set("chunk", options_.chunk);
    if (options_.quantize) o.Set("quantize", std::string(InfoOf(*options_.quantize).text));
    if (options_.random) o.Set("random", *options_.random);
  }

  int AddGlobal(Global g) {
    module_.globals.push_back(std::move(g));
    return static_cast<int>(module_.globals.size()) - 1;
  }
  int AddConst(Name name, Type type, Recipe recipe) {
    Global g;
    g.kind = GlobalKind::Const;
    g.name = FreshGlobalName(module_, std::move(name));
    g.type = std::move(type);
    g.recipe = std::move(recipe);
    return AddGlobal(std::move(g));
  }

  // A weight, and the const made from it where the graph needs another type: vectors in f32, matrices quantised on
  // request.
  void AddWeight(const WeightUse& use, DType dtype) {
    Global g;
    g.kind = GlobalKind::Weight;
    g.name = use.name;
    g.type.dtype = dtype;
    for (int64_t n : use.dims) g.type.dims.emplace_back(n);
    int index = AddGlobal(g);
    DTypeClass cls = InfoOf(dtype).cls;
    if (use.source.add != 0) {
      Attrs attrs;
      attrs.Set("value", static_cast<float>(use.source.add));
      index = Derived(use, index, DType::F32, {RecipeKind::Add, {index}, attrs});
    } else if (use.kind != WeightKind::Matrix && dtype != DType::F32) {
      index = Derived(use, index, DType::F32, {RecipeKind::Cast, {index}, {}});
    } else if (use.kind == WeightKind::Matrix && options_.quantize && cls == DTypeClass::FLOAT) {
      index = Quantized(use, index);
    }
    has_blocks_ =
        has_blocks_ || InfoOf(module_.globals[static_cast<size_t>(index)].type.dtype).cls == DTypeClass::BLOCK;
    by_name_[use.name] = index;
  }

  int Derived(const WeightUse& use, int from, DType dtype, Recipe recipe) {
    Type type = module_.globals[static_cast<size_t>(from)].type;
    type.dtype = dtype;
    return AddConst(Name(use.name.layer, fmt::format("{}_{}", use.name.base, InfoOf(dtype).text)), std::move(type),
                    std::move(recipe));
  }

  int Quantized(const WeightUse& use, int from) {
    const DTypeInfo& info = InfoOf(*options_.quantize);
    if (use.dims.back() % info.block == 0)
      return Derived(use, from, *options_.quantize, {RecipeKind::Quantize, {from}, {}});
    if (options_.sink) {
      options_.sink({Severity::Warning,
                     DiagKind::ConstraintViolated,
                     {"", "tensor " + use.source.from},
                     fmt::format("rows of {} elements are not whole blocks of {}: the tensor stays as stored, not {}",
                                 use.dims.back(), info.block, info.text),
                     {}});
    }
    return from;
  }

  Operand Weight(int layer, const std::string& base) const {
    auto it = by_name_.find(Name(layer, base));
    LLMC_CHECK(it != by_name_.end(), "no weight " + base);
    return Operand::OfGlobal(it->second);
  }
  bool HasWeight(int layer, const std::string& base) const { return by_name_.contains(Name(layer, base)); }

  Operand One(OpKind kind, std::vector<Operand> operands, Attrs attrs, Name name) {
    return Operand::Local(Append(module_, func(), kind, std::move(operands), std::move(attrs), {std::move(name)})[0]);
  }

  Operand Norm(Operand x, Operand gain, const NormSpec& spec, Name name) {
    Attrs attrs;
    attrs.Set("eps", static_cast<float>(spec.eps));
    return One(OpKind::RmsNorm, {x, gain}, attrs, std::move(name));
  }

  // y = x w^T, plus the bias where the weights have one.
  Operand Linear(int layer, Operand x, const std::string& w, const std::string& bias, const std::string& result) {
    std::vector<Operand> operands = {x, Weight(layer, w)};
    if (HasWeight(layer, bias)) operands.push_back(Weight(layer, bias));
    return One(OpKind::Linear, std::move(operands), {}, Name(layer, result));
  }

  Operand Reshape(Operand x, std::vector<Dim> to, Name name) {
    Attrs attrs;
    attrs.Set("to", std::move(to));
    return One(OpKind::Reshape, {x}, attrs, std::move(name));
  }

  int RopeTable(int layer, const PositionSpec& p, const std::string& base) {
    Recipe recipe;
    recipe.kind = RecipeKind::RopeTable;
    Attrs& a = recipe.attrs;
    auto set = [&](const char* name, double v) { a.Set(name, static_cast<float>(v)); };
    set("theta", p.theta);
    if (p.scaling == RopeScaling::Divisors) {
      recipe.inputs = {Weight(-1, "rope_divisors").index};
    } else if (p.scaling != RopeScaling::None) {
      a.Set("kind", std::string(ChoiceText(p.scaling)));
      set("factor", p.factor);
    }
    if (p.scaling == RopeScaling::Llama3 || p.scaling == RopeScaling::Yarn) a.Set("original", p.original);
    if (p.scaling == RopeScaling::Llama3) {
      set("low", p.low);
      set("high", p.high);
    }
    if (p.scaling == RopeScaling::Yarn) {
      set("beta_fast", p.beta_fast);
      set("beta_slow", p.beta_slow);
    }
    if (p.attention_factor != 1.0) set("attention_factor", p.attention_factor);
    Type type;
    type.dims = {Dim(options_.context), Dim(p.rotary_dim)};
    return AddConst(Name(layer, base), std::move(type), std::move(recipe));
  }

  Operand Rope(int layer, Operand x, const PositionSpec& p, const std::string& what) {
    Attrs attrs;
    attrs.Set("pairs", std::string(ChoiceText(p.pairs)));
    Operand table = Operand::OfGlobal(RopeTable(layer, p, "rope_" + what));
    return One(OpKind::Rope, {x, table, Operand::Local(func().params[1])}, attrs, Name(layer, what + "_rot"));
  }

  Operand State(int layer, const AttentionSpec& a, const std::string& base) {
    Global g;
    g.kind = GlobalKind::State;
    g.name = Name(layer, base);
    g.type.dtype = options_.kv_type;
    g.type.dims = {Dim(options_.context), Dim(a.n_kv_heads), Dim(a.d_head)};
    g.attrs.Set("kind", std::string("kv"));
    if (a.window == 0) {
      g.attrs.Set("window", std::string("none"));
    } else {
      g.attrs.Set("window", a.window);
    }
    int index = AddGlobal(std::move(g));
    module_.globals[static_cast<size_t>(index)].type.state = index;
    return Operand::OfGlobal(index);
  }

  Operand Attention(int layer, Operand x, const Block& block) {
    const AttentionSpec& a = block.attention;
    Operand pos = Operand::Local(func().params[1]);
    auto heads = [&](Operand v, int64_t n, const char* name) {
      return Reshape(v, {Dim("S"), Dim(n), Dim(a.d_head)}, Name(layer, name));
    };
    Operand q = heads(Linear(layer, x, "wq", "bq", "q"), a.n_heads, "q_heads");
    Operand k = heads(Linear(layer, x, "wk", "bk", "k_new"), a.n_kv_heads, "k_heads");
    Operand v = heads(Linear(layer, x, "wv", "bv", "v_new"), a.n_kv_heads, "v_heads");
    if (a.qk_norm == QkNorm::PerHead) {
      q = Norm(q, Weight(layer, "q_norm"), block.norm, Name(layer, "q_normed"));
      k = Norm(k, Weight(layer, "k_norm"), block.norm, Name(layer, "k_normed"));
    }
    q = Rope(layer, q, block.position, "q");
    k = Rope(layer, k, block.position, "k");
    Operand keys = One(OpKind::KvAppend, {State(layer, a, "k"), k, pos}, {}, Name(layer, "keys"));
    Operand values = One(OpKind::KvAppend, {State(layer, a, "v"), v, pos}, {}, Name(layer, "values"));
    Attrs attrs;
    attrs.Set("scale", math::AttentionScale(a.d_head));
    if (a.window != 0) attrs.Set("window", a.window);
    Operand out = One(OpKind::Attention, {q, keys, values, pos}, attrs, Name(layer, "att"));
    out = Reshape(out, {Dim("S"), Dim(a.n_heads * a.d_head)}, Name(layer, "att_row"));
    return Linear(layer, out, "wo", "bo", "att_out");
  }

  Operand Ffn(int layer, Operand x, const FfnSpec& spec) {
    Operand gate = Linear(layer, x, "w_gate", "b_gate", "gate");
    Operand up = Linear(layer, x, "w_up", "b_up", "up");
    Attrs attrs;
    attrs.Set("act", std::string(ChoiceText(spec.act)));
    Operand h = One(OpKind::Gated, {gate, up}, attrs, Name(layer, "h"));
    return Linear(layer, h, "w_down", "b_down", "ffn_out");
  }

  Operand Layer(int i, Operand x) {
    const Block& block = d_.BlockOf(i);
    Operand n = Norm(x, Weight(i, "attn_norm"), block.norm, Name(i, "n"));
    Operand mid = One(OpKind::Add, {x, Attention(i, n, block)}, {}, Name(i, "mid"));
    Operand m = Norm(mid, Weight(i, "ffn_norm"), block.norm, Name(i, "m"));
    return One(OpKind::Add, {mid, Ffn(i, m, block.ffn)}, {}, Name(i + 1, "x"));
  }

  const Description& d_;
  const BoundWeights& weights_;
  const BuildOptions& options_;
  Module module_;
  std::map<Name, int> by_name_;  // the global that the graph reads for a weight
  bool has_blocks_ = false;
};

}  // namespace

Module BuildModule(const Description& d, const BoundWeights& weights, const BuildOptions& options) {
  return Builder(d, weights, options).Build();
}

}  // namespace llmc
