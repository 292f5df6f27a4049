// Recursive descent over the tokens, method for method jinja2's parser.py.
#include "frontend/template_expressions.h"

#include <cstdlib>

#include <fmt/format.h>

namespace llmc {

std::string ShownToken(const TemplateToken& token) {
  using T = TemplateTokenKind;
  switch (token.kind) {
    case T::Data: return "template data / text";
    case T::BlockBegin: return "begin of statement block";
    case T::BlockEnd: return "end of statement block";
    case T::VariableBegin: return "begin of print statement";
    case T::VariableEnd: return "end of print statement";
    case T::String: return "string";
    case T::Integer: return "integer";
    case T::Float: return "float";
    case T::End: return "end of template";
    default: return token.text;
  }
}

void TemplateExpressions::SetContext(TemplateNode& node, TemplateNode::Context context) {
  node.context = context;
  for (const TemplateNodePtr& item : node.items) SetContext(*item, context);
}

void TemplateExpressions::CheckTarget(const TemplateNode& node) const {
  const bool constant = node.Is(K::Const);
  if (node.Is(K::Tuple)) {
    for (const TemplateNodePtr& item : node.items) CheckTarget(*item);
  } else if (!node.Is(K::Name) && !node.Is(K::NsRef)) {
    Error(constant ? "can't assign to a constant" : "can't assign to this expression", node.line);
  }
}

TemplateNodePtr TemplateExpressions::NameTarget() {
  const uint32_t line = Now().line;
  TemplateNodePtr node = Make(K::Name, line);
  node->name = ExpectName();
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (node->name == constant) Error(fmt::format("can't assign to '{}'", constant), line);
  }
  node->context = TemplateNode::Context::Store;
  return node;
}

TemplateNodePtr TemplateExpressions::Target(bool before_in, bool with_namespace) {
  TemplateNodePtr node = TupleOf(true, true, with_namespace, before_in ? "in" : "");
  SetContext(*node, TemplateNode::Context::Store);
  CheckTarget(*node);
  return node;
}

TemplateNodePtr TemplateExpressions::TupleOf(bool conditional, bool simple, bool with_namespace, std::string_view end,
                                             bool parentheses) {
  const Deeper deeper(*this);
  uint32_t line = Now().line;
  TemplateNodes items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) ExpectOp(",");
    if (Now().kind == T::VariableEnd || Now().kind == T::BlockEnd || Op(")") || (!end.empty() && Word(end))) break;
    items.push_back(simple ? Primary(with_namespace) : Expression(conditional));
    if (!Op(",")) break;
    is_tuple = true;
    line = Now().line;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!parentheses) Error(fmt::format("Expected an expression, got '{}'", ShownToken(Now())));
  }
  TemplateNodePtr node = Make(K::Tuple, line);
  node->items = std::move(items);
  return Done(std::move(node));
}

TemplateNodePtr TemplateExpressions::Conditional() {
  const Deeper deeper(*this);
  uint32_t line = Now().line;
  TemplateNodePtr value = OrOf();
  while (SkipWord("if")) {
    TemplateNodePtr node = Make(K::Cond, line);
    node->a = OrOf();
    node->b = std::move(value);
    if (SkipWord("else")) node->c = Conditional();
    value = Done(std::move(node));
    line = Now().line;
  }
  return value;
}

TemplateNodePtr TemplateExpressions::OrOf() {
  TemplateNodePtr left = AndOf();
  for (uint32_t line = left->line; SkipWord("or"); line = Now().line)
    left = Pair(K::Or, std::move(left), AndOf(), line);
  return left;
}

TemplateNodePtr TemplateExpressions::AndOf() {
  TemplateNodePtr left = NotOf();
  for (uint32_t line = left->line; SkipWord("and"); line = Now().line)
    left = Pair(K::And, std::move(left), NotOf(), line);
  return left;
}

TemplateNodePtr TemplateExpressions::NotOf() {
  const Deeper deeper(*this);
  if (!Word("not")) return CompareOf();
  const uint32_t line = Take().line;
  return Pair(K::Not, NotOf(), nullptr, line);
}

std::optional<TemplateCompare> TemplateExpressions::CompareOp() {
  constexpr std::pair<std::string_view, TemplateCompare> kCompares[] = {
      {"==", TemplateCompare::Eq}, {"!=", TemplateCompare::Ne}, {"<", TemplateCompare::Lt},
      {"<=", TemplateCompare::Le}, {">", TemplateCompare::Gt},  {">=", TemplateCompare::Ge}};
  for (const auto& [text, compare] : kCompares) {
    if (SkipOp(text)) return compare;
  }
  if (SkipWord("in")) return TemplateCompare::In;
  if (!Word("not") || !Ahead().Is(T::Name, "in")) return std::nullopt;
  Take();
  Take();
  return TemplateCompare::NotIn;
}

