// The feed-forward part as a mixture of experts: a router chooses `used` of `count` gated (or plain) parts for each row,
// and their results are added with its weights; with a shared expert, which every row takes, scaled by a gate of its own
// if it has one. Experts may work on a narrower row, a product of the row that the router and the shared expert see.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/graph.h"
#include "frontend/parts/activation.h"
#include "frontend/weight_list.h"

namespace llmc {
namespace {

// The activations of gates, and the one that is cut to +-limit, with a sigmoid of alpha times the gate.
enum class ExpertActivation : uint8_t { Silu, Gelu, GeluTanh, Relu, Relu2, SwigluClamped };
constexpr auto kExpertActivations = WithActivation("swiglu_clamped");
std::span<const std::string_view> TextsOf(ExpertActivation) { return kExpertActivations; }

// Their names are those of the op `route`.
enum class Score : uint8_t { Softmax, Sigmoid, SoftmaxOfChosen };
constexpr std::array<std::string_view, 3> kScores = {"softmax", "sigmoid", "softmax_of_chosen"};
std::span<const std::string_view> TextsOf(Score) { return kScores; }

enum class GroupBy : uint8_t { Max, Sum2 };
constexpr std::array<std::string_view, 2> kGroupBys = {"max", "sum2"};
std::span<const std::string_view> TextsOf(GroupBy) { return kGroupBys; }

enum class Renorm : uint8_t { None, Add, Least };
constexpr std::array<std::string_view, 3> kRenorms = {"none", "add", "least"};
std::span<const std::string_view> TextsOf(Renorm) { return kRenorms; }

class Experts : public Ffn {
 public:
  std::string_view kind() const override { return "experts"; }
  std::unique_ptr<Ffn> Clone() const override { return std::make_unique<Experts>(*this); }
  llmc::Fields Fields() override {
    return {{"act", act_},
            {"alpha", alpha_},
            {"limit", limit_},
            {"d_ff", d_ff_},
            {"count", count_},
            {"used", used_},
            {"bias", bias_},
            {"router_bias", router_bias_},
            {"score", score_},
            {"choice_bias", choice_bias_},
            {"groups", groups_},
            {"keep", keep_},
            {"group_by", group_by_},
            {"renorm", renorm_},
            {"renorm_by", renorm_by_},
            {"weight_scale", weight_scale_},
            {"shared", shared_},
            {"shared_gate", shared_gate_},
            {"gate", gate_},
            {"latent", latent_}};
  }

  void Complete(const ModelSpec& model, const Checker& check) override {
    check.Size("ffn.d_ff", d_ff_, Checker::kMaxWidth);
    if (act_ != ExpertActivation::SwigluClamped) alpha_ = limit_ = 0;
    check.Require(
        act_ != ExpertActivation::SwigluClamped || (alpha_ > 0 && alpha_ <= 1e6 && limit_ > 0 && limit_ <= 1e6),
        fmt::format("ffn.alpha {} and ffn.limit {} must be positive with swiglu_clamped", alpha_, limit_));
    check.Size("ffn.count", count_, 4096);
    check.Size("ffn.used", used_, std::min<int64_t>(count_, 64));
    constexpr int64_t kTile = 16;  // rows of a packed tile, which belong to one expert
    check.Require(latent_ >= 0 && latent_ <= Checker::kMaxWidth, fmt::format("ffn.latent is {}", latent_));
    const int64_t width = Width(model).value;
    check.Require(d_ff_ % kTile == 0 && width % kTile == 0,
                  fmt::format("ffn.d_ff {} and {} {} must be multiples of {} for experts", d_ff_, Width(model).text,
                              width, kTile));
    check.Require(count_ <= Checker::kMaxCount / std::max(d_ff_, width),
                  fmt::format("ffn.count {} times ffn.d_ff {} or {} {} is above {}", count_, d_ff_, Width(model).text,
                              width, Checker::kMaxCount));
    check.Require(gate_ || act_ != ExpertActivation::SwigluClamped, "ffn.act swiglu_clamped goes with ffn.gate");
    if (groups_ == 0) groups_ = 1;
    if (keep_ == 0) keep_ = groups_;
    check.Require(groups_ > 0 && count_ % groups_ == 0,
                  fmt::format("ffn.groups {} must be positive and divide ffn.count {}", groups_, count_));
    check.Require(
        keep_ > 0 && keep_ <= groups_ && used_ <= count_ / groups_ * keep_,
        fmt::format("ffn.keep is {}: {} experts are chosen from {} of {} groups", keep_, used_, keep_, groups_));
    check.Require(renorm_by_ >= 0 && renorm_by_ <= 1e30,
                  fmt::format("ffn.renorm_by is {}, must be 0 to 1e+30", renorm_by_));
    check.Nonzero("ffn.weight_scale", weight_scale_);
    check.Require(shared_ >= 0 && shared_ <= Checker::kMaxWidth,
                  fmt::format("ffn.shared is {}, must be 0 (none) to {}", shared_, Checker::kMaxWidth));
    check.Require(!shared_gate_ || shared_ != 0, "ffn.shared_gate goes with ffn.shared");
  }

