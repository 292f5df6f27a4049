// The op record: one per line of ir/ops.def, defined in ir/ops/<family>.cpp. Parser, printer, verifier, interpreter,
// cost report and schedule are generic over these records; a kind without a record does not link.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"
#include "ir/module.h"

namespace llmc {

enum class AttrType : uint8_t { Bool, Int, F32, Ident, List };

struct AttrDef {
  std::string_view name;
  AttrType type{};
  bool required = true;
  std::optional<AttrValue> otherwise;          // value when absent (then `required` is false); equal to it: not printed
  std::vector<std::string_view> choices = {};  // Ident: the values allowed
};

struct OperandDef {
  std::string_view name;
  bool optional = false;        // only trailing operands
  Layout cache = Layout::Rows;  // not rows: a cache, which kernels stream in this layout (plan-kv-cache)
};

const AttrDef* FindAttr(const std::vector<AttrDef>& defs, std::string_view name);  // nullptr: none
bool HasType(const AttrValue& value, AttrType type);
std::string_view AttrTypeText(AttrType type);
struct AttrFault {
  DiagKind kind{};  // UnknownAttribute or BadAttribute
  std::string message;
};
// What is wrong with attributes against their definitions; nullopt: nothing. Serves ops and recipes.
std::optional<AttrFault> FindAttrFault(const std::vector<AttrDef>& defs, const Attrs& attrs);

// One way to divide an op among threads. reads[i] says what a unit reads of operand i: 'o' its own part (operand
// divided the same way), 'w' all of it.
struct Division {
  Over over{};
  std::string_view reads;
};

// Work of one call, for `describe`, `--remarks` and schedules. Multiply-adds, and bytes that must be read once.
struct Cost {
  double weight_macs = 0;     // with weights
  double attention_macs = 0;  // with cached keys and values
  double weight_bytes = 0;
  double state_bytes = 0;
};

struct InferContext {
  const Module& module;
  const Func& func;
  const Op& op;
  std::vector<Type> operand_types;
  // Throws InputError ConstraintViolated "linear: weight dim 1 is 2560, input has 2048 (C2)". `label` is the
  // constraint's label in ir/README.md.
  [[noreturn]] void Fail(std::string_view label, const std::string& message) const;
  const Type& operand(size_t i) const { return operand_types[i]; }
  bool has(size_t i) const { return i < operand_types.size(); }
};

// A tensor in memory: `type` has constant dims only.
struct Tensor {
  Type type;
  std::byte* data = nullptr;
  int64_t rows() const { return type.dims.empty() ? 1 : type.dims[0].value; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

struct EvalContext {
  const Op& op;
  const std::vector<Tensor>& operands;
  const std::vector<Tensor>& results;  // storage is there; a state result shares its operand's storage
  int threads = 1;
  // Bytes from a state to the instance that row s of the call reads and writes; empty: one sequence, all at 0.
  std::span<const int64_t> state_bases = {};
};

struct OpDef {
  std::string_view summary;
  std::vector<OperandDef> operands;
  std::vector<AttrDef> attrs;
  std::vector<std::string_view> results;  // names; a trailing "..." name means one or more (linear's split)

  // Traits: what the verifier, passes and backends ask instead of naming a kind.
  bool is_view = false;        // the result shares its first operand's storage (reshape)
  bool appends_state = false;  // the first operand is a state and the result is its new value
  bool moves_state = false;    // the first operand is a state of the past, which the op reads and replaces, row by row
  bool row_wise = false;       // row s of a result comes from row s of the operands alone
  bool copies = false;         // the result's elements are elements of operand 0
  bool takes_pair = false;   // operands 0 and 1 are equal columns of two products, which one product with `interleave`
                             // may make (fuse-gate-up)
  int weight = -1;           // the operand that is a matrix of weights: the op is a product with it, of operand 0
  bool by_head = false;      // a product of each head with rows of the weight that are its own
  int rows = 0;              // the operand whose dim 0 counts the rows that the op works on
  int table = -1, ids = -1;  // rows of operand `table` are chosen by operand `ids`, which hold 0 .. rows - 1
  std::string_view rounds_to = {};  // the attribute that names the type whose values the result holds
  // How plan-schedule divides it for few rows and for many; heads: of a result [S, H, D], any other is computed by all.
  Over few = Over::All, many = Over::Rows;

  std::vector<Type> (*infer)(const InferContext&) = nullptr;  // constraints C1.. of ir/README.md, then result types
  void (*eval)(const EvalContext&) = nullptr;                 // obvious scalar code; the definition to the bit
  Cost (*cost)(const InferContext&, int64_t rows, int64_t total) = nullptr;  // nullptr: no work worth counting
  std::vector<Division> divisions;

  // The op has an effect beside its results: it stays where it is, and no two are one.
  bool changes_state() const { return appends_state || moves_state; }
};

// The records, one per kind: `const OpDef kEmbedDef = {...};` in ir/ops/.
#define OP(name, text) extern const OpDef k##name##Def;
#include "ir/ops.def"
#undef OP

const OpDef& DefOf(OpKind kind);
std::string_view OpText(OpKind kind);
std::optional<OpKind> OpFromText(std::string_view text);

// A product of each row with all of a weight's rows (linear), not with those that ids choose or that belong to a head.
inline bool IsWholeProduct(const Op& op) {
  return DefOf(op.kind).weight >= 0 && DefOf(op.kind).ids < 0 && !DefOf(op.kind).by_head;
}
// The operand that counts the rows, in this op.
const Type& RowsTypeOf(const Module& module, const Func& func, const Op& op);
// Which ops work for the last row alone when only its result is wanted: the last op, and those row-wise ones that feed
// nothing but such ops.
std::vector<bool> LastRowOps(const Func& func);

// Rows of the smallest table whose rows an input of the function chooses; 0: there is none.
int64_t TableRows(const Module& module, const Func& func, EntryInput input);
// Ids that a function's tokens may have: the columns of its logits, or the rows of the table that they choose; 0: neither.
int64_t VocabularyOf(const Module& module, const Func& func);

// Result types of an op whose operands and attrs are set; throws InputError with the op's line as place.
std::vector<Type> Infer(const Module& module, const Func& func, const Op& op);
// The attribute, or its record's default.
AttrValue AttrOf(const Op& op, std::string_view name);
// Builds an op at the end of func: infers, adds results called `names` (made unique), returns their ids.
std::vector<ValueId> Append(const Module& module, Func& func, OpKind kind, std::vector<Operand> operands, Attrs attrs,
                            std::vector<Name> names);

}  // namespace llmc
