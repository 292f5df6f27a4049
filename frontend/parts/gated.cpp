// The gated feed-forward part: down(act(gate(x)) * up(x)).
#include "frontend/graph.h"
#include "frontend/parts/activation.h"
#include "frontend/weight_list.h"

namespace llmc {
namespace {

class Gated : public Ffn {
 public:
  std::string_view kind() const override { return "gated"; }
  std::unique_ptr<Ffn> Clone() const override { return std::make_unique<Gated>(*this); }
  llmc::Fields Fields() override {
    return {{"act", act_},
            {"d_ff", d_ff_},
            {"bias", bias_},
            {"sub_norm", sub_norm_},
            {"gate_scale", gate_scale_},
            {"out_scale", out_scale_}};
  }

  void Complete(const ModelSpec&, const Checker& check) override {
    check.Size("ffn.d_ff", d_ff_, Checker::kMaxWidth);
    check.Nonzero("ffn.gate_scale", gate_scale_);
    check.Nonzero("ffn.out_scale", out_scale_);
  }

  void AddWeights(const Block& block, const ModelSpec& model, WeightRows& out) const override {
    const SizeRule d_model{model.d_model, "d_model"};
    const SizeRule d_ff{d_ff_, "ffn.d_ff"};
    constexpr WeightPart kPart = WeightPart::Ffn;
    out.Matrix(kPart, "w_gate", d_ff, d_model);
    out.Bias(kPart, "b_gate", d_ff, bias_);
    out.Matrix(kPart, "w_up", d_ff, d_model);
    out.Bias(kPart, "b_up", d_ff, bias_);
    out.Norm(block.norm, "ffn_sub_norm", d_ff, sub_norm_);
    out.Matrix(kPart, "w_down", d_model, d_ff);
    out.Bias(kPart, "b_down", d_model, bias_);
  }

  Operand Build(Graph& g, int layer, Operand x, const Block& block) const override {
    Operand gate = g.Linear(layer, x, "w_gate", "b_gate", "gate");
    if (gate_scale_ != 1) gate = g.Scale(gate, gate_scale_, Name(layer, "gate_scaled"));
    Operand up = g.Linear(layer, x, "w_up", "b_up", "up");
    Attrs attrs;
    attrs.Set("act", std::string(ChoiceText(act_)));
    Operand h = g.One(OpKind::Gated, {gate, up}, attrs, Name(layer, "h"));
    if (sub_norm_) h = g.Norm(layer, h, "ffn_sub_norm", block.norm, Name(layer, "h_normed"));
    if (out_scale_ == 1) return g.Linear(layer, h, "w_down", "b_down", "ffn_out");
    return g.Scale(g.Linear(layer, h, "w_down", "b_down", "down"), out_scale_, Name(layer, "ffn_out"));
  }

 private:
  Activation act_ = Activation::Silu;  // of the gate
  int64_t d_ff_ = 0;                   // width between
  bool bias_ = false;                  // gate, up and down have a bias
  bool sub_norm_ = false;              // a norm in front of down
  double gate_scale_ = 1;              // on the gate, in front of its activation
  double out_scale_ = 1;               // on the result
};

}  // namespace

std::unique_ptr<Ffn> MakeGated() { return std::make_unique<Gated>(); }

}  // namespace llmc
