// Expressions of a chat template, and targets of its assignments; statements are template_parser.cpp's.
#pragma once
#include <optional>

#include "frontend/template_reader.h"

namespace llmc {

class TemplateExpressions : protected TemplateReader {
 protected:
  using TemplateReader::TemplateReader;

  // Targets of assignments.
  static void SetContext(TemplateNode& node, TemplateNode::Context context);
  void CheckTarget(const TemplateNode& node) const;
  TemplateNodePtr NameTarget();
  TemplateNodePtr Target(bool before_in, bool with_namespace);

  // Expressions.
  TemplateNodePtr Expression(bool conditional) { return conditional ? Conditional() : OrOf(); }

  // One expression, or those with commas between as a tuple. simple: names and literals alone.
  TemplateNodePtr TupleOf(bool conditional, bool simple, bool with_namespace, std::string_view end = "",
                          bool parentheses = false);

  TemplateNodePtr Conditional();
  TemplateNodePtr OrOf();
  TemplateNodePtr AndOf();
  TemplateNodePtr NotOf();

  std::optional<TemplateCompare> CompareOp();
  TemplateNodePtr CompareOf();
  TemplateNodePtr Sum();
  TemplateNodePtr Concat();
  TemplateNodePtr Product();
  TemplateNodePtr Power();
  TemplateNodePtr Unary(bool with_filter);

  TemplateNodePtr Primary(bool with_namespace);

  TemplateNodePtr Postfix(TemplateNodePtr node);

  TemplateNodePtr Subscript(TemplateNodePtr object);
  TemplateNodePtr Key();

  // (a, b=c, *d, **e) into `node`.
  void CallArguments(TemplateNode& node);
  TemplateNodePtr CallOf(TemplateNodePtr function);

  TemplateNodePtr FilterExpression(TemplateNodePtr node);
  std::string DottedName();
  TemplateNodePtr Filters(TemplateNodePtr subject, bool inline_start);
  TemplateNodePtr TestOf(TemplateNodePtr subject);
};

}  // namespace llmc
