// Recursive descent over the tokens, method for method jinja2's parser.py.
#include "frontend/template_parser.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include <fmt/format.h>

#include "frontend/template_lexer.h"

namespace llmc {
namespace {

using K = TemplateNodeKind;
using T = TemplateTokenKind;
using Ends = std::initializer_list<std::string_view>;

constexpr uint32_t kMostDepth = 200;  // levels of nodes, as CPython's parser has for brackets

std::string Shown(const TemplateToken& token) {
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

class Parser {
 public:
  Parser(std::string_view source, const std::string& file) : file_(file), tokens_(LexTemplate(source, file)) {}

  TemplateNodes Parse() { return Body({}); }

 private:
  // Tokens.
  const TemplateToken& Now() const { return tokens_[at_]; }
  const TemplateToken& Ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const TemplateToken& Take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool Op(std::string_view text) const { return Now().Is(T::Operator, text); }
  bool Word(std::string_view text) const { return Now().Is(T::Name, text); }
  bool SkipOp(std::string_view text) {
    if (!Op(text)) return false;
    Take();
    return true;
  }
  bool SkipWord(std::string_view text) {
    if (!Word(text)) return false;
    Take();
    return true;
  }
  [[noreturn]] void Error(const std::string& message, uint32_t line) const { FailTemplate(file_, line, message); }
  [[noreturn]] void Error(const std::string& message) const { Error(message, Now().line); }
  [[noreturn]] void Wanted(std::string_view what) const {
    if (Now().kind == T::End) Error(fmt::format("unexpected end of template, expected '{}'", what));
    Error(fmt::format("expected token '{}', got '{}'", what, Shown(Now())));
  }
  void ExpectOp(std::string_view text) {
    if (!SkipOp(text)) Wanted(text);
  }
  void ExpectWord(std::string_view text) {
    if (!SkipWord(text)) Wanted(text);
  }
  std::string ExpectName() {
    if (Now().kind != T::Name) Wanted("name");
    return Take().text;
  }

  // Nodes.
  TemplateNodePtr Make(K kind, uint32_t line) const {
    auto node = std::make_unique<TemplateNode>();
    node->kind = kind;
    node->line = line;
    return node;
  }
  // Called when a node has its children: bounds the depth of the tree, which later stages walk recursively.
  TemplateNodePtr Done(TemplateNodePtr node) const {
    ForChildren(*node, [&](const TemplateNode& child) { node->depth = std::max(node->depth, child.depth + 1); });
    if (node->depth > kMostDepth) Error(fmt::format("nested over {} levels deep", kMostDepth), node->line);
    return node;
  }
  TemplateNodePtr Binary(TemplateBinary op, TemplateNodePtr left, TemplateNodePtr right, uint32_t line) const {
    TemplateNodePtr node = Make(K::Binary, line);
    node->binary = op;
    node->a = std::move(left);
    node->b = std::move(right);
    return Done(std::move(node));
  }
  TemplateNodePtr Pair(K kind, TemplateNodePtr a, TemplateNodePtr b, uint32_t line) const {
    TemplateNodePtr node = Make(kind, line);
    node->a = std::move(a);
    node->b = std::move(b);
    return Done(std::move(node));
  }
  TemplateNodePtr Str(std::string text, uint32_t line) const {
    TemplateNodePtr node = Make(K::Const, line);
    node->constant.kind = TemplateConst::Kind::Str;
    node->constant.literal = true;
    node->constant.text = std::move(text);
    return node;
  }
  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMostDepth * 2) parser_.Error("nested too deeply");
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  // Statements.
  bool AtEnd(Ends ends) const {
    return Now().kind == T::Name && std::find(ends.begin(), ends.end(), Now().text) != ends.end();
  }

  // Up to `{% END`, whose name is the current token then.
  TemplateNodes Body(Ends ends) {
    const Deeper deeper(*this);
    TemplateNodes body;
    TemplateNodePtr output;
    const auto flush = [&] {
      if (output) body.push_back(Done(std::move(output)));
      output = nullptr;
    };
    const auto add = [&](TemplateNodePtr node) {
      if (!output) output = Make(K::Output, node->line);
      output->items.push_back(std::move(node));
    };
    while (Now().kind != T::End) {
      if (Now().kind == T::Data) {
        TemplateNodePtr data = Make(K::Data, Now().line);
        data->text = Take().text;
        add(std::move(data));
      } else if (Now().kind == T::VariableBegin) {
        Take();
        add(TupleOf(true, false, false));
        if (Now().kind != T::VariableEnd) Wanted("end of print statement");
        Take();
      } else {
        flush();
        Take();  // BlockBegin
        if (AtEnd(ends)) return body;
        body.push_back(Statement());
        if (Now().kind != T::BlockEnd) Wanted("end of statement block");
        Take();
      }
    }
    flush();
    if (ends.size() != 0) Error(fmt::format("unexpected end of template: looking for '{}'", fmt::join(ends, "' or '")));
    return body;
  }
  // The body behind the rest of a tag. drop: passes over the end's name.
  TemplateNodes Statements(Ends ends, bool drop) {
    SkipOp(":");
    if (Now().kind != T::BlockEnd) Wanted("end of statement block");
    Take();
    TemplateNodes body = Body(ends);
    if (drop) Take();
    return body;
  }

  TemplateNodePtr Statement() {
    const TemplateToken tag = Now();
    if (tag.kind != T::Name) Error("tag name expected");
    if (tag.text == "for") return For();
    if (tag.text == "if") return If();
    if (tag.text == "set") return Set();
    if (tag.text == "macro") return Macro();
    if (tag.text == "with") return With();
    if (tag.text == "call") return CallBlock();
    if (tag.text == "filter") return FilterBlock();
    if (tag.text == "print") return Print();
    for (const std::string_view name : {"block", "extends", "include", "import", "from", "autoescape"}) {
      if (tag.text == name)
        FailTemplate(file_, tag.line, fmt::format("the statement '{}' is not supported", name), true);
    }
    Take();
    if (tag.text == "break" || tag.text == "continue")
      return Make(tag.text == "break" ? K::Break : K::Continue, tag.line);
    if (tag.text == "generation") {
      TemplateNodePtr node = Make(K::Generation, tag.line);
      node->body = Statements({"endgeneration"}, true);
      return Done(std::move(node));
    }
    Error(fmt::format("Encountered unknown tag '{}'.", tag.text), tag.line);
  }

  TemplateNodePtr For() {
    TemplateNodePtr node = Make(K::For, Take().line);
    node->a = Target(true, false);
    ExpectWord("in");
    node->b = TupleOf(false, false, false, "recursive");
    if (SkipWord("if")) node->c = Expression(true);
    node->flag = SkipWord("recursive");
    node->body = Statements({"endfor", "else"}, false);
    if (Take().text != "endfor") node->other = Statements({"endfor"}, true);
    return Done(std::move(node));
  }

  TemplateNodePtr If() {
    TemplateNodePtr result = Make(K::If, Take().line);
    TemplateNode* node = result.get();
    while (true) {
      node->a = TupleOf(false, false, false);
      node->body = Statements({"elif", "else", "endif"}, false);
      const TemplateToken end = Take();
      if (end.text == "elif") {
        result->items.push_back(Make(K::If, Now().line));
        node = result->items.back().get();
        continue;
      }
      if (end.text == "else") result->other = Statements({"endif"}, true);
      break;
    }
    for (TemplateNodePtr& elif : result->items) elif = Done(std::move(elif));
    return Done(std::move(result));
  }

  TemplateNodePtr Set() {
    const uint32_t line = Take().line;
    TemplateNodePtr target = Target(false, true);
    if (SkipOp("=")) return Pair(K::Assign, std::move(target), TupleOf(true, false, false), line);
    TemplateNodePtr node = Make(K::AssignBlock, line);
    node->a = std::move(target);
    if (Op("|")) node->b = Filters(nullptr, false);
    node->body = Statements({"endset"}, true);
    return Done(std::move(node));
  }

  void Signature(TemplateNode& node) {
    ExpectOp("(");
    while (!Op(")")) {
      if (!node.items.empty()) ExpectOp(",");
      TemplateNodePtr parameter = NameTarget();
      parameter->context = TemplateNode::Context::Parameter;
      if (SkipOp("="))
        node.defaults.push_back(Expression(true));
      else if (!node.defaults.empty())
        Error("non-default argument follows default argument");
      for (const TemplateNodePtr& other : node.items) {
        if (other->name == parameter->name) Error(fmt::format("duplicate argument '{}' in a macro", other->name));
      }
      node.items.push_back(std::move(parameter));
    }
    ExpectOp(")");
  }

  TemplateNodePtr Macro() {
    TemplateNodePtr node = Make(K::Macro, Take().line);
    node->name = NameTarget()->name;
    Signature(*node);
    node->body = Statements({"endmacro"}, true);
    return Done(std::move(node));
  }

  TemplateNodePtr CallBlock() {
    TemplateNodePtr node = Make(K::CallBlock, Take().line);
    if (Op("(")) Signature(*node);
    node->a = Expression(true);
    if (!node->a->Is(K::Call)) Error("expected call", node->line);
    node->body = Statements({"endcall"}, true);
    return Done(std::move(node));
  }

  TemplateNodePtr FilterBlock() {
    TemplateNodePtr node = Make(K::FilterBlock, Take().line);
    node->a = Filters(nullptr, true);
    node->body = Statements({"endfilter"}, true);
    return Done(std::move(node));
  }

  TemplateNodePtr With() {
    TemplateNodePtr node = Make(K::With, Take().line);
    while (Now().kind != T::BlockEnd) {
      if (!node->items.empty()) ExpectOp(",");
      node->items.push_back(Target(false, false));
      SetContext(*node->items.back(), TemplateNode::Context::Parameter);
      ExpectOp("=");
      node->defaults.push_back(Expression(true));
    }
    node->body = Statements({"endwith"}, true);
    return Done(std::move(node));
  }

  TemplateNodePtr Print() {
    TemplateNodePtr node = Make(K::Output, Take().line);
    while (Now().kind != T::BlockEnd) {
      if (!node->items.empty()) ExpectOp(",");
      node->items.push_back(Expression(true));
    }
    return Done(std::move(node));
  }

  // Targets of assignments.
  static void SetContext(TemplateNode& node, TemplateNode::Context context) {
    node.context = context;
    for (const TemplateNodePtr& item : node.items) SetContext(*item, context);
  }
  void CheckTarget(const TemplateNode& node) const {
    const bool constant = node.Is(K::Const);
    if (node.Is(K::Tuple)) {
      for (const TemplateNodePtr& item : node.items) CheckTarget(*item);
    } else if (!node.Is(K::Name) && !node.Is(K::NsRef)) {
      Error(constant ? "can't assign to a constant" : "can't assign to this expression", node.line);
    }
  }
  TemplateNodePtr NameTarget() {
    const uint32_t line = Now().line;
    TemplateNodePtr node = Make(K::Name, line);
    node->name = ExpectName();
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (node->name == constant) Error(fmt::format("can't assign to '{}'", constant), line);
    }
    node->context = TemplateNode::Context::Store;
    return node;
  }
  TemplateNodePtr Target(bool before_in, bool with_namespace) {
    TemplateNodePtr node = TupleOf(true, true, with_namespace, before_in ? "in" : "");
    SetContext(*node, TemplateNode::Context::Store);
    CheckTarget(*node);
    return node;
  }

