// Multi-head latent attention: keys and values of all heads are products of one latent vector a position, beside which
// stands one rotated key for all heads. Two forms of one function. The plain one caches keys and values. The absorbed
// one multiplies queries by the heads' key weights instead, q (K c) = (K^T q) c, sums latents, and multiplies the sums
// by the value weights: its cache is the latent and the rotated key (DeepSeek-V2, arXiv:2405.04434, section 2.1).
#include <cmath>

#include <fmt/format.h>

#include "frontend/graph.h"
#include "frontend/weight_list.h"
#include "ir/math_f64.h"

namespace llmc {
namespace {

class Mla : public Mixer {
 public:
  std::string_view kind() const override { return "mla"; }
  std::unique_ptr<Mixer> Clone() const override { return std::make_unique<Mla>(*this); }
  llmc::Fields Fields() override {
    return {{"n_heads", n_heads_}, {"kv_lora", kv_lora_}, {"q_lora", q_lora_}, {"d_nope", d_nope_}, {"d_rope", d_rope_},
            {"d_v", d_v_},         {"bias", bias_},       {"scale", scale_},   {"eps", eps_},       {"k_b", k_b_}};
  }

  void Complete(Block& block, const ModelSpec& model, const Checker& check) override {
    constexpr int64_t kMostHead = 4096, kTile = 16;  // rows of a packed tile, which belong to one head
    check.Size("mla.n_heads", n_heads_, Checker::kMaxWidth / (2 * kMostHead));
    check.Size("mla.kv_lora", kv_lora_, kMostHead);
    check.Require(q_lora_ >= 0 && q_lora_ <= Checker::kMaxWidth,
                  fmt::format("mla.q_lora is {}, must be 0 (none) to {}", q_lora_, Checker::kMaxWidth));
    check.Size("mla.d_nope", d_nope_, kMostHead);
    check.Size("mla.d_rope", d_rope_, kMostHead);
    check.Size("mla.d_v", d_v_, kMostHead);
    check.Require(kv_lora_ % kTile == 0 && d_v_ % kTile == 0,
                  fmt::format("mla.kv_lora {} and mla.d_v {} must be multiples of {}", kv_lora_, d_v_, kTile));
    if (std::isnan(scale_)) scale_ = 1.0 / std::sqrt(static_cast<double>(d_nope_ + d_rope_));
    check.Nonzero("mla.scale", scale_);
    check.Require(eps_ >= 0 && eps_ < 1, fmt::format("mla.eps is {}, must be at least 0 and below 1", eps_));
    block.position->Complete(d_rope_, model, check);
  }

  void AddWeights(const Block&, const ModelSpec& model, WeightRows& out) const override {
    const SizeRule d_model{model.d_model, "d_model"};
    const SizeRule nope{n_heads_ * d_nope_, "mla.n_heads * mla.d_nope"};
    const SizeRule rope{n_heads_ * d_rope_, "mla.n_heads * mla.d_rope"};
    const SizeRule v{n_heads_ * d_v_, "mla.n_heads * mla.d_v"};
    const SizeRule kv_lora{kv_lora_, "mla.kv_lora"}, q_lora{q_lora_, "mla.q_lora"}, d_rope{d_rope_, "mla.d_rope"};
    const SizeRule q_in = q_lora_ > 0 ? q_lora : d_model;
    const SizeRule d_nope{d_nope_, "mla.d_nope"}, turned{n_heads_ * kv_lora_, "mla.n_heads * mla.kv_lora"};
    const NormSpec norm = LatentNorm();
    constexpr WeightPart kPart = WeightPart::Attention;
    out.Matrix(kPart, "wq_a", q_lora, d_model, q_lora_ > 0);
    out.Bias(kPart, "bq_a", q_lora, q_lora_ > 0 && bias_);
    out.Norm(norm, "q_a_norm", q_lora, q_lora_ > 0);
    out.Matrix(kPart, "wq_nope", nope, q_in);
    out.Matrix(kPart, "wq_rope", rope, q_in);
    out.Matrix(kPart, "wkv_a", kv_lora, d_model);
    out.Bias(kPart, "bkv_a", kv_lora, bias_);
    out.Matrix(kPart, "wk_rope", d_rope, d_model);
    out.Bias(kPart, "bk_rope", d_rope, bias_);
    out.Norm(norm, "kv_a_norm", kv_lora);
    out.AsStored(kPart, "wk_b", k_b_ == KeyWeight::Rows ? nope : turned, k_b_ == KeyWeight::Rows ? kv_lora : d_nope);
    out.Stack(kPart, "wv_b", v, kv_lora);
    out.Matrix(kPart, "wo", d_model, v);
    out.Bias(kPart, "bo", d_model, bias_);
  }

