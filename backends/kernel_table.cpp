// Rows of kernels.def, what a kernel needs beyond the kinds of its ops, and where constants come from.
#include "backends/kernel_table.h"

#include <algorithm>
#include <bit>

#include "backends/kernels/kernel.h"
#include "ir/diag.h"
#include "runtime/plan_words.h"

namespace llmc {
namespace {

// The kernels' own enumerations have the values of the IR's.
constexpr bool Same(Over a, kernels::Over b) { return static_cast<int64_t>(a) == b; }
static_assert(Same(Over::All, kernels::kAll) && Same(Over::One, kernels::kOne) && Same(Over::Tiles, kernels::kTiles) &&
              Same(Over::Heads, kernels::kHeads) && Same(Over::Keys, kernels::kKeys) &&
              Same(Over::Rows, kernels::kRows) && Same(Over::Queries, kernels::kQueries));
constexpr bool Same(Layout a, kernels::Layout b) { return static_cast<int64_t>(a) == b; }
static_assert(Same(Layout::Rows, kernels::kLayoutRows) && Same(Layout::Tiles16, kernels::kTiles16) &&
              Same(Layout::Keys16, kernels::kKeys16) && Same(Layout::Heads, kernels::kLayoutHeads));

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t end = text.find(at); end != std::string_view::npos; end = text.find(at)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

KernelRow RowOf(std::string_view name, std::string_view ops, std::string_view words, std::string_view constants,
                std::string_view divisions) {
  KernelRow row{name, {}, Words(words), Words(constants), {}};
  for (const std::string_view alternative : Split(ops, '|')) {
    std::vector<OpKind>& kinds = row.ops.emplace_back();
    for (const std::string_view op : Words(alternative)) {
      const std::optional<OpKind> kind = OpFromText(op);
      LLMC_CHECK(kind.has_value(), "kernels.def: no op is called " + std::string(op));
      kinds.push_back(*kind);
    }
  }
  for (const std::string_view over : Words(divisions)) {
    const std::optional<Over> division = OverFromText(over);
    LLMC_CHECK(division.has_value(), "kernels.def: no division is called " + std::string(over));
    row.divisions.push_back(*division);
  }
  return row;
}

int64_t Width(const Type& type) {  // elements of a row
  int64_t width = 1;
  for (size_t i = 1; i < type.dims.size(); ++i) width *= type.dims[i].value;
  return width;
}

const Type& TypeOfOperand(const KernelOps& ops, std::string_view name) {
  const Operand* operand = ops.FindOperand(name);
  LLMC_CHECK(operand != nullptr, "no operand is called " + std::string(name));
  return ops.TypeOf(*operand);
}

// Gate and up of a product in their order, from interleaved tiles.
std::string PairObstacle(const KernelOps& ops) {
  const Op &product = ops.first(), &pair = *ops.ops()[1];
  if (product.results.size() != 2 || !std::get<bool>(AttrOf(product, "interleave")))
    return "the two results aren't interleaved";
  if (pair.operands[0] != Operand::Local(product.results[0]) || pair.operands[1] != Operand::Local(product.results[1]))
    return std::string(OpText(pair.kind)) + " doesn't take the two results in order";
  return "";
}

bool TakesPair(const KernelOps& ops) { return ops.ops().size() > 1 && DefOf(ops.ops()[1]->kind).takes_pair; }

std::string SiluObstacle(const KernelOps& ops) {
  const std::optional<AttrValue> act = ops.FindAttr("act");
  return !act || std::get<std::string>(*act) == "silu" ? "" : "another activation than silu";
}

std::string MatrixObstacle(const KernelOps& ops) {
  if (TypeOfOperand(ops, "weight").layout != Layout::Tiles16) return "the weight isn't packed (pack-weights)";
  if (ops.first().results.size() > 3) return "more than three results";
  if (!TakesPair(ops)) return "";
  const std::string pair = PairObstacle(ops);
  return pair.empty() ? SiluObstacle(ops) : pair;
}

// What rows need beyond the kinds of their ops. "": nothing stands against it.
struct Guard {
  std::string_view kernel;
  std::string (*obstacle)(const KernelOps&);
};
std::string NeedsA8(const KernelOps& ops) {
  return TypeOfOperand(ops, "x").dtype == DType::A8 ? MatrixObstacle(ops) : "x isn't a8";
}
std::string NeedsF32(const KernelOps& ops) {
  return TypeOfOperand(ops, "x").dtype == DType::F32 ? MatrixObstacle(ops) : "x isn't f32";
}
std::string NeedsTwoDims(const KernelOps& ops) {
  return TypeOfOperand(ops, "x").dims.size() == 2 ? "" : "more than two dims";
}
std::string NeedsWholeBlocks(const KernelOps& ops) {
  const bool quantizes = ops.ops().size() > 1;
  const Type& heads = ops.Result(ops.first(), 0);
  return quantizes && heads.dims[2].value % 32 != 0 ? "a block of 32 would span two heads" : "";
}
std::string NeedsOneCacheType(const KernelOps& ops) {
  const bool same = TypeOfOperand(ops, "k").dtype == TypeOfOperand(ops, "v").dtype;
  return same ? NeedsWholeBlocks(ops) : "keys and values of two types";
}
constexpr Guard kGuards[] = {
    {"rms_norm_quantize", NeedsTwoDims},   {"linear_a8", NeedsA8},         {"linear_f32", NeedsF32},
    {"linear_gated_a8", NeedsA8},          {"linear_gated_f32", NeedsF32}, {"attention", NeedsOneCacheType},
    {"attention_merge", NeedsWholeBlocks}, {"gated", SiluObstacle},
};

// Constants that are no attribute and no operand's type or layout.
struct Shape {
  std::string_view name;
  int64_t (*value)(const KernelRow&, const KernelOps&);
};
const Type& HeadsOf(const KernelOps& ops) {  // [rows, heads, dim]
  const Operand* q = ops.FindOperand("q");
  return q != nullptr ? ops.TypeOf(*q) : ops.Result(ops.first(), 0);
}
int64_t Columns(const KernelOps& ops, size_t part) {
  const Op& product = ops.first();
  return part < product.results.size() ? ops.Result(product, part).dims[1].value : 0;
}
constexpr Shape kShapes[] = {
    {"dim",
     [](const KernelRow& row, const KernelOps& ops) {
       const bool heads = row.HasConstant("heads") || row.HasConstant("q_heads");
       return heads ? HeadsOf(ops).dims.back().value : Width(ops.Result(ops.first(), 0));
     }},
    {"by_row", [](const KernelRow&,
                  const KernelOps& ops) { return TypeOfOperand(ops, "pos").dims.empty() ? int64_t{0} : int64_t{1}; }},
    {"heads",
     [](const KernelRow&, const KernelOps& ops) { return Width(HeadsOf(ops)) / HeadsOf(ops).dims.back().value; }},
    {"q_heads", [](const KernelRow&, const KernelOps& ops) { return HeadsOf(ops).dims[1].value; }},
    {"kv_heads", [](const KernelRow&, const KernelOps& ops) { return TypeOfOperand(ops, "k").dims[1].value; }},
    {"slots",
     [](const KernelRow&, const KernelOps& ops) {
       // Of partials only the number of groups matters, one more than the cache's.
       if (const Operand* partials = ops.FindOperand("partials")) return (ops.TypeOf(*partials).dims[2].value - 1) * 64;
       return TypeOfOperand(ops, ops.FindOperand("k") != nullptr ? "k" : "state").dims[0].value;
     }},
    {"rotary", [](const KernelRow&, const KernelOps& ops) { return TypeOfOperand(ops, "table").dims[1].value; }},
    {"k", [](const KernelRow&, const KernelOps& ops) { return TypeOfOperand(ops, "x").dims.back().value; }},
    {"n", [](const KernelRow&, const KernelOps& ops) { return Columns(ops, 0); }},
    {"n0", [](const KernelRow&, const KernelOps& ops) { return Columns(ops, 0); }},
    {"n1", [](const KernelRow&, const KernelOps& ops) { return Columns(ops, 1); }},
    {"n2", [](const KernelRow&, const KernelOps& ops) { return Columns(ops, 2); }},
    {"out_type", [](const KernelRow&, const KernelOps& ops) { return static_cast<int64_t>(ops.Out().dtype); }},
};

// An attribute as a constant: the bits of a float, the number of a choice.
int64_t AttrConstant(const KernelOps& ops, std::string_view name, const AttrValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* real = std::get_if<float>(&value)) return std::bit_cast<uint32_t>(*real);
  const auto* ident = std::get_if<std::string>(&value);
  LLMC_CHECK(ident != nullptr, "attribute " + std::string(name) + " is a list");
  for (const Op* op : ops.ops()) {
    const AttrDef* def = FindAttr(DefOf(op->kind).attrs, name);
    if (def == nullptr) continue;
    return std::find(def->choices.begin(), def->choices.end(), *ident) - def->choices.begin();
  }
  LLMC_CHECK(false, "no attribute is called " + std::string(name));
  return 0;
}

}  // namespace

