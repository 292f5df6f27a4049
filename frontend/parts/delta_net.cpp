// The gated delta rule: a matrix a head, which forgets by a decay of the row, is moved from what the key finds in it
// towards the value, and is read by the query. Queries, keys and values are sums of the last few rows behind silu;
// queries and keys have length 1.
#include <cmath>

#include <fmt/format.h>

#include "frontend/parts/decay.h"
#include "frontend/weight_list.h"

namespace llmc {
namespace {

// Which head of keys a head of values goes with: j div (heads / key heads), or j mod key heads.
enum class HeadOrder : uint8_t { Grouped, Tiled };
constexpr std::array<std::string_view, 2> kHeadOrders = {"grouped", "tiled"};
std::span<const std::string_view> TextsOf(HeadOrder) { return kHeadOrders; }

class DeltaNet : public Mixer {
 public:
  std::string_view kind() const override { return "delta_net"; }
  std::unique_ptr<Mixer> Clone() const override { return std::make_unique<DeltaNet>(*this); }
  llmc::Fields Fields() override {
    return {{"n_heads", n_heads_},
            {"n_key_heads", n_key_heads_},
            {"d_key", d_key_},
            {"d_value", d_value_},
            {"taps", taps_},
            {"decay", decay_},
            {"head_order", head_order_},
            {"beta_scale", beta_scale_},
            {"eps", eps_}};
  }

  void Complete(Block& block, const ModelSpec&, const Checker& check) override {
    if (std::isnan(eps_)) eps_ = block.norm.eps;
    check.Require(eps_ >= 0 && eps_ < 1, fmt::format("delta_net.eps is {}, must be at least 0 and below 1", eps_));
    check.Positive("delta_net.beta_scale", beta_scale_);
    check.Size("delta_net.n_heads", n_heads_, Checker::kMaxWidth);
    if (n_key_heads_ == 0) n_key_heads_ = n_heads_;
    check.Size("delta_net.n_key_heads", n_key_heads_, n_heads_);
    check.Require(
        n_heads_ % n_key_heads_ == 0,
        fmt::format("delta_net.n_heads {} is not a multiple of delta_net.n_key_heads {}", n_heads_, n_key_heads_));
    check.Size("delta_net.d_key", d_key_, 4096);
    check.Size("delta_net.d_value", d_value_, 4096);
    check.Require(n_heads_ <= Checker::kMaxWidth / std::max(d_key_, d_value_),
                  fmt::format("delta_net.n_heads {} heads of {} and {} are too wide", n_heads_, d_key_, d_value_));
    CheckTaps(check, "delta_net.taps", taps_);
  }

  void AddWeights(const Block& block, const ModelSpec& model, WeightRows& out) const override {
    const SizeRule d_model{model.d_model, "d_model"};
    const SizeRule keys{n_key_heads_ * d_key_, "delta_net.n_key_heads * delta_net.d_key"};
    const SizeRule values{n_heads_ * d_value_, "delta_net.n_heads * delta_net.d_value"};
    const SizeRule heads{n_heads_, "delta_net.n_heads"}, taps{taps_, "delta_net.taps"};
    constexpr WeightPart kPart = WeightPart::Attention;
    out.Matrix(kPart, "w_query", keys, d_model);
    out.Matrix(kPart, "w_key", keys, d_model);
    out.Matrix(kPart, "w_value", values, d_model);
    out.Matrix(kPart, "w_z", values, d_model);
    out.Matrix(kPart, "w_beta", heads, d_model);
    out.Matrix(kPart, "w_decay", heads, d_model);
    out.Taps(kPart, "conv_query", keys, taps);
    out.Taps(kPart, "conv_key", keys, taps);
    out.Taps(kPart, "conv_value", values, taps);
    out.Bias(kPart, "b_decay", heads);
    out.Gain(kPart, "decay_log", heads, decay_ == Decay::Log);
    out.Gain(kPart, "decay_rate", heads, decay_ == Decay::Rate);
    out.Norm(block.norm, "out_norm", {d_value_, "delta_net.d_value"});
    out.Matrix(kPart, "w_out", d_model, values);
  }

