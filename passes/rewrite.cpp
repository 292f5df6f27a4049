// Helpers that several passes share.
#include "passes/rewrite.h"

#include <algorithm>

#include "ir/layout.h"
#include "ir/op.h"
#include "ir/round_up.h"

namespace llmc {
namespace {

template <class T>
const T& Option(const Module& module, std::string_view name, const char* what) {
  const AttrValue* value = module.options.Find(name);
  const T* typed = value == nullptr ? nullptr : std::get_if<T>(value);
  if (typed == nullptr) {
    Fail(DiagKind::BadAttribute, {}, "the module's option '" + std::string(name) + "' must be " + what);
  }
  return *typed;
}

}  // namespace

int64_t IntOption(const Module& module, std::string_view name) { return Option<int64_t>(module, name, "an integer"); }

const std::string& IdentOption(const Module& module, std::string_view name) {
  return Option<std::string>(module, name, "an identifier");
}

int AddConst(Module& module, Name name, Type type, RecipeKind recipe, std::vector<int> inputs, Attrs attrs) {
  Global global;
  global.kind = GlobalKind::Const;
  global.name = FreshGlobalName(module, std::move(name));
  global.type = std::move(type);
  global.recipe = {recipe, std::move(inputs), std::move(attrs)};
  module.globals.push_back(std::move(global));
  return static_cast<int>(module.globals.size()) - 1;
}

int PackConst(Module& module, Name name, const std::vector<int>& parts, bool interleave) {
  const Type first = GlobalAt(module, parts[0]).type;
  int64_t rows = 0;
  for (int part : parts) {
    rows = RoundUp(rows, kTileRows);
    rows += GlobalAt(module, part).type.dims[0].value;
  }
  Type type;
  type.dtype = first.dtype;
  type.dims = {Dim(rows), first.dims[1]};
  type.layout = Layout::Tiles16;
  Attrs attrs;
  if (interleave) attrs.Set("interleave", true);
  return AddConst(module, std::move(name), std::move(type), RecipeKind::Pack, parts, std::move(attrs));
}

int ConcatConst(Module& module, Name name, const std::vector<int>& parts) {
  int64_t elements = 0;
  for (int part : parts) elements += GlobalAt(module, part).type.dims[0].value;
  Type type;
  type.dims = {Dim(elements)};
  return AddConst(module, std::move(name), std::move(type), RecipeKind::Pack, parts);
}

void ReinferResults(const Module& module, Func& func, const Op& op) {
  const std::vector<Type> types = Infer(module, func, op);
  for (size_t i = 0; i < types.size(); ++i) ValueAt(func, op.results[i]).type = types[i];
}

void DropUnread(Func& func) {
  std::vector<int> uses = CountUses(func);
  for (size_t i = func.ops.size(); i-- > 0;) {
    const Op& op = func.ops[i];
    const bool read = std::any_of(op.results.begin(), op.results.end(),
                                  [&](ValueId result) { return uses[static_cast<size_t>(result)] > 0; });
    if (read) continue;
    for (const Operand& operand : op.operands)
      if (!operand.is_global) --uses[static_cast<size_t>(operand.index)];
    func.ops.erase(func.ops.begin() + static_cast<std::ptrdiff_t>(i));
  }
  CompactValues(func);
}

int64_t MaxRows(const Module& module, const Func& func, const Op& op) {
  const Type& result = ValueAt(func, op.results[0]).type;
  return RangeOf(module, func, (result.state >= 0 ? RowsTypeOf(module, func, op) : result).dims[0]).max;
}

}  // namespace llmc
