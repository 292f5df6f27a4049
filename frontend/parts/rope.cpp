// Rotary position embedding of q and k, with the ways in which its frequencies are stretched for longer contexts.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "frontend/graph.h"
#include "frontend/weight_list.h"
#include "ir/math_f64.h"

namespace llmc {
namespace {

enum class Pairs : uint8_t { Half, Interleaved };
constexpr std::array<std::string_view, 2> kPairs = {"half", "interleaved"};
std::span<const std::string_view> TextsOf(Pairs) { return kPairs; }

enum class Scaling : uint8_t { None, Linear, Llama3, Yarn, Divisors };
constexpr std::array<std::string_view, 5> kScalings = {"none", "linear", "llama3", "yarn", "divisors"};
std::span<const std::string_view> TextsOf(Scaling) { return kScalings; }

class Rope : public Position {
 public:
  std::string_view kind() const override { return "rope"; }
  std::unique_ptr<Position> Clone() const override { return std::make_unique<Rope>(*this); }
  llmc::Fields Fields() override {
    return {{"theta", theta_},
            {"rotary_dim", rotary_dim_},
            {"pairs", pairs_},
            {"scaling", scaling_},
            {"factor", factor_},
            {"original", original_},
            {"low", low_},
            {"high", high_},
            {"beta_fast", beta_fast_},
            {"beta_slow", beta_slow_},
            {"attention_factor", attention_factor_},
            {"truncate", truncate_},
            {"turning", turning_},
            {"growth", growth_},
            {"growth_original", growth_original_}};
  }

  void Complete(int64_t d_head, const ModelSpec& model, const Checker& check) override {
    check.Positive("position.theta", theta_);
    check.Require(theta_ >= 1, fmt::format("position.theta is {}, must be at least 1", theta_));
    if (rotary_dim_ == 0) rotary_dim_ = d_head;
    check.Require(rotary_dim_ >= 2 && rotary_dim_ <= d_head && rotary_dim_ % 2 == 0,
                  fmt::format("position.rotary_dim is {}, must be even and 2 to d_head {}", rotary_dim_, d_head));
    check.Positive("position.factor", factor_);
    check.Require(turning_ >= 0 && turning_ <= rotary_dim_ / 2,
                  fmt::format("position.turning is {}, must be 0 (all) to {} pairs", turning_, rotary_dim_ / 2));
    if (turning_ == rotary_dim_ / 2) turning_ = 0;
    KeepOwnFields();
    if (std::isnan(attention_factor_) && scaling_ == Scaling::Divisors) attention_factor_ = 1.0;
    check.Require(growth_ == 0 || (growth_ > 0 && growth_ <= 1e6 && rotary_dim_ == d_head),
                  fmt::format("position.growth is {}, must be 0 (none) or positive with rotary_dim = d_head", growth_));
    if (growth_ != 0) check.Size("position.growth_original", growth_original_, Checker::kMaxCount);
    if (scaling_ == Scaling::Llama3 || scaling_ == Scaling::Yarn) {
      if (original_ == 0) original_ = model.max_context;
      check.Size("position.original", original_, Checker::kMaxCount);
    }
    if (scaling_ == Scaling::Llama3) {
      check.Positive("position.low", low_);
      check.Positive("position.high", high_);
      check.Require(high_ > low_, fmt::format("position.high {} must be above position.low {}", high_, low_));
    }
    if (scaling_ == Scaling::Yarn) {
      check.Positive("position.beta_fast", beta_fast_);
      check.Positive("position.beta_slow", beta_slow_);
      check.Require(beta_fast_ > beta_slow_,
                    fmt::format("position.beta_fast {} must be above position.beta_slow {}", beta_fast_, beta_slow_));
      check.Require(theta_ > 1, fmt::format("position.theta is {}, yarn needs more than 1", theta_));
      if (std::isnan(attention_factor_)) attention_factor_ = factor_ <= 1 ? 1.0 : 0.1 * math::Ln(factor_) + 1.0;
      check.Require(std::abs(attention_factor_) <= 1e30,
                    fmt::format("position.attention_factor is {}, must be at most 1e30", attention_factor_));
    }
  }

  void AddModelWeights(WeightRows& out) const override {
    out.Gain(WeightPart::Constant, "rope_divisors", {rotary_dim_ / 2, "position.rotary_dim / 2"},
             scaling_ == Scaling::Divisors);
  }

