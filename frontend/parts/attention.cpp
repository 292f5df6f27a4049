// Causal attention over a cache of keys and values, with grouped heads; scores are scaled by 1 / sqrt(d_head).
#include <fmt/format.h>

#include "frontend/graph.h"
#include "frontend/weight_list.h"
#include "ir/math_f64.h"

namespace llmc {
namespace {

enum class Bias : uint8_t { None, Qkv, Qkvo };
constexpr std::array<std::string_view, 3> kBiases = {"none", "qkv", "qkvo"};
std::span<const std::string_view> TextsOf(Bias) { return kBiases; }

enum class QkNorm : uint8_t { None, PerHead };
constexpr std::array<std::string_view, 2> kQkNorms = {"none", "per_head"};
std::span<const std::string_view> TextsOf(QkNorm) { return kQkNorms; }

class Attention : public Mixer {
 public:
  std::string_view kind() const override { return "attention"; }
  std::unique_ptr<Mixer> Clone() const override { return std::make_unique<Attention>(*this); }
  llmc::Fields Fields() override {
    return {{"n_heads", n_heads_}, {"n_kv_heads", n_kv_heads_}, {"d_head", d_head_},
            {"bias", bias_},       {"qk_norm", qk_norm_},       {"window", window_}};
  }

  void Complete(Block& block, const ModelSpec& model, const Checker& check) override {
    check.Size("attention.n_heads", n_heads_, Checker::kMaxWidth);
    if (n_kv_heads_ == 0) n_kv_heads_ = n_heads_;
    check.Size("attention.n_kv_heads", n_kv_heads_, n_heads_);
    check.Require(
        n_heads_ % n_kv_heads_ == 0,
        fmt::format("attention.n_heads {} is not a multiple of attention.n_kv_heads {}", n_heads_, n_kv_heads_));
    if (d_head_ == 0) {
      check.Require(model.d_model % n_heads_ == 0,
                    fmt::format("attention.d_head is not given, and d_model {} is not a multiple of "
                                "attention.n_heads {}",
                                model.d_model, n_heads_));
      d_head_ = model.d_model / n_heads_;
    }
    check.Size("attention.d_head", d_head_, 4096);
    check.Require(n_heads_ <= Checker::kMaxWidth / d_head_,
                  fmt::format("attention.n_heads {} * d_head {} is above {}", n_heads_, d_head_, Checker::kMaxWidth));
    check.Require(window_ >= 0 && window_ <= Checker::kMaxCount,
                  fmt::format("attention.window is {}, must be 0 (none) to {}", window_, Checker::kMaxCount));
    block.position->Complete(d_head_, model, check);
  }

  void AddWeights(const Block&, const ModelSpec& model, WeightRows& out) const override {
    const SizeRule d_model{model.d_model, "d_model"};
    const SizeRule d_head{d_head_, "attention.d_head"};
    const SizeRule q{n_heads_ * d_head_, "attention.n_heads * attention.d_head"};
    const SizeRule kv{n_kv_heads_ * d_head_, "attention.n_kv_heads * attention.d_head"};
    const bool qkv_bias = bias_ != Bias::None;
    const bool qk_norm = qk_norm_ == QkNorm::PerHead;
    constexpr WeightPart kPart = WeightPart::Attention;
    out.Matrix(kPart, "wq", q, d_model);
    out.Bias(kPart, "bq", q, qkv_bias);
    out.Matrix(kPart, "wk", kv, d_model);
    out.Bias(kPart, "bk", kv, qkv_bias);
    out.Matrix(kPart, "wv", kv, d_model);
    out.Bias(kPart, "bv", kv, qkv_bias);
    out.Gain(WeightPart::Norm, "q_norm", d_head, qk_norm);
    out.Gain(WeightPart::Norm, "k_norm", d_head, qk_norm);
    out.Matrix(kPart, "wo", d_model, q);
    out.Bias(kPart, "bo", d_model, bias_ == Bias::Qkvo);
  }

  Operand Build(Graph& g, int layer, Operand x, const Block& block) const override {
    auto heads = [&](Operand v, int64_t n, const char* name) {
      return g.Reshape(v, {Dim("S"), Dim(n), Dim(d_head_)}, Name(layer, name));
    };
    Operand q = heads(g.Linear(layer, x, "wq", "bq", "q"), n_heads_, "q_heads");
    Operand k = heads(g.Linear(layer, x, "wk", "bk", "k_new"), n_kv_heads_, "k_heads");
    Operand v = heads(g.Linear(layer, x, "wv", "bv", "v_new"), n_kv_heads_, "v_heads");
    if (qk_norm_ == QkNorm::PerHead) {
      q = g.Norm(layer, q, "q_norm", block.norm, Name(layer, "q_normed"));
      k = g.Norm(layer, k, "k_norm", block.norm, Name(layer, "k_normed"));
    }
    q = block.position->Apply(g, layer, q, "q");
    k = block.position->Apply(g, layer, k, "k");
    auto append = [&](const char* state, Operand rows, const char* name) {
      return g.One(OpKind::KvAppend, {g.KvState(layer, state, n_kv_heads_, d_head_, window_), rows, g.pos()}, {},
                   Name(layer, name));
    };
    Operand keys = append("k", k, "keys");
    Operand values = append("v", v, "values");
    Attrs attrs;
    attrs.Set("scale", math::AttentionScale(d_head_));
    if (window_ != 0) attrs.Set("window", window_);
    Operand out = g.One(OpKind::Attention, {q, keys, values, g.pos()}, attrs, Name(layer, "att"));
    out = g.Reshape(out, {Dim("S"), Dim(n_heads_ * d_head_)}, Name(layer, "att_row"));
    return g.Linear(layer, out, "wo", "bo", "att_out");
  }

 private:
  int64_t n_heads_ = 0;     // query heads
  int64_t n_kv_heads_ = 0;  // a divisor of n_heads; 0: n_heads
  int64_t d_head_ = 0;      // 0: d_model / n_heads
  Bias bias_ = Bias::None;
  QkNorm qk_norm_ = QkNorm::None;  // per_head: rms norm of each head of q and k, before positions
  int64_t window_ = 0;             // a query sees that many keys, itself included; 0: all
};

}  // namespace

std::unique_ptr<Mixer> MakeAttention() { return std::make_unique<Attention>(); }

}  // namespace llmc
