// Which variable a name of a chat template means: jinja2's idtracking.py. Each frame (the template, a loop's body, a
// macro, ..) gives the names it sets a reference of its own; what it only reads is looked up outward, and at last among
// the variables of the rendering.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/template_ast.h"

namespace llmc {

// How a frame's reference gets its first value.
struct TemplateLoad {
  enum class Action : uint8_t { Parameter, Resolve, Alias, Undefined };
  Action action{};
  std::string from;  // Resolve: the name; Alias: the outer reference
};

class TemplateSymbols {
 public:
  explicit TemplateSymbols(std::shared_ptr<const TemplateSymbols> parent = nullptr)
      : level_(parent ? parent->level_ + 1 : 0), parent_(std::move(parent)) {}

  // The reference that a name has here, "" if it is unknown.
  std::string Find(const std::string& name) const;
  // How a reference of this frame or an outer one gets its value; null: unknown.
  const TemplateLoad* FindLoad(const std::string& reference) const;
  std::string DeclareParameter(const std::string& name);
  // In order of definition.
  const std::vector<std::pair<std::string, TemplateLoad>>& loads() const { return loads_; }

  // Takes in what a frame of this node reads and sets. For loops: the part that the frame is for.
  enum class LoopPart : uint8_t { Body, Test, Else };
  void Analyze(const TemplateNode& node, LoopPart part = LoopPart::Body);
  void AnalyzeTemplate(const TemplateNodes& body);

 private:
  void Visit(const TemplateNode& node, bool as_parameter = false);
  void VisitIf(const TemplateNode& node);
  std::string Define(const std::string& name, const TemplateLoad* load);
  void SetLoad(const std::string& reference, TemplateLoad load);
  void Store(const std::string& name);
  void Load(const std::string& name);

  size_t level_;
  std::shared_ptr<const TemplateSymbols> parent_;
  std::map<std::string, std::string> refs_;
  std::vector<std::pair<std::string, TemplateLoad>> loads_;
  std::set<std::string> stores_;
};

// Those of `names` that the nodes read without having set them before.
std::set<std::string> UndeclaredNames(const TemplateNodes& nodes, std::set<std::string> names);

}  // namespace llmc
