// attention, and the two halves it is cut into when threads divide the keys: attention_groups and attention_merge.
#include <cmath>
#include <limits>
#include <vector>

#include "ir/ops/attention_eval.h"
#include "ir/ops/common.h"

namespace llmc {
namespace {

using namespace ops;

constexpr int64_t kKeys = math::kGroupKeys;

int64_t WindowOf(const Op& op) { return std::get<int64_t>(AttrOf(op, "window")); }
bool SeesAll(const Op& op) { return std::get<bool>(AttrOf(op, "all")); }

// Groups of 64 positions that a query sees: first to last.
struct Visible {
  int64_t first_key, last_key;  // positions
  int64_t first_group() const { return first_key / kKeys; }
  int64_t last_group() const { return last_key / kKeys; }
};
// last: the last position of the call, which all see without a causal mask.
Visible VisibleTo(const Op& op, int64_t query, int64_t last) {
  const int64_t window = WindowOf(op);
  const int64_t first = window > 0 ? std::max<int64_t>(0, query - window + 1) : 0;
  if (!SeesAll(op)) return {first, query};
  return {first, window > 0 ? std::min(last, query + window - 1) : last};
}

void NeedWindow(const InferContext& c, std::string_view label) {
  if (const int64_t window = WindowOf(c.op); window < 0) {
    c.Fail(label, "window is " + std::to_string(window) + ", must not be negative");
  }
}

// Without a causal mask rows see the call's last position, so they are rows of one sequence: operand i is a scalar.
void NeedOnePosition(const InferContext& c, size_t i, std::string_view label) {
  if (SeesAll(c.op) && !c.operand(i).dims.empty()) c.Fail(label, Describe(c, i) + ": `all` takes one position, i32[]");
}

// The elements of a value that are summed: all that it has, or the first `values` of them.
int64_t ValuesOf(const Op& op, const Type& v) {
  const int64_t values = std::get<int64_t>(AttrOf(op, "values"));
  return values == 0 ? v.dims[2].value : values;
}

// Constraints of attention and attention_groups.
void CheckAttention(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 3, "C1", "f32[S, Hq, D]");
  const Type& q = c.operand(0);
  const int64_t heads = NeedConstant(c, q.dims[1], 1, "C1", "q's dim 1");
  NeedConstant(c, q.dims[2], 1, "C1", "q's dim 2");
  const Type& k = c.operand(1);
  const Type& v = c.operand(2);
  for (size_t i : {size_t{1}, size_t{2}}) {
    const Type& t = c.operand(i);
    if (t.state < 0 || !IsCacheType(t)) {
      c.Fail("C2",
             Describe(c, i) + ", must be a state's value [C, Hkv, D] of f16, f32, or q8_0 with D of whole blocks");
    }
    NeedConstant(c, t.dims[0], 1, "C2", "a cache's dim 0");
    NeedConstant(c, t.dims[1], 1, "C2", "a cache's dim 1");
  }
  if (k.dims[0] != v.dims[0] || k.dims[1] != v.dims[1] || k.dims[2] != q.dims[2]) {
    c.Fail("C2", Describe(c, 0) + ", " + Describe(c, 1) + ", " + Describe(c, 2) +
                     ": k and v must have equal slots and heads, and k q's D");
  }
  const int64_t width = ValuesOf(c.op, v);
  if (width < 1 || width > v.dims[2].value || width % InfoOf(v.dtype).block != 0) {
    c.Fail("C9", "values is " + std::to_string(c.op.attrs.IntOr("values", 0)) + ", must be 0, or whole blocks of " +
                     Describe(c, 2));
  }
  if (heads % k.dims[1].value != 0) {
    c.Fail("C3", "q has " + std::to_string(heads) + " heads, not a multiple of the cache's " + ToText(k.dims[1]));
  }
  NeedPositions(c, 3, "C4");
  NeedWindow(c, "C5");
  NeedOnePosition(c, 3, "C5");
  NeedFinite(c, "scale", "C6");
  if (NeedFinite(c, "cap", "C6") < 0) c.Fail("C6", "cap must not be negative");
  // A module without the option `context` promises no number of positions, so nothing is required of its caches.
  const int64_t context = c.module.options.IntOr("context", 0);
  const int64_t window = WindowOf(c.op);
  const int64_t rows = RangeOf(c.module, c.func, q.dims[0]).max;
  const int64_t needed = window > 0 && window <= context - rows ? window + rows - 1 : context;
  if (k.dims[0].value < needed) {
    c.Fail("C7", Describe(c, 1) + ": " + std::to_string(rows) + " rows, window " + std::to_string(window) +
                     " and context " + std::to_string(context) + " need " + std::to_string(needed) + " slots");
  }
}

// f32[Hq], one for each query head.
void NeedSinks(const InferContext& c, size_t i, std::string_view label) {
  const Type want{DType::F32, {c.operand(0).dims[1]}, Layout::Rows, -1};
  if (c.has(i) && c.operand(i) != want) c.Fail(label, Describe(c, i) + ", must be " + ToText(want));
}

std::vector<Type> InferAttention(const InferContext& c) {
  CheckAttention(c);
  NeedSinks(c, 4, "C8");
  Type out = c.operand(0);
  out.dims[2] = Dim(ValuesOf(c.op, c.operand(2)));
  return {out};
}

// Calls visit(s, h, group, m, l, o) for rows [row, end), which stand behind one another in one sequence, for each query
// head and visible group; groups of one query and head ascend.
template <class Visit>
void ForEachGroupOf(const EvalContext& c, int64_t first_row, int64_t end_row, const Visit& visit) {
  const Tensor& q = c.operands[0];
  const Cache keys(c, c.operands[1], first_row);
  const Cache values(c, c.operands[2], first_row);
  const int64_t pos = PositionOf(c.operands[3], first_row);
  const float cap = std::get<float>(AttrOf(c.op, "cap"));
  const float scale = c.op.attrs.F32("scale");
  const int64_t heads = DimOf(q, 1);
  const int64_t d = DimOf(q, 2);
  const int64_t width = ValuesOf(c.op, c.operands[2].type);
  const int64_t per_kv = heads / keys.heads();
  const int64_t last = pos + end_row - first_row - 1;
  const Visible all{VisibleTo(c.op, pos, last).first_key, last};
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  std::vector<float> scaled(size(d));
  std::vector<float> group_keys(size(d * kKeys));
  std::vector<float> group_values(size(width * kKeys));
  std::vector<float> o(size(width));
  for (int64_t kv = 0; kv < keys.heads(); ++kv) {
    for (int64_t group = all.first_group(); group <= all.last_group(); ++group) {
      const int64_t base = group * kKeys;
      for (int64_t p = std::max(base, all.first_key); p <= std::min(base + kKeys - 1, all.last_key); ++p) {
        for (int64_t i = 0; i < d; ++i) group_keys[size(i * kKeys + p - base)] = keys.Get(p % keys.slots(), kv, i);
        for (int64_t i = 0; i < width; ++i)
          group_values[size((p - base) * width + i)] = values.Get(p % values.slots(), kv, i);
      }
      for (int64_t s = first_row; s < end_row; ++s) {
        const Visible visible = VisibleTo(c.op, pos + s - first_row, last);
        const int64_t begin = std::max(base, visible.first_key) - base;
        const int64_t end = std::min(base + kKeys - 1, visible.last_key) + 1 - base;
        if (begin >= end) continue;
        for (int64_t h = kv * per_kv; h < (kv + 1) * per_kv; ++h) {
          for (int64_t i = 0; i < d; ++i) scaled[size(i)] = q.as<float>()[(s * heads + h) * d + i] * scale;
          float m = 0;
          float l = 0;
          AttendGroup(scaled.data(), group_keys.data(), group_values.data(), d, width, begin, end, cap, &m, &l,
                      o.data());
          visit(s, h, group - visible.first_group(), m, l, o.data());
        }
      }
    }
  }
}

template <class Visit>
void ForEachGroup(const EvalContext& c, const Visit& visit) {
  const int64_t rows = DimOf(c.operands[0], 0);
  if (c.operands[3].type.dims.empty()) return ForEachGroupOf(c, 0, rows, visit);
  for (int64_t s = 0; s < rows; ++s) ForEachGroupOf(c, s, s + 1, visit);
}

// What a query and head merge into, and the last step of the definition.
struct Merged {
  float m = -std::numeric_limits<float>::infinity();
  float l = 0;
};
void Finish(float l, int64_t d, const float* o, float* out) {
  const float r = 1.0F / l;
  for (int64_t i = 0; i < d; ++i) out[i] = std::fma(o[i], r, 0.0F);
}

// A sink is one more group, with a score and without a value.
void MergeSink(const Tensor& sinks, int64_t head, int64_t d, Merged& to, float* o) {
  const math::Exp2Parts parts = math::SplitExp2(sinks.as<float>()[head] * math::kLog2Ef);
  const float l = parts.p * math::Pow2(parts.n - parts.n + 126.0F);
  const std::vector<float> none(static_cast<size_t>(d), 0.0F);
  MergeGroup(parts.n, l, none.data(), d, &to.m, &to.l, o);
}

void EvalAttention(const EvalContext& c) {
  const Tensor& q = c.operands[0];
  const int64_t d = Inner(c.results[0]);
  std::vector<Merged> merged(static_cast<size_t>(RowsOf(q)));
  std::vector<float> o(static_cast<size_t>(ElementCount(c.results[0].type)));
  ForEachGroup(c, [&](int64_t s, int64_t h, int64_t /*group*/, float m, float l, const float* group_o) {
    const int64_t at = s * DimOf(q, 1) + h;
    Merged& to = merged[static_cast<size_t>(at)];
    MergeGroup(m, l, group_o, d, &to.m, &to.l, o.data() + at * d);
  });
  for (int64_t at = 0; at < RowsOf(q); ++at) {
    Merged& to = merged[static_cast<size_t>(at)];
    if (c.operands.size() > 4) MergeSink(c.operands[4], at % DimOf(q, 1), d, to, o.data() + at * d);
    Finish(merged[static_cast<size_t>(at)].l, d, o.data() + at * d, c.results[0].as<float>() + at * d);
  }
}

// [S, Hq, G, Dv + 2], G enough for any query: its groups, counted from the first that it sees.
std::vector<Type> InferAttentionGroups(const InferContext& c) {
  CheckAttention(c);
  const Type& q = c.operand(0);
  const int64_t groups = RoundUp(c.operand(1).dims[0].value, kKeys) / kKeys + 1;
  return {
      Type{DType::F32, {q.dims[0], q.dims[1], Dim(groups), Dim(ValuesOf(c.op, c.operand(2)) + 2)}, Layout::Rows, -1}};
}

void EvalAttentionGroups(const EvalContext& c) {
  const Tensor& out = c.results[0];
  const int64_t stride = Inner(out);
  std::fill_n(out.as<float>(), ElementCount(out.type), 0.0F);
  ForEachGroup(c, [&](int64_t s, int64_t h, int64_t group, float m, float l, const float* o) {
    float* to = out.as<float>() + ((s * DimOf(out, 1) + h) * DimOf(out, 2) + group) * stride;
    to[0] = m;
    to[1] = l;
    std::copy(o, o + stride - 2, to + 2);
  });
}

std::vector<Type> InferAttentionMerge(const InferContext& c) {
  NeedRows(c, 0, DType::F32, 4, "C1", "f32[S, Hq, G, Dv + 2]");
  const Type& partials = c.operand(0);
  NeedConstant(c, partials.dims[2], 1, "C1", "partials' dim 2");
  const int64_t inner = NeedConstant(c, partials.dims[3], 3, "C1", "partials' dim 3");
  NeedPositions(c, 1, "C2");
  NeedWindow(c, "C3");
  NeedOnePosition(c, 1, "C3");
  NeedSinks(c, 2, "C4");
  return {Type{DType::F32, {partials.dims[0], partials.dims[1], Dim(inner - 2)}, Layout::Rows, -1}};
}

void EvalAttentionMerge(const EvalContext& c) {
  const Tensor& partials = c.operands[0];
  const int64_t d = Inner(c.results[0]);
  const int64_t last = PositionOf(c.operands[1], DimOf(partials, 0) - 1);
  std::vector<float> o(static_cast<size_t>(d));
  for (int64_t row = 0; row < RowsOf(c.results[0]); ++row) {
    const Visible visible = VisibleTo(c.op, PositionOf(c.operands[1], row / DimOf(partials, 1)), last);
    const int64_t groups = visible.last_group() - visible.first_group() + 1;
    if (groups > DimOf(partials, 2)) {
      Fail(DiagKind::ConstraintViolated, {},
           "attention_merge: position " + std::to_string(visible.last_key) + " sees " + std::to_string(groups) +
               " groups, partials have " + std::to_string(DimOf(partials, 2)));
    }
    Merged merged;
    std::fill(o.begin(), o.end(), 0.0F);
    for (int64_t group = 0; group < groups; ++group) {
      const float* from = partials.as<float>() + (row * DimOf(partials, 2) + group) * (d + 2);
      MergeGroup(from[0], from[1], from + 2, d, &merged.m, &merged.l, o.data());
    }
    if (c.operands.size() > 2) MergeSink(c.operands[2], row % DimOf(partials, 1), d, merged, o.data());
    Finish(merged.l, d, o.data(), c.results[0].as<float>() + row * d);
  }
}

Cost CostAttention(const InferContext& c, int64_t rows, int64_t total) {
  const Type& q = c.operand(0);
  const Type& k = c.operand(1);
  double pairs = 0;  // (query, visible key)
  for (int64_t position = total - rows; position < total; ++position) {
    const Visible visible = VisibleTo(c.op, position, total - 1);
    pairs += static_cast<double>(visible.last_key - visible.first_key + 1);
  }
  const int64_t first = VisibleTo(c.op, std::max<int64_t>(0, total - rows), total - 1).first_key;
  const Type& v = c.operand(2);
  const auto row_bytes = [](const Type& t) {
    return static_cast<double>(t.dims[1].value) * static_cast<double>(RowBytes(t.dtype, t.dims[2].value));
  };
  Cost cost;
  cost.attention_macs =
      pairs * static_cast<double>(q.dims[1].value) * static_cast<double>(q.dims[2].value + ValuesOf(c.op, v));
  cost.state_bytes = static_cast<double>(total - first) * (row_bytes(k) + (k.state == v.state ? 0 : row_bytes(v)));
  return cost;
}

const std::vector<AttrDef> kAttrs = {
    {.name = "scale", .type = AttrType::F32, .required = true, .otherwise = {}},
    {.name = "window", .type = AttrType::Int, .required = false, .otherwise = int64_t{0}},
    {.name = "all", .type = AttrType::Bool, .required = false, .otherwise = false},
    {.name = "cap", .type = AttrType::F32, .required = false, .otherwise = 0.0F},
    {.name = "values", .type = AttrType::Int, .required = false, .otherwise = int64_t{0}},
};

}  // namespace

