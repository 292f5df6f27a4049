// The syntax tree of a chat template, node for node jinja2's (nodes.py), so that rules about names carry over.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan_template.h"

namespace llmc {

enum class TemplateNodeKind : uint8_t {
  // Statements.
  Output,       // items: texts and expressions
  If,           // a: test; body; elifs: items (If); other: else
  For,          // a: target; b: iterable; c: test or null; body; other: else; flag: recursive
  Macro,        // name; items: parameters (Name); defaults; body
  CallBlock,    // a: Call; items, defaults: parameters; body
  Generation,   // {% generation %}: a call block whose call is transformers' tracker; body
  FilterBlock,  // body; a: Filter without a subject
  With,         // items: targets; defaults: values; body
  Assign,       // a: target; b: value
  AssignBlock,  // a: target; b: Filter without a subject, or null; body
  Break,
  Continue,
  // Expressions.
  Name,       // name; ctx
  NsRef,      // name . attribute in `text`
  Const,      // constant
  Data,       // text of the template, in `text`
  Tuple,      // items
  List,       // items
  Dict,       // items: key, value, key, value, ..
  Cond,       // a: test; b: if true; c: else or null
  Filter,     // name; a: subject or null; items, keywords, b: *args, c: **kwargs
  Test,       // the same
  Call,       // a: function; items, keywords, b, c
  Item,       // a: object; b: key
  Attribute,  // a: object; name
  Slice,      // a: start; b: stop; c: step; each may be null
  Concat,     // items
  Compare,    // a: first; items: the others; compares
  Binary,     // binary; a, b
  And,
  Or,
  Not,
  Negative,
  Positive,
};

struct TemplateNode;
using TemplateNodePtr = std::unique_ptr<TemplateNode>;
using TemplateNodes = std::vector<TemplateNodePtr>;

struct TemplateNode {
  enum class Context : uint8_t { Load, Store, Parameter };

  TemplateNodeKind kind{};
  uint32_t line = 0;
  uint32_t depth = 1;  // levels of nodes
  std::string name, text;
  Context context = Context::Load;
  bool flag = false;
  TemplateConst constant;
  TemplateBinary binary{};
  std::vector<TemplateCompare> compares;
  TemplateNodePtr a, b, c;
  TemplateNodes items, defaults, body, other;
  std::vector<std::pair<std::string, TemplateNodePtr>> keywords;

  bool Is(TemplateNodeKind k) const { return kind == k; }
};

// Calls each(child) for the direct children in jinja2's order of fields.
template <typename Each>
void ForChildren(const TemplateNode& node, const Each& each) {
  using K = TemplateNodeKind;
  const auto one = [&](const TemplateNodePtr& child) {
    if (child) each(*child);
  };
  const auto all = [&](const TemplateNodes& children) {
    for (const TemplateNodePtr& child : children) each(*child);
  };
  switch (node.kind) {
    case K::If:
      one(node.a);
      all(node.body);
      all(node.items);
      all(node.other);
      break;
    case K::For:
      one(node.a);
      one(node.b);
      all(node.body);
      all(node.other);
      one(node.c);
      break;
    case K::FilterBlock:
      all(node.body);
      one(node.a);
      break;
    case K::Macro:
    case K::CallBlock:
    case K::Generation:
    case K::With:
      one(node.a);
      all(node.items);
      all(node.defaults);
      all(node.body);
      break;
    case K::Filter:
    case K::Test:
    case K::Call:
      one(node.a);
      all(node.items);
      for (const auto& [name, value] : node.keywords) each(*value);
      one(node.b);
      one(node.c);
      break;
    default:
      one(node.a);
      one(node.b);
      one(node.c);
      all(node.items);
      all(node.body);
      break;
  }
}

}  // namespace llmc
