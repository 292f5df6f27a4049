// The recipe record: one per line of ir/recipes.def (ir/README.md, Recipes). Parser, printer and verifier are generic
// over these records.
#pragma once
#include <cstddef>
#include <vector>

#include "ir/op.h"

namespace llmc {

struct RecipeDef {
  size_t min_inputs = 1;
  size_t max_inputs = 1;
  std::vector<AttrDef> attrs;
};
const RecipeDef& DefOf(RecipeKind kind);

// The attribute, or its record's default.
AttrValue AttrOf(const Recipe& recipe, std::string_view name);

// Checks the recipe of global `index`: input counts and kinds, attributes, and that the const's type follows from its
// inputs' (R1..R11 of ir/README.md). Throws InputError.
void CheckRecipe(const Module& module, size_t index);

}  // namespace llmc
