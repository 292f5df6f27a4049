// Globals and ops of a graph: weights in the types that ops read, norms, products, caches.
#include "frontend/graph.h"

#include <utility>

#include <fmt/format.h>

#include "ir/math.h"
#include "ir/op.h"

namespace llmc {
namespace {

Attrs AttrsOf(const RowCut& cut) {
  Attrs attrs;
  attrs.Set("begin", cut.begin);
  attrs.Set("count", cut.count);
  if (cut.times > 1) {
    attrs.Set("every", cut.every);
    attrs.Set("times", cut.times);
  }
  return attrs;
}

}  // namespace

Graph::Graph(const Description& d, const BoundWeights& weights, const BuildOptions& options)
    : d_(d), weights_(weights), options_(options) {
  module_.name = d.model.name;
  module_.dims.push_back({"S", 1, options.context});
  for (size_t i = 0; i < weights.uses.size(); ++i) {
    const auto lora = weights.lora.find(weights.uses[i].name);
    AddWeight(weights.uses[i], weights.dtypes[i], lora == weights.lora.end() ? std::vector<LoraUse>{} : lora->second);
  }
  RemarkStandIns();
  SetOptions();
  module_.funcs.emplace_back();
  Func& f = func();
  f.name = "forward";
  f.params = {AddValue(f, Name("tokens"), {DType::I32, {Dim("S")}}), AddValue(f, Name("pos"), {DType::I32, {}})};
  if (d.ends.output == ModelOutput::Hidden) {
    f.kind = EntryKind::Whole;
    f.output = EntryOutput::Hidden;
    if (d.ends.token_types > 0) f.params.push_back(AddValue(f, Name("types"), {DType::I32, {Dim("S")}}));
  } else {
    f.params.push_back(AddValue(f, Name("total"), {DType::I32, {}}));
  }
}

Module Graph::Finish(Operand output) {
  func().returns = {output};
  return std::move(module_);
}

void Graph::SetOptions() {
  Attrs& o = module_.options;
  o.Set("after", std::string("import"));
  o.Set("numerics", math::kNumerics);
  o.Set("context", options_.context);
  o.Set("kv_type", std::string(InfoOf(options_.kv_type).text));
  o.Set("activations", !options_.activations.empty() ? options_.activations : std::string(has_blocks_ ? "q8" : "f32"));
  o.Set("chunk", options_.chunk);
  if (options_.hidden) o.Set("hidden", true);
  if (options_.quantize != nullptr) o.Set("quantize", std::string(options_.quantize->name));
  if (options_.random) o.Set("random", *options_.random);
}

int Graph::AddGlobal(Global g) {
  module_.globals.push_back(std::move(g));
  return static_cast<int>(module_.globals.size()) - 1;
}

int Graph::AddConst(Name name, Type type, Recipe recipe) {
  Global g;
  g.kind = GlobalKind::Const;
  g.name = FreshGlobalName(module_, std::move(name));
  g.type = std::move(type);
  g.recipe = std::move(recipe);
  return AddGlobal(std::move(g));
}

// A weight, and the consts made from it where the graph needs rows of it or another type: vectors in f32, matrices
// quantised on request.
void Graph::AddWeight(const WeightUse& use, DType dtype, const std::vector<LoraUse>& lora) {
  int index = 0;
  if (use.cut) {
    index = CutRows(use);
  } else {
    Global g;
    g.kind = GlobalKind::Weight;
    g.name = use.name;
    g.type.dtype = dtype;
    for (int64_t n : use.dims) g.type.dims.emplace_back(n);
    if (use.source.transposed) std::swap(g.type.dims[0], g.type.dims[1]);
    index = AddGlobal(std::move(g));
    if (use.source.transposed) index = Transposed(use, index);
  }
  if (!lora.empty()) index = Adapted(use, index, lora);
  if (!use.fused) {
    DTypeClass cls = InfoOf(dtype).cls;
    if (use.source.add != 0) {
      Attrs attrs;
      attrs.Set("value", static_cast<float>(use.source.add));
      index = Derived(use, index, DType::F32, {RecipeKind::Add, {index}, attrs});
    } else if (use.kind != WeightKind::Matrix && dtype != DType::F32) {
      index = Derived(use, index, DType::F32, {RecipeKind::Cast, {index}, {}});
    } else if (use.kind == WeightKind::Matrix && use.part != WeightPart::Router && !use.as_stored &&
               options_.quantize != nullptr && cls == DTypeClass::FLOAT) {
      index = Quantized(use, index);
    }
    has_blocks_ =
        has_blocks_ || InfoOf(module_.globals[static_cast<size_t>(index)].type.dtype).cls == DTypeClass::BLOCK;
  }
  by_name_[use.name] = index;
}

int Graph::CutRows(const WeightUse& use) {
  const RowCut& cut = *use.cut;
  int whole = by_name_.at(cut.whole);
  Type type = module_.globals[static_cast<size_t>(whole)].type;
  type.dims[0] = Dim(cut.count * cut.times);
  return AddConst(use.name, std::move(type), {RecipeKind::Rows, {whole}, AttrsOf(cut)});
}

int Graph::Transposed(const WeightUse& use, int from) {
  Type type = module_.globals[static_cast<size_t>(from)].type;
  std::swap(type.dims[0], type.dims[1]);
  return AddConst(Name(use.name.layer, use.name.base + "_t"), std::move(type), {RecipeKind::Transpose, {from}, {}});
}

int Graph::Derived(const WeightUse& use, int from, DType dtype, Recipe recipe) {
  Type type = module_.globals[static_cast<size_t>(from)].type;
  type.dtype = dtype;
  return AddConst(Name(use.name.layer, fmt::format("{}_{}", use.name.base, InfoOf(dtype).text)), std::move(type),
                  std::move(recipe));
}

// The weight with its adapters: merged in f32, back in its own type unless it is quantised next.
int Graph::Adapted(const WeightUse& use, int from, const std::vector<LoraUse>& lora) {
  const DType stored = module_.globals[static_cast<size_t>(from)].type.dtype;
  const auto matrix = [&](const Name& name, DType dtype, int64_t rows, int64_t columns) {
    Global g;
    g.kind = GlobalKind::Weight;
    g.name = name;
    g.type.dtype = dtype;
    g.type.dims = {Dim(rows), Dim(columns)};
    return AddGlobal(std::move(g));
  };
  int index = from;
  for (const LoraUse& one : lora) {
    const int a = matrix(one.a, one.a_type, one.rank, use.dims[1]);
    const int b = matrix(one.b, one.b_type, use.dims[0], one.rank);
    Attrs attrs;
    attrs.Set("scale", static_cast<float>(one.scale));
    Type type = module_.globals[static_cast<size_t>(from)].type;
    type.dtype = DType::F32;
    index = AddConst(Name(use.name.layer, use.name.base + "_lora"), std::move(type),
                     {RecipeKind::Lora, {index, a, b}, attrs});
  }
  if (options_.quantize != nullptr || stored == DType::F32) return index;
  return Derived(use, index, stored, {RecipeKind::Cast, {index}, {}});
}

int Graph::Quantized(const WeightUse& use, int from) {
  MixedMatrix matrix{use.name.base, use.name.layer, static_cast<int>(d_.model.n_layers)};
  if (use.part == WeightPart::Experts)
    matrix.base = std::string_view(use.name.base).substr(0, use.name.base.rfind('_'));
  matrix.k = use.dims.back();
  matrix.is_head = use.name.layer < 0 && (use.name.base == "head" || (d_.ends.tied && use.name.base == "embed"));
  if (use.name.layer >= 0) {
    const Block& block = d_.BlockOf(use.name.layer);
    const auto heads = GetField(d_, block, "attention.n_heads"), kv_heads = GetField(d_, block, "attention.n_kv_heads");
    if (heads && kv_heads && kv_heads->integer > 0) matrix.query_group = heads->integer / kv_heads->integer;
  }
  const DType wanted = WantedInMixture(*options_.quantize, matrix);
  const std::optional<DType> dtype = TypeInMixture(*options_.quantize, matrix);
  if (dtype) {
    if (*dtype != wanted) ++stand_ins_[{matrix.k, wanted, *dtype}];
    return Derived(use, from, *dtype, {RecipeKind::Quantize, {from}, {}});
  }
  if (options_.sink) {
    options_.sink({Severity::Warning,
                   DiagKind::ConstraintViolated,
                   {"", "tensor " + use.source.from},
                   fmt::format("rows of {} elements are not whole blocks of {}: the tensor stays as stored, not {}",
                               matrix.k, InfoOf(wanted).block, InfoOf(wanted).text),
                   {}});
  }
  return from;
}

void Graph::RemarkStandIns() {
  if (!options_.sink) return;
  for (const auto& [what, count] : stand_ins_) {
    const auto& [k, wanted, dtype] = what;
    options_.sink({Severity::Remark,
                   DiagKind::PassRemark,
                   {"", "--quantize"},
                   fmt::format("rows of {} elements are not whole blocks of {}: {} matrices are {}, not {}", k,
                               InfoOf(wanted).block, count, InfoOf(dtype).text, InfoOf(wanted).text),
                   {}});
  }
}

Operand Graph::Weight(int layer, const std::string& base) const {
  auto it = by_name_.find(Name(layer, base));
  LLMC_CHECK(it != by_name_.end(), "no weight " + base);
  return Operand::OfGlobal(it->second);
}

bool Graph::IsBlocks(int layer, const std::string& base) const {
  const Global& global = module_.globals[static_cast<size_t>(Weight(layer, base).index)];
  return InfoOf(global.type.dtype).cls == DTypeClass::BLOCK;
}

Operand Graph::Turned(int layer, const std::string& base, int64_t times) {
  const int from = Weight(layer, base).index;
  Type type = module_.globals[static_cast<size_t>(from)].type;
  type.dims = {Dim(type.dims[1].value * times), Dim(type.dims[0].value / times)};
  Attrs attrs;
  if (times > 1) attrs.Set("times", times);
  return Operand::OfGlobal(
      AddConst(Name(layer, base + "_t"), std::move(type), {RecipeKind::Transpose, {from}, std::move(attrs)}));
}

void Graph::RefuseUnlessAbsorbed(int layer, const std::string& base) const {
  if (options_.absorb) return;
  const auto place = weights_.places.find(Name(layer, base));
  const Global& global = module_.globals[static_cast<size_t>(Weight(layer, base).index)];
  Fail(DiagKind::Unsupported, place == weights_.places.end() ? Place{} : place->second,
       fmt::format("{} is {}, whose blocks lie along the rows of the absorbed form: the plain form (--disable-pass "
                   "absorb-mla) needs floats",
                   ToText(global.name), InfoOf(global.type.dtype).text));
}

Operand Graph::MadeIn(int layer, const std::string& base) const {
  const std::vector<Value>& values = module_.funcs[0].values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == Name(layer, base)) return Operand::Local(static_cast<ValueId>(i));
  }
  throw InternalError(__FILE__, __LINE__, fmt::format("layer {} has no value {}", layer, base));
}

