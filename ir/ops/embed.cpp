// embed, position_embed, last_rows, reshape: rows picked and viewed. Nothing here rounds except the table's own
// dequantisation.
#include <cstring>
#include <limits>
#include <vector>

#include "ir/blocks.h"
#include "ir/layout.h"
#include "ir/ops/common.h"

namespace llmc {
namespace {

using namespace ops;

std::vector<Type> InferEmbed(const InferContext& c) {
  const Type& table = c.operand(0);
  const DTypeClass cls = InfoOf(table.dtype).cls;
  const bool is_weight = (cls == DTypeClass::FLOAT || cls == DTypeClass::BLOCK) && table.state < 0;
  const bool layout_fits = table.layout == Layout::Rows || table.layout == Layout::Tiles16;
  if (!is_weight || table.dims.size() != 2 || !layout_fits) {
    c.Fail("C1", Describe(c, 0) + ", must be a weight [V, D], rows or tiles16");
  }
  NeedConstant(c, table.dims[0], 1, "C1", "the table's dim 0");
  const int64_t d = NeedConstant(c, table.dims[1], 1, "C1", "the table's dim 1");
  if (d % InfoOf(table.dtype).block != 0) c.Fail("C1", Describe(c, 0) + ": dim 1 must be whole blocks");
  NeedRows(c, 1, DType::I32, 1, "C2", "i32[S]");
  return {Type{DType::F32, {c.operand(1).dims[0], table.dims[1]}, Layout::Rows, -1}};
}

void EvalEmbed(const EvalContext& c) {
  const Tensor& table = c.operands[0];
  const int64_t d = DimOf(table, 1);
  const int64_t row_bytes = RowBytes(table.type.dtype, d);
  const auto* tokens = c.operands[1].as<int32_t>();
  std::vector<std::byte> unpacked(static_cast<size_t>(row_bytes));
  for (int64_t s = 0; s < DimOf(c.operands[1], 0); ++s) {
    LLMC_CHECK(tokens[s] >= 0 && tokens[s] < DimOf(table, 0), "embed: token " + std::to_string(tokens[s]));
    const std::byte* row = table.data + tokens[s] * row_bytes;
    if (table.type.layout == Layout::Tiles16) {
      UnpackRow(table.type.dtype, table.data, tokens[s], d, unpacked.data());
      row = unpacked.data();
    }
    Dequantize(table.type.dtype, row, d, c.results[0].as<float>() + s * d);
  }
}

std::vector<Type> InferPositionEmbed(const InferContext& c) {
  const Type& table = c.operand(0);
  const DTypeClass cls = InfoOf(table.dtype).cls;
  const bool is_weight = (cls == DTypeClass::FLOAT || cls == DTypeClass::BLOCK) && table.state < 0;
  if (!is_weight || table.dims.size() != 2 || table.layout != Layout::Rows)
    c.Fail("C1", Describe(c, 0) + ", must be a weight [P, D] in rows");
  const int64_t rows = NeedConstant(c, table.dims[0], 1, "C1", "the table's dim 0");
  const int64_t d = NeedConstant(c, table.dims[1], 1, "C1", "the table's dim 1");
  if (d % InfoOf(table.dtype).block != 0) c.Fail("C1", Describe(c, 0) + ": dim 1 must be whole blocks");
  NeedRows(c, 1, DType::I32, 1, "C2", "i32[S]");
  NeedPositions(c, 2, "C3");
  const int64_t offset = std::get<int64_t>(AttrOf(c.op, "offset"));
  const int64_t context = c.module.options.IntOr("context", 1);
  if (offset < 0 || offset > rows - context) {
    c.Fail("C4", Describe(c, 0) + ": offset " + std::to_string(offset) + " and context " + std::to_string(context) +
                     " need as many rows");
  }
  return {Type{DType::F32, {c.operand(1).dims[0], table.dims[1]}, Layout::Rows, -1}};
}

void EvalPositionEmbed(const EvalContext& c) {
  const Tensor& table = c.operands[0];
  const int64_t d = DimOf(table, 1);
  const int64_t offset = std::get<int64_t>(AttrOf(c.op, "offset"));
  for (int64_t s = 0; s < DimOf(c.operands[1], 0); ++s) {
    const int64_t row = PositionOf(c.operands[2], s) + offset;
    LLMC_CHECK(row >= 0 && row < DimOf(table, 0), "position_embed: row " + std::to_string(row));
    Dequantize(table.type.dtype, table.data + row * RowBytes(table.type.dtype, d), d, c.results[0].as<float>() + s * d);
  }
}

Cost CostEmbed(const InferContext& c, int64_t rows, int64_t /*total*/) {
  const Type& table = c.operand(0);
  Cost cost;
  cost.weight_bytes = static_cast<double>(rows) * static_cast<double>(RowBytes(table.dtype, table.dims[1].value));
  return cost;
}

std::vector<Type> InferLastRows(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 2, "C1", "f32[S, D]");
  const int64_t count = c.op.attrs.Int("count");
  const DimRange rows = RangeOf(c.module, c.func, c.operand(0).dims[0]);
  if (count < 1 || count > rows.min) {
    c.Fail("C2", "count is " + std::to_string(count) + ", must be 1.." + std::to_string(rows.min) +
                     ", the least number of rows");
  }
  return {Type{DType::F32, {Dim(count), c.operand(0).dims[1]}, Layout::Rows, -1}};
}

void EvalLastRows(const EvalContext& c) {
  const Tensor& x = c.operands[0];
  const int64_t count = DimOf(c.results[0], 0);
  const float* first = x.as<float>() + (DimOf(x, 0) - count) * Inner(x);
  std::memcpy(c.results[0].data, first, static_cast<size_t>(count * Inner(x)) * sizeof(float));
}

// Product of the dims after the first; -1: a symbol among them, or more than 64 bits.
int64_t InnerCount(const std::vector<Dim>& dims) {
  int64_t count = 1;
  for (size_t i = 1; i < dims.size(); ++i) {
    if (dims[i].is_symbol() || dims[i].value < 0) return -1;
    if (dims[i].value > 0 && count > std::numeric_limits<int64_t>::max() / dims[i].value) return -1;
    count *= dims[i].value;
  }
  return count;
}

std::vector<Type> InferReshape(const InferContext& c) {
  const Type& x = c.operand(0);
  const std::vector<Dim>& to = c.op.attrs.List("to");
  const std::string shapes = Describe(c, 0) + ", `to` is " + ToText(Type{x.dtype, to, Layout::Rows, -1});
  if (x.dtype != DType::F32 || x.layout != Layout::Rows || x.state >= 0) {
    c.Fail("C1", Describe(c, 0) + ", must be f32 in rows");
  }
  if (x.dims.empty() || to.empty() || x.dims[0] != to[0]) c.Fail("C2", shapes + ": dim 0 must stay");
  if (InnerCount(to) < 0 || InnerCount(x.dims) != InnerCount(to)) {
    c.Fail("C3", shapes + ": the dims after the first must be constants of one product");
  }
  return {Type{DType::F32, to, Layout::Rows, -1}};
}

// The result is its operand's storage under another shape: there is nothing to compute.
void EvalReshape(const EvalContext& /*c*/) {}

}  // namespace

