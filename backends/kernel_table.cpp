// Rows of kernels.def, what a kernel needs beyond the kinds of its ops, and where constants come from.
#include "backends/kernel_table.h"

#include <algorithm>
#include <bit>

#include "backends/kernels/thens.h"
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

KernelRow::List ListOf(std::string_view text) {
  KernelRow::List list;
  for (const std::string_view op : Words(text)) {
    if (op == "+") {
      list.goes_on = true;
      continue;
    }
    const std::optional<OpKind> kind = OpFromText(op);
    LLMC_CHECK(kind.has_value(), "kernels.def: no op is called " + std::string(op));
    list.ops.push_back(*kind);
  }
  return list;
}

KernelRow RowOf(std::string_view name, std::string_view lists, std::string_view words, std::string_view constants,
                std::string_view divisions, std::string_view open) {
  KernelRow row{name, {}, Words(words), Words(constants), {}, Words(open)};
  for (const std::string_view list : Split(lists, '|')) row.lists.push_back(ListOf(list));
  for (const std::string_view over : Words(divisions)) {
    const std::optional<Over> division = OverFromText(over);
    LLMC_CHECK(division.has_value(), "kernels.def: no division is called " + std::string(over));
    row.divisions.push_back(*division);
  }
  return row;
}

// A step behind a kernel's own result.
struct Step {
  std::string_view op;
  int64_t number;
  std::string_view attribute;  // its parameter
  bool takes_two;
};
constexpr Step kSteps[] = {
#define THEN(name, op, attribute) {op, kernels::kThen##name, attribute, false},
#define THEN_TWO(name, op) {op, kernels::kThen##name, "", true},
#define THEN_LAST(op) {op, kernels::kThenNothing, "", false},
#include "backends/kernels/thens.def"
#undef THEN
#undef THEN_TWO
#undef THEN_LAST
};
constexpr size_t kMostSteps = 3;

