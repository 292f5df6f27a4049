// The plain feed-forward part: down(act(up(x))).
#include "frontend/graph.h"
#include "frontend/parts/activation.h"
#include "frontend/weight_list.h"

namespace llmc {
namespace {

class Plain : public Ffn {
 public:
  std::string_view kind() const override { return "plain"; }
  std::unique_ptr<Ffn> Clone() const override { return std::make_unique<Plain>(*this); }
  llmc::Fields Fields() override { return {{"act", act_}, {"d_ff", d_ff_}, {"bias", bias_}}; }

  void Complete(const ModelSpec&, const Checker& check) override { check.Size("ffn.d_ff", d_ff_, Checker::kMaxWidth); }

  void AddWeights(const Block&, const ModelSpec& model, WeightRows& out) const override {
    const SizeRule d_model{model.d_model, "d_model"};
    const SizeRule d_ff{d_ff_, "ffn.d_ff"};
    constexpr WeightPart kPart = WeightPart::Ffn;
    out.Matrix(kPart, "w_up", d_ff, d_model);
    out.Bias(kPart, "b_up", d_ff, bias_);
    out.Matrix(kPart, "w_down", d_model, d_ff);
    out.Bias(kPart, "b_down", d_model, bias_);
  }

  Operand Build(Graph& g, int layer, Operand x, const Block&) const override {
    Attrs attrs;
    attrs.Set("kind", std::string(ChoiceText(act_)));
    Operand h = g.One(OpKind::Act, {g.Linear(layer, x, "w_up", "b_up", "up")}, attrs, Name(layer, "h"));
    return g.Linear(layer, h, "w_down", "b_down", "ffn_out");
  }

 private:
  Activation act_ = Activation::Gelu;
  int64_t d_ff_ = 0;   // width between
  bool bias_ = false;  // up and down have a bias
};

}  // namespace

std::unique_ptr<Ffn> MakePlain() { return std::make_unique<Plain>(); }

}  // namespace llmc
