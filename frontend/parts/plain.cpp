// The plain feed-forward part: down(act(up(x))).
#include <array>

#include "frontend/graph.h"
#include "frontend/parts/activation.h"
#include "frontend/weight_list.h"

namespace llmc {
namespace {

// The activations of gates, and xIELU, whose numbers are weights of the layer.
enum class PlainActivation : uint8_t { Silu, Gelu, GeluTanh, Relu, Relu2, Xielu };
constexpr auto kPlainActivations = WithActivation("xielu");
std::span<const std::string_view> TextsOf(PlainActivation) { return kPlainActivations; }
constexpr std::array<const char*, 4> kXieluNumbers = {"act_alpha_p", "act_alpha_n", "act_beta", "act_eps"};
constexpr size_t kLearned = 2;  // of them

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
    for (size_t i = 0; i < kXieluNumbers.size(); ++i)
      out.FlatGain(i < kLearned ? kPart : WeightPart::Constant, kXieluNumbers[i], {1, "1"},
                   act_ == PlainActivation::Xielu);
    out.Matrix(kPart, "w_down", d_model, d_ff);
    out.Bias(kPart, "b_down", d_model, bias_);
  }

  Operand Build(Graph& g, int layer, Operand x, const Block&) const override {
    const Operand up = g.Linear(layer, x, "w_up", "b_up", "up");
    return g.Linear(layer, Activated(g, layer, up), "w_down", "b_down", "ffn_out");
  }

 private:
  Operand Activated(Graph& g, int layer, Operand up) const {
    Attrs attrs;
    if (act_ != PlainActivation::Xielu) {
      attrs.Set("kind", std::string(ChoiceText(act_)));
      return g.One(OpKind::Act, {up}, attrs, Name(layer, "h"));
    }
    Recipe recipe{RecipeKind::Xielu, {}, {}};
    for (const char* number : kXieluNumbers) recipe.inputs.push_back(g.Weight(layer, number).index);
    Type four;
    four.dims = {Dim(4)};
    const int numbers = g.AddConst(Name(layer, "xielu"), std::move(four), std::move(recipe));
    return g.One(OpKind::Xielu, {up, Operand::OfGlobal(numbers)}, {}, Name(layer, "h"));
  }

  PlainActivation act_ = PlainActivation::Gelu;
  int64_t d_ff_ = 0;   // width between
  bool bias_ = false;  // up and down have a bias
};

}  // namespace

std::unique_ptr<Ffn> MakePlain() { return std::make_unique<Plain>(); }

}  // namespace llmc
