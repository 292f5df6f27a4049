// Text form of the IR: parser and printer. The folded text is canonical: Print(Parse(s)) == s for any s that Print made
// (ir/README.md has the grammar).
#pragma once
#include <string>
#include <string_view>

#include "ir/module.h"

namespace llmc {

struct PrintOptions {
  bool flat = false;  // expand `repeat` blocks
};
std::string Print(const Module& module, const PrintOptions& options = {});
// The line of an op, and what stands behind a const's "=" ("pack $b0.wq, $b0.wk"), as they print.
std::string StatementText(const Module& module, const Func& func, const Op& op);
std::string RecipeText(const Module& module, const Recipe& recipe);

// Parses and resolves; types of results are read, not inferred (Verify compares). Throws InputError with `file` and
// line:column. Hostile text is refused within memory proportional to its length (a text stands for at most 65,536
// statements and 2^20 tokens).
Module Parse(std::string_view text, const std::string& file);

}  // namespace llmc