const Step* StepOf(OpKind kind) {
  const auto* step =
      std::find_if(std::begin(kSteps), std::end(kSteps), [&](const Step& s) { return s.op == OpText(kind); });
  return step == std::end(kSteps) ? nullptr : step;
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

// What a step of two operands takes besides the value at hand.
const Operand* OtherOf(const KernelOps& ops, const Op& op) {
  if (!ops.IsInner(op.operands[0])) return &op == &ops.first() ? &op.operands[1] : &op.operands[0];
  return ops.IsInner(op.operands[1]) ? nullptr : &op.operands[1];
}

// Why ops from number `head` on can't be the steps behind a kernel; "": they can.
std::string StepsObstacle(const KernelOps& ops, size_t head) {
  size_t steps = 0, two = 0;
  for (size_t i = head; i < ops.ops().size(); ++i) {
    const Op& op = *ops.ops()[i];
    const Step* step = StepOf(op.kind);
    if (step == nullptr || (i > 0 && ops.Result(*ops.ops()[i - 1], 0).dtype == DType::A8))
      return "its result has no storage and goes to " + std::string(OpText(op.kind));
    steps += step->number == kernels::kThenNothing ? 0 : 1;
    if (!step->takes_two) continue;
    two += 1;
    if (OtherOf(ops, op) == nullptr) return std::string(OpText(op.kind)) + " takes one value twice";
  }
  return steps > kMostSteps || two > 1 ? "too many ops stand behind it" : "";
}

bool TakesPair(const KernelOps& ops) { return ops.ops().size() > 1 && DefOf(ops.ops()[1]->kind).takes_pair; }

// Of products with a packed weight: gate and up in their order, from interleaved tiles; what goes on is one result.
std::string MatrixObstacle(const KernelOps& ops) {
  const Op& product = ops.first();
  if (TypeOfOperand(ops, "weight").layout != Layout::Tiles16) return "the weight isn't packed (pack-weights)";
  if (product.results.size() > 3) return "more than three results";
  if (ops.ops().size() == 1) return "";
  const Op& next = *ops.ops()[1];
  if (!TakesPair(ops)) return product.results.size() == 1 ? "" : "of several results one goes on";
  if (product.results.size() != 2 || !std::get<bool>(AttrOf(product, "interleave")))
    return "the two results aren't interleaved";
  const bool ordered =
      next.operands[0] == Operand::Local(product.results[0]) && next.operands[1] == Operand::Local(product.results[1]);
  return ordered ? "" : std::string(OpText(next.kind)) + " doesn't take the two results in order";
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
constexpr Guard kGuards[] = {{"linear_a8", NeedsA8},   {"linear_f32", NeedsF32}, {"expert_a8", NeedsA8},
                             {"expert_f32", NeedsF32}, {"head_a8", NeedsA8},     {"head_f32", NeedsF32}};

const Type& HeadsOf(const KernelOps& ops) {  // [rows, heads, dim]
  const Operand* q = ops.FindOperand("q");
  return q != nullptr ? ops.TypeOf(*q) : ops.Result(ops.first(), 0);
}
bool HasHeads(const KernelRow& row) { return row.HasConstant("heads") || row.HasConstant("q_heads"); }

std::string ObstacleOf(const KernelRow& row, const KernelOps& ops) {
  const auto* guard =
      std::find_if(std::begin(kGuards), std::end(kGuards), [&](const Guard& g) { return g.kernel == row.name; });
  if (std::string obstacle = guard == std::end(kGuards) ? "" : guard->obstacle(ops); !obstacle.empty()) return obstacle;
  if (row.HasConstant("k_type") && TypeOfOperand(ops, "k").dtype != TypeOfOperand(ops, "v").dtype)
    return "keys and values of two types";
  if (HasHeads(row) && ops.Out().dtype == DType::A8 && ops.Result(ops.first(), 0).dims.back().value % 32 != 0)
    return "a block of 32 would span two heads";
  const bool own_records = ops.Out().dims.back() == ops.Result(ops.first(), 0).dims.back();
  if (ops.Out().dtype == DType::A8 && !row.HasConstant("record") && !own_records)
    return "its rows would be cut into several records";
  return "";
}

// Constants that are no attribute and no operand's type or layout.
struct Shape {
  std::string_view name;
  int64_t (*value)(const KernelChoice&, const KernelOps&);
};
int64_t Columns(const KernelOps& ops, size_t part) {
  const Op& product = ops.first();
  return part < product.results.size() ? ops.Result(product, part).dims.back().value : 0;
}
// Step number n behind the head, with its parameter.
int64_t StepConstant(const KernelChoice& choice, const KernelOps& ops, size_t n);
const Operand* FindOther(const KernelChoice& choice, const KernelOps& ops) {
  for (size_t i = choice.head; i < ops.ops().size(); ++i) {
    if (StepOf(ops.ops()[i]->kind)->takes_two) return OtherOf(ops, *ops.ops()[i]);
  }
  return nullptr;
}
constexpr Shape kShapes[] = {
    {"by_row",
     [](const KernelChoice&, const KernelOps& ops) {
       const Operand* pos = ops.FindOperand("pos");
       return int64_t{pos != nullptr && !ops.TypeOf(*pos).dims.empty()};
     }},
    {"dim",
     [](const KernelChoice& choice, const KernelOps& ops) {
       return HasHeads(*choice.row) ? HeadsOf(ops).dims.back().value : Width(ops.Result(ops.first(), 0));
     }},
    {"heads",
     [](const KernelChoice&, const KernelOps& ops) { return Width(HeadsOf(ops)) / HeadsOf(ops).dims.back().value; }},
    {"gain_heads",
     [](const KernelChoice&, const KernelOps& ops) {
       const Operand* gain = ops.FindOperand("gain");
       return gain == nullptr ? 1 : ops.TypeOf(*gain).dims[0].value / HeadsOf(ops).dims.back().value;
     }},
    {"q_heads", [](const KernelChoice&, const KernelOps& ops) { return HeadsOf(ops).dims[1].value; }},
    {"v_dim",
     [](const KernelChoice&, const KernelOps& ops) {
       const Type& out = ops.Result(ops.first(), 0);  // of partials each has two numbers more
       return out.dims.back().value - (out.dims.size() == 4 ? 2 : 0);
     }},
    {"v_row", [](const KernelChoice&, const KernelOps& ops) { return TypeOfOperand(ops, "v").dims[2].value; }},
    {"x_dim", [](const KernelChoice&, const KernelOps& ops) { return TypeOfOperand(ops, "x").dims.back().value; }},
    {"tail_heads", [](const KernelChoice&, const KernelOps& ops) { return TypeOfOperand(ops, "tail").dims[1].value; }},
    {"kv_heads", [](const KernelChoice&, const KernelOps& ops) { return TypeOfOperand(ops, "k").dims[1].value; }},
    {"slots",
     [](const KernelChoice&, const KernelOps& ops) {
       // Of partials only the number of groups matters, one more than the cache's.
       if (const Operand* partials = ops.FindOperand("partials")) return (ops.TypeOf(*partials).dims[2].value - 1) * 64;
       return TypeOfOperand(ops, ops.FindOperand("k") != nullptr ? "k" : "state").dims[0].value;
     }},
    {"rotary", [](const KernelChoice&, const KernelOps& ops) { return TypeOfOperand(ops, "table").dims[1].value; }},
    {"k", [](const KernelChoice&, const KernelOps& ops) { return TypeOfOperand(ops, "x").dims.back().value; }},
    {"n0", [](const KernelChoice&, const KernelOps& ops) { return Columns(ops, 0); }},
    {"n1", [](const KernelChoice&, const KernelOps& ops) { return Columns(ops, 1); }},
    {"n2", [](const KernelChoice&, const KernelOps& ops) { return Columns(ops, 2); }},
    {"taps", [](const KernelChoice&, const KernelOps& ops) { return TypeOfOperand(ops, "weight").dims[0].value; }},
    {"v_heads", [](const KernelChoice&, const KernelOps& ops) { return ops.Result(ops.first(), 0).dims[1].value; }},
    {"used", [](const KernelChoice&, const KernelOps& ops) { return ops.Result(ops.first(), 0).dims[1].value; }},
    {"each",
     [](const KernelChoice&, const KernelOps& ops) { return int64_t{TypeOfOperand(ops, "x").dims.size() == 3}; }},
    {"columns", [](const KernelChoice&, const KernelOps& ops) { return TypeOfOperand(ops, "logits").dims[1].value; }},
    {"parts", [](const KernelChoice&, const KernelOps& ops) { return TypeOfOperand(ops, "x").dims[1].value; }},
    {"record", [](const KernelChoice&, const KernelOps& ops) { return ops.Out().dims.back().value; }},
    {"pair", [](const KernelChoice&, const KernelOps& ops) { return int64_t{TakesPair(ops)}; }},
    {"then0", [](const KernelChoice& choice, const KernelOps& ops) { return StepConstant(choice, ops, 0); }},
    {"then1", [](const KernelChoice& choice, const KernelOps& ops) { return StepConstant(choice, ops, 1); }},
    {"then2", [](const KernelChoice& choice, const KernelOps& ops) { return StepConstant(choice, ops, 2); }},
    {"other_row",
     [](const KernelChoice& choice, const KernelOps& ops) {
       const Operand* other = FindOther(choice, ops);
       return int64_t{other != nullptr && ops.TypeOf(*other).dims.size() == 1};
     }},
    {"out_type", [](const KernelChoice&, const KernelOps& ops) { return static_cast<int64_t>(ops.Out().dtype); }},
};

// An attribute as a constant: the bits of a float, the number of a choice.
int64_t AttrConstant(const Op& op, std::string_view name) {
  const AttrValue value = AttrOf(op, name);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* real = std::get_if<float>(&value)) return std::bit_cast<uint32_t>(*real);
  const auto* ident = std::get_if<std::string>(&value);
  LLMC_CHECK(ident != nullptr, "attribute " + std::string(name) + " is a list");
  const AttrDef* def = FindAttr(DefOf(op.kind).attrs, name);
  return std::find(def->choices.begin(), def->choices.end(), *ident) - def->choices.begin();
}

int64_t StepConstant(const KernelChoice& choice, const KernelOps& ops, size_t n) {
  for (size_t i = choice.head; i < ops.ops().size(); ++i) {
    const Op& op = *ops.ops()[i];
    const Step& step = *StepOf(op.kind);
    if (step.number == kernels::kThenNothing || n-- > 0) continue;
    return step.number | (step.attribute.empty() ? 0 : AttrConstant(op, step.attribute) << 8);
  }
  return kernels::kThenNothing;
}

bool HasAttr(OpKind kind, std::string_view name) { return FindAttr(DefOf(kind).attrs, name) != nullptr; }

}  // namespace

