// Code of a chat template as it grows: instructions, constants, functions and the variables that they see.
#pragma once
#include <bit>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "frontend/template_codegen.h"
#include "frontend/template_lexer.h"
#include "frontend/template_scope.h"

namespace llmc {

// The names that code sees.
struct TemplateFrame {
  std::shared_ptr<TemplateSymbols> symbols;
  bool soft = false;  // inside an if: unknown filters fail when they are reached
  TemplateFrame Inner() const { return {std::make_shared<TemplateSymbols>(symbols), false}; }
  TemplateFrame Soft() const { return {symbols, true}; }
};

struct TemplateLoop {
  uint32_t captures;           // open when the loop began
  uint32_t next;               // where `continue` goes
  std::vector<uint32_t> ends;  // jumps of `break`
};

// What runs with slots of its own: the template, a macro, a loop's filter or a recursive loop.
struct TemplateCodeFunction {
  uint32_t index = 0;
  TemplateCodeFunction* outer = nullptr;
  std::map<std::string, uint32_t> slots;
  uint32_t slot_count = 0, captures = 0;
  std::vector<TemplateLoop> loops;
};

class TemplateEmitter {
 protected:
  using K = TemplateNodeKind;
  using Op = TemplateOp;
  using Action = TemplateLoad::Action;
  using Frame = TemplateFrame;
  using Loop = TemplateLoop;
  using Function = TemplateCodeFunction;

  explicit TemplateEmitter(const std::string& file) : file_(file) {}

  [[noreturn]] void Error(const std::string& message, const TemplateNode& node) const {
    FailTemplate(file_, node.line, message);
  }

  // Code.
  uint32_t Here() const { return static_cast<uint32_t>(program_.code.size()); }
  uint32_t Add(Op op, uint32_t a = 0) {
    if (program_.code.size() >= (1u << 22)) FailTemplate(file_, 1, "the program is too large");
    program_.code.push_back(TemplateWord(op, a));
    return Here() - 1;
  }
  void Word(uint32_t word) { program_.code.push_back(word); }
  void Land(uint32_t jump) {  // the jump goes to here
    const Op op = static_cast<Op>(program_.code[jump] & 255);
    if (op == Op::Next)
      program_.code[jump + 1] = Here();
    else
      program_.code[jump] = TemplateWord(op, Here());
  }
  void Line(const TemplateNode& node) {
    if (!program_.lines.empty() && program_.lines.back().second == node.line) return;
    program_.lines.emplace_back(Here(), node.line);
  }
  uint32_t ConstantOf(const TemplateConst& constant) {
    std::string key = std::to_string(static_cast<int>(constant.kind)) + (constant.literal ? " 1 " : " 0 ") +
                      std::to_string(std::bit_cast<uint64_t>(constant.number)) + " " + constant.text;
    for (const std::string& name : constant.names) key += "," + name;
    const auto [found, fresh] = constants_.emplace(key, static_cast<uint32_t>(program_.constants.size()));
    if (fresh) program_.constants.push_back(constant);
    return found->second;
  }
  uint32_t Text(const std::string& text, bool literal = false) {
    TemplateConst constant;
    constant.kind = TemplateConst::Kind::Str;
    constant.text = text;
    constant.literal = literal;
    return ConstantOf(constant);
  }
  uint32_t Names(const std::vector<std::string>& names) {
    TemplateConst constant;
    constant.kind = TemplateConst::Kind::Names;
    constant.names = names;
    return names.empty() ? 0 : ConstantOf(constant);
  }

  // Functions and their variables.
  void BeginFunction(Function& function, Function* outer, const std::vector<std::string>& parameters) {
    function.index = static_cast<uint32_t>(program_.functions.size());
    function.outer = outer;
    function.slot_count = static_cast<uint32_t>(parameters.size()) + 3;
    TemplateFunction entry;
    entry.entry = Here();
    entry.parameters = parameters;
    program_.functions.push_back(std::move(entry));
    function_ = &function;
  }
  void EndFunction(Function& function) {
    if (function.slot_count > 65000) FailTemplate(file_, 1, "too many variables");
    program_.functions[function.index].slots = function.slot_count;
    function_ = function.outer;
  }
  uint32_t NewSlot() { return function_->slot_count++; }
  void Store(const std::string& reference) {
    const auto found = function_->slots.find(reference);
    const uint32_t slot = found != function_->slots.end() ? found->second : NewSlot();
    function_->slots[reference] = slot;
    Add(Op::Store, slot);
  }
  void Load(const std::string& reference, const TemplateNode& node) {
    uint32_t up = 0;
    for (const Function* f = function_; f != nullptr; f = f->outer, ++up) {
      const auto found = f->slots.find(reference);
      if (found == f->slots.end()) continue;
      if (up > 255) Error("macros are nested too deeply", node);
      Add(Op::Load, up << 16 | found->second);
      return;
    }
    Error("Tried to resolve a name to a reference that was unknown to the frame", node);
  }
  std::string Reference(const Frame& frame, const TemplateNode& node) const {
    std::string reference = frame.symbols->Find(node.name);
    if (reference.empty())
      Error("Tried to resolve a name to a reference that was unknown to the frame ('" + node.name + "')", node);
    return reference;
  }

  void Enter(const Frame& frame) {
    for (const auto& [reference, load] : frame.symbols->loads()) {
      switch (load.action) {
        case Action::Parameter: continue;
        case Action::Resolve: Add(Op::Resolve, Text(load.from)); break;
        case Action::Alias: Load(load.from, {}); break;
        case Action::Undefined: Add(Op::Missing); break;
      }
      Store(reference);
    }
  }
  void Leave(const Frame& frame) {
    for (const auto& [reference, load] : frame.symbols->loads()) {
      Add(Op::Missing);
      Store(reference);
    }
  }

  void BeginCapture() {
    Add(Op::Capture);
    ++function_->captures;
  }
  void EndCapture() {
    Add(Op::EndCapture);
    --function_->captures;
  }

  const std::string& file_;
  TemplateProgram program_;
  Function* function_ = nullptr;

 private:
  std::map<std::string, uint32_t> constants_;
};

}  // namespace llmc
