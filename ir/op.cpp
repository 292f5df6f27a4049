// The table of op records, and what is generic over them: checks of operand counts and attributes, inference, building.
#include "ir/op.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ir/diag.h"

namespace llmc {
namespace {

constexpr const OpDef* kDefs[] = {
#define OP(name, text) &k##name##Def,
#include "ir/ops.def"
#undef OP
};
constexpr std::string_view kTexts[] = {
#define OP(name, text) text,
#include "ir/ops.def"
#undef OP
};

[[noreturn]] void FailAt(const Op& op, DiagKind kind, const std::string& message) {
  Fail(kind, {"", op.line > 0 ? std::to_string(op.line) : ""}, std::string(OpText(op.kind)) + ": " + message);
}

// Operand count, and attributes known, present, typed and among the choices, so that `infer` may read them.
void CheckForm(const Op& op, const OpDef& def) {
  size_t required = 0;
  for (const OperandDef& operand : def.operands) required += operand.optional ? 0 : 1;
  if (op.operands.size() < required || op.operands.size() > def.operands.size()) {
    std::string range = std::to_string(required);
    if (def.operands.size() > required) range += " to " + std::to_string(def.operands.size());
    FailAt(op, DiagKind::TypeMismatch, "takes " + range + " operands, has " + std::to_string(op.operands.size()));
  }
  if (std::optional<AttrFault> fault = FindAttrFault(def.attrs, op.attrs)) FailAt(op, fault->kind, fault->message);
}

}  // namespace

const OpDef& DefOf(OpKind kind) { return *kDefs[static_cast<size_t>(kind)]; }

std::string_view OpText(OpKind kind) { return kTexts[static_cast<size_t>(kind)]; }

std::optional<OpKind> OpFromText(std::string_view text) {
  for (size_t i = 0; i < std::size(kTexts); ++i) {
    if (kTexts[i] == text) return static_cast<OpKind>(i);
  }
  return std::nullopt;
}

const AttrDef* FindAttr(const std::vector<AttrDef>& defs, std::string_view name) {
  for (const AttrDef& def : defs) {
    if (def.name == name) return &def;
  }
  return nullptr;
}

bool HasType(const AttrValue& value, AttrType type) { return value.index() == static_cast<size_t>(type); }

std::string_view AttrTypeText(AttrType type) {
  static constexpr std::string_view kTypes[] = {"true or false", "an integer", "a float", "an identifier", "a list"};
  return kTypes[static_cast<size_t>(type)];
}

std::optional<AttrFault> FindAttrFault(const std::vector<AttrDef>& defs, const Attrs& attrs) {
  for (const auto& [name, value] : attrs.all()) {
    const AttrDef* def = FindAttr(defs, name);
    if (def == nullptr) return AttrFault{DiagKind::UnknownAttribute, "unknown attribute '" + name + "'"};
    const std::string quoted = "attribute '" + name + "'";
    if (!HasType(value, def->type)) {
      return AttrFault{DiagKind::BadAttribute, quoted + " must be " + std::string(AttrTypeText(def->type))};
    }
    if (def->choices.empty()) continue;
    const std::string& ident = std::get<std::string>(value);
    std::string choices;
    bool found = false;
    for (std::string_view choice : def->choices) {
      found = found || choice == ident;
      if (!choices.empty()) choices.append(", ");
      choices.append(choice);
    }
    if (!found) {
      std::string message = quoted;
      message.append(" is '").append(ident).append("', must be one of ").append(choices);
      return AttrFault{DiagKind::BadAttribute, std::move(message)};
    }
  }
  for (const AttrDef& def : defs) {
    if (def.required && attrs.Find(def.name) == nullptr) {
      return AttrFault{DiagKind::BadAttribute, "attribute '" + std::string(def.name) + "' is missing"};
    }
  }
  return std::nullopt;
}

void InferContext::Fail(std::string_view label, const std::string& message) const {
  FailAt(op, DiagKind::ConstraintViolated, message + " (" + std::string(label) + ")");
}

const Type& RowsTypeOf(const Module& module, const Func& func, const Op& op) {
  return TypeOf(module, func, op.operands[static_cast<size_t>(DefOf(op.kind).rows)]);
}

std::vector<bool> LastRowOps(const Func& func) {
  std::vector<bool> for_last(func.ops.size(), false);
  std::vector<bool> other_use(func.values.size(), false);
  for (size_t i = func.ops.size(); i-- > 0;) {
    const Op& op = func.ops[i];
    for_last[i] = DefOf(op.kind).row_wise && std::none_of(op.results.begin(), op.results.end(), [&](ValueId result) {
                    return other_use[static_cast<size_t>(result)];
                  });
    if (for_last[i]) continue;
    for (const Operand& operand : op.operands) {
      if (!operand.is_global) other_use[static_cast<size_t>(operand.index)] = true;
    }
  }
  return for_last;
}

int64_t TableRows(const Module& module, const Func& func, EntryInput input) {
  const Value* value = FindInput(func, input);
  int64_t rows = 0;
  for (const Op& op : func.ops) {
    const OpDef& def = DefOf(op.kind);
    if (def.ids < 0 || value == nullptr) continue;
    const Operand& ids = op.operands[static_cast<size_t>(def.ids)];
    if (ids.is_global || &func.values[static_cast<size_t>(ids.index)] != value) continue;
    const int64_t n = TypeOf(module, func, op.operands[static_cast<size_t>(def.table)]).dims[0].value;
    rows = rows == 0 ? n : std::min(rows, n);
  }
  return rows;
}

int64_t VocabularyOf(const Module& module, const Func& func) {
  if (func.output == EntryOutput::Logits && !func.returns.empty())
    return TypeOf(module, func, func.returns[0]).dims.back().value;
  return TableRows(module, func, EntryInput::Tokens);
}

std::vector<Type> Infer(const Module& module, const Func& func, const Op& op) {
  const OpDef& def = DefOf(op.kind);
  CheckForm(op, def);
  InferContext context{module, func, op, {}};
  for (const Operand& operand : op.operands) context.operand_types.push_back(TypeOf(module, func, operand));
  return def.infer(context);
}

AttrValue AttrOf(const Op& op, std::string_view name) {
  if (const AttrValue* value = op.attrs.Find(name)) return *value;
  const AttrDef* def = FindAttr(DefOf(op.kind).attrs, name);
  LLMC_CHECK(def != nullptr && def->otherwise.has_value(), "no default for attribute " + std::string(name));
  return *def->otherwise;
}

std::vector<ValueId> Append(const Module& module, Func& func, OpKind kind, std::vector<Operand> operands, Attrs attrs,
                            std::vector<Name> names) {
  Op op{kind, std::move(operands), std::move(attrs), {}, std::nullopt};
  std::vector<Type> types = Infer(module, func, op);
  LLMC_CHECK(names.size() == types.size(), std::string(OpText(kind)) + ": one name per result");
  for (size_t i = 0; i < types.size(); ++i) {
    op.results.push_back(AddValue(func, std::move(names[i]), std::move(types[i])));
  }
  std::vector<ValueId> results = op.results;
  func.ops.push_back(std::move(op));
  return results;
}

}  // namespace llmc