bool KernelRow::HasConstant(std::string_view constant) const {
  return std::find(constants.begin(), constants.end(), constant) != constants.end();
}

const std::vector<KernelRow>& KernelRows() {
  static const std::vector<KernelRow> rows = {
#define KERNEL_DEF(name, ops, words, constants, divisions) RowOf(#name, ops, words, constants, divisions),
#include "backends/kernels/kernels.def"
#undef KERNEL_DEF
  };
  return rows;
}

const Operand* KernelOps::FindOperand(std::string_view name) const {
  for (const Op* op : ops_) {
    const std::vector<OperandDef>& defs = DefOf(op->kind).operands;
    for (size_t i = 0; i < op->operands.size(); ++i) {
      if (defs[i].name == name) return &op->operands[i];
    }
  }
  return nullptr;
}

std::optional<AttrValue> KernelOps::FindAttr(std::string_view name) const {
  for (const Op* op : ops_) {
    const AttrDef* def = llmc::FindAttr(DefOf(op->kind).attrs, name);
    if (def != nullptr && (def->otherwise || op->attrs.Find(name) != nullptr)) return AttrOf(*op, name);
  }
  return std::nullopt;
}

KernelChoice ChooseKernel(const KernelOps& ops) {
  std::vector<OpKind> kinds;
  for (const Op* op : ops.ops()) kinds.push_back(op->kind);
  KernelChoice none;
  for (const KernelRow& row : KernelRows()) {
    if (std::find(row.ops.begin(), row.ops.end(), kinds) == row.ops.end()) continue;
    const Guard* guard =
        std::find_if(std::begin(kGuards), std::end(kGuards), [&](const Guard& g) { return g.kernel == row.name; });
    std::string obstacle = guard == std::end(kGuards) ? "" : guard->obstacle(ops);
    if (obstacle.empty()) return {&row, ""};
    none.why = std::move(obstacle);
  }
  if (none.why.empty()) {
    none.why = kinds.size() == 1 ? "none computes this op"
                                 : "its result has no storage and goes to " + std::string(OpText(kinds[1]));
  }
  return none;
}

