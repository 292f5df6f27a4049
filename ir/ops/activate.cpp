// act, gated, xielu and soft_cap: activations, defined in ir/math.h.
#include <optional>
#include <vector>

#include "ir/ops/common.h"

namespace llmc {
namespace {

using namespace ops;

constexpr std::string_view kClamped = "swiglu_clamped";  // of gated alone

std::vector<std::string_view> Names() {
  return {
#define ACTIVATION(name, text) text,
#include "ir/activations.def"
#undef ACTIVATION
  };
}
std::vector<std::string_view> GateNames() {
  std::vector<std::string_view> names = Names();
  names.push_back(kClamped);
  return names;
}
// None for what isn't one of them.
std::optional<math::Activation> ActivationOf(const Op& op, std::string_view attr) {
  const std::string text = std::get<std::string>(AttrOf(op, attr));
  const std::vector<std::string_view> names = Names();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<math::Activation>(i);
  }
  return std::nullopt;
}

template <class F>
void EvalOne(const EvalContext& c, const F& f) {
  for (int64_t i = 0; i < ElementCount(c.results[0].type); ++i)
    c.results[0].as<float>()[i] = f(c.operands[0].as<float>()[i]);
}

std::vector<Type> InferAct(const InferContext& c) {
  NeedF32(c, 0, "C1");
  return {c.operand(0)};
}
void EvalAct(const EvalContext& c) {
  const math::Activation kind = *ActivationOf(c.op, "kind");
  EvalOne(c, [&](float x) { return math::Activate(kind, x); });
}

std::vector<Type> InferXielu(const InferContext& c) {
  NeedF32(c, 0, "C1");
  const Type want{DType::F32, {Dim(4)}, Layout::Rows, -1};
  if (c.operand(1) != want) c.Fail("C2", Describe(c, 1) + ", must be " + ToText(want));
  return {c.operand(0)};
}
void EvalXielu(const EvalContext& c) {
  const float* numbers = c.operands[1].as<float>();
  const math::Xielu constants{numbers[0], numbers[1], numbers[2], numbers[3]};
  EvalOne(c, [&](float x) { return math::ApplyXielu(x, constants); });
}

std::vector<Type> InferSoftCap(const InferContext& c) {
  NeedF32(c, 0, "C1");
  if (NeedFinite(c, "cap", "C2") <= 0) c.Fail("C2", "cap must be positive");
  return {c.operand(0)};
}
void EvalSoftCap(const EvalContext& c) {
  const float cap = c.op.attrs.F32("cap");
  EvalOne(c, [&](float x) { return math::SoftCap(x, cap); });
}

std::vector<Type> InferGated(const InferContext& c) {
  NeedF32(c, 0, "C1");
  NeedSameType(c, 1, "C2");
  NeedFinite(c, "alpha", "C3");
  if (NeedFinite(c, "limit", "C3") < 0) c.Fail("C3", "limit must not be negative");
  return {c.operand(0)};
}
void EvalGated(const EvalContext& c) {
  const std::optional<math::Activation> act = ActivationOf(c.op, "act");
  const float alpha = std::get<float>(AttrOf(c.op, "alpha"));
  const float limit = std::get<float>(AttrOf(c.op, "limit"));
  for (int64_t i = 0; i < ElementCount(c.results[0].type); ++i) {
    const float gate = c.operands[0].as<float>()[i];
    const float up = c.operands[1].as<float>()[i];
    c.results[0].as<float>()[i] = act ? math::Activate(*act, gate) * up : math::SwigluClamped(gate, up, alpha, limit);
  }
}

}  // namespace

const OpDef kActDef = {
    .summary = "An activation of each element.",
    .operands = {{"x"}},
    .attrs = {{.name = "kind", .type = AttrType::Ident, .required = true, .otherwise = {}, .choices = Names()}},
    .results = {"y"},
    .row_wise = true,
    .few = Over::Tiles,
    .infer = InferAct,
    .eval = EvalAct,
    .divisions = {{Over::Rows, "o"}, {Over::Tiles, "o"}},
};

const OpDef kXieluDef = {
    .summary = "xIELU: a square above zero, an exponential below.",
    .operands = {{"x"}, {"numbers"}},
    .attrs = {},
    .results = {"y"},
    .row_wise = true,
    .few = Over::Tiles,
    .infer = InferXielu,
    .eval = EvalXielu,
    .divisions = {{Over::Rows, "ow"}, {Over::Tiles, "ow"}},
};

const OpDef kSoftCapDef = {
    .summary = "cap * tanh(x / cap).",
    .operands = {{"x"}},
    .attrs = {{.name = "cap", .type = AttrType::F32, .required = true, .otherwise = {}}},
    .results = {"y"},
    .row_wise = true,
    .few = Over::Tiles,
    .infer = InferSoftCap,
    .eval = EvalSoftCap,
    .divisions = {{Over::Rows, "o"}, {Over::Tiles, "o"}},
};

const OpDef kGatedDef = {
    .summary = "act(gate) * up.",
    .operands = {{"gate"}, {"up"}},
    .attrs = {{.name = "act",
               .type = AttrType::Ident,
               .required = false,
               .otherwise = std::string("silu"),
               .choices = GateNames()},
              {.name = "alpha", .type = AttrType::F32, .required = false, .otherwise = 0.0F},
              {.name = "limit", .type = AttrType::F32, .required = false, .otherwise = 0.0F}},
    .results = {"h"},
    .row_wise = true,
    .takes_pair = true,
    .few = Over::Tiles,
    .infer = InferGated,
    .eval = EvalGated,
    .divisions = {{Over::Rows, "oo"}, {Over::Tiles, "oo"}},
};

}  // namespace llmc
