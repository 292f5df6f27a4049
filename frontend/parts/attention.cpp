// Attention over a cache of keys and values, with grouped heads; causal, or of a whole sequence in one call.
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "frontend/graph.h"
#include "frontend/weight_list.h"
#include "ir/math_f64.h"

namespace llmc {
namespace {

enum class Bias : uint8_t { None, Qkv, Qkvo, O };
constexpr std::array<std::string_view, 4> kBiases = {"none", "qkv", "qkvo", "o"};
std::span<const std::string_view> TextsOf(Bias) { return kBiases; }

// Norms of q and k: of each head, in front of positions or behind; or of all heads as one row.
enum class QkNorm : uint8_t { None, PerHead, PerHeadAfter, Full };
constexpr std::array<std::string_view, 4> kQkNorms = {"none", "per_head", "per_head_after", "full"};
std::span<const std::string_view> TextsOf(QkNorm) { return kQkNorms; }

enum class Gains : uint8_t { Shared, Own };
constexpr std::array<std::string_view, 2> kGains = {"shared", "own"};
std::span<const std::string_view> TextsOf(Gains) { return kGains; }

enum class Sees : uint8_t { Causal, All };
constexpr std::array<std::string_view, 2> kSees = {"causal", "all"};
std::span<const std::string_view> TextsOf(Sees) { return kSees; }

// What attention's result is multiplied by: nothing, or the sigmoid of one more product of the row.
enum class OutGate : uint8_t { None, Channel };
constexpr std::array<std::string_view, 2> kOutGates = {"none", "channel"};
std::span<const std::string_view> TextsOf(OutGate) { return kOutGates; }

class Attention : public Mixer {
 public:
  std::string_view kind() const override { return "attention"; }
  std::unique_ptr<Mixer> Clone() const override { return std::make_unique<Attention>(*this); }
  llmc::Fields Fields() override {
    return {{"n_heads", n_heads_},
            {"n_kv_heads", n_kv_heads_},
            {"d_head", d_head_},
            {"bias", bias_},
            {"qk_norm", qk_norm_},
            {"qk_gains", qk_gains_},
            {"qk_norm_bias", qk_norm_bias_},
            {"scale", scale_},
            {"cap", cap_},
            {"clip", clip_},
            {"mask", mask_},
            {"window", window_},
            {"sinks", sinks_},
            {"gate", gate_},
            {"sub_norm", sub_norm_},
            {"v_norm", v_norm_},
            {"v_is_k", v_is_k_},
            {"shares", shares_}};
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
    if (std::isnan(scale_)) scale_ = 1.0 / std::sqrt(static_cast<double>(d_head_));
    check.Nonzero("attention.scale", scale_);
    check.Require(cap_ >= 0 && cap_ <= 1e30, fmt::format("attention.cap is {}, must be 0 (none) or positive", cap_));
    check.Require(clip_ >= 0 && clip_ <= 1e30,
                  fmt::format("attention.clip is {}, must be 0 (none) or positive", clip_));
    check.Require(!qk_norm_bias_ || block.norm.kind == NormKind::Layer,
                  "attention.qk_norm_bias goes with norm.kind layer");
    block.position->Complete(d_head_, model, check);
    if (shares_) v_is_k_ = v_norm_ = false;
  }

