// Tokens of a chat template one after another, and nodes made of them: what its parser stands on.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/template_ast.h"
#include "frontend/template_lexer.h"

namespace llmc {

constexpr uint32_t kMostTemplateDepth = 200;  // levels of nodes, as CPython's parser has for brackets

// A token as jinja2's messages show it.
std::string ShownToken(const TemplateToken& token);

class TemplateReader {
 protected:
  using K = TemplateNodeKind;
  using T = TemplateTokenKind;

  TemplateReader(std::string_view source, const std::string& file) : file_(file), tokens_(LexTemplate(source, file)) {}

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
    if (Now().kind == T::End) Error("unexpected end of template, expected '" + std::string(what) + "'");
    Error("expected token '" + std::string(what) + "', got '" + ShownToken(Now()) + "'");
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
    if (node->depth > kMostTemplateDepth)
      Error("nested over " + std::to_string(kMostTemplateDepth) + " levels deep", node->line);
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
    explicit Deeper(TemplateReader& parser) : parser_(parser) {
      if (++parser_.depth_ > kMostTemplateDepth * 2) parser_.Error("nested too deeply");
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    TemplateReader& parser_;
  };

  const std::string& file_;
  std::vector<TemplateToken> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
};

}  // namespace llmc