  void AddWeights(const Block&, const ModelSpec& model, WeightRows& out) const override {
    const SizeRule d_model{model.d_model, "d_model"}, d_ff{d_ff_, "ffn.d_ff"}, count{count_, "ffn.count"};
    const SizeRule width = Width(model), latent{latent_, "ffn.latent"};
    const SizeRule inner{count_ * d_ff_, "ffn.count * ffn.d_ff"},
        outer{count_ * width.value, "ffn.count * " + width.text};
    const SizeRule shared{shared_, "ffn.shared"};
    constexpr WeightPart kRouter = WeightPart::Router, kExperts = WeightPart::Experts, kShared = WeightPart::Ffn;
    out.Matrix(kRouter, "w_router", count, d_model);
    out.Bias(kRouter, "b_router", count, router_bias_);
    out.FlatBias(WeightPart::Constant, "choice_bias", count, choice_bias_);
    out.Matrix(kShared, "w_latent_in", latent, d_model, latent_ != 0);
    out.Stack(kExperts, "w_gate_exps", inner, width, gate_);
    out.FlatBias(kExperts, "b_gate_exps", inner, gate_ && bias_);
    out.Stack(kExperts, "w_up_exps", inner, width);
    out.FlatBias(kExperts, "b_up_exps", inner, bias_);
    out.Stack(kExperts, "w_down_exps", outer, d_ff);
    out.FlatBias(kExperts, "b_down_exps", outer, bias_);
    out.Matrix(kShared, "w_latent_out", d_model, latent, latent_ != 0);
    out.Matrix(kShared, "w_gate_shared", shared, d_model, gate_ && shared_ != 0);
    out.Matrix(kShared, "w_up_shared", shared, d_model, shared_ != 0);
    out.Matrix(kShared, "w_down_shared", d_model, shared, shared_ != 0);
    out.Stack(kRouter, "w_shared_gate", {1, "1"}, d_model, shared_gate_);
  }

  Operand Build(Graph& g, int layer, Operand x, const Block&) const override {
    Attrs attrs;
    attrs.Set("used", used_);
    attrs.Set("score", std::string(ChoiceText(score_)));
    if (groups_ != 1) {
      attrs.Set("groups", groups_);
      attrs.Set("keep", keep_);
      attrs.Set("by", std::string(ChoiceText(group_by_)));
    }
    if (renorm_ != Renorm::None) {
      attrs.Set("norm", std::string(ChoiceText(renorm_)));
      attrs.Set("norm_by", static_cast<float>(renorm_by_));
    }
    if (weight_scale_ != 1) attrs.Set("scale", static_cast<float>(weight_scale_));
    std::vector<Operand> scores = {g.Linear(layer, x, "w_router", "b_router", "router")};
    if (choice_bias_) scores.push_back(g.Weight(layer, "choice_bias"));
    const std::vector<Operand> chosen =
        g.Several(OpKind::Route, std::move(scores), attrs, {Name(layer, "experts"), Name(layer, "expert_weights")});

    const Operand rows = latent_ == 0 ? x : g.Linear(layer, x, "w_latent_in", "", "latent");
    const Operand gate = gate_ ? Product(g, layer, rows, chosen[0], "gate") : rows;
    const Operand up = Product(g, layer, rows, chosen[0], "up");
    const Operand down = Product(g, layer, Inner(g, gate, up, Name(layer, "h")), chosen[0], "down");
    const char* result = shared_ == 0 ? "ffn_out" : "mixed";
    Operand mixed = g.One(OpKind::Combine, {down, chosen[1]}, {}, Name(layer, latent_ == 0 ? result : "latent_mixed"));
    if (latent_ != 0) mixed = g.Linear(layer, mixed, "w_latent_out", "", result);
    if (shared_ == 0) return mixed;
    return g.One(OpKind::Add, {mixed, Shared(g, layer, x)}, {}, Name(layer, "ffn_out"));
  }

