// Grammars in GBNF, llama.cpp's notation (grammars/README.md there): rules `name ::= ..` of texts, classes of characters,
// `.`, groups, `|`, `* + ? {m} {m,} {m,n}`, comments. `root` is what the whole text is.
#pragma once
#include <string_view>

#include "runtime/grammar.h"

namespace llmc {

// where: names the source in messages. Throws PlanError "where:line:column: ..": wrong syntax, a rule that isn't defined
// or is twice, no root, left recursion, a terminal that is a token (`<..>`), a repetition over 65,536, groups nested over
// 200 levels deep, a grammar over a limit of GrammarBuilder.
Grammar ParseGbnf(std::string_view text, std::string_view where);

}  // namespace llmc
