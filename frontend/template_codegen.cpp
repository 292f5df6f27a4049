// Statements, as jinja2's compiler.py orders them. A frame's references (template_scope.h) are slots of the function that
// sets them: the template, a macro, a loop's filter or a recursive loop. A function sees the variables of those around
// it as they are when it runs.
#include "frontend/template_codegen.h"

#include <algorithm>

#include <fmt/format.h>

#include "frontend/template_expression_code.h"

namespace llmc {
namespace {

class Generator : TemplateExpressionCode {
 public:
  explicit Generator(const std::string& file) : TemplateExpressionCode(file) {}

  TemplateProgram Generate(const TemplateNodes& body) {
    if (!UndeclaredNames(body, {"self"}).empty())
      FailTemplate(file_, 1, "the variable 'self' (blocks of a template) is not supported", true);
    Function root;
    BeginFunction(root, nullptr, {});
    Frame frame{std::make_shared<TemplateSymbols>(), false};
    frame.symbols->AnalyzeTemplate(body);
    Enter(frame);
    Statements(body, frame);
    Add(Op::Const, ConstantOf({}));
    Add(Op::Return);
    EndFunction(root);
    program_.name = "default";
    return std::move(program_);
  }

 private:
  void Statements(const TemplateNodes& nodes, const Frame& frame) {
    for (const TemplateNodePtr& node : nodes) Statement(*node, frame);
  }

  void Statement(const TemplateNode& node, const Frame& frame) {
    Line(node);
    switch (node.kind) {
      case K::Output:
        for (const TemplateNodePtr& item : node.items) {
          Line(*item);
          if (item->Is(K::Data)) {
            Add(Op::EmitConst, Text(item->text, true));
          } else {
            Expression(*item, frame);
            Add(Op::Emit);
          }
        }
        break;
      case K::If: If(node, frame); break;
      case K::For: For(node, frame); break;
      case K::Macro: {
        Add(Op::Macro, MacroBody(node, frame));
        Store(Reference(frame, node));
        break;
      }
      case K::CallBlock: {
        const uint32_t macro = MacroBody(node, frame);
        Expression(*node.a->a, frame);
        Arguments(*node.a, frame, 0, macro, Op::Call, 0);
        Add(Op::Emit);
        break;
      }
      case K::Generation:
        Add(Op::Macro, MacroBody(node, frame));
        Add(Op::Call);
        Word(0);
        Add(Op::Emit);
        break;
      case K::FilterBlock: {
        const Frame inner = frame.Inner();
        inner.symbols->Analyze(node);
        Enter(inner);
        BeginCapture();
        Statements(node.body, inner);
        Expression(*node.a, inner);  // its innermost filter takes the captured text
        Add(Op::Emit);
        Leave(inner);
        break;
      }
      case K::With: {
        const Frame inner = frame.Inner();
        inner.symbols->Analyze(node);
        Enter(inner);
        for (size_t i = 0; i < node.items.size(); ++i) {
          Expression(*node.defaults[i], frame);
          Target(*node.items[i], inner);
        }
        Statements(node.body, inner);
        Leave(inner);
        break;
      }
      case K::Assign:
        CheckNamespaces(*node.a, frame);
        Expression(*node.b, frame);
        Target(*node.a, frame);
        break;
      case K::AssignBlock: {
        const Frame inner = frame.Inner();
        inner.symbols->Analyze(node);
        Enter(inner);
        BeginCapture();
        Statements(node.body, inner);
        if (node.b)
          Expression(*node.b, inner);
        else
          EndCapture();
        Target(*node.a, frame);
        Leave(inner);
        break;
      }
      case K::Break:
      case K::Continue: {
        if (function_->loops.empty())
          Error(fmt::format("'{}' outside loop", node.Is(K::Break) ? "break" : "continue"), node);
        Loop& loop = function_->loops.back();
        if (function_->captures > loop.captures) Add(Op::DropCaptures, function_->captures - loop.captures);
        if (node.Is(K::Break))
          loop.ends.push_back(Add(Op::Jump));
        else
          Add(Op::Jump, loop.next);
        break;
      }
      default: Error("not a statement", node);
    }
  }