  Operand Build(Graph& g, int layer, Operand x, const Block& block) const override {
    const auto heads = [&](Operand rows, int64_t n, int64_t d, const char* name) {
      return g.Reshape(rows, {Dim("S"), Dim(n), Dim(d)}, Name(layer, name));
    };
    const auto normed = [&](Operand rows, const char* gain, const char* name) {
      return g.Norm(layer, rows, gain, LatentNorm(), Name(layer, name));
    };
    Rows r;
    Operand q_in = x;
    if (q_lora_ > 0) q_in = normed(g.Linear(layer, x, "wq_a", "bq_a", "q_a"), "q_a_norm", "q_latent");
    r.q_nope = heads(g.Linear(layer, q_in, "wq_nope", "", "q_nope"), n_heads_, d_nope_, "q_nope_heads");
    Operand rotates = heads(g.Linear(layer, q_in, "wq_rope", "", "q_rope"), n_heads_, d_rope_, "q_rope_heads");
    r.q_rope = block.position->Apply(g, layer, rotates, "q");
    r.latent = normed(g.Linear(layer, x, "wkv_a", "bkv_a", "kv_a"), "kv_a_norm", "latent");
    rotates = heads(g.Linear(layer, x, "wk_rope", "bk_rope", "k_rope"), 1, d_rope_, "k_rope_head");
    r.k_rope = block.position->Apply(g, layer, rotates, "k");
    Operand out = k_b_ == KeyWeight::Turned && g.IsBlocks(layer, "wk_b") ? Absorbed(g, layer, r) : Plain(g, layer, r);
    out = g.Reshape(out, {Dim("S"), Dim(n_heads_ * d_v_)}, Name(layer, "att_row"));
    return g.Linear(layer, out, "wo", "bo", "att_out");
  }

 private:
  enum class KeyWeight : uint8_t { Rows, Turned };
  static constexpr std::array<std::string_view, 2> kKeyWeights = {"rows", "turned"};
  friend std::span<const std::string_view> TextsOf(KeyWeight) { return kKeyWeights; }

  // What both forms begin with: the queries' two parts [S, n_heads, ..], the latent [S, kv_lora], the key [S, 1, d_rope].
  struct Rows {
    Operand q_nope, q_rope, latent, k_rope;
  };

  NormSpec LatentNorm() const { return {.kind = NormKind::Rms, .eps = eps_, .gain = true, .bias = false}; }

  Operand Plain(Graph& g, int layer, const Rows& r) const {
    const auto of_heads = [&](Operand weight, int64_t d, const std::string& name) {
      Operand rows = g.One(OpKind::Linear, {r.latent, weight}, {}, Name(layer, name));
      return g.Reshape(rows, {Dim("S"), Dim(n_heads_), Dim(d)}, Name(layer, name + "_heads"));
    };
    Operand weight = g.Weight(layer, "wk_b");
    if (k_b_ == KeyWeight::Turned) weight = g.Turned(layer, "wk_b", n_heads_);
    const Operand k_nope = of_heads(weight, d_nope_, "k_nope");
    const Operand k_new = Joined(g, layer, k_nope, r.k_rope, "k_new");
    const Operand v_new = of_heads(g.Weight(layer, "wv_b"), d_v_, "v_new");
    const Operand keys = Appended(g, layer, "k", n_heads_, d_nope_ + d_rope_, k_new, "keys");
    const Operand values = Appended(g, layer, "v", n_heads_, d_v_, v_new, "values");
    const Operand q = Joined(g, layer, r.q_nope, r.q_rope, "q");
    return g.One(OpKind::Attention, {q, keys, values, g.pos()}, Scaled(), Name(layer, "att"));
  }

  Operand Absorbed(Graph& g, int layer, const Rows& r) const {
    g.RefuseUnlessAbsorbed(layer, "wk_b");
    const Operand latent = g.Reshape(r.latent, {Dim("S"), Dim(1), Dim(kv_lora_)}, Name(layer, "latent_head"));
    const Operand row = Joined(g, layer, latent, r.k_rope, "c_new");
    const Operand cached = Appended(g, layer, "c", 1, kv_lora_ + d_rope_, row, "cached");
    const Operand turned = g.One(OpKind::HeadLinear, {r.q_nope, g.Weight(layer, "wk_b")}, {}, Name(layer, "q_abs"));
    const Operand q = Joined(g, layer, turned, r.q_rope, "q");
    Attrs attrs = Scaled();
    attrs.Set("values", kv_lora_);
    const Operand sums = g.One(OpKind::Attention, {q, cached, cached, g.pos()}, attrs, Name(layer, "att_latent"));
    return g.One(OpKind::HeadLinear, {sums, g.Weight(layer, "wv_b")}, {}, Name(layer, "att"));
  }

  static Operand Joined(Graph& g, int layer, Operand x, Operand tail, const char* name) {
    return g.One(OpKind::Concat, {x, tail}, {}, Name(layer, name));
  }
  static Operand Appended(Graph& g, int layer, const char* state, int64_t heads, int64_t d, Operand rows,
                          const char* name) {
    return g.One(OpKind::KvAppend, {g.KvState(layer, state, heads, d, 0), rows, g.pos()}, {}, Name(layer, name));
  }
  Attrs Scaled() const {
    Attrs attrs;
    const bool usual = scale_ == 1.0 / std::sqrt(static_cast<double>(d_nope_ + d_rope_));
    attrs.Set("scale", usual ? math::AttentionScale(d_nope_ + d_rope_) : math::Log2Scale(scale_));
    return attrs;
  }

  int64_t n_heads_ = 0;
  int64_t kv_lora_ = 0;              // width of the latent
  int64_t q_lora_ = 0;               // of that of queries; 0: they are a product of the stream
  int64_t d_nope_ = 0, d_rope_ = 0;  // elements of a head that have no positions, and those that have
  int64_t d_v_ = 0;                  // of a value
  bool bias_ = false;                // of the products with the stream's rows, and the last one
  double scale_ = kDerived;          // on scores; derived: 1 / sqrt(d_nope + d_rope)
  double eps_ = 1e-6;                // of the latents' norms
  KeyWeight k_b_ = KeyWeight::Rows;  // rows: [n_heads d_nope, kv_lora]; turned: each head's transposed
};

}  // namespace

std::unique_ptr<Mixer> MakeMla() { return std::make_unique<Mla>(); }

}  // namespace llmc
