// Attributes, lookups and edits of modules and functions that passes share.
#include "ir/module.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "ir/diag.h"

namespace llmc {
namespace {

constexpr std::string_view kRecipes[] = {
#define RECIPE(name, text) text,
#include "ir/recipes.def"
#undef RECIPE
};
constexpr std::string_view kOvers[] = {"all", "one", "tiles", "heads", "keys", "rows", "queries"};

template <class T>
const T& Get(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.Find(name);
  LLMC_CHECK(value != nullptr, "attribute " + std::string(name) + " is missing");
  const T* typed = std::get_if<T>(value);
  LLMC_CHECK(typed != nullptr, "attribute " + std::string(name) + " is of another type");
  return *typed;
}

}  // namespace

const AttrValue* Attrs::Find(std::string_view name) const {
  for (const auto& [key, value] : list_) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Attrs::Set(std::string_view name, AttrValue value) {
  for (auto& [key, old] : list_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  list_.emplace_back(std::string(name), std::move(value));
}

void Attrs::Erase(std::string_view name) {
  std::erase_if(list_, [&](const auto& entry) { return entry.first == name; });
}

int64_t Attrs::Int(std::string_view name) const { return Get<int64_t>(*this, name); }
float Attrs::F32(std::string_view name) const { return Get<float>(*this, name); }
bool Attrs::Bool(std::string_view name) const { return Get<bool>(*this, name); }
const std::string& Attrs::Ident(std::string_view name) const { return Get<std::string>(*this, name); }
const std::vector<Dim>& Attrs::List(std::string_view name) const { return Get<std::vector<Dim>>(*this, name); }

int64_t Attrs::IntOr(std::string_view name, int64_t otherwise) const {
  const AttrValue* value = Find(name);
  const int64_t* number = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  return number == nullptr ? otherwise : *number;
}

std::string_view RecipeText(RecipeKind kind) { return kRecipes[static_cast<size_t>(kind)]; }

std::optional<RecipeKind> RecipeFromText(std::string_view text) {
  for (size_t i = 0; i < std::size(kRecipes); ++i) {
    if (kRecipes[i] == text) return static_cast<RecipeKind>(i);
  }
  return std::nullopt;
}

std::string_view OverText(Over over) { return kOvers[static_cast<size_t>(over)]; }

std::optional<Over> OverFromText(std::string_view text) {
  for (size_t i = 0; i < std::size(kOvers); ++i) {
    if (kOvers[i] == text) return static_cast<Over>(i);
  }
  return std::nullopt;
}

int Module::FindGlobal(const Name& global_name) const {
  for (size_t i = 0; i < globals.size(); ++i) {
    if (globals[i].name == global_name) return static_cast<int>(i);
  }
  return -1;
}

Func* Module::FindFunc(std::string_view func_name) {
  for (Func& func : funcs) {
    if (func.name == func_name) return &func;
  }
  return nullptr;
}

const Func* Module::FindFunc(std::string_view func_name) const {
  for (const Func& func : funcs) {
    if (func.name == func_name) return &func;
  }
  return nullptr;
}

bool RunsOnOnednn(const Module& module, const Func& func) {
  const AttrValue* value = module.options.Find("onednn");
  const auto* names = value == nullptr ? nullptr : std::get_if<std::vector<Dim>>(value);
  return names != nullptr && std::find(names->begin(), names->end(), Dim(func.name)) != names->end();
}

const Value* FindInput(const Func& func, EntryInput input) {
  for (const ValueId param : func.params) {
    const Value& value = func.values[static_cast<size_t>(param)];
    if (value.name == Name(std::string(EntryInputText(input)))) return &value;
  }
  return nullptr;
}

bool IsDecoderCall(const Func& func) {
  return func.params.size() == 3 && FindInput(func, EntryInput::Tokens) != nullptr &&
         FindInput(func, EntryInput::Pos) != nullptr && FindInput(func, EntryInput::Total) != nullptr &&
         func.output == EntryOutput::Logits && func.kind == EntryKind::Chunkable;
}

const StateKindInfo& KindOf(const Global& state) {
  const StateKindInfo* info = FindRow(kStateKinds, std::string_view(state.attrs.Ident("kind")));
  LLMC_CHECK(info != nullptr, "state of kind " + state.attrs.Ident("kind"));
  return *info;
}

DimRange RangeOf(const Module& module, const Func& func, const Dim& dim) {
  if (!dim.is_symbol()) return {"", dim.value, dim.value};
  for (const std::vector<DimRange>* ranges : {&func.dims, &module.dims}) {
    for (const DimRange& range : *ranges) {
      if (range.symbol == dim.symbol) return range;
    }
  }
  return {dim.symbol, 1, 1};
}

const Type& TypeOf(const Module& module, const Func& func, Operand operand) {
  const size_t index = static_cast<size_t>(operand.index);
  if (operand.is_global) {
    LLMC_CHECK(index < module.globals.size(), "global index out of range");
    return module.globals[index].type;
  }
  LLMC_CHECK(index < func.values.size(), "value index out of range");
  return func.values[index].type;
}

ValueId AddValue(Func& func, Name name, Type type) {
  std::set<int> taken;
  for (const Value& value : func.values) {
    if (value.name.layer == name.layer && value.name.base == name.base) taken.insert(value.name.suffix);
  }
  while (taken.contains(name.suffix)) ++name.suffix;
  func.values.push_back({std::move(name), std::move(type), std::nullopt});
  return static_cast<ValueId>(func.values.size() - 1);
}

Name FreshGlobalName(const Module& module, Name name) {
  while (module.FindGlobal(name) >= 0) ++name.suffix;
  return name;
}

std::vector<int> CountUses(const Func& func) {
  std::vector<int> uses(func.values.size(), 0);
  const auto count = [&](const Operand& operand) {
    if (!operand.is_global) ++uses[static_cast<size_t>(operand.index)];
  };
  for (const Op& op : func.ops) std::for_each(op.operands.begin(), op.operands.end(), count);
  std::for_each(func.returns.begin(), func.returns.end(), count);
  return uses;
}

void ReplaceUses(Func& func, ValueId from, Operand to) {
  const Operand old = Operand::Local(from);
  for (Op& op : func.ops) std::replace(op.operands.begin(), op.operands.end(), old, to);
  std::replace(func.returns.begin(), func.returns.end(), old, to);
}

std::vector<int> DefiningOps(const Func& func) {
  std::vector<int> ops(func.values.size(), -1);
  for (size_t i = 0; i < func.ops.size(); ++i) {
    for (ValueId result : func.ops[i].results) ops[static_cast<size_t>(result)] = static_cast<int>(i);
  }
  return ops;
}

void CompactValues(Func& func) {
  std::vector<ValueId> renumbered(func.values.size(), -1);
  std::vector<Value> values;
  const auto keep = [&](ValueId& id) {
    renumbered[static_cast<size_t>(id)] = static_cast<ValueId>(values.size());
    values.push_back(std::move(func.values[static_cast<size_t>(id)]));
    id = renumbered[static_cast<size_t>(id)];
  };
  std::for_each(func.params.begin(), func.params.end(), keep);
  for (Op& op : func.ops) std::for_each(op.results.begin(), op.results.end(), keep);
  const auto rename = [&](Operand& operand) {
    if (operand.is_global) return;
    operand.index = renumbered[static_cast<size_t>(operand.index)];
    LLMC_CHECK(operand.index >= 0, "a value that no op defines is read");
  };
  for (Op& op : func.ops) std::for_each(op.operands.begin(), op.operands.end(), rename);
  std::for_each(func.returns.begin(), func.returns.end(), rename);
  func.values = std::move(values);
}

void CompactGlobals(Module& module) {
  std::vector<bool> used(module.globals.size(), false);
  const auto mark = [&](const Operand& operand) {
    if (operand.is_global) used[static_cast<size_t>(operand.index)] = true;
  };
  for (const Func& func : module.funcs) {
    for (const Op& op : func.ops) std::for_each(op.operands.begin(), op.operands.end(), mark);
    std::for_each(func.returns.begin(), func.returns.end(), mark);
    for (const Value& value : func.values) {
      if (value.type.state >= 0) used[static_cast<size_t>(value.type.state)] = true;
    }
  }
  // A recipe's inputs stand before it (ir/verify.h), so one pass from the end reaches everything.
  for (size_t i = module.globals.size(); i-- > 0;) {
    if (!used[i]) continue;
    for (int input : module.globals[i].recipe.inputs) used[static_cast<size_t>(input)] = true;
  }
  std::vector<int> renumbered(module.globals.size(), -1);
  std::vector<Global> globals;
  for (size_t i = 0; i < module.globals.size(); ++i) {
    if (!used[i]) continue;
    renumbered[i] = static_cast<int>(globals.size());
    globals.push_back(std::move(module.globals[i]));
  }
  module.globals = std::move(globals);
  for (Global& global : module.globals) {
    for (int& input : global.recipe.inputs) input = renumbered[static_cast<size_t>(input)];
    if (global.type.state >= 0) global.type.state = renumbered[static_cast<size_t>(global.type.state)];
  }
  const auto rename = [&](Operand& operand) {
    if (operand.is_global) operand.index = renumbered[static_cast<size_t>(operand.index)];
  };
  for (Func& func : module.funcs) {
    for (Op& op : func.ops) std::for_each(op.operands.begin(), op.operands.end(), rename);
    std::for_each(func.returns.begin(), func.returns.end(), rename);
    for (Value& value : func.values) {
      if (value.type.state >= 0) value.type.state = renumbered[static_cast<size_t>(value.type.state)];
    }
  }
}

}  // namespace llmc