  void If(const TemplateNode& node, const Frame& outer) {
    const Frame frame = outer.Soft();
    std::vector<uint32_t> ends;
    const auto branch = [&](const TemplateNode& one) {
      Line(one);
      Expression(*one.a, frame);
      const uint32_t skip = Add(Op::JumpIfFalse);
      Statements(one.body, frame);
      ends.push_back(Add(Op::Jump));
      Land(skip);
    };
    branch(node);
    for (const TemplateNodePtr& elif : node.items) branch(*elif);
    Statements(node.other, frame);
    for (const uint32_t end : ends) Land(end);
  }

  static bool SetsLoop(const TemplateNode& node) {
    bool sets = node.Is(K::Name) && node.name == "loop" && node.context == TemplateNode::Context::Store;
    ForChildren(node, [&](const TemplateNode& child) { sets = sets || SetsLoop(child); });
    return sets;
  }

  void For(const TemplateNode& node, const Frame& frame) {
    if (SetsLoop(node)) Error("Can't assign to special loop variable in for-loop target", node);
    if (!node.flag) {
      Expression(*node.b, frame);
      LoopOver(node, frame, false);
      return;
    }
    const uint32_t over = Add(Op::Jump);
    Function function;
    BeginFunction(function, function_, {"reciter", "depth"});
    BeginCapture();
    Add(Op::Load, 0);
    LoopOver(node, frame, true);
    EndCapture();
    Add(Op::Return);
    EndFunction(function);
    Land(over);
    Expression(*node.b, frame);
    Add(Op::RecursiveLoop, function.index);
    Add(Op::Emit);
  }

  // The loop over the value on the stack.
  void LoopOver(const TemplateNode& node, const Frame& frame, bool recursive) {
    const Frame body = frame.Inner();
    const bool extended = recursive || UndeclaredNames(node.body, {"loop"}).contains("loop");
    std::string loop_reference;
    if (extended) loop_reference = body.symbols->DeclareParameter("loop");
    body.symbols->Analyze(node, TemplateSymbols::LoopPart::Body);
    const Frame other = frame.Inner();
    if (!node.other.empty()) other.symbols->Analyze(node, TemplateSymbols::LoopPart::Else);

    if (node.c) Add(Op::LoopFilter, LoopFilter(node, frame, body));
    if (extended)
      Add(Op::LoopContext, recursive ? function_->index + 1 : 0);
    else
      Add(Op::Iterate);
    const uint32_t iterator = NewSlot(), empty = NewSlot();
    Add(Op::Store, iterator);
    if (extended) {
      Add(Op::Missing);
      Store(loop_reference);
    }
    TemplateConst flag;
    if (!node.other.empty()) {
      flag.kind = TemplateConst::Kind::True;
      Add(Op::Const, ConstantOf(flag));
      Add(Op::Store, empty);
    }
    function_->loops.push_back({function_->captures, Here(), {}});
    const uint32_t next = Add(Op::Next, iterator);
    Word(0);
    Target(*node.a, body);
    if (extended) {
      Add(Op::Load, iterator);
      Store(loop_reference);
    }
    Enter(body);
    Statements(node.body, body);
    if (!node.other.empty()) {  // behind the body, so that `break` and `continue` leave it: as jinja2 does
      flag.kind = TemplateConst::Kind::False;
      Add(Op::Const, ConstantOf(flag));
      Add(Op::Store, empty);
    }
    Add(Op::Jump, next);
    Land(next);
    for (const uint32_t end : function_->loops.back().ends) Land(end);
    function_->loops.pop_back();
    Leave(body);
    if (node.other.empty()) return;
    Add(Op::Load, empty);
    const uint32_t skip = Add(Op::JumpIfFalse);
    Enter(other);
    Statements(node.other, other);
    Leave(other);
    Land(skip);
  }