  // Stretching multiplies the original context.
  int64_t LongestContext(int64_t max_context) const override {
    if (scaling_ == Scaling::None) return max_context;
    auto original = static_cast<double>(original_ == 0 ? max_context : original_);
    return std::max(max_context, static_cast<int64_t>(std::min(std::floor(original * factor_), 2147483647.0)));
  }

  Operand Apply(Graph& g, int layer, Operand x, const std::string& what) const override {
    Attrs attrs;
    attrs.Set("pairs", std::string(ChoiceText(pairs_)));
    Operand table = Operand::OfGlobal(Table(g, layer, what));
    return g.One(OpKind::Rope, {x, table, g.pos()}, attrs, Name(layer, what + "_rot"));
  }

 private:
  // Fields of another scaling have no effect; equal models get equal descriptions.
  void KeepOwnFields() {
    const bool yarn = scaling_ == Scaling::Yarn;
    const bool llama3 = scaling_ == Scaling::Llama3;
    if (!yarn && !llama3) original_ = 0;
    if (!yarn && !llama3 && scaling_ != Scaling::Linear) factor_ = 1.0;
    if (!llama3) low_ = 1.0, high_ = 4.0;
    if (!yarn) beta_fast_ = 32.0, beta_slow_ = 1.0, truncate_ = true;
    if (!yarn && scaling_ != Scaling::Divisors) attention_factor_ = 1.0;
    if (growth_ == 0) growth_original_ = 0;
  }

  int Table(Graph& g, int layer, const std::string& what) const {
    Recipe recipe;
    recipe.kind = RecipeKind::RopeTable;
    Attrs& a = recipe.attrs;
    auto set = [&](const char* name, double v) { a.Set(name, static_cast<float>(v)); };
    set("theta", theta_);
    if (scaling_ == Scaling::Divisors) {
      recipe.inputs = {g.Weight(-1, "rope_divisors").index};
    } else if (scaling_ != Scaling::None) {
      a.Set("kind", std::string(ChoiceText(scaling_)));
      set("factor", factor_);
    }
    if (scaling_ == Scaling::Llama3 || scaling_ == Scaling::Yarn) a.Set("original", original_);
    if (scaling_ == Scaling::Llama3) {
      set("low", low_);
      set("high", high_);
    }
    if (scaling_ == Scaling::Yarn) {
      set("beta_fast", beta_fast_);
      set("beta_slow", beta_slow_);
      if (!truncate_) a.Set("truncate", false);
    }
    if (turning_ != 0) a.Set("turning", turning_);
    if (what == "q" && growth_ != 0) {
      set("growth", growth_);
      a.Set("growth_original", growth_original_);
    }
    if (attention_factor_ != 1.0) set("attention_factor", attention_factor_);
    Type type;
    type.dims = {Dim(g.context()), Dim(rotary_dim_)};
    return g.AddConst(Name(layer, "rope_" + what), std::move(type), std::move(recipe));
  }

  double theta_ = 10000.0;              // base of the frequencies theta^(-2i / rotary_dim)
  int64_t rotary_dim_ = 0;              // leading elements of a head that rotate; even; 0: d_head
  Pairs pairs_ = Pairs::Half;           // half: elements i and i + rotary_dim/2; interleaved: 2i and 2i + 1
  Scaling scaling_ = Scaling::None;     // divisors: each frequency over its element of the weight rope_divisors
  double factor_ = 1.0;                 // linear, llama3, yarn: the stretch
  int64_t original_ = 0;                // llama3, yarn: context before stretching; 0: max_context
  double low_ = 1.0, high_ = 4.0;       // llama3: low_freq_factor, high_freq_factor
  double beta_fast_ = 32.0;             // yarn: rotations above which a frequency stays
  double beta_slow_ = 1.0;              // yarn: rotations below which a frequency is divided by factor
  double attention_factor_ = kDerived;  // yarn, divisors: on cos and sin; derived: for yarn 0.1 ln(factor) + 1, else 1
  bool truncate_ = true;                // yarn: the bounds between kept and stretched pairs are whole numbers
  int64_t turning_ = 0;                 // pairs that turn, the first ones; the others have frequency 0; 0: all turn
  double growth_ = 0;  // q is multiplied by 1 + growth ln(1 + floor(position / growth_original)); 0: not
  int64_t growth_original_ = 0;
};

}  // namespace

std::unique_ptr<Position> MakeRope() { return std::make_unique<Rope>(); }

}  // namespace llmc
