// Expressions, as jinja2's compiler.py orders them.
#include "frontend/template_expression_code.h"

#include <algorithm>

#include <fmt/format.h>

namespace llmc {

void TemplateExpressionCode::CheckNamespaces(const TemplateNode& target, const Frame& frame) {
  if (target.Is(K::NsRef)) {
    Load(Reference(frame, target), target);
    Add(Op::CheckNamespace);
  }
  for (const TemplateNodePtr& item : target.items) CheckNamespaces(*item, frame);
}

void TemplateExpressionCode::Target(const TemplateNode& target, const Frame& frame) {
  if (target.Is(K::Tuple)) {
    Add(Op::Unpack, static_cast<uint32_t>(target.items.size()));
    for (const TemplateNodePtr& item : target.items) Target(*item, frame);
  } else if (target.Is(K::NsRef)) {
    Load(Reference(frame, target), target);
    Add(Op::SetAttribute, Text(target.text));
  } else {
    Store(Reference(frame, target));
  }
}

void TemplateExpressionCode::Expression(const TemplateNode& node, const Frame& frame) {
  Line(node);
  switch (node.kind) {
    case K::Name: {
      const std::string reference = Reference(frame, node);
      Load(reference, node);
      const TemplateLoad* load = frame.symbols->FindLoad(reference);
      const bool parameter = load != nullptr && load->action == Action::Parameter;
      if (!parameter || (!unset_.empty() && unset_.back().contains(reference))) Add(Op::Defined, Text(node.name));
      break;
    }
    case K::Const: Add(Op::Const, ConstantOf(node.constant)); break;
    case K::Tuple:
    case K::List:
    case K::Concat:
    case K::Dict: {
      for (const TemplateNodePtr& item : node.items) Expression(*item, frame);
      const uint32_t count = static_cast<uint32_t>(node.items.size());
      Add(node.Is(K::Tuple)  ? Op::Tuple
          : node.Is(K::List) ? Op::List
          : node.Is(K::Dict) ? Op::Dict
                             : Op::Concat,
          node.Is(K::Dict) ? count / 2 : count);
      break;
    }
    case K::Cond: {
      const Frame soft = frame.Soft();
      Expression(*node.a, soft);
      const uint32_t otherwise = Add(Op::JumpIfFalse);
      Expression(*node.b, soft);
      const uint32_t end = Add(Op::Jump);
      Land(otherwise);
      if (node.c)
        Expression(*node.c, soft);
      else
        Add(Op::CondUndefined);
      Land(end);
      break;
    }
    case K::Filter:
    case K::Test: FilterOrTest(node, frame); break;
    case K::Call:
      Expression(*node.a, frame);
      Arguments(node, frame, 0, std::nullopt, Op::Call, 0);
      break;
    case K::Item:
      Expression(*node.a, frame);
      if (node.b->Is(K::Slice)) {
        uint32_t given = 0;
        const TemplateNodePtr* parts[] = {&node.b->a, &node.b->b, &node.b->c};
        for (uint32_t i = 0; i < 3; ++i) {
          if (!*parts[i]) continue;
          Expression(**parts[i], frame);
          given |= 1u << i;
        }
        Add(Op::Slice, given);
      } else {
        Expression(*node.b, frame);
        Add(Op::Item);
      }
      break;
    case K::Attribute:
      Expression(*node.a, frame);
      Add(Op::Attribute, Text(node.name));
      break;
    case K::Compare: {
      Expression(*node.a, frame);
      std::vector<uint32_t> fails;
      for (size_t i = 0; i < node.items.size(); ++i) {
        Expression(*node.items[i], frame);
        const bool last = i + 1 == node.items.size();
        Add(last ? Op::Compare : Op::CompareNext, static_cast<uint32_t>(node.compares[i]));
        if (!last) fails.push_back(Add(Op::AndJump));
      }
      if (fails.empty()) break;
      const uint32_t end = Add(Op::Jump);
      for (const uint32_t fail : fails) Land(fail);
      Add(Op::Under);  // the operand of the next comparison
      Land(end);
      break;
    }
    case K::Binary:
      Expression(*node.a, frame);
      Expression(*node.b, frame);
      Line(node);
      Add(Op::Binary, static_cast<uint32_t>(node.binary));
      break;
    case K::And:
    case K::Or: {
      Expression(*node.a, frame);
      const uint32_t end = Add(node.Is(K::And) ? Op::AndJump : Op::OrJump);
      Expression(*node.b, frame);
      Land(end);
      break;
    }
    case K::Not:
    case K::Negative:
    case K::Positive:
      Expression(*node.a, frame);
      Add(node.Is(K::Not) ? Op::Not : node.Is(K::Negative) ? Op::Negative : Op::Positive);
      break;
    default: Error("not an expression", node);
  }
}

void TemplateExpressionCode::FilterOrTest(const TemplateNode& node, const Frame& frame) {
  const bool filter = node.Is(K::Filter);
  const TemplateNameKind known = filter ? TemplateFilterKind(node.name) : TemplateTestKind(node.name);
  const char* what = filter ? "filter" : "test";
  if (known == TemplateNameKind::Unknown && !frame.soft) Error(fmt::format("No {} named '{}'.", what, node.name), node);
  if (known == TemplateNameKind::Unsupported && !frame.soft)
    FailTemplate(file_, node.line, fmt::format("the {} '{}' of jinja2 is not supported", what, node.name), true);
  std::vector<std::string>& names = filter ? program_.filters : program_.tests;
  auto found = std::find(names.begin(), names.end(), node.name);
  if (found == names.end()) found = names.insert(names.end(), node.name);
  const uint32_t index = static_cast<uint32_t>(found - names.begin());
  if (node.a)
    Expression(*node.a, frame);
  else
    EndCapture();
  Arguments(node, frame, 1, std::nullopt, filter ? Op::Filter : Op::Test, index);
}

void TemplateExpressionCode::Arguments(const TemplateNode& node, const Frame& frame, uint32_t before,
                                       std::optional<uint32_t> caller, Op op, uint32_t index) {
  for (const TemplateNodePtr& item : node.items) Expression(*item, frame);
  std::vector<std::string> names;
  for (const auto& [name, value] : node.keywords) {
    Expression(*value, frame);
    names.push_back(name);
  }
  if (caller) {
    if (std::find(names.begin(), names.end(), "caller") != names.end())
      Error("keyword argument repeated: caller", node);
    Add(Op::Macro, *caller);
    names.emplace_back("caller");
  }
  uint32_t flags = 0;
  if (node.b) {
    Expression(*node.b, frame);
    flags |= 1;
  }
  if (node.c) {
    Expression(*node.c, frame);
    flags |= 2;
  }
  Line(node);
  const uint32_t positional = before + static_cast<uint32_t>(node.items.size());
  Add(op, positional | static_cast<uint32_t>(names.size()) << 8 | flags << 16);
  if (op != Op::Call) Word(index);
  Word(Names(names));
}

}  // namespace llmc