Operand Graph::LayerRows(int layer, const std::string& base, const RowCut& cut) {
  const int whole = Weight(-1, base).index;
  Type type = module_.globals[static_cast<size_t>(whole)].type;
  type.dims[0] = Dim(cut.count * cut.times);
  return Operand::OfGlobal(AddConst(Name(layer, base), std::move(type), {RecipeKind::Rows, {whole}, AttrsOf(cut)}));
}

Operand Graph::One(OpKind kind, std::vector<Operand> operands, Attrs attrs, Name name) {
  return Operand::Local(Append(module_, func(), kind, std::move(operands), std::move(attrs), {std::move(name)})[0]);
}

std::vector<Operand> Graph::Several(OpKind kind, std::vector<Operand> operands, Attrs attrs, std::vector<Name> names) {
  std::vector<Operand> out;
  for (ValueId id : Append(module_, func(), kind, std::move(operands), std::move(attrs), std::move(names)))
    out.push_back(Operand::Local(id));
  return out;
}

Operand Graph::Norm(int layer, Operand x, const std::string& gain, const NormSpec& spec, Name name) {
  Attrs attrs;
  attrs.Set("eps", static_cast<float>(spec.eps));
  std::vector<Operand> operands = {x};
  if (HasWeight(layer, gain)) operands.push_back(Weight(layer, gain));
  if (HasWeight(layer, gain + "_b")) operands.push_back(Weight(layer, gain + "_b"));
  return One(spec.kind == NormKind::Rms ? OpKind::RmsNorm : OpKind::LayerNorm, std::move(operands), attrs,
             std::move(name));
}