  void AddWeights(const Block& block, const ModelSpec& model, WeightRows& out) const override {
    const SizeRule d_model{model.d_model, "d_model"};
    const SizeRule q{n_heads_ * d_head_, "attention.n_heads * attention.d_head"};
    const SizeRule kv{n_kv_heads_ * d_head_, "attention.n_kv_heads * attention.d_head"};
    const bool qkv_bias = bias_ == Bias::Qkv || bias_ == Bias::Qkvo;
    constexpr WeightPart kPart = WeightPart::Attention;
    out.Matrix(kPart, "wq", q, d_model);
    out.Bias(kPart, "bq", q, qkv_bias);
    out.Matrix(kPart, "wg", q, d_model, gate_ == OutGate::Channel);
    out.Bias(kPart, "bg", q, qkv_bias && gate_ == OutGate::Channel);
    const bool has_v = !shares_ && !v_is_k_;
    out.Matrix(kPart, "wk", kv, d_model, !shares_);
    out.Bias(kPart, "bk", kv, qkv_bias && !shares_);
    out.Matrix(kPart, "wv", kv, d_model, has_v);
    out.Bias(kPart, "bv", kv, qkv_bias && has_v);
    AddQkNorm(out, "q_norm", q, true);
    AddQkNorm(out, "k_norm", kv, !shares_);
    out.Gain(kPart, "sinks", {n_heads_, "attention.n_heads"}, sinks_);
    out.Norm(block.norm, "attn_sub_norm", q, sub_norm_);
    out.Matrix(kPart, "wo", d_model, q);
    out.Bias(kPart, "bo", d_model, bias_ == Bias::Qkvo || bias_ == Bias::O);
  }

  Operand Build(Graph& g, int layer, Operand x, const Block& block) const override {
    Operand q = Headed(g, layer, Product(g, layer, x, "q", "q"), "q", n_heads_, block);
    const auto [keys, values] = Cached(g, layer, x, block);
    Operand gated_by = gate_ == OutGate::None ? x : g.Linear(layer, x, "wg", "bg", "gate_in");
    Attrs attrs;
    SetScale(attrs);
    if (window_ != 0) attrs.Set("window", window_);
    if (mask_ == Sees::All) attrs.Set("all", true);
    std::vector<Operand> operands = {q, keys, values, g.pos()};
    if (sinks_) operands.push_back(g.Weight(layer, "sinks"));
    Operand out = g.One(OpKind::Attention, std::move(operands), attrs, Name(layer, "att"));
    out = g.Reshape(out, {Dim("S"), Dim(n_heads_ * d_head_)}, Name(layer, "att_row"));
    if (gate_ == OutGate::Channel) {
      Attrs gate;
      gate.Set("act", std::string("sigmoid"));
      out = g.One(OpKind::Gated, {gated_by, out}, gate, Name(layer, "att_gated"));
    }
    if (sub_norm_) out = g.Norm(layer, out, "attn_sub_norm", block.norm, Name(layer, "att_sub_normed"));
    return g.Linear(layer, out, "wo", "bo", "att_out");
  }

  bool NeedsWholeSequence() const override { return mask_ == Sees::All; }
  bool SharesCache() const override { return shares_; }
  // Another layer's cache fits if it has keys as these would be, and as many of them.
  bool ReadsCacheOf(const Mixer& other) const override {
    const auto* own = dynamic_cast<const Attention*>(&other);
    return own != nullptr && !own->shares_ && own->n_kv_heads_ == n_kv_heads_ && own->d_head_ == d_head_ &&
           own->window_ == window_ && own->mask_ == mask_;
  }

 private:
  // The gain and bias of q's or k's norm: of one head, shared by all, or of each head's own.
  void AddQkNorm(WeightRows& out, const std::string& base, const SizeRule& all_heads, bool has) const {
    const bool own = qk_norm_ == QkNorm::Full || qk_gains_ == Gains::Own;
    const bool there = has && qk_norm_ != QkNorm::None;
    const SizeRule n = own ? all_heads : SizeRule{d_head_, "attention.d_head"};
    if (own && qk_norm_ != QkNorm::Full) {
      out.FlatGain(WeightPart::Norm, base, n, there);
    } else {
      out.Gain(WeightPart::Norm, base, n, there);
    }
    out.Bias(WeightPart::Norm, base + "_b", n, there && qk_norm_bias_);
  }

