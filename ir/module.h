// The IR in memory: a module holds options, dims, globals (weights, consts, states) and functions; a function is a list
// of ops on values (flat SSA). Everything here is what ir/text.h prints; nothing else exists. Plain data: passes edit
// it, ir/verify.h checks it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/contracts.h"
#include "ir/op_kind.h"
#include "ir/type.h"

namespace llmc {

// Text: true | 12 | 1e-05 | identifier | [S, 32, 64] or [a, b]. A float always prints with '.', 'e', "inf" or "nan" in
// it, an int never.
using AttrValue = std::variant<bool, int64_t, float, std::string, std::vector<Dim>>;

// Attributes in the order in which they print. Few per op, so a vector.
class Attrs {
 public:
  const AttrValue* Find(std::string_view name) const;
  void Set(std::string_view name, AttrValue value);  // replaces in place, or appends
  void Erase(std::string_view name);
  // The verifier has checked presence and type against the op's record, so a miss is an internal error.
  int64_t Int(std::string_view name) const;
  float F32(std::string_view name) const;
  bool Bool(std::string_view name) const;
  const std::string& Ident(std::string_view name) const;
  const std::vector<Dim>& List(std::string_view name) const;
  int64_t IntOr(std::string_view name, int64_t otherwise) const;
  const std::vector<std::pair<std::string, AttrValue>>& all() const { return list_; }
  bool operator==(const Attrs&) const = default;

 private:
  std::vector<std::pair<std::string, AttrValue>> list_;
};

struct DimRange {
  std::string symbol;
  int64_t min = 1;
  int64_t max = 1;
  bool operator==(const DimRange&) const = default;
};

enum class RecipeKind : uint8_t {
#define RECIPE(name, text) name,
#include "ir/recipes.def"
#undef RECIPE
};
std::string_view RecipeText(RecipeKind kind);
std::optional<RecipeKind> RecipeFromText(std::string_view text);

// How a const is made (ir/recipes.def): never nested; inputs are globals of kind Weight or Const.
struct Recipe {
  RecipeKind kind{};
  std::vector<int> inputs;  // indices into Module::globals
  Attrs attrs;
  bool operator==(const Recipe&) const = default;
};

enum class GlobalKind : uint8_t { Weight, Const, State };

// A module-level tensor, printed with `$`.
//   weight  read from the model's files, in its stored type
//   const   computed at compile time
//   state   lives across calls (KV cache); attrs e.g. {kind = kv, window = none}
struct Global {
  GlobalKind kind{};
  Name name;
  Type type;
  Recipe recipe;                  // Const
  Attrs attrs;                    // State
  std::optional<int64_t> offset;  // bytes in the plan's weight section (weights and consts that are used) or in the
                                  // state region; set by plan-memory
  int line = 0;                   // in the text it was parsed from; 0: none
};

// Who computes which part of an op (DESIGN section 6, plan-schedule).
//   all    every thread computes all of it (into its private copy)
//   one    thread 0 alone
//   tiles  the result's columns (innermost dim) in units of 16 * grain
//   heads  heads in units of `grain`
//   keys   (kv head, group of 64 keys) pairs
//   rows   rows (S), in units of `grain`; thread t takes a contiguous range, as with tiles and heads
//   queries  (kv head, block of `grain` rows) pairs, dealt out one by one (causal attention costs more for later rows)
enum class Over : uint8_t { All, One, Tiles, Heads, Keys, Rows, Queries };
std::string_view OverText(Over over);
std::optional<Over> OverFromText(std::string_view text);

// Memory that a thread needs while it computes its part of an op: bytes, and their place in its private arena (set by
// plan-memory; -1: not planned yet). Nothing is kept in it from op to op.
struct Scratch {
  int64_t bytes = 0;
  int64_t offset = -1;
  bool operator==(const Scratch&) const = default;
};

// Attributes fn, step, over, grain, scratch_bytes, scratch of any op, set by plan-schedule. fn: ops with one number are
// one kernel function; step: interval between barriers.
struct Schedule {
  int fn = 0;
  int step = 0;
  Over over = Over::All;
  int64_t grain = 1;
  std::optional<Scratch> scratch;
  bool operator==(const Schedule&) const = default;
};

// Where a value lives, set by plan-schedule (space) and plan-memory (offset). Printed after its type: "shared",
// "private+128", "none".
enum class Space : uint8_t { None, Shared, Private };
struct Placement {
  Space space = Space::None;
  int64_t offset = -1;  // bytes; -1: not planned yet
  bool operator==(const Placement&) const = default;
};

using ValueId = int32_t;
struct Value {
  Name name;
  Type type;
  std::optional<Placement> at;
};

// `%v` (a value of the function) or `$g` (a global of the module).
struct Operand {
  bool is_global = false;
  int32_t index = -1;  // ValueId, or index into Module::globals
  static Operand Local(ValueId v) { return {false, v}; }
  static Operand OfGlobal(int g) { return {true, g}; }
  bool operator==(const Operand&) const = default;
  auto operator<=>(const Operand&) const = default;
};

struct Op {
  OpKind kind{};
  std::vector<Operand> operands;
  Attrs attrs;
  std::vector<ValueId> results;
  std::optional<Schedule> schedule;
  int line = 0;  // in the text it was parsed from; 0: none
};

// func @decode(%tokens: i32[S], %pos: i32, %total: i32) where S = 1..1 { ... }
// What it takes, what it gives and how it may be called is ir/entries.def's: parameters by their names, e.g. tokens
// i32[S], pos i32[] or i32[S], total i32[]. Returns f32[rows, N], rows being S or 1, N the vocabulary for logits.
struct Func {
  std::string name;
  std::vector<ValueId> params;
  EntryOutput output = EntryOutput::Logits;
  EntryKind kind = EntryKind::Chunkable;
  std::vector<DimRange> dims;  // narrower ranges of the module's symbols
  std::vector<Value> values;   // params first, then results in the order of their ops
  std::vector<Op> ops;
  std::vector<Operand> returns;
};

struct Module {
  std::string name;
  Attrs options;  // after, numerics, context, kv_type, activations, chunk, ...: all that changes bytes (ir/README.md)
  std::vector<DimRange> dims;
  std::vector<Global> globals;
  std::vector<Func> funcs;