 private:
  // The width of the rows that experts get and give.
  SizeRule Width(const ModelSpec& model) const {
    return latent_ == 0 ? SizeRule{model.d_model, "d_model"} : SizeRule{latent_, "ffn.latent"};
  }

  // What stands between an expert's products; without gates the activation alone.
  Operand Inner(Graph& g, Operand gate, Operand up, Name name) const {
    if (!gate_) return g.Act(up, ChoiceText(act_), std::move(name));
    Attrs attrs;
    attrs.Set("act", std::string(ChoiceText(act_)));
    if (act_ == ExpertActivation::SwigluClamped) {
      attrs.Set("alpha", static_cast<float>(alpha_));
      attrs.Set("limit", static_cast<float>(limit_));
    }
    return g.One(OpKind::Gated, {gate, up}, attrs, std::move(name));
  }

  Operand Product(Graph& g, int layer, Operand x, Operand ids, const std::string& what) const {
    Attrs attrs;
    attrs.Set("experts", count_);
    std::vector<Operand> operands = {x, g.Weight(layer, "w_" + what + "_exps"), ids};
    if (bias_) operands.push_back(g.Weight(layer, "b_" + what + "_exps"));
    return g.One(OpKind::ExpertLinear, std::move(operands), attrs, Name(layer, what));
  }

  // What every row takes. With a gate it is a mixture of one, whose weight is the sigmoid of a number of the row's own.
  Operand Shared(Graph& g, int layer, Operand x) const {
    Operand gate = gate_ ? g.Linear(layer, x, "w_gate_shared", "", "shared_gate") : x;
    Operand up = g.Linear(layer, x, "w_up_shared", "", "shared_up");
    Operand h = Inner(g, gate, up, Name(layer, "shared_h"));
    if (!shared_gate_) return g.Linear(layer, h, "w_down_shared", "", "shared_out");
    Operand number = g.Linear(layer, x, "w_shared_gate", "", "shared_number");
    Attrs one;
    one.Set("used", int64_t{1});
    one.Set("score", std::string("sigmoid"));
    const std::vector<Operand> chosen =
        g.Several(OpKind::Route, {number}, one, {Name(layer, "shared_expert"), Name(layer, "shared_weight")});
    Attrs experts;
    experts.Set("experts", int64_t{1});
    Operand down = g.One(OpKind::ExpertLinear, {h, g.Weight(layer, "w_down_shared"), chosen[0]}, experts,
                         Name(layer, "shared_down"));
    return g.One(OpKind::Combine, {down, chosen[1]}, {}, Name(layer, "shared_out"));
  }

  ExpertActivation act_ = ExpertActivation::Silu;  // of the gates
  double alpha_ = 0, limit_ = 0;                   // swiglu_clamped
  int64_t d_ff_ = 0;                               // width of an expert
  int64_t count_ = 0, used_ = 0;                   // experts; those of a row
  bool bias_ = false;                              // of the experts' products
  bool router_bias_ = false;                       // of the router's product
  Score score_ = Score::Softmax;                   // of an expert, from the router's logits
  bool choice_bias_ = false;                       // added to the scores for the choice alone
  int64_t groups_ = 0, keep_ = 0;                  // experts in equal groups, of which so many are kept; 0: one group
  GroupBy group_by_ = GroupBy::Max;                // a group's score: its best, or the sum of its two best
  Renorm renorm_ = Renorm::None;                   // weights over their sum + renorm_by, or over max(sum, renorm_by)
  double renorm_by_ = 0, weight_scale_ = 1;        // the latter behind it
  int64_t shared_ = 0;                             // width of the shared expert; 0: there is none
  bool shared_gate_ = false;                       // it is scaled by sigmoid(w x)
  bool gate_ = true;                               // experts are gated; else down(act(up(x)))
  int64_t latent_ = 0;  // width of the rows that experts see, a product; 0: those of the stream
};

}  // namespace

std::unique_ptr<Ffn> MakeExperts() { return std::make_unique<Experts>(); }

}  // namespace llmc
