// A state-space mixer (Mamba-2): a matrix a head, which forgets by a decay of the row, takes in the row's input by its
// vector b and is read by its vector c; heads of a group share b and c. Inputs, b and c are sums of the last few rows
// behind silu. What the heads give, plus a share of their input, is gated by silu of one more product, and normed.
#include <fmt/format.h>

#include "frontend/parts/decay.h"
#include "frontend/weight_list.h"

namespace llmc {
namespace {

enum class GatedNorm : uint8_t { None, GateFirst, NormFirst };
constexpr std::array<std::string_view, 3> kGatedNorms = {"none", "gate_first", "norm_first"};
std::span<const std::string_view> TextsOf(GatedNorm) { return kGatedNorms; }

class Mamba2 : public Mixer {
 public:
  std::string_view kind() const override { return "mamba2"; }
  std::unique_ptr<Mixer> Clone() const override { return std::make_unique<Mamba2>(*this); }
  llmc::Fields Fields() override {
    return {{"n_heads", n_heads_},
            {"d_head", d_head_},
            {"n_groups", n_groups_},
            {"d_state", d_state_},
            {"taps", taps_},
            {"bias", bias_},
            {"conv_bias", conv_bias_},
            {"gated_norm", gated_norm_},
            {"decay", decay_},
            {"z_scale", scales_[0]},
            {"x_scale", scales_[1]},
            {"b_scale", scales_[2]},
            {"c_scale", scales_[3]},
            {"time_scale", scales_[4]},
            {"time_least", time_least_},
            {"time_most", time_most_}};
  }

  void Complete(Block&, const ModelSpec&, const Checker& check) override {
    check.Size("mamba2.n_heads", n_heads_, Checker::kMaxWidth);
    check.Size("mamba2.d_head", d_head_, 4096);
    check.Size("mamba2.n_groups", n_groups_, n_heads_);
    check.Require(n_heads_ % n_groups_ == 0,
                  fmt::format("mamba2.n_heads {} is not a multiple of mamba2.n_groups {}", n_heads_, n_groups_));
    check.Size("mamba2.d_state", d_state_, 4096);
    check.Require(n_heads_ <= Checker::kMaxWidth / std::max(d_head_, d_state_),
                  fmt::format("mamba2.n_heads {} heads of {} and {} are too wide", n_heads_, d_head_, d_state_));
    CheckTaps(check, "mamba2.taps", taps_);
    for (size_t i = 0; i < scales_.size(); ++i)
      check.Nonzero(fmt::format("mamba2.{}_scale", std::array{"z", "x", "b", "c", "time"}[i]), scales_[i]);
    check.Require(time_least_ >= 0 && time_least_ <= 1e30 && time_most_ >= 0 && time_most_ <= 1e30 &&
                      (time_most_ == 0 || time_least_ <= time_most_),
                  fmt::format("mamba2.time_least {} and mamba2.time_most {} are no limits", time_least_, time_most_));
  }

  void AddWeights(const Block&, const ModelSpec& model, WeightRows& out) const override {
    const SizeRule d_model{model.d_model, "d_model"}, heads{n_heads_, "mamba2.n_heads"}, taps{taps_, "mamba2.taps"};
    const SizeRule inner{n_heads_ * d_head_, "mamba2.n_heads * mamba2.d_head"};
    const SizeRule states{n_groups_ * d_state_, "mamba2.n_groups * mamba2.d_state"};
    constexpr WeightPart kPart = WeightPart::Attention;
    const std::pair<const char*, const SizeRule&> products[] = {
        {"z", inner}, {"x", inner}, {"state_in", states}, {"state_out", states}, {"time", heads}};
    for (const auto& [name, size] : products) {
      out.Matrix(kPart, std::string("w_") + name, size, d_model);
      out.Bias(kPart, std::string("b_") + name, size, bias_);
    }
    for (size_t i = 1; i < 4; ++i) {
      out.Taps(kPart, std::string("conv_") + products[i].first, products[i].second, taps);
      out.Bias(kPart, std::string("conv_b_") + products[i].first, products[i].second, conv_bias_);
    }
    out.Bias(kPart, "time_bias", heads);
    out.FlatGain(kPart, "decay_log", heads, decay_ == Decay::Log);
    out.FlatGain(kPart, "decay_rate", heads, decay_ == Decay::Rate);
    out.FlatGain(kPart, "skip", heads);
    out.FlatGain(WeightPart::Norm, "inner_norm", inner, gated_norm_ != GatedNorm::None);
    out.Matrix(kPart, "w_out", d_model, inner);
    out.Bias(kPart, "b_out", d_model, bias_);
  }

