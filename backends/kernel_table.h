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
  std::string_view name;
  std::vector<std::vector<OpKind>> ops;  // what it computes: any of these lists
  std::vector<std::string_view> words, constants;
  std::vector<Over> divisions;  // besides all and one
  bool HasConstant(std::string_view constant) const;
};
const std::vector<KernelRow>& KernelRows();

// Ops in a row that are to be one function, each reading its predecessor's results; views between them aren't listed.
class KernelOps {
 public:
  KernelOps(const Module& module, const Func& func, std::vector<const Op*> ops)
      : module_(module), func_(func), ops_(std::move(ops)) {}
  const Module& module() const { return module_; }
  const Func& func() const { return func_; }
  const std::vector<const Op*>& ops() const { return ops_; }
  const Op& first() const { return *ops_.front(); }
  const Op& last() const { return *ops_.back(); }

  // By the names of the ops' records, the first op that has such a name.
  const Operand* FindOperand(std::string_view name) const;
  std::optional<AttrValue> FindAttr(std::string_view name) const;  // or its default
  const Type& TypeOf(Operand operand) const { return llmc::TypeOf(module_, func_, operand); }
  const Type& Result(const Op& op, size_t i) const { return func_.values[static_cast<size_t>(op.results[i])].type; }
  const Type& Out() const { return Result(last(), last().results.size() - 1); }  // the last result

 private:
  const Module& module_;
  const Func& func_;
  std::vector<const Op*> ops_;
};

// The kernel that computes the ops, or why none does.
struct KernelChoice {
  const KernelRow* row = nullptr;
  std::string why;
};
KernelChoice ChooseKernel(const KernelOps& ops);
// Why a product of oneDNN can't compute the ops, of which the first is a product with a weight; "": it can.
std::string ProductObstacle(const KernelOps& ops);

// Whether ops exist as one function (KernelTable, passes/pass.h): on llvm, and where products are oneDNN's.
bool LlvmComputes(const Module& module, const Func& func, const std::vector<const Op*>& ops);
bool OnednnComputes(const Module& module, const Func& func, const std::vector<const Op*>& ops);

// The value of a constant that is a shape or comes from types or attributes; fails for a name that says nothing here.
// Places and division (*_space, over, grain) are lowering's.
int64_t ConstantOf(const KernelRow& row, const KernelOps& ops, std::string_view name);

}  // namespace llmc