bool KernelRow::HasConstant(std::string_view constant) const {
  return std::find(constants.begin(), constants.end(), constant) != constants.end();
}

bool KernelRow::HasOp(OpKind kind) const {
  return std::any_of(lists.begin(), lists.end(), [&](const List& list) {
    return std::find(list.ops.begin(), list.ops.end(), kind) != list.ops.end();
  });
}

const std::vector<KernelRow>& KernelRows() {
  static const std::vector<KernelRow> rows = {
#define KERNEL_DEF(name, ops, words, constants, divisions, open) RowOf(#name, ops, words, constants, divisions, open),
#include "backends/kernels/kernels.def"
#undef KERNEL_DEF
  };
  return rows;
}

KernelOps::KernelOps(const Module& module, const Func& func, std::vector<const Op*> ops)
    : module_(module), func_(func), ops_(std::move(ops)) {
  for (const Op* op : ops_) inner_.insert(inner_.end(), op->results.begin(), op->results.end());
  if (ops_.size() == 1) return;
  for (const Op& op : func.ops) {
    if (DefOf(op.kind).is_view && IsInner(op.operands[0])) inner_.push_back(op.results[0]);
  }
}

bool KernelOps::IsInner(Operand operand) const {
  return !operand.is_global && std::find(inner_.begin(), inner_.end(), operand.index) != inner_.end();
}