std::string ProductObstacle(const KernelOps& ops) {
  const Op& product = ops.first();
  if (std::string matrix = MatrixObstacle(ops); !matrix.empty()) return matrix;
  const size_t count = ops.ops().size();
  if (count == 1 || (count == 2 && TakesPair(ops))) return "";
  const bool residual = ops.ops()[1]->kind == OpKind::Add && product.results.size() == 1;
  if (count == 2 && residual) return "";
  return "its result has no storage and goes to " + std::string(OpText(ops.ops()[residual ? 2 : 1]->kind));
}

bool LlvmComputes(const Module& module, const Func& func, const std::vector<const Op*>& ops) {
  return ChooseKernel({module, func, ops}).row != nullptr;
}

bool OnednnComputes(const Module& module, const Func& func, const std::vector<const Op*>& ops) {
  if (DefOf(ops[0]->kind).weight < 0) return LlvmComputes(module, func, ops);
  return ProductObstacle({module, func, ops}).empty();
}

int64_t ConstantOf(const KernelRow& row, const KernelOps& ops, std::string_view name) {
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return shape.value(row, ops);
  }
  if (const std::optional<AttrValue> value = ops.FindAttr(name)) return AttrConstant(ops, name, *value);
  if (name.starts_with("has_")) return ops.FindOperand(name.substr(4)) != nullptr ? 1 : 0;
  for (const std::string_view ending : {"_type", "_layout"}) {
    const Operand* operand =
        name.ends_with(ending) ? ops.FindOperand(name.substr(0, name.size() - ending.size())) : nullptr;
    if (operand == nullptr) continue;
    const Type& type = ops.TypeOf(*operand);
    return ending == "_type" ? static_cast<int64_t>(type.dtype) : static_cast<int64_t>(type.layout);
  }
  LLMC_CHECK(false, std::string(row.name) + ": nothing says what the constant " + std::string(name) + " is");
  return 0;
}

}  // namespace llmc