  // Expressions.
  TemplateNodePtr Expression(bool conditional) { return conditional ? Conditional() : OrOf(); }

  // One expression, or those with commas between as a tuple. simple: names and literals alone.
  TemplateNodePtr TupleOf(bool conditional, bool simple, bool with_namespace, std::string_view end = "",
                          bool parentheses = false) {
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
      if (!parentheses) Error(fmt::format("Expected an expression, got '{}'", Shown(Now())));
    }
    TemplateNodePtr node = Make(K::Tuple, line);
    node->items = std::move(items);
    return Done(std::move(node));
  }

  TemplateNodePtr Conditional() {
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
  TemplateNodePtr OrOf() {
    TemplateNodePtr left = AndOf();
    for (uint32_t line = left->line; SkipWord("or"); line = Now().line)
      left = Pair(K::Or, std::move(left), AndOf(), line);
    return left;
  }
  TemplateNodePtr AndOf() {
    TemplateNodePtr left = NotOf();
    for (uint32_t line = left->line; SkipWord("and"); line = Now().line)
      left = Pair(K::And, std::move(left), NotOf(), line);
    return left;
  }
  TemplateNodePtr NotOf() {
    const Deeper deeper(*this);
    if (!Word("not")) return CompareOf();
    const uint32_t line = Take().line;
    return Pair(K::Not, NotOf(), nullptr, line);
  }

  std::optional<TemplateCompare> CompareOp() {
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
  TemplateNodePtr CompareOf() {
    const uint32_t line = Now().line;
    TemplateNodePtr first = Sum();
    TemplateNodePtr node;
    while (const std::optional<TemplateCompare> op = CompareOp()) {
      if (!node) {
        node = Make(K::Compare, line);
        node->a = std::move(first);
      }
      node->compares.push_back(*op);
      node->items.push_back(Sum());
    }
    return node ? Done(std::move(node)) : std::move(first);
  }
  TemplateNodePtr Sum() {
    TemplateNodePtr left = Concat();
    while (Op("+") || Op("-")) {
      const TemplateToken& op = Take();
      left = Binary(op.text == "+" ? TemplateBinary::Add : TemplateBinary::Sub, std::move(left), Concat(), op.line);
    }
    return left;
  }
  TemplateNodePtr Concat() {
    TemplateNodePtr first = Product();
    if (!Op("~")) return first;
    TemplateNodePtr node = Make(K::Concat, first->line);
    node->items.push_back(std::move(first));
    while (SkipOp("~")) node->items.push_back(Product());
    return Done(std::move(node));
  }
  TemplateNodePtr Product() {
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
  TemplateNodePtr Power() {
    TemplateNodePtr left = Unary(true);
    while (Op("**")) {
      const uint32_t line = Take().line;
      left = Binary(TemplateBinary::Pow, std::move(left), Unary(true), line);
    }
    return left;
  }
  TemplateNodePtr Unary(bool with_filter) {
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

  TemplateNodePtr Primary(bool with_namespace) {
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
    Error(fmt::format("unexpected '{}'", Shown(token)), token.line);
  }

  TemplateNodePtr Postfix(TemplateNodePtr node) {
    while (true) {
      if (Op(".") || Op("["))
        node = Subscript(std::move(node));
      else if (Op("("))
        node = CallOf(std::move(node));
      else
        return node;
    }
  }

  TemplateNodePtr Subscript(TemplateNodePtr object) {
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
  TemplateNodePtr Key() {
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

  // (a, b=c, *d, **e) into `node`.
  void CallArguments(TemplateNode& node) {
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
  TemplateNodePtr CallOf(TemplateNodePtr function) {
    TemplateNodePtr node = Make(K::Call, Now().line);
    node->a = std::move(function);
    CallArguments(*node);
    return Done(std::move(node));
  }

  TemplateNodePtr FilterExpression(TemplateNodePtr node) {
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
  std::string DottedName() {
    std::string name = ExpectName();
    while (SkipOp(".")) name += "." + ExpectName();
    return name;
  }
  TemplateNodePtr Filters(TemplateNodePtr subject, bool inline_start) {
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
  TemplateNodePtr TestOf(TemplateNodePtr subject) {
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

  const std::string& file_;
  std::vector<TemplateToken> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
};

}  // namespace

TemplateNodes ParseTemplate(std::string_view source, const std::string& file) { return Parser(source, file).Parse(); }

}  // namespace llmc