  // A function that takes an item and gives it back, or nothing when the loop's condition doesn't hold.
  uint32_t LoopFilter(const TemplateNode& node, const Frame& frame, const Frame& body) {
    const Frame test = frame.Inner();
    test.symbols->Analyze(node, TemplateSymbols::LoopPart::Test);
    const uint32_t over = Add(Op::Jump);
    Function function;
    BeginFunction(function, function_, {"item"});
    Enter(test);
    Add(Op::Load, 0);
    Target(*node.a, body);
    Expression(*node.c, test);
    const uint32_t drop = Add(Op::JumpIfFalse);
    TargetValue(*node.a, body);
    Add(Op::Return);
    Land(drop);
    Add(Op::Missing);
    Add(Op::Return);
    EndFunction(function);
    Land(over);
    return function.index;
  }
  void TargetValue(const TemplateNode& target, const Frame& frame) {
    if (target.Is(K::Tuple)) {
      for (const TemplateNodePtr& item : target.items) TargetValue(*item, frame);
      Add(Op::Tuple, static_cast<uint32_t>(target.items.size()));
    } else {
      Load(Reference(frame, target), target);
    }
  }

  // The function of a macro or call block: its index.
  uint32_t MacroBody(const TemplateNode& node, const Frame& outer) {
    const Frame frame = outer.Inner();
    frame.symbols->Analyze(node);
    std::vector<std::string> parameters, references;
    std::optional<size_t> explicit_caller;
    bool own_kwargs = false, own_varargs = false;
    for (const TemplateNodePtr& parameter : node.items) {
      if (parameter->name == "caller") explicit_caller = parameters.size();
      own_kwargs = own_kwargs || parameter->name == "kwargs";
      own_varargs = own_varargs || parameter->name == "varargs";
      parameters.push_back(parameter->name);
      references.push_back(frame.symbols->Find(parameter->name));
    }
    const std::set<std::string> undeclared = UndeclaredNames(node.body, {"caller", "kwargs", "varargs"});
    const size_t without_default = parameters.size() - node.defaults.size();
    const uint32_t over = Add(Op::Jump);
    Function function;
    BeginFunction(function, function_, parameters);
    TemplateFunction& entry = program_.functions[function.index];
    entry.macro = true;
    entry.name = node.Is(K::Macro) ? node.name : "";
    const uint32_t count = static_cast<uint32_t>(parameters.size());
    for (uint32_t i = 0; i < count; ++i) function.slots[references[i]] = i;
    if (undeclared.contains("caller")) {
      if (explicit_caller && *explicit_caller < without_default)
        Error(
            "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a "
            "default.",
            node);
      if (!explicit_caller) function.slots[frame.symbols->DeclareParameter("caller")] = count;
      entry.caller = true;
    }
    if (undeclared.contains("kwargs") && !own_kwargs) {
      function.slots[frame.symbols->DeclareParameter("kwargs")] = count + 1;
      entry.kwargs = true;
    }
    if (undeclared.contains("varargs") && !own_varargs) {
      function.slots[frame.symbols->DeclareParameter("varargs")] = count + 2;
      entry.varargs = true;
    }
    frame.symbols->Analyze(node);
    BeginCapture();
    Enter(frame);
    // Parameters that have no value yet read as undefined.
    std::set<std::string> unset;
    for (const auto& [reference, load] : frame.symbols->loads()) {
      if (load.action == Action::Parameter) unset.insert(reference);
    }
    unset_.push_back(std::move(unset));
    for (size_t i = 0; i < parameters.size(); ++i) {
      Load(references[i], node);
      const uint32_t given = Add(Op::JumpIfSet);
      if (i < without_default)
        Add(Op::NotProvided, Text(parameters[i]));
      else
        Expression(*node.defaults[i - without_default], frame);
      Store(references[i]);
      unset_.back().erase(references[i]);
      Land(given);
    }
    unset_.pop_back();
    Statements(node.body, frame);
    EndCapture();
    Add(Op::Return);
    EndFunction(function);
    Land(over);
    return function.index;
  }
};

}  // namespace

TemplateProgram GenerateTemplate(const TemplateNodes& body, const std::string& file) {
  return Generator(file).Generate(body);
}

}  // namespace llmc
