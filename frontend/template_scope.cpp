// Symbols of frames.
#include "frontend/template_scope.h"

#include <algorithm>

namespace llmc {
namespace {

using K = TemplateNodeKind;
using Action = TemplateLoad::Action;

void FindUndeclared(const TemplateNode& node, std::set<std::string>& names, std::set<std::string>& undeclared) {
  if (node.Is(K::Name)) {
    if (node.context == TemplateNode::Context::Load && names.contains(node.name))
      undeclared.insert(node.name);
    else
      names.erase(node.name);
    return;
  }
  ForChildren(node, [&](const TemplateNode& child) { FindUndeclared(child, names, undeclared); });
}

}  // namespace

std::set<std::string> UndeclaredNames(const TemplateNodes& nodes, std::set<std::string> names) {
  std::set<std::string> undeclared;
  for (const TemplateNodePtr& node : nodes) FindUndeclared(*node, names, undeclared);
  return undeclared;
}

std::string TemplateSymbols::Find(const std::string& name) const {
  const auto found = refs_.find(name);
  if (found != refs_.end()) return found->second;
  return parent_ ? parent_->Find(name) : "";
}

const TemplateLoad* TemplateSymbols::FindLoad(const std::string& reference) const {
  for (const auto& [ref, load] : loads_) {
    if (ref == reference) return &load;
  }
  return parent_ ? parent_->FindLoad(reference) : nullptr;
}

void TemplateSymbols::SetLoad(const std::string& reference, TemplateLoad load) {
  const auto found =
      std::find_if(loads_.begin(), loads_.end(), [&](const auto& entry) { return entry.first == reference; });
  if (found != loads_.end())
    found->second = std::move(load);
  else
    loads_.emplace_back(reference, std::move(load));
}

std::string TemplateSymbols::Define(const std::string& name, const TemplateLoad* load) {
  std::string reference = std::to_string(level_) + "." + name;
  refs_[name] = reference;
  if (load != nullptr) SetLoad(reference, *load);
  return reference;
}

void TemplateSymbols::Store(const std::string& name) {
  stores_.insert(name);
  if (refs_.contains(name)) return;
  TemplateLoad load{Action::Undefined, ""};
  if (parent_) {
    const std::string outer = parent_->Find(name);
    if (!outer.empty()) load = {Action::Alias, outer};
  }
  Define(name, &load);
}

std::string TemplateSymbols::DeclareParameter(const std::string& name) {
  stores_.insert(name);
  const TemplateLoad load{Action::Parameter, ""};
  return Define(name, &load);
}

void TemplateSymbols::Load(const std::string& name) {
  if (!Find(name).empty()) return;
  const TemplateLoad load{Action::Resolve, name};
  Define(name, &load);
}

void TemplateSymbols::Visit(const TemplateNode& node, bool as_parameter) {
  switch (node.kind) {
    case K::Name:
      if (as_parameter || node.context == TemplateNode::Context::Parameter)
        DeclareParameter(node.name);
      else if (node.context == TemplateNode::Context::Store)
        Store(node.name);
      else
        Load(node.name);
      break;
    case K::NsRef: Load(node.name); break;
    case K::If: VisitIf(node); break;
    case K::Macro: Store(node.name); break;
    case K::Assign:
      Visit(*node.b);
      Visit(*node.a);
      break;
    case K::For: Visit(*node.b); break;
    case K::CallBlock:
    case K::FilterBlock:
    case K::AssignBlock: Visit(*node.a); break;
    case K::Generation: break;
    case K::With:
      for (const TemplateNodePtr& value : node.defaults) Visit(*value);
      break;
    default: ForChildren(node, [&](const TemplateNode& child) { Visit(child, as_parameter); });
  }
}

// What a branch sets may be unset after it: such names are aliases of the outer ones, or looked up.
void TemplateSymbols::VisitIf(const TemplateNode& node) {
  Visit(*node.a);
  std::vector<TemplateSymbols> branches(3, *this);
  for (const TemplateNodePtr& child : node.body) branches[0].Visit(*child);
  for (const TemplateNodePtr& child : node.items) branches[1].Visit(*child);
  for (const TemplateNodePtr& child : node.other) branches[2].Visit(*child);
  std::set<std::string> stores;
  for (const TemplateSymbols& branch : branches) stores.insert(branch.stores_.begin(), branch.stores_.end());
  for (const std::string& name : stores_) stores.erase(name);
  for (const TemplateSymbols& branch : branches) {
    for (const auto& [name, reference] : branch.refs_) refs_[name] = reference;
    for (const auto& [reference, load] : branch.loads_) SetLoad(reference, load);
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string& name : stores) {
    const std::string outer = parent_ ? parent_->Find(name) : "";
    SetLoad(Find(name), outer.empty() ? TemplateLoad{Action::Resolve, name} : TemplateLoad{Action::Alias, outer});
  }
}

void TemplateSymbols::Analyze(const TemplateNode& node, LoopPart part) {
  const auto all = [&](const TemplateNodes& nodes) {
    for (const TemplateNodePtr& child : nodes) Visit(*child);
  };
  switch (node.kind) {
    case K::For:
      if (part == LoopPart::Else) {
        all(node.other);
        break;
      }
      Visit(*node.a, true);
      if (part == LoopPart::Body)
        all(node.body);
      else
        Visit(*node.c);
      break;
    case K::Macro:
    case K::CallBlock:
    case K::Generation:
      all(node.items);
      all(node.defaults);
      all(node.body);
      break;
    case K::With:
      all(node.items);
      all(node.body);
      break;
    case K::AssignBlock: all(node.body); break;
    case K::FilterBlock:
      all(node.body);
      Visit(*node.a);
      break;
    default: break;
  }
}

void TemplateSymbols::AnalyzeTemplate(const TemplateNodes& body) {
  for (const TemplateNodePtr& node : body) Visit(*node);
}

}  // namespace llmc