  int FindGlobal(const Name& global_name) const;  // -1: none; linear
  Func* FindFunc(std::string_view func_name);
  const Func* FindFunc(std::string_view func_name) const;
};

// The parameter that is an input of ir/entries.def; nullptr: the function doesn't take it.
const Value* FindInput(const Func& func, EntryInput input);
// Whether a function is called like a decoder's: tokens of one sequence behind one another, pos (of the first, also where
// each row could have its own), total; logits; in parts.
// Evaluations and plans of today run these alone.
bool IsDecoderCall(const Func& func);
// The kind of a state that the verifier has passed.
const StateKindInfo& KindOf(const Global& state);
// Whether the module's option `onednn` lists the function (pass select-backend): its matrices are oneDNN's.
bool RunsOnOnednn(const Module& module, const Func& func);
// The range of a dim in a function: its own range, else the module's; a constant is a range of one, an undeclared symbol
// is 1..1.
DimRange RangeOf(const Module& module, const Func& func, const Dim& dim);
// Type of an operand; for a global its own type (a state's Type has `state` set to its index).
const Type& TypeOf(const Module& module, const Func& func, Operand operand);
// Appends a value with a fresh name (suffix raised until it is unique in the function).
ValueId AddValue(Func& func, Name name, Type type);
// A global name that is free: `name`, or with its suffix raised.
Name FreshGlobalName(const Module& module, Name name);
// uses[v] = number of reads of value v by operands and returns.
std::vector<int> CountUses(const Func& func);
void ReplaceUses(Func& func, ValueId from, Operand to);
// Index of the op that defines each value; -1 for parameters.
std::vector<int> DefiningOps(const Func& func);
// Drops values that no op defines, params excepted, and renumbers; call after erasing ops. Order of values becomes
// definition order.
void CompactValues(Func& func);
// Drops globals that nothing uses (weights too) and renumbers.
void CompactGlobals(Module& module);

}  // namespace llmc
