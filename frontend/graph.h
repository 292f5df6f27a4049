// What parts of a block build their ops with: a function that grows, the module's globals, weights by name.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "frontend/bind_weights.h"
#include "frontend/build_module.h"
#include "frontend/description.h"
#include "ir/module.h"

namespace llmc {

class Graph {
 public:
  // The module with its options and weights, and a function without ops. The arguments outlive this.
  Graph(const Description& d, const BoundWeights& weights, const BuildOptions& options);

  Func& func() { return module_.funcs[0]; }
  Operand tokens() { return Operand::Local(func().params[0]); }
  Operand pos() { return Operand::Local(func().params[1]); }
  Operand types() { return Operand::Local(func().params[2]); }  // of a model that has them
  int64_t context() const { return options_.context; }
  const ModelSpec& model() const { return d_.model; }

  // The global that the graph reads for a weight: as stored, in f32 for vectors, quantised on request. layer -1: the
  // model's own.
  Operand Weight(int layer, const std::string& base) const;
  bool HasWeight(int layer, const std::string& base) const { return by_name_.contains(Name(layer, base)); }

  // Whether that global is of blocks.
  bool IsBlocks(int layer, const std::string& base) const;
  // It as `times` matrices below one another, each transposed.
  Operand Turned(int layer, const std::string& base, int64_t times);
  // Throws InputError Unsupported, naming the weight of blocks, when attention must not be absorbed (BuildOptions).
  void RefuseUnlessAbsorbed(int layer, const std::string& base) const;

  // What layer `layer` has called `base`: a value that has been built.
  Operand MadeIn(int layer, const std::string& base) const;
  // The layer whose cache this one reads.
  int CacheLayer(int layer) const { return static_cast<int>(CacheLayerOf(d_, layer)); }
  // Rows of a weight that all layers share, of which this layer has `count`, and again `every` rows further.
  Operand LayerRows(int layer, const std::string& base, const RowCut& cut);

  // An op with one result.
  Operand One(OpKind kind, std::vector<Operand> operands, Attrs attrs, Name name);
  // An op with several.
  std::vector<Operand> Several(OpKind kind, std::vector<Operand> operands, Attrs attrs, std::vector<Name> names);
  // The norm of x with the weights called `gain` and `gain`_b, where they are there.
  Operand Norm(int layer, Operand x, const std::string& gain, const NormSpec& spec, Name name);
  Operand Scale(Operand x, double factor, Name name);
  // y = x w^T, plus the bias where the weights have one.
  Operand Linear(int layer, Operand x, const std::string& w, const std::string& bias, const std::string& result);
  Operand Reshape(Operand x, std::vector<Dim> to, Name name);
  Operand Act(Operand x, std::string_view kind, Name name);
  // Sums of each channel's last rows by the weight `taps`, plus the bias where the weights have one; `state` keeps the
  // rows of earlier calls.
  Operand Conv1d(int layer, Operand x, const std::string& taps, const std::string& bias, const std::string& state,
                 const std::string& result);
  // -e^w of a weight, called `result`; a vector's elements, each `times` times in a row.
  Operand NegExp(int layer, const std::string& weight, const std::string& result);
  Operand Repeated(int layer, const std::string& weight, int64_t times);
  // The tensor of recipe `recipe`; another name if that one is taken.
  int AddConst(Name name, Type type, Recipe recipe);
  // A cache of `slots` = context rows of n_heads vectors of d elements. window 0: none.
  Operand KvState(int layer, const std::string& base, int64_t n_heads, int64_t d, int64_t window);
  // A state that holds the past, of f32.
  Operand PastState(int layer, const std::string& base, StateKind kind, std::vector<Dim> dims);

  Module Finish(Operand output);

 private:
  void SetOptions();
  int AddGlobal(Global g);
  Operand AddState(Global g);
  void AddWeight(const WeightUse& use, DType dtype, const std::vector<LoraUse>& lora);
  int Adapted(const WeightUse& use, int from, const std::vector<LoraUse>& lora);
  int Derived(const WeightUse& use, int from, DType dtype, Recipe recipe);
  int CutRows(const WeightUse& use);
  int Transposed(const WeightUse& use, int from);
  int Quantized(const WeightUse& use, int from);
  void RemarkStandIns();

  const Description& d_;
  const BoundWeights& weights_;
  const BuildOptions& options_;
  Module module_;
  std::map<Name, int> by_name_;  // the global that the graph reads for a weight
  // Matrices whose rows the wanted type's blocks don't divide: (elements of a row, wanted, taken) -> how many.
  std::map<std::tuple<int64_t, DType, DType>, int> stand_ins_;
  bool has_blocks_ = false;
};

}  // namespace llmc
