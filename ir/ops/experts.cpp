// route, expert_linear and combine: a mixture of experts. Only the chosen experts' weights are read.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/layout.h"
#include "ir/ops/common.h"
#include "ir/ops/linear_input.h"

namespace llmc {
namespace {

using namespace ops;

int64_t IntOf(const Op& op, std::string_view name) { return std::get<int64_t>(AttrOf(op, name)); }
std::string IdentOf(const Op& op, std::string_view name) { return std::get<std::string>(AttrOf(op, name)); }

std::vector<Type> InferRoute(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 2, "C1", "f32[S, E]");
  const int64_t experts = NeedConstant(c, c.operand(0).dims[1], 1, "C1", "logits' dim 1");
  if (c.has(1)) NeedGain(c, 1, "C2");
  const int64_t used = c.op.attrs.Int("used");
  const int64_t groups = IntOf(c.op, "groups");
  const int64_t keep = IntOf(c.op, "keep");
  const int64_t least = IdentOf(c.op, "by") == "sum2" ? 2 : 1;
  if (experts > 4096) c.Fail("C3", "more than 4096 experts");
  if (groups < 1 || experts % groups != 0 || (groups > 1 && experts / groups < least) || keep < 1 || keep > groups)
    c.Fail("C3", std::to_string(experts) + " experts in " + std::to_string(groups) + " groups, of which " +
                     std::to_string(keep) + " are kept");
  if (used < 1 || used > experts / groups * keep || used > 64)
    c.Fail("C4", "used is " + std::to_string(used) + ", must be 1 to 64 and at most " +
                     std::to_string(experts / groups * keep));
  NeedFinite(c, "scale", "C5");
  if (NeedFinite(c, "norm_by", "C5") < 0) c.Fail("C5", "norm_by must not be negative");
  const std::vector<Dim> dims = {c.operand(0).dims[0], Dim(used)};
  return {Type{DType::I32, dims, Layout::Rows, -1}, Type{DType::F32, dims, Layout::Rows, -1}};
}

// The index of the largest of c that isn't taken; of equals the first. A NaN is never larger.
int64_t Largest(const std::vector<float>& c, const std::vector<bool>& taken) {
  int64_t best = -1;
  for (size_t i = 0; i < c.size(); ++i) {
    if (!taken[i] && (best < 0 || c[i] > c[static_cast<size_t>(best)])) best = static_cast<int64_t>(i);
  }
  return best;
}

// Which experts are out: those of groups that aren't kept.
std::vector<bool> LeftOut(const Op& op, const std::vector<float>& choice) {
  const auto groups = static_cast<size_t>(IntOf(op, "groups"));
  std::vector<bool> out(choice.size(), false);
  if (groups == 1) return out;
  const size_t size = choice.size() / groups;
  const bool sum2 = IdentOf(op, "by") == "sum2";
  std::vector<float> score(groups);
  for (size_t g = 0; g < groups; ++g) {
    const std::vector<float> part(choice.begin() + static_cast<std::ptrdiff_t>(g * size),
                                  choice.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::vector<bool> taken(size, false);
    const auto first = static_cast<size_t>(Largest(part, taken));
    score[g] = part[first];
    if (!sum2) continue;
    taken[first] = true;
    score[g] = score[g] + part[static_cast<size_t>(Largest(part, taken))];
  }
  std::vector<bool> kept(groups, false);
  for (int64_t i = 0; i < IntOf(op, "keep"); ++i) kept[static_cast<size_t>(Largest(score, kept))] = true;
  for (size_t i = 0; i < out.size(); ++i) out[i] = !kept[i / size];
  return out;
}

void Softmax(std::vector<float>& x) {
  float most = x[0];
  for (float v : x) most = v > most ? v : most;
  float sum = 0;
  for (float& v : x) sum = sum + (v = math::Exp(v - most));
  for (float& v : x) v = v / sum;
}

void EvalRoute(const EvalContext& c) {
  const Tensor& logits = c.operands[0];
  const auto experts = static_cast<size_t>(DimOf(logits, 1));
  const auto used = static_cast<size_t>(DimOf(c.results[0], 1));
  const std::string score = IdentOf(c.op, "score");
  const std::string norm = IdentOf(c.op, "norm");
  const float norm_by = std::get<float>(AttrOf(c.op, "norm_by"));
  const float scale = std::get<float>(AttrOf(c.op, "scale"));
  for (int64_t s = 0; s < DimOf(logits, 0); ++s) {
    const float* row = logits.as<float>() + s * static_cast<int64_t>(experts);
    std::vector<float> p(row, row + experts);
    if (score == "softmax") Softmax(p);
    if (score == "sigmoid") {
      for (float& v : p) v = math::Sigmoid(v);
    }
    std::vector<float> choice = p;
    float all = 0;  // of what the choice depends on
    for (size_t e = 0; e < experts; ++e) {
      if (c.operands.size() > 1) choice[e] = choice[e] + c.operands[1].as<float>()[e];
      all = all + choice[e];
    }
    std::vector<bool> taken = LeftOut(c.op, choice);
    std::vector<float> w;
    int32_t* idx = c.results[0].as<int32_t>() + s * static_cast<int64_t>(used);
    for (size_t j = 0; j < used; ++j) {
      const auto e = static_cast<size_t>(Largest(choice, taken));
      taken[e] = true;
      idx[j] = static_cast<int32_t>(e);
      w.push_back(p[e]);
    }
    if (score == "softmax_of_chosen") Softmax(w);
    float sum = 0;
    for (float v : w) sum = sum + v;
    if (norm == "add") sum = sum + norm_by;
    if (norm == "least") sum = sum > norm_by ? sum : norm_by;
    for (size_t j = 0; j < used; ++j) {
      const float v = norm == "none" ? w[j] : w[j] / sum;
      c.results[1].as<float>()[s * static_cast<int64_t>(used) + static_cast<int64_t>(j)] =
          math::KeepNonFinite(all, v * scale);
    }
  }
}

// Parts of the result: gate and up with interleave.
int64_t PartsOf(const Op& op) { return std::get<bool>(AttrOf(op, "interleave")) ? 2 : 1; }

std::vector<Type> InferExpertLinear(const InferContext& c) {
  const Type& x = c.operand(0);
  const Type& w = c.operand(1);
  const Type& ids = c.operand(2);
  NeedRows(c, 2, DType::I32, 2, "C1", "i32[S, k]");
  const int64_t used = NeedConstant(c, ids.dims[1], 1, "C1", "ids' dim 1");
  const bool each = x.dims.size() == 3;
  if ((x.dtype != DType::F32 && x.dtype != DType::A8) || (x.dims.size() != 2 && !each) || x.layout != Layout::Rows ||
      x.state >= 0 || x.dims[0] != ids.dims[0] || (each && x.dims[1] != Dim(used))) {
    c.Fail("C2", Describe(c, 0) + ", must be f32 or a8 [S, K] or [S, " + std::to_string(used) + ", K]");
  }
  const int64_t k = NeedConstant(c, x.dims.back(), 1, "C2", "x's innermost dim");
  const DTypeClass cls = InfoOf(w.dtype).cls;
  const bool is_weight = (cls == DTypeClass::FLOAT || cls == DTypeClass::BLOCK) && w.state < 0;
  if (!is_weight || w.dims.size() != 2 || (w.layout != Layout::Rows && w.layout != Layout::Tiles16) ||
      w.dims[1] != Dim(k) || k % InfoOf(w.dtype).block != 0) {
    c.Fail("C3", Describe(c, 1) + ", must be a weight [E N, " + std::to_string(k) + "], rows or tiles16");
  }
  if (x.dtype == DType::A8 && cls != DTypeClass::BLOCK) c.Fail("C4", Describe(c, 1) + ": a8 needs a weight of blocks");
  const int64_t experts = c.op.attrs.Int("experts");
  const int64_t parts = PartsOf(c.op);
  const int64_t rows = NeedConstant(c, w.dims[0], 1, "C3", "the weight's dim 0");
  if (experts < 1 || rows % (experts * parts) != 0 || rows / (experts * parts) % kTileRows != 0)
    c.Fail("C5", Describe(c, 1) + ": " + std::to_string(experts * parts) + " matrices of a multiple of 16 rows");
  if (parts == 2 && w.layout != Layout::Tiles16) c.Fail("C6", Describe(c, 1) + ": interleave needs tiles16");
  if (c.has(3) && c.operand(3) != Type{DType::F32, {Dim(rows)}, Layout::Rows, -1})
    c.Fail("C7", Describe(c, 3) + ", must be f32[" + std::to_string(rows) + "]");
  const Dim n(rows / (experts * parts));
  return std::vector<Type>(static_cast<size_t>(parts), {DType::F32, {x.dims[0], Dim(used), n}, Layout::Rows, -1});
}

void EvalExpertLinear(const EvalContext& c) {
  const Tensor& x = c.operands[0];
  const Tensor& w = c.operands[1];
  const Tensor& ids = c.operands[2];
  const int64_t used = DimOf(ids, 1);
  const int64_t experts = c.op.attrs.Int("experts");
  const int64_t parts = PartsOf(c.op);
  const int64_t n = Inner(c.results[0]);
  const int64_t k = Inner(x);
  const bool each = x.type.dims.size() == 3;
  const bool tiled = w.type.layout == Layout::Tiles16;
  const int64_t unit_bytes = tiled ? TileBytes(w.type.dtype, k) : kTileRows * RowBytes(w.type.dtype, k);
  const LinearInput input(x.type.dtype, x.data, RowsOf(x), k);
  for (int64_t at = 0; at < DimOf(ids, 0) * used; ++at) {
    const int64_t expert = ids.as<int32_t>()[at];
    LLMC_CHECK(expert >= 0 && expert < experts, "expert_linear: expert " + std::to_string(expert));
    std::vector<LinearUnit> units;
    for (int64_t part = 0; part < parts; ++part) {
      for (int64_t row = 0; row < n; row += kTileRows) {
        LinearUnit unit{};
        const int64_t tile = expert * (n / kTileRows) + row / kTileRows;  // of its part
        unit.weight = w.data + (parts * tile + part) * unit_bytes;
        unit.n_rows = static_cast<int>(kTileRows);
        unit.y = c.results[static_cast<size_t>(part)].as<float>() + at * n + row;
        unit.y_stride = n;
        if (c.operands.size() > 3) unit.bias = c.operands[3].as<float>() + (part * experts + expert) * n + row;
        units.push_back(unit);
      }
    }
    EvalLinearUnits(input.Rows(each ? at : at / used, 1, 1, w.type), units);
  }
}

Cost CostExpertLinear(const InferContext& c, int64_t rows, int64_t /*total*/) {
  const Type& w = c.operand(1);
  const auto chosen = static_cast<double>(rows * c.operand(2).dims[1].value);
  const auto experts = static_cast<double>(c.op.attrs.Int("experts"));
  const double one = static_cast<double>(w.dims[0].value) / experts;  // rows of an expert
  Cost cost;
  cost.weight_macs = chosen * one * static_cast<double>(w.dims[1].value);
  cost.weight_bytes = std::min(chosen, experts) * one * static_cast<double>(RowBytes(w.dtype, w.dims[1].value));
  return cost;
}

std::vector<Type> InferCombine(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 3, "C1", "f32[S, k, N]");
  const Type& x = c.operand(0);
  NeedConstant(c, x.dims[1], 1, "C1", "x's dim 1");
  NeedConstant(c, x.dims[2], 1, "C1", "x's dim 2");
  if (c.operand(1) != Type{DType::F32, {x.dims[0], x.dims[1]}, Layout::Rows, -1})
    c.Fail("C2", Describe(c, 1) + ", must be f32[S, k] of x's S and k");
  return {Type{DType::F32, {x.dims[0], x.dims[2]}, Layout::Rows, -1}};
}

void EvalCombine(const EvalContext& c) {
  const Tensor& x = c.operands[0];
  const int64_t used = DimOf(x, 1);
  const int64_t n = DimOf(x, 2);
  for (int64_t s = 0; s < DimOf(x, 0); ++s) {
    for (int64_t i = 0; i < n; ++i) {
      float y = 0;
      for (int64_t j = 0; j < used; ++j)
        y = std::fma(c.operands[1].as<float>()[s * used + j], x.as<float>()[(s * used + j) * n + i], y);
      c.results[0].as<float>()[s * n + i] = y;
    }
  }
}

}  // namespace

