// JSON's own rules as parts of a grammar.
#pragma once
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/grammar.h"

namespace llmc {

class JsonRules {
 public:
  using Part = GrammarBuilder::Part;
  explicit JsonRules(GrammarBuilder& builder) : b_(builder) {}

  // A value of a type of JSON Schema: "null", "boolean", "integer", "number", "string", "array", "object".
  Part Type(std::string_view type);
  Part Any();  // any value
  // A string of least to most code points.
  Part String(uint32_t least, std::optional<uint32_t> most);
  // A key that is none of `names` (UTF-8), without escapes; with no names any string.
  Part KeyBut(std::span<const std::string> names);
  Part Sequence(std::initializer_list<Part> parts);
  Part Text(std::string_view text) { return b_.Literal(text); }

 private:
  uint32_t Shared(const std::string& name, Part (JsonRules::*make)());  // one rule for all uses
  Part Character();                                                     // of a string
  Part Integer();
  Part Number();
  Part AnyString() { return String(0, std::nullopt); }
  Part Array();
  Part Object();
  Part TemplateValue();
  // Names as a tree of code points.
  struct NameNode {
    std::map<uint32_t, NameNode> children;
    bool ends = false;
  };
  Part KeyRest(const NameNode& node);

  GrammarBuilder& b_;
  std::map<std::string, uint32_t> shared_;
};

}  // namespace llmc
