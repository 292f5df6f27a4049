// Code of a chat template's expressions and assignments; statements are template_codegen.cpp's.
#pragma once
#include <optional>

#include "frontend/template_emitter.h"

namespace llmc {

class TemplateExpressionCode : protected TemplateEmitter {
 protected:
  explicit TemplateExpressionCode(const std::string& file) : TemplateEmitter(file) {}

  // Assignment.
  void CheckNamespaces(const TemplateNode& target, const Frame& frame);
  void Target(const TemplateNode& target, const Frame& frame);

  // Expressions.
  void Expression(const TemplateNode& node, const Frame& frame);

  void FilterOrTest(const TemplateNode& node, const Frame& frame);

  // Arguments behind `before` positional ones that are on the stack, and the call. caller: a call block's macro.
  void Arguments(const TemplateNode& node, const Frame& frame, uint32_t before, std::optional<uint32_t> caller, Op op,
                 uint32_t index);

  std::vector<std::set<std::string>> unset_;  // of each macro around: parameters whose defaults haven't run
};

}  // namespace llmc