const Operand* KernelOps::FindOperand(std::string_view name) const {
  for (const Op* op : ops_) {
    const std::vector<OperandDef>& defs = DefOf(op->kind).operands;
    for (size_t i = 0; i < op->operands.size(); ++i) {
      if (defs[i].name == name && !IsInner(op->operands[i])) return &op->operands[i];
    }
  }
  return name == "x" ? ops_.front()->operands.data() : nullptr;
}

KernelChoice ChooseKernel(const KernelOps& ops) {
  std::vector<OpKind> kinds;
  for (const Op* op : ops.ops()) kinds.push_back(op->kind);
  KernelChoice none;
  for (const KernelRow& row : KernelRows()) {
    for (const KernelRow::List& list : row.lists) {
      const size_t head = list.ops.size();
      const bool starts = head <= kinds.size() && std::equal(list.ops.begin(), list.ops.end(), kinds.begin());
      if (!starts || (head < kinds.size() && !list.goes_on) || (head == 0 && kinds.empty())) continue;
      std::string obstacle = StepsObstacle(ops, head);
      if (obstacle.empty()) obstacle = ObstacleOf(row, ops);
      if (obstacle.empty()) return {&row, head, ""};
      if (head > 0) none.why = std::move(obstacle);
    }
  }
  if (none.why.empty()) {
    none.why = kinds.size() == 1 ? "none computes this op"
                                 : "its result has no storage and goes to " + std::string(OpText(kinds[1]));
  }
  return none;
}

