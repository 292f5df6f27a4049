// absorb-mla: attention whose keys and values are products of latents works on the latents.
//
// Where every head's keys are K c beside one shared rotated part, and its values V c, for one latent c a position:
// q (K c) = (K^T q) c, and a sum of V c is V times the sum of c. So queries are multiplied by the heads' transposed key
// weights, one cache holds the latents and the rotated parts and serves as keys and as values, and the heads' value
// weights multiply what comes out. The products are the same, summed in another order: reassociates.
//
// Needs:    nothing; canonicalize's merging of equal values makes keys and values read one latent.
// Leaves:   a cache of one head, as wide as a latent and the rotated part; two `head_linear`.
// Why here: before fuse-qkv, which would make one product of keys and values.
// Skips:    weights of blocks (they can't be transposed) or with a bias, and values read elsewhere, with a remark.
#include <fmt/format.h>

#include "ir/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace llmc {
namespace {

// The op that makes a value, where it is of that kind; nullptr otherwise.
const Op* Maker(const Func& func, const Operand& value, OpKind kind) {
  if (value.is_global) return nullptr;
  const int made_by = DefiningOps(func)[static_cast<size_t>(value.index)];
  if (made_by < 0 || func.ops[static_cast<size_t>(made_by)].kind != kind) return nullptr;
  return &func.ops[static_cast<size_t>(made_by)];
}

// reshape(linear(c, w)): heads of a product.
struct Heads {
  Operand latent;
  int weight = -1;
  bool biased = false;
};
std::optional<Heads> HeadsOf(const Func& func, const Operand& value) {
  const Op* shaped = Maker(func, value, OpKind::Reshape);
  const Op* linear = shaped == nullptr ? nullptr : Maker(func, shaped->operands[0], OpKind::Linear);
  if (linear == nullptr || linear->results.size() != 1) return std::nullopt;
  return Heads{linear->operands[0], linear->operands[1].index, linear->operands.size() > 2};
}

// attention(concat(q_nope, q_rope), append(k, concat(K c, k_rope)), append(v, V c)).
struct Match {
  Op attention, keys, values;  // appends
  Operand q_nope, q_rope, latent, k_rope;
  int key_weight = -1, value_weight = -1;
};
std::optional<Match> MatchOf(const Module& module, const Func& func, const Op& op) {
  if (op.kind != OpKind::Attention || std::get<int64_t>(AttrOf(op, "values")) != 0) return std::nullopt;
  const Op* keys = Maker(func, op.operands[1], OpKind::KvAppend);
  const Op* values = Maker(func, op.operands[2], OpKind::KvAppend);
  const Op* q = Maker(func, op.operands[0], OpKind::Concat);
  const Op* k = keys == nullptr ? nullptr : Maker(func, keys->operands[1], OpKind::Concat);
  if (values == nullptr || q == nullptr || k == nullptr) return std::nullopt;
  const std::optional<Heads> k_heads = HeadsOf(func, k->operands[0]), v_heads = HeadsOf(func, values->operands[1]);
  if (!k_heads || !v_heads || k_heads->latent != v_heads->latent) return std::nullopt;
  const auto type = [&](const Operand& operand) { return TypeOf(module, func, operand); };
  const std::vector<Dim> nope = type(q->operands[0]).dims, rope = type(q->operands[1]).dims;
  const bool one_tail = type(k->operands[1]).dims == std::vector<Dim>{rope[0], Dim(1), rope[2]};
  if (!one_tail || nope != type(k->operands[0]).dims || k_heads->biased || v_heads->biased) return std::nullopt;
  return Match{op,
               *keys,
               *values,
               q->operands[0],
               q->operands[1],
               k_heads->latent,
               k->operands[1],
               k_heads->weight,
               v_heads->weight};
}

// Why it stays as it is; "": nothing stands against it.
std::string Obstacle(const Module& module, const Func& func, const Match& m) {
  const std::vector<int> uses = CountUses(func);
  for (const Op* append : {&m.keys, &m.values})
    if (uses[static_cast<size_t>(append->results[0])] != 1) return "its cache has other readers";
  const Type& keys = GlobalAt(module, m.key_weight).type;
  const Type& values = GlobalAt(module, m.value_weight).type;
  if (keys.layout != Layout::Rows || values.layout != Layout::Rows) return "its weights are packed";
  if (InfoOf(keys.dtype).cls != DTypeClass::FLOAT)
    return fmt::format("its keys' weight is {}", InfoOf(keys.dtype).text);
  const int64_t heads = TypeOf(module, func, m.q_nope).dims[1].value;
  constexpr int64_t kTile = 16;
  if (keys.dims[1].value % kTile != 0 || values.dims[0].value / heads % kTile != 0)
    return "its sizes are no multiples of 16";
  return "";
}

// The keys' weight with each head's matrix transposed; of one that was made so from another, that other.
int Turned(Module& module, int weight, int64_t heads) {
  const Global& global = GlobalAt(module, weight);
  if (global.kind == GlobalKind::Const && global.recipe.kind == RecipeKind::Transpose &&
      global.recipe.attrs.IntOr("times", 1) == heads)
    return global.recipe.inputs[0];
  Type type = global.type;
  type.dims = {Dim(type.dims[1].value * heads), Dim(type.dims[0].value / heads)};
  Attrs attrs;
  attrs.Set("times", heads);
  const Name name = global.name;
  return AddConst(module, Name(name.layer, name.base + "_t"), std::move(type), RecipeKind::Transpose, {weight}, attrs);
}

int AddState(Module& module, const Global& like, const Name& name, int64_t width) {
  Global state = like;
  state.name = FreshGlobalName(module, name);
  state.type.dims[1] = Dim(1);
  state.type.dims[2] = Dim(width);
  const int index = static_cast<int>(module.globals.size());
  state.type.state = index;
  module.globals.push_back(std::move(state));
  return index;
}

// Replaces func.ops[at], the match's attention.
void Absorb(Module& module, Func& func, size_t at, const Match& m) {
  const Type q_type = TypeOf(module, func, m.q_nope);
  const int64_t heads = q_type.dims[1].value;
  const int64_t latent = GlobalAt(module, m.key_weight).type.dims[1].value;
  const int64_t rope = TypeOf(module, func, m.q_rope).dims[2].value;
  const Name name = ValueAt(func, m.attention.results[0]).name;
  const int turned = Turned(module, m.key_weight, heads);
  const Global keys = GlobalAt(module, m.keys.operands[0].index);
  const int state = AddState(module, keys, Name(name.layer, "c"), latent + rope);
  std::vector<Op> ops;
  const auto add = [&](OpKind kind, std::vector<Operand> operands, Attrs attrs, const char* base) {
    Op op;
    op.kind = kind;
    op.operands = std::move(operands);
    op.attrs = std::move(attrs);
    op.results = {AddValue(func, Name(name.layer, base), {})};
    ReinferResults(module, func, op);
    ops.push_back(std::move(op));
    return Operand::Local(ops.back().results[0]);
  };
  Attrs one_head;
  one_head.Set("to", std::vector<Dim>{q_type.dims[0], Dim(1), Dim(latent)});
  const Operand head = add(OpKind::Reshape, {m.latent}, one_head, "latent_head");
  const Operand row = add(OpKind::Concat, {head, m.k_rope}, {}, "c_new");
  const Operand cached = add(OpKind::KvAppend, {Operand::OfGlobal(state), row, m.keys.operands[2]}, {}, "cached");
  const Operand q_abs = add(OpKind::HeadLinear, {m.q_nope, Operand::OfGlobal(turned)}, {}, "q_abs");
  const Operand q = add(OpKind::Concat, {q_abs, m.q_rope}, {}, "q");
  std::vector<Operand> operands = m.attention.operands;
  operands[0] = q, operands[1] = operands[2] = cached;
  Attrs attrs = m.attention.attrs;
  attrs.Set("values", latent);
  const Operand sums = add(OpKind::Attention, std::move(operands), std::move(attrs), "att_latent");
  Op out;
  out.kind = OpKind::HeadLinear;
  out.operands = {sums, Operand::OfGlobal(m.value_weight)};
  out.results = m.attention.results;
  ops.push_back(std::move(out));
  func.ops.erase(func.ops.begin() + static_cast<std::ptrdiff_t>(at));
  func.ops.insert(func.ops.begin() + static_cast<std::ptrdiff_t>(at), ops.begin(), ops.end());
}

}  // namespace

bool AbsorbMla(Module& module, const PassContext& context) {
  bool changed = false;
  for (Func& func : module.funcs) {
    bool absorbed = false;
    for (size_t i = 0; i < func.ops.size(); ++i) {
      const std::optional<Match> match = MatchOf(module, func, func.ops[i]);
      if (!match) continue;
      const std::string where = ToText(ValueAt(func, match->attention.results[0]).name);
      if (const std::string obstacle = Obstacle(module, func, *match); !obstacle.empty()) {
        context.Remark("absorb-mla", fmt::format("%{} keeps keys and values: {}", where, obstacle));
        continue;
      }
      Absorb(module, func, i, *match);
      context.Remark("absorb-mla", fmt::format("%{} works on latents", where));
      absorbed = true;
    }
    if (absorbed) DropUnread(func);  // appends of the plain form, and all that fed nothing else
    changed = changed || absorbed;
  }
  if (changed) CompactGlobals(module);
  return changed;
}

}  // namespace llmc