  // The caches with the call's keys and values: the layer's own, or those that another layer has appended.
  std::pair<Operand, Operand> Cached(Graph& g, int layer, Operand x, const Block& block) const {
    if (shares_) {
      const int from = g.CacheLayer(layer);
      return {g.MadeIn(from, "keys"), g.MadeIn(from, "values")};
    }
    const Operand k_rows = Product(g, layer, x, "k", "k_new");
    const Operand v_rows = v_is_k_ ? k_rows : Product(g, layer, x, "v", "v_new");
    const Operand k = Headed(g, layer, k_rows, "k", n_kv_heads_, block);
    const Operand v = Headed(g, layer, v_rows, "v", n_kv_heads_, block);
    auto append = [&](const char* state, Operand rows, const char* name) {
      return g.One(OpKind::KvAppend, {g.KvState(layer, state, n_kv_heads_, d_head_, window_), rows, g.pos()}, {},
                   Name(layer, name));
    };
    const Operand keys = append("k", k, "keys");
    return {keys, append("v", v, "values")};
  }

  // Rows of q, k or v: product and clip.
  Operand Product(Graph& g, int layer, Operand x, const std::string& what, const std::string& name) const {
    const Operand rows = g.Linear(layer, x, "w" + what, "b" + what, name);
    if (clip_ == 0) return rows;
    Attrs attrs;
    attrs.Set("limit", static_cast<float>(clip_));
    return g.One(OpKind::Clamp, {rows}, attrs, Name(layer, what + "_clipped"));
  }

  // Those rows as heads [S, n, d_head], with norm and positions.
  Operand Headed(Graph& g, int layer, Operand rows, const std::string& what, int64_t n, const Block& block) const {
    const bool rotates = what != "v";
    const QkNorm norm = rotates ? qk_norm_ : v_norm_ ? QkNorm::PerHead : QkNorm::None;
    auto normed = [&](Operand v) {
      return g.Norm(layer, v, what + "_norm", block.norm, Name(layer, what + "_normed"));
    };
    if (norm == QkNorm::Full) rows = normed(rows);
    Operand heads = g.Reshape(rows, {Dim("S"), Dim(n), Dim(d_head_)}, Name(layer, what + "_heads"));
    if (norm == QkNorm::PerHead) heads = normed(heads);
    if (rotates) heads = block.position->Apply(g, layer, heads, what);
    return norm == QkNorm::PerHeadAfter ? normed(heads) : heads;
  }

  // The op's scale has log2(e) in it; with a cap, which then has it, it is over the cap (ir/README.md, attention).
  void SetScale(Attrs& attrs) const {
    const bool usual = scale_ == 1.0 / std::sqrt(static_cast<double>(d_head_));
    if (cap_ == 0) {
      attrs.Set("scale", usual ? math::AttentionScale(d_head_) : math::Log2Scale(scale_));
    } else {
      attrs.Set("scale", static_cast<float>(scale_ / cap_));
      attrs.Set("cap", static_cast<float>(cap_ * math::kLog2E));
    }
  }

  int64_t n_heads_ = 0;     // query heads
  int64_t n_kv_heads_ = 0;  // a divisor of n_heads; 0: n_heads
  int64_t d_head_ = 0;      // 0: d_model / n_heads
  Bias bias_ = Bias::None;
  QkNorm qk_norm_ = QkNorm::None;
  Gains qk_gains_ = Gains::Shared;  // per_head: one gain for all heads, or each its own
  bool qk_norm_bias_ = false;       // the norms of q and k have a bias
  double scale_ = kDerived;         // on scores; derived: 1 / sqrt(d_head)
  double cap_ = 0;                  // scores are c tanh(scores / c); 0: none
  double clip_ = 0;                 // q, k and v are cut to -clip .. clip; 0: none
  Sees mask_ = Sees::Causal;        // a query sees keys up to its own, or those behind it too
  int64_t window_ = 0;              // a query sees that many keys, itself included, on each side; 0: all
  bool sinks_ = false;              // a score a head that takes part in the softmax and has no value
  OutGate gate_ = OutGate::None;    // on what the heads give
  bool sub_norm_ = false;           // a norm in front of the last product
  bool v_norm_ = false;             // a norm without a gain of each head of v
  bool v_is_k_ = false;             // v is k's product, before its norm and positions
  bool shares_ = false;             // no keys and values of its own: it reads an earlier layer's cache
};

}  // namespace

std::unique_ptr<Mixer> MakeAttention() { return std::make_unique<Attention>(); }

}  // namespace llmc