const OpDef kAttentionDef = {
    .summary = "Softmax attention over the cache.",
    .operands = {{"q"}, {"k", false, Layout::Keys16}, {"v", false, Layout::Heads}, {"pos"}, {"sinks", true}},
    .attrs = kAttrs,
    .results = {"out"},
    .few = Over::Heads,
    .many = Over::Queries,
    .infer = InferAttention,
    .eval = EvalAttention,
    .cost = CostAttention,
    .divisions = {{Over::Heads, "ooowo"}, {Over::Rows, "owwww"}, {Over::Queries, "owwww"}},
};

const OpDef kAttentionGroupsDef = {
    .summary = "Attention of each group of 64 keys by itself.",
    .operands = {{"q"}, {"k", false, Layout::Keys16}, {"v", false, Layout::Heads}, {"pos"}},
    .attrs = kAttrs,
    .results = {"partials"},
    .few = Over::Keys,
    .many = Over::Keys,
    .infer = InferAttentionGroups,
    .eval = EvalAttentionGroups,
    .cost = CostAttention,
    .divisions = {{Over::Keys, "wwww"}},
};

const OpDef kAttentionMergeDef = {
    .summary = "Groups merged, ascending: with attention_groups the same as attention.",
    .operands = {{"partials"}, {"pos"}, {"sinks", true}},
    .attrs = {{.name = "window", .type = AttrType::Int, .required = false, .otherwise = int64_t{0}},
              {.name = "all", .type = AttrType::Bool, .required = false, .otherwise = false}},
    .results = {"out"},
    .infer = InferAttentionMerge,
    .eval = EvalAttentionMerge,
    .divisions = {{Over::Heads, "www"}, {Over::Rows, "www"}},
};

}  // namespace llmc
