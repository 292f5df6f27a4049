// Helpers that several passes share: consts made by recipes, and questions about a function.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"
#include "ir/module.h"

namespace llmc {

// Adds `const $name : type = recipe(inputs) {attrs}` and returns its index. The name is made unique.
int AddConst(Module& module, Name name, Type type, RecipeKind recipe, std::vector<int> inputs, Attrs attrs = {});

// `pack` of matrices in rows layout [n_i, K] of one dtype, as one const in tiles16; interleave: two equal parts, tiles
// alternating.
int PackConst(Module& module, Name name, const std::vector<int>& parts, bool interleave);
// `pack` of vectors f32[n_i]: their concatenation.
int ConcatConst(Module& module, Name name, const std::vector<int>& parts);

// Result types again from operands and attributes, after an operand's type has changed.
void ReinferResults(const Module& module, Func& func, const Op& op);

// Drops ops whose results nobody reads, also those that change a state: for a form that another has replaced.
void DropUnread(Func& func);

// The largest number of rows that `op` works on: the range of its first result's first dim (for an append, of what is
// appended).
int64_t MaxRows(const Module& module, const Func& func, const Op& op);

// Options of the module that a pass cannot do without. InputError BadAttribute when one is absent or of another type.
int64_t IntOption(const Module& module, std::string_view name);
const std::string& IdentOption(const Module& module, std::string_view name);

inline Global& GlobalAt(Module& module, int index) { return module.globals[static_cast<size_t>(index)]; }
inline const Global& GlobalAt(const Module& module, int index) { return module.globals[static_cast<size_t>(index)]; }
inline Value& ValueAt(Func& func, ValueId id) { return func.values[static_cast<size_t>(id)]; }
inline const Value& ValueAt(const Func& func, ValueId id) { return func.values[static_cast<size_t>(id)]; }

}  // namespace llmc