TemplateNodePtr TemplateExpressions::CompareOf() {
  const uint32_t line = Now().line;
  TemplateNodePtr first = Sum();
  std::optional<TemplateCompare> op = CompareOp();
  if (!op) return first;
  TemplateNodePtr node = Make(K::Compare, line);
  node->a = std::move(first);
  for (; op; op = CompareOp()) {
    node->compares.push_back(*op);
    node->items.push_back(Sum());
  }
  return Done(std::move(node));
}

TemplateNodePtr TemplateExpressions::Sum() {
  TemplateNodePtr left = Concat();
  while (Op("+") || Op("-")) {
    const TemplateToken& op = Take();
    left = Binary(op.text == "+" ? TemplateBinary::Add : TemplateBinary::Sub, std::move(left), Concat(), op.line);
  }
  return left;
}

TemplateNodePtr TemplateExpressions::Concat() {
  TemplateNodePtr first = Product();
  if (!Op("~")) return first;
  TemplateNodePtr node = Make(K::Concat, first->line);
  node->items.push_back(std::move(first));
  while (SkipOp("~")) node->items.push_back(Product());
  return Done(std::move(node));
}

TemplateNodePtr TemplateExpressions::Product() {
  TemplateNodePtr left = Power();
  while (Op("*") || Op("/") || Op("//") || Op("%")) {
    const TemplateToken& op = Take();
    const TemplateBinary binary = op.text == "*"    ? TemplateBinary::Mul
                                  : op.text == "/"  ? TemplateBinary::Div
                                  : op.text == "//" ? TemplateBinary::FloorDiv
                                                    : TemplateBinary::Mod;
    left = Binary(binary, std::move(left), Power(), op.line);
  }
  return left;
}

TemplateNodePtr TemplateExpressions::Power() {
  TemplateNodePtr left = Unary(true);
  while (Op("**")) {
    const uint32_t line = Take().line;
    left = Binary(TemplateBinary::Pow, std::move(left), Unary(true), line);
  }
  return left;
}

TemplateNodePtr TemplateExpressions::Unary(bool with_filter) {
  const Deeper deeper(*this);
  TemplateNodePtr node;
  if (Op("-") || Op("+")) {
    const TemplateToken& op = Take();
    node = Pair(op.text == "-" ? K::Negative : K::Positive, Unary(false), nullptr, op.line);
  } else {
    node = Primary(false);
  }
  node = Postfix(std::move(node));
  return with_filter ? FilterExpression(std::move(node)) : std::move(node);
}

TemplateNodePtr TemplateExpressions::Primary(bool with_namespace) {
  const TemplateToken token = Now();
  TemplateNodePtr node = Make(K::Const, token.line);
  using C = TemplateConst::Kind;
  switch (token.kind) {
    case T::Name:
      Take();
      if (token.text == "true" || token.text == "True") {
        node->constant.kind = C::True;
      } else if (token.text == "false" || token.text == "False") {
        node->constant.kind = C::False;
      } else if (token.text == "none" || token.text == "None") {
        node->constant.kind = C::None;
      } else {
        node->kind = K::Name;
        node->name = token.text;
        if (with_namespace && SkipOp(".")) {
          node->kind = K::NsRef;
          node->text = ExpectName();
        }
      }
      return node;
    case T::String: {
      std::string text;
      while (Now().kind == T::String) text += Take().text;
      return Str(std::move(text), token.line);
    }
    case T::Integer:
    case T::Float:
      Take();
      node->constant.kind = token.kind == T::Integer ? C::Int : C::Float;
      node->constant.text = token.text;
      if (token.kind == T::Float) {
        node->constant.number = std::strtod(token.text.c_str(), nullptr);
        node->constant.text.clear();
      }
      return node;
    default: break;
  }
  if (SkipOp("(")) {
    node = TupleOf(true, false, false, "", true);
    ExpectOp(")");
    return node;
  }
  if (SkipOp("[")) {
    node->kind = K::List;
    while (!Op("]")) {
      if (!node->items.empty()) ExpectOp(",");
      if (Op("]")) break;
      node->items.push_back(Expression(true));
    }
    ExpectOp("]");
    return Done(std::move(node));
  }
  if (SkipOp("{")) {
    node->kind = K::Dict;
    while (!Op("}")) {
      if (!node->items.empty()) ExpectOp(",");
      if (Op("}")) break;
      node->items.push_back(Expression(true));
      ExpectOp(":");
      node->items.push_back(Expression(true));
    }
    ExpectOp("}");
    return Done(std::move(node));
  }
  Error(fmt::format("unexpected '{}'", ShownToken(token)), token.line);
}

TemplateNodePtr TemplateExpressions::Postfix(TemplateNodePtr node) {
  while (true) {
    if (Op(".") || Op("["))
      node = Subscript(std::move(node));
    else if (Op("("))
      node = CallOf(std::move(node));
    else
      return node;
  }
}

