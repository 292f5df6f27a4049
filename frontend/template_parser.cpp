// Statements: recursive descent over the tokens, method for method jinja2's parser.py.
#include "frontend/template_parser.h"

#include <initializer_list>

#include <fmt/ranges.h>

#include "frontend/template_expressions.h"

namespace llmc {
namespace {

using Ends = std::initializer_list<std::string_view>;

class Parser : TemplateExpressions {
 public:
  Parser(std::string_view source, const std::string& file) : TemplateExpressions(source, file) {}

  TemplateNodes Parse() { return Body({}); }

 private:
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
};

}  // namespace

TemplateNodes ParseTemplate(std::string_view source, const std::string& file) { return Parser(source, file).Parse(); }

}  // namespace llmc