const OpDef kEmbedDef = {
    .summary = "Rows of the embedding table, dequantised.",
    .operands = {{"table"}, {"tokens"}},
    .attrs = {},
    .results = {"x"},
    .rows = 1,
    .table = 0,
    .ids = 1,
    .infer = InferEmbed,
    .eval = EvalEmbed,
    .cost = CostEmbed,
    .divisions = {{Over::Rows, "wo"}, {Over::Tiles, "ww"}},
};

const OpDef kPositionEmbedDef = {
    .summary = "Rows of a table at the positions of the call, dequantised.",
    .operands = {{"table"}, {"tokens"}, {"pos"}},
    .attrs = {{.name = "offset", .type = AttrType::Int, .required = false, .otherwise = int64_t{0}}},
    .results = {"x"},
    .rows = 1,
    .infer = InferPositionEmbed,
    .eval = EvalPositionEmbed,
    .cost = CostEmbed,
    .divisions = {{Over::Rows, "wow"}, {Over::Tiles, "www"}},
};

const OpDef kLastRowsDef = {
    .summary = "The last rows of a value.",
    .operands = {{"x"}},
    .attrs = {{.name = "count", .type = AttrType::Int, .required = true, .otherwise = {}}},
    .results = {"rows"},
    .copies = true,
    .many = Over::All,
    .infer = InferLastRows,
    .eval = EvalLastRows,
    .divisions = {{Over::Tiles, "o"}, {Over::Rows, "w"}},
};

const OpDef kReshapeDef = {
    .summary = "The same elements under another shape: a view.",
    .operands = {{"x"}},
    .attrs = {{.name = "to", .type = AttrType::List, .required = true, .otherwise = {}}},
    .results = {"view"},
    .is_view = true,
    .copies = true,
    .infer = InferReshape,
    .eval = EvalReshape,
    .divisions = {{Over::Rows, "o"}, {Over::Tiles, "o"}, {Over::Heads, "o"}},
};

}  // namespace llmc
