// JSON schemas (draft 2020-12) as grammars of the JSON texts that they allow, written as Python's json.dumps writes them:
// ", " and ": " as separators, no other white space.
#pragma once
#include <string_view>

#include "runtime/grammar.h"

namespace llmc {

// text: the schema. where: names it in messages.
// Understood: true and false; type (one or a list), enum, const; properties (in the schema's order), required,
// additionalProperties; prefixItems, items, minItems, maxItems; minLength, maxLength (code points); anyOf; $ref within the
// schema; $defs, definitions. Annotations (title, description, default, ..) say nothing. Any other keyword, and one beside
// enum, const, anyOf or $ref that would narrow it, is refused: a text that a schema doesn't allow never comes.
// Narrower than the schema: strings have no lone halves of surrogate pairs; required names that no property describes
// come behind the properties, by name; keys beyond the named properties come last, and
// are written without escapes if there are named ones. Wider: such keys may come twice.
// Throws PlanError "where: pointer: ..".
Grammar GrammarOfJsonSchema(std::string_view text, std::string_view where);

}  // namespace llmc