TemplateNodePtr TemplateExpressions::Subscript(TemplateNodePtr object) {
  const TemplateToken token = Take();
  if (token.text == ".") {
    const TemplateToken name = Take();
    if (name.kind == T::Name) {
      TemplateNodePtr node = Make(K::Attribute, token.line);
      node->a = std::move(object);
      node->name = name.text;
      return Done(std::move(node));
    }
    if (name.kind != T::Integer) Error("expected name or number", name.line);
    TemplateNodePtr index = Make(K::Const, name.line);
    index->constant.kind = TemplateConst::Kind::Int;
    index->constant.text = name.text;
    return Pair(K::Item, std::move(object), std::move(index), token.line);
  }
  TemplateNodes keys;
  while (!Op("]")) {
    if (!keys.empty()) ExpectOp(",");
    keys.push_back(Key());
  }
  ExpectOp("]");
  if (keys.size() == 1) return Pair(K::Item, std::move(object), std::move(keys[0]), token.line);
  for (const TemplateNodePtr& key : keys) {
    if (key->Is(K::Slice)) FailTemplate(file_, token.line, "a slice among several keys is not supported", true);
  }
  TemplateNodePtr tuple = Make(K::Tuple, token.line);
  tuple->items = std::move(keys);
  return Pair(K::Item, std::move(object), Done(std::move(tuple)), token.line);
}

TemplateNodePtr TemplateExpressions::Key() {
  const uint32_t line = Now().line;
  TemplateNodePtr start;
  if (!Op(":")) {
    start = Expression(true);
    if (!Op(":")) return start;
  }
  Take();
  TemplateNodePtr node = Make(K::Slice, line);
  node->a = std::move(start);
  if (!Op(":") && !Op("]") && !Op(",")) node->b = Expression(true);
  if (SkipOp(":") && !Op("]") && !Op(",")) node->c = Expression(true);
  return Done(std::move(node));
}

void TemplateExpressions::CallArguments(TemplateNode& node) {
  const uint32_t line = Now().line;
  ExpectOp("(");
  const auto ensure = [&](bool holds) {
    if (!holds) Error("invalid syntax for function call expression", line);
  };
  for (bool first = true; !Op(")"); first = false) {
    if (!first) {
      ExpectOp(",");
      if (Op(")")) break;
    }
    if (SkipOp("*")) {
      ensure(!node.b && !node.c);
      node.b = Expression(true);
    } else if (SkipOp("**")) {
      ensure(!node.c);
      node.c = Expression(true);
    } else if (Now().kind == T::Name && Ahead().Is(T::Operator, "=")) {
      ensure(!node.c);
      std::string name = Take().text;
      Take();
      for (const auto& [other, value] : node.keywords) {
        if (other == name) Error(fmt::format("keyword argument repeated: {}", name));
      }
      node.keywords.emplace_back(std::move(name), Expression(true));
    } else {
      ensure(!node.b && !node.c && node.keywords.empty());
      node.items.push_back(Expression(true));
    }
  }
  ExpectOp(")");
  if (node.items.size() > 250 || node.keywords.size() > 250) Error("more than 250 arguments", line);
}

TemplateNodePtr TemplateExpressions::CallOf(TemplateNodePtr function) {
  TemplateNodePtr node = Make(K::Call, Now().line);
  node->a = std::move(function);
  CallArguments(*node);
  return Done(std::move(node));
}

TemplateNodePtr TemplateExpressions::FilterExpression(TemplateNodePtr node) {
  while (true) {
    if (Op("|"))
      node = Filters(std::move(node), false);
    else if (Word("is"))
      node = TestOf(std::move(node));
    else if (Op("("))
      node = CallOf(std::move(node));
    else
      return node;
  }
}

std::string TemplateExpressions::DottedName() {
  std::string name = ExpectName();
  while (SkipOp(".")) name += "." + ExpectName();
  return name;
}

TemplateNodePtr TemplateExpressions::Filters(TemplateNodePtr subject, bool inline_start) {
  while (inline_start || Op("|")) {
    if (!inline_start) Take();
    inline_start = false;
    TemplateNodePtr node = Make(K::Filter, Now().line);
    node->name = DottedName();
    node->a = std::move(subject);
    if (Op("(")) CallArguments(*node);
    subject = Done(std::move(node));
  }
  return subject;
}

TemplateNodePtr TemplateExpressions::TestOf(TemplateNodePtr subject) {
  const uint32_t line = Take().line;
  const bool negated = SkipWord("not");
  TemplateNodePtr node = Make(K::Test, line);
  node->name = DottedName();
  node->a = std::move(subject);
  const bool argument = Now().kind == T::Name || Now().kind == T::String || Now().kind == T::Integer ||
                        Now().kind == T::Float || Op("[") || Op("{");
  if (Op("(")) {
    CallArguments(*node);
  } else if (argument && !Word("else") && !Word("or") && !Word("and")) {
    if (Word("is")) Error("You cannot chain multiple tests with is");
    node->items.push_back(Postfix(Primary(false)));
  }
  node = Done(std::move(node));
  return negated ? Pair(K::Not, std::move(node), nullptr, line) : std::move(node);
}

}  // namespace llmc