std::string ProductObstacle(const KernelOps& ops) {
  if (std::string matrix = MatrixObstacle(ops); !matrix.empty()) return matrix;
  const size_t count = ops.ops().size();
  if (count == 1) return "";
  const Op& next = *ops.ops()[1];
  const Step* step = StepOf(next.kind);
  const bool residual = step != nullptr && step->number == kernels::kThenAdd && OtherOf(ops, next) != nullptr &&
                        ops.TypeOf(*OtherOf(ops, next)).dims.size() > 1;
  const bool gate = TakesPair(ops) && AttrConstant(next, "act") < math::kActivations;
  if (count == 2 && (gate || residual)) return "";
  return "its result has no storage and goes to " + std::string(OpText(ops.ops()[gate || residual ? 2 : 1]->kind));
}

bool LlvmComputes(const Module& module, const Func& func, const std::vector<const Op*>& ops) {
  return ChooseKernel({module, func, ops}).row != nullptr;
}

bool OnednnComputes(const Module& module, const Func& func, const std::vector<const Op*>& ops) {
  if (!IsWholeProduct(*ops[0])) return LlvmComputes(module, func, ops);
  return ProductObstacle({module, func, ops}).empty();
}

std::optional<Operand> PlaceFor(const KernelChoice& choice, const KernelOps& ops, std::string_view name) {
  const auto result = [](const Op& op, size_t i) { return Operand::Local(op.results[i]); };
  if (name == "other") {
    const Operand* other = FindOther(choice, ops);
    return other != nullptr ? std::optional(*other) : std::nullopt;
  }
  if (const Operand* operand = ops.FindOperand(name)) return *operand;
  if (name == "out") return result(ops.last(), ops.last().results.size() - 1);
  if (name.size() == 4 && name.starts_with("out")) {
    const auto i = static_cast<size_t>(name[3] - '0');
    return i < ops.last().results.size() ? std::optional(result(ops.last(), i)) : std::nullopt;
  }
  for (size_t o = 0; o < choice.head; ++o) {
    const std::vector<std::string_view>& names = DefOf(ops.ops()[o]->kind).results;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return result(*ops.ops()[o], i);
    }
  }
  return std::nullopt;
}

int64_t ConstantFor(const KernelChoice& choice, const KernelOps& ops, std::string_view name) {
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return shape.value(choice, ops);
  }
  for (size_t i = 0; i < choice.head; ++i) {
    if (HasAttr(ops.ops()[i]->kind, name)) return AttrConstant(*ops.ops()[i], name);
  }
  if (name.starts_with("has_")) return ops.FindOperand(name.substr(4)) != nullptr ? 1 : 0;
  if (name.starts_with("is_")) {
    const std::optional<OpKind> kind = OpFromText(name.substr(3));
    return kind && ops.first().kind == *kind ? 1 : 0;
  }
  for (const std::string_view ending : {"_type", "_layout"}) {
    const Operand* operand =
        name.ends_with(ending) ? ops.FindOperand(name.substr(0, name.size() - ending.size())) : nullptr;
    if (operand == nullptr) continue;
    const Type& type = ops.TypeOf(*operand);
    return ending == "_type" ? static_cast<int64_t>(type.dtype) : static_cast<int64_t>(type.layout);
  }
  // Of another list of the row.
  const bool known = std::any_of(choice.row->lists.begin(), choice.row->lists.end(), [&](const KernelRow::List& list) {
    return std::any_of(list.ops.begin(), list.ops.end(), [&](OpKind kind) { return HasAttr(kind, name); });
  });
  LLMC_CHECK(known, std::string(choice.row->name) + ": nothing says what the constant " + std::string(name) + " is");
  return 0;
}

}  // namespace llmc
