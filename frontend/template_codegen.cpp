// The compiler's statements and expressions, as jinja2's compiler.py orders them. A frame's references
// (template_scope.h) are slots of the function that sets them: the template, a macro, a loop's filter or a recursive
// loop. A function sees the variables of those around it as they are when it runs.
#include "frontend/template_codegen.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "frontend/template_lexer.h"
#include "frontend/template_scope.h"

namespace llmc {
namespace {

using K = TemplateNodeKind;
using Op = TemplateOp;
using Action = TemplateLoad::Action;

struct Frame {
  std::shared_ptr<TemplateSymbols> symbols;
  bool soft = false;  // inside an if: unknown filters fail when they are reached
  Frame Inner() const { return {std::make_shared<TemplateSymbols>(symbols), false}; }
  Frame Soft() const { return {symbols, true}; }
};

struct Loop {
  uint32_t captures;           // open when the loop began
  uint32_t next;               // where `continue` goes
  std::vector<uint32_t> ends;  // jumps of `break`
};

struct Function {
  uint32_t index = 0;
  Function* outer = nullptr;
  std::map<std::string, uint32_t> slots;
  uint32_t slot_count = 0, captures = 0;
  std::vector<Loop> loops;
};

class Generator {
 public:
  explicit Generator(const std::string& file) : file_(file) {}

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
    const std::string key =
        fmt::format("{} {} {} {} {}", static_cast<int>(constant.kind), constant.literal,
                    std::bit_cast<uint64_t>(constant.number), constant.text, fmt::join(constant.names, ","));
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
      Error(fmt::format("Tried to resolve a name to a reference that was unknown to the frame ('{}')", node.name),
            node);
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

  // Statements.
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

  // Assignment.
  void CheckNamespaces(const TemplateNode& target, const Frame& frame) {
    if (target.Is(K::NsRef)) {
      Load(Reference(frame, target), target);
      Add(Op::CheckNamespace);
    }
    for (const TemplateNodePtr& item : target.items) CheckNamespaces(*item, frame);
  }
  void Target(const TemplateNode& target, const Frame& frame) {
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

  // Expressions.
  void Expression(const TemplateNode& node, const Frame& frame) {
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

  void FilterOrTest(const TemplateNode& node, const Frame& frame) {
    const bool filter = node.Is(K::Filter);
    const TemplateNameKind known = filter ? TemplateFilterKind(node.name) : TemplateTestKind(node.name);
    const char* what = filter ? "filter" : "test";
    if (known == TemplateNameKind::Unknown && !frame.soft)
      Error(fmt::format("No {} named '{}'.", what, node.name), node);
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

  // Arguments behind `before` positional ones that are on the stack, and the call. caller: a call block's macro.
  void Arguments(const TemplateNode& node, const Frame& frame, uint32_t before, std::optional<uint32_t> caller, Op op,
                 uint32_t index) {
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

  const std::string& file_;
  TemplateProgram program_;
  std::map<std::string, uint32_t> constants_;
  Function* function_ = nullptr;
  std::vector<std::set<std::string>> unset_;
};

}  // namespace

TemplateProgram GenerateTemplate(const TemplateNodes& body, const std::string& file) {
  return Generator(file).Generate(body);
}

}  // namespace llmc