  Operand Build(Graph& g, int layer, Operand x, const Block& block) const override {
    Operand q = Convolved(g, layer, x, "query", n_key_heads_, d_key_);
    Operand k = Convolved(g, layer, x, "key", n_key_heads_, d_key_);
    Operand v = Convolved(g, layer, x, "value", n_heads_, d_value_);
    Operand z = g.Linear(layer, x, "w_z", "", "z");
    Operand beta = g.Act(g.Linear(layer, x, "w_beta", "", "beta_in"), "sigmoid",
                         Name(layer, beta_scale_ == 1 ? "beta" : "beta_part"));
    if (beta_scale_ != 1) beta = g.Scale(beta, beta_scale_, Name(layer, "beta"));
    Operand decay = g.Act(g.Linear(layer, x, "w_decay", "b_decay", "decay_in"), "softplus", Name(layer, "decay_time"));
    decay = DecayOf(g, layer, decay, decay_);
    Attrs attrs;
    if (head_order_ == HeadOrder::Tiled) attrs.Set("tiled", true);
    const Operand state =
        g.PastState(layer, "memory", StateKind::Recurrent, {Dim(n_heads_), Dim(d_key_), Dim(d_value_)});
    Operand out = g.One(OpKind::DeltaRule,
                        {state, Unit(g, layer, q, "query", 1 / std::sqrt(static_cast<double>(d_key_))),
                         Unit(g, layer, k, "key", 1), v, decay, beta, g.pos()},
                        attrs, Name(layer, "read"));
    NormSpec norm = block.norm;
    norm.eps = eps_;
    out = g.Norm(layer, out, "out_norm", norm, Name(layer, "read_normed"));
    out = g.Reshape(out, {Dim("S"), Dim(n_heads_ * d_value_)}, Name(layer, "read_row"));
    Attrs gate;
    gate.Set("act", std::string("silu"));
    out = g.One(OpKind::Gated, {z, out}, gate, Name(layer, "read_gated"));
    return g.Linear(layer, out, "w_out", "", "read_out");
  }

 private:
  static constexpr double kUnitEps = 1e-6;  // in the square of a length

  // silu of the sums of the last rows of x's product, by heads.
  Operand Convolved(Graph& g, int layer, Operand x, const std::string& what, int64_t heads, int64_t d) const {
    Operand rows = g.Linear(layer, x, "w_" + what, "", what);
    rows = g.Conv1d(layer, rows, "conv_" + what, "", what + "_history", what + "_conv");
    rows = g.Act(rows, "silu", Name(layer, what + "_act"));
    return g.Reshape(rows, {Dim("S"), Dim(heads), Dim(d)}, Name(layer, what + "_heads"));
  }

  // Each head x over sqrt(sum x^2 + eps), times factor: a norm by the root of the mean square, whose eps is one d-th and
  // whose result is sqrt(d) times as long.
  Operand Unit(Graph& g, int layer, Operand heads, const std::string& what, double factor) const {
    const auto d = static_cast<double>(d_key_);
    Attrs attrs;
    attrs.Set("eps", static_cast<float>(kUnitEps / d));
    heads = g.One(OpKind::RmsNorm, {heads}, attrs, Name(layer, what + "_normed"));
    return g.Scale(heads, factor / std::sqrt(d), Name(layer, what + "_unit"));
  }

  int64_t n_heads_ = 0;                        // of values, and of matrices
  int64_t n_key_heads_ = 0;                    // a divisor of n_heads; 0: n_heads
  int64_t d_key_ = 0, d_value_ = 0;            // of a head
  int64_t taps_ = 0;                           // rows that a sum takes, with its own
  Decay decay_ = Decay::Log;                   // what the stored weight is
  HeadOrder head_order_ = HeadOrder::Grouped;  // of values by their heads of keys
  double beta_scale_ = 1;                      // on beta, a sigmoid: beyond 1 what is found can be moved past the value
  double eps_ = kDerived;                      // of the norm of what is read; derived: the block's norms'
};

}  // namespace

std::unique_ptr<Mixer> MakeDeltaNet() { return std::make_unique<DeltaNet>(); }

}  // namespace llmc