Operand Graph::Scale(Operand x, double factor, Name name) {
  Attrs attrs;
  attrs.Set("factor", static_cast<float>(factor));
  return One(OpKind::Scale, {x}, attrs, std::move(name));
}

Operand Graph::Linear(int layer, Operand x, const std::string& w, const std::string& bias, const std::string& result) {
  std::vector<Operand> operands = {x, Weight(layer, w)};
  if (HasWeight(layer, bias)) operands.push_back(Weight(layer, bias));
  return One(OpKind::Linear, std::move(operands), {}, Name(layer, result));
}

Operand Graph::Reshape(Operand x, std::vector<Dim> to, Name name) {
  Attrs attrs;
  attrs.Set("to", std::move(to));
  return One(OpKind::Reshape, {x}, attrs, std::move(name));
}

Operand Graph::KvState(int layer, const std::string& base, int64_t n_heads, int64_t d, int64_t window) {
  if (d % InfoOf(options_.kv_type).block != 0)
    throw UsageError(fmt::format("--kv-type {} needs heads of whole blocks of {}; layer {} has heads of {}",
                                 InfoOf(options_.kv_type).text, InfoOf(options_.kv_type).block, layer, d));
  Global g;
  g.kind = GlobalKind::State;
  g.name = Name(layer, base);
  g.type.dtype = options_.kv_type;
  g.type.dims = {Dim(options_.context), Dim(n_heads), Dim(d)};
  g.attrs.Set("kind", std::string("kv"));
  if (window == 0) {
    g.attrs.Set("window", std::string("none"));
  } else {
    g.attrs.Set("window", window);
  }
  return AddState(std::move(g));
}

