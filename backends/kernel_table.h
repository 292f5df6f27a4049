// The kernels as the compiler sees them: kernels.def's rows, and which one computes given ops. plan-schedule fuses what
// a row computes and lowering calls it, so the two can't differ.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/op.h"

namespace llmc {

// A row of kernels.def.
struct KernelRow {
  // Ops in a row; goes_on: and what follows of thens.def.
  struct List {
    std::vector<OpKind> ops;
    bool goes_on = false;
  };
  std::string_view name;
  std::vector<List> lists;  // what it computes: any of them
  std::vector<std::string_view> words, constants;
  std::vector<Over> divisions;  // besides all and one
  std::vector<std::string_view> open;
  bool HasConstant(std::string_view constant) const;
  bool HasOp(OpKind kind) const;  // in one of its lists
};
const std::vector<KernelRow>& KernelRows();

// Ops in a row that are to be one function, each reading its predecessor's results; views between them aren't listed.
class KernelOps {
 public:
  KernelOps(const Module& module, const Func& func, std::vector<const Op*> ops);
  const Module& module() const { return module_; }
  const Func& func() const { return func_; }
  const std::vector<const Op*>& ops() const { return ops_; }
  const Op& first() const { return *ops_.front(); }
  const Op& last() const { return *ops_.back(); }

  // Whether an operand is what one of the ops makes (through views).
  bool IsInner(Operand operand) const;
  // By its name in the ops' records, of the first op that has it from outside; "x": else the first op's first. Null:
  // none has it.
  const Operand* FindOperand(std::string_view name) const;
  const Type& TypeOf(Operand operand) const { return llmc::TypeOf(module_, func_, operand); }
  const Type& Result(const Op& op, size_t i) const { return func_.values[static_cast<size_t>(op.results[i])].type; }
  const Type& Out() const { return Result(last(), last().results.size() - 1); }  // the last result

 private:
  const Module& module_;
  const Func& func_;
  std::vector<const Op*> ops_;
  std::vector<ValueId> inner_;
};

// The kernel that computes the ops, or why none does.
struct KernelChoice {
  const KernelRow* row = nullptr;
  size_t head = 0;  // ops of the row's list; those behind it are steps of thens.def
  std::string why;
};
KernelChoice ChooseKernel(const KernelOps& ops);
// Why a product of oneDNN can't compute the ops, of which the first is a product with a weight; "": it can.
std::string ProductObstacle(const KernelOps& ops);

// Whether ops exist as one function (KernelTable, passes/pass.h): on llvm, and where products are oneDNN's.
bool LlvmComputes(const Module& module, const Func& func, const std::vector<const Op*>& ops);
bool OnednnComputes(const Module& module, const Func& func, const std::vector<const Op*>& ops);

// What a word, or the NAME of a constant NAME_space, _type or _layout, stands for: an operand, or a result as a value
// of the function. nullopt: the ops have none such.
std::optional<Operand> PlaceFor(const KernelChoice& choice, const KernelOps& ops, std::string_view name);
// The value of a constant that is a shape or comes from types, attributes or steps; fails for a name that says nothing
// here. Places and division (NAME_space, over, grain) are lowering's.
int64_t ConstantFor(const KernelChoice& choice, const KernelOps& ops, std::string_view name);

}  // namespace llmc
