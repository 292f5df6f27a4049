// A gated convolution over the last few rows: out(c * conv(b * u)), b, c and u being products of the row.
#include "frontend/graph.h"
#include "frontend/weight_list.h"

namespace llmc {
namespace {

class ShortConv : public Mixer {
 public:
  std::string_view kind() const override { return "short_conv"; }
  std::unique_ptr<Mixer> Clone() const override { return std::make_unique<ShortConv>(*this); }
  llmc::Fields Fields() override { return {{"taps", taps_}, {"bias", bias_}}; }

  void Complete(Block&, const ModelSpec&, const Checker& check) override { CheckTaps(check, "short_conv.taps", taps_); }

  void AddWeights(const Block&, const ModelSpec& model, WeightRows& out) const override {
    const SizeRule d_model{model.d_model, "d_model"};
    constexpr WeightPart kPart = WeightPart::Attention;
    for (const char* name : {"b", "c", "u"}) {
      out.Matrix(kPart, std::string("w_") + name, d_model, d_model);
      out.Bias(kPart, std::string("b_") + name, d_model, bias_);
    }
    out.Taps(kPart, "conv", d_model, {taps_, "short_conv.taps"});
    out.Bias(kPart, "conv_bias", d_model, bias_);
    out.Matrix(kPart, "w_out", d_model, d_model);
    out.Bias(kPart, "b_out", d_model, bias_);
  }

  Operand Build(Graph& g, int layer, Operand x, const Block&) const override {
    Operand b = g.Linear(layer, x, "w_b", "b_b", "b");
    Operand c = g.Linear(layer, x, "w_c", "b_c", "c");
    Operand u = g.Linear(layer, x, "w_u", "b_u", "u");
    Operand in = g.One(OpKind::Mul, {b, u}, {}, Name(layer, "conv_in"));
    Operand y = g.Conv1d(layer, in, "conv", "conv_bias", "history", "conv_out");
    y = g.One(OpKind::Mul, {y, c}, {}, Name(layer, "conv_gated"));
    return g.Linear(layer, y, "w_out", "b_out", "conv_out");
  }

 private:
  int64_t taps_ = 0;   // rows that a sum takes, with its own
  bool bias_ = false;  // all products and the convolution have a bias
};

}  // namespace

std::unique_ptr<Mixer> MakeShortConv() { return std::make_unique<ShortConv>(); }

}  // namespace llmc