Operand Graph::PastState(int layer, const std::string& base, StateKind kind, std::vector<Dim> dims) {
  Global g;
  g.kind = GlobalKind::State;
  g.name = Name(layer, base);
  g.type = {DType::F32, std::move(dims)};
  g.attrs.Set("kind", std::string(FindRow(kStateKinds, kind)->text));
  return AddState(std::move(g));
}

Operand Graph::AddState(Global g) {
  const int index = AddGlobal(std::move(g));
  module_.globals[static_cast<size_t>(index)].type.state = index;
  return Operand::OfGlobal(index);
}

Operand Graph::Act(Operand x, std::string_view kind, Name name) {
  Attrs attrs;
  attrs.Set("kind", std::string(kind));
  return One(OpKind::Act, {x}, attrs, std::move(name));
}

Operand Graph::NegExp(int layer, const std::string& weight, const std::string& result) {
  const int from = Weight(layer, weight).index;
  return Operand::OfGlobal(
      AddConst(Name(layer, result), module_.globals[static_cast<size_t>(from)].type, {RecipeKind::NegExp, {from}, {}}));
}

Operand Graph::Repeated(int layer, const std::string& weight, int64_t times) {
  const int from = Weight(layer, weight).index;
  Type type = module_.globals[static_cast<size_t>(from)].type;
  type.dims[0] = Dim(type.dims[0].value * times);
  Attrs attrs;
  attrs.Set("times", times);
  return Operand::OfGlobal(
      AddConst(Name(layer, weight + "_repeated"), std::move(type), {RecipeKind::Repeat, {from}, std::move(attrs)}));
}

// Kernels take the weights of one place in the window side by side.
Operand Graph::Conv1d(int layer, Operand x, const std::string& taps, const std::string& bias, const std::string& state,
                      const std::string& result) {
  const Operand weight = Turned(layer, taps, 1);
  const std::vector<Dim> dims = module_.globals[static_cast<size_t>(weight.index)].type.dims;
  std::vector<Operand> operands = {PastState(layer, state, StateKind::History, {Dim(dims[0].value - 1), dims[1]}), x,
                                   weight, pos()};
  if (HasWeight(layer, bias)) operands.push_back(Weight(layer, bias));
  return One(OpKind::Conv1d, std::move(operands), {}, Name(layer, result));
}

}  // namespace llmc