const OpDef kRouteDef = {
    .summary = "Chooses experts by their scores, and weighs them.",
    .operands = {{"logits"}, {"bias", true}},
    .attrs = {{.name = "used", .type = AttrType::Int, .required = true, .otherwise = {}},
              {.name = "score",
               .type = AttrType::Ident,
               .required = true,
               .otherwise = {},
               .choices = {"softmax", "sigmoid", "softmax_of_chosen"}},
              {.name = "groups", .type = AttrType::Int, .required = false, .otherwise = int64_t{1}},
              {.name = "keep", .type = AttrType::Int, .required = false, .otherwise = int64_t{1}},
              {.name = "by",
               .type = AttrType::Ident,
               .required = false,
               .otherwise = std::string("max"),
               .choices = {"max", "sum2"}},
              {.name = "norm",
               .type = AttrType::Ident,
               .required = false,
               .otherwise = std::string("none"),
               .choices = {"none", "add", "least"}},
              {.name = "norm_by", .type = AttrType::F32, .required = false, .otherwise = 0.0F},
              {.name = "scale", .type = AttrType::F32, .required = false, .otherwise = 1.0F}},
    .results = {"ids", "weights"},
    .row_wise = true,
    .infer = InferRoute,
    .eval = EvalRoute,
    .divisions = {{Over::Rows, "ow"}},
};

const OpDef kExpertLinearDef = {
    .summary = "Rows times the weights of the experts that are chosen for them.",
    .operands = {{"x"}, {"weight"}, {"ids"}, {"bias", true}},
    .attrs = {{.name = "experts", .type = AttrType::Int, .required = true, .otherwise = {}},
              {.name = "interleave", .type = AttrType::Bool, .required = false, .otherwise = false}},
    .results = {"y..."},
    .row_wise = true,
    .weight = 1,
    .table = 1,
    .ids = 2,
    .few = Over::Tiles,
    .many = Over::Tiles,
    .infer = InferExpertLinear,
    .eval = EvalExpertLinear,
    .cost = CostExpertLinear,
    .divisions = {{Over::Tiles, "wwwo"}},
};

const OpDef kCombineDef = {
    .summary = "The sum of the experts' results, times their weights.",
    .operands = {{"x"}, {"weights"}},
    .attrs = {},
    .results = {"y"},
    .row_wise = true,
    .few = Over::Tiles,
    .infer = InferCombine,
    .eval = EvalCombine,
    .divisions = {{Over::Rows, "oo"}, {Over::Tiles, "ww"}},
};

}  // namespace llmc