  Operand Build(Graph& g, int layer, Operand x, const Block& block) const override {
    const Dim rows("S");
    const auto heads = [&](Operand v, int64_t n, int64_t d, const char* name) {
      return g.Reshape(v, {rows, Dim(n), Dim(d)}, Name(layer, name));
    };
    Operand z = Product(g, layer, x, "z", scales_[0]);
    Operand input = Convolved(g, layer, x, "x", scales_[1]);
    Operand b = heads(Convolved(g, layer, x, "state_in", scales_[2]), n_groups_, d_state_, "state_in_heads");
    Operand c = heads(Convolved(g, layer, x, "state_out", scales_[3]), n_groups_, d_state_, "state_out_heads");
    const Operand time = Time(g, layer, Product(g, layer, x, "time", scales_[4]));
    const Operand decay = DecayOf(g, layer, time, decay_);
    const Operand state =
        g.PastState(layer, "memory", StateKind::Recurrent, {Dim(n_heads_), Dim(d_state_), Dim(d_head_)});
    Attrs attrs;
    attrs.Set("correct", false);
    Operand out =
        g.One(OpKind::DeltaRule, {state, c, b, heads(input, n_heads_, d_head_, "x_heads"), decay, time, g.pos()}, attrs,
              Name(layer, "read"));
    out = g.Reshape(out, {rows, Dim(n_heads_ * d_head_)}, Name(layer, "read_row"));
    Operand kept = g.One(OpKind::Mul, {input, g.Repeated(layer, "skip", d_head_)}, {}, Name(layer, "skipped"));
    out = g.One(OpKind::Add, {out, kept}, {}, Name(layer, "heads_out"));
    if (gated_norm_ == GatedNorm::NormFirst) out = Normed(g, layer, out, block);
    Attrs gate;
    gate.Set("act", std::string("silu"));
    out = g.One(OpKind::Gated, {z, out}, gate, Name(layer, "heads_gated"));
    if (gated_norm_ == GatedNorm::GateFirst) out = Normed(g, layer, out, block);
    return g.Linear(layer, out, "w_out", "b_out", "read_out");
  }

 private:
  // x's product, scaled.
  static Operand Product(Graph& g, int layer, Operand x, const std::string& what, double scale) {
    if (scale == 1) return g.Linear(layer, x, "w_" + what, "b_" + what, what);
    return g.Scale(g.Linear(layer, x, "w_" + what, "b_" + what, what + "_in"), scale, Name(layer, what));
  }

  // The heads' time steps: softplus behind a bias, within the limits.
  Operand Time(Graph& g, int layer, Operand time) const {
    time = g.One(OpKind::Add, {time, g.Weight(layer, "time_bias")}, {}, Name(layer, "time_shifted"));
    time = g.Act(time, "softplus", Name(layer, "time_step"));
    const auto limited = [&](OpKind kind, const char* attr, double to, const char* name) {
      if (to == 0) return;
      Attrs attrs;
      attrs.Set(attr, static_cast<float>(to));
      time = g.One(kind, {time}, attrs, Name(layer, name));
    };
    limited(OpKind::AtLeast, "least", time_least_, "time_from");
    limited(OpKind::Clamp, "limit", time_most_, "time_to");  // it is positive
    return time;
  }

  // silu of the sums of the last rows of x's product.
  Operand Convolved(Graph& g, int layer, Operand x, const std::string& what, double scale) const {
    Operand rows = Product(g, layer, x, what, scale);
    rows = g.Conv1d(layer, rows, "conv_" + what, "conv_b_" + what, what + "_history", what + "_conv");
    return g.Act(rows, "silu", Name(layer, what + "_act"));
  }

  // By groups of heads.
  Operand Normed(Graph& g, int layer, Operand row, const Block& block) const {
    const int64_t inner = n_heads_ * d_head_;
    if (n_groups_ == 1) return g.Norm(layer, row, "inner_norm", block.norm, Name(layer, "heads_normed"));
    row = g.Reshape(row, {Dim("S"), Dim(n_groups_), Dim(inner / n_groups_)}, Name(layer, "groups"));
    row = g.Norm(layer, row, "inner_norm", block.norm, Name(layer, "groups_normed"));
    return g.Reshape(row, {Dim("S"), Dim(inner)}, Name(layer, "heads_normed"));
  }

  int64_t n_heads_ = 0, d_head_ = 0;                // of inputs
  int64_t n_groups_ = 1;                            // of heads, each with its own b and c
  int64_t d_state_ = 0;                             // width of b and c
  int64_t taps_ = 0;                                // rows that a sum takes, with its own
  bool bias_ = false;                               // all products have a bias
  bool conv_bias_ = false;                          // the sums have one
  GatedNorm gated_norm_ = GatedNorm::GateFirst;     // what comes first
  Decay decay_ = Decay::Log;                        // what the stored weight is
  std::array<double, 5> scales_ = {1, 1, 1, 1, 1};  // on the products that give z, x, b, c and the time step
  double time_least_ = 0, time_most_ = 0;           // limits of time steps; 0: none
};

}  // namespace

std::unique_ptr<Mixer> MakeMamba2() { return std::make_unique<Mamba2>(); }

}  // namespace llmc
