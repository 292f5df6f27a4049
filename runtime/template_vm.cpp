// The stack machine that runs a chat template's program (plan_template.h), macros and loops.
#include <algorithm>

#include "runtime/template_run.h"

namespace llmc {

TemplateRun::TemplateRun(const TemplateProgram& program, const TextTables& tables, const TemplateLimits& limits)
    : program_(program), tables_(tables), limits_(limits) {
  variables_ = NewDict();
  globals_ = NewDict();
  AddGlobals(*this, *globals_);
  for (const TemplateConst& constant : program.constants) {
    switch (constant.kind) {
      case TemplateConst::Kind::None: constants_.push_back(TemplateValue::None()); break;
      case TemplateConst::Kind::True:
      case TemplateConst::Kind::False:
        constants_.push_back(TemplateValue::Bool(constant.kind == TemplateConst::Kind::True));
        break;
      case TemplateConst::Kind::Int: {
        BigInt value;
        if (!BigInt::Parse(constant.text, 10, value)) Fail("", "a number of too many digits");
        constants_.push_back(Big(std::move(value)));
        break;
      }
      case TemplateConst::Kind::Float: constants_.push_back(TemplateValue::Float(constant.number)); break;
      case TemplateConst::Kind::Str:
      case TemplateConst::Kind::Names: constants_.push_back(Str(constant.text)); break;
    }
  }
}

std::string TemplateRun::Render() {
  buffers_.assign(1, "");
  FrameObject* frame = New<FrameObject>(program_.functions[0].slots * sizeof(TemplateValue));
  frame->slots.resize(program_.functions[0].slots);
  RunFunction(program_.functions[0], *frame);
  return std::move(buffers_[0]);
}

TemplateValue TemplateRun::Pop() {
  if (stack_.empty()) Fail("", "the program is damaged: nothing to pop");
  const TemplateValue value = stack_.back();
  stack_.pop_back();
  return value;
}

TemplateValue& TemplateRun::Top() {
  if (stack_.empty()) Fail("", "the program is damaged: nothing to pop");
  return stack_.back();
}

std::vector<TemplateValue> TemplateRun::PopMany(uint32_t count) {
  if (stack_.size() < count) Fail("", "the program is damaged: nothing to pop");
  std::vector<TemplateValue> values(stack_.end() - count, stack_.end());
  stack_.resize(stack_.size() - count);
  return values;
}

TemplateValue& TemplateRun::Variable(FrameObject& frame, uint32_t place) {
  FrameObject* at = &frame;
  for (uint32_t up = place >> 16; up > 0 && at != nullptr; --up) at = at->outer;
  if (at == nullptr || (place & 0xffff) >= at->slots.size()) Fail("", "the program is damaged: no such variable");
  return at->slots[place & 0xffff];
}

void TemplateRun::Emit(std::string_view text) {
  std::string& buffer = buffers_.back();
  CheckSize(buffer.size() + text.size());
  Step(text.size() / 64);
  buffer.append(text);
}

Arguments TemplateRun::PopArguments(uint32_t shape, uint32_t names) {
  Arguments arguments;
  const uint32_t keywords = shape >> 8 & 255;
  const TemplateValue mapping = (shape & 2u << 16) != 0 ? Pop() : TemplateValue();
  const TemplateValue sequence = (shape & 1u << 16) != 0 ? Pop() : TemplateValue();
  const std::vector<TemplateValue> values = PopMany(keywords);
  arguments.positional = PopMany(shape & 255);
  if (!sequence.Is(ValueKind::Missing)) {
    const std::vector<TemplateValue> more = ListOf(*this, sequence);
    arguments.positional.insert(arguments.positional.end(), more.begin(), more.end());
  }
  for (uint32_t i = 0; i < keywords; ++i)
    arguments.keywords.emplace_back(program_.constants[names].names[i], values[i]);
  if (mapping.Is(ValueKind::Undefined)) FailUndefined(mapping);
  if (!mapping.Is(ValueKind::Missing)) {
    if (!mapping.Is(ValueKind::Dict)) TypeError("argument after ** must be a mapping");
    for (const auto& [key, value] : mapping.As<DictObject>().items) {
      if (!key.Is(ValueKind::Str)) TypeError("keywords must be strings");
      for (const auto& [name, other] : arguments.keywords) {
        if (name == key.str()) TypeError("got multiple values for keyword argument '" + name + "'");
      }
      arguments.keywords.emplace_back(key.str(), value);
    }
  }
  return arguments;
}

TemplateValue TemplateRun::RunFunction(const TemplateFunction& function, FrameObject& frame) {
  const Deeper deeper(*this);
  const size_t base = stack_.size(), caller_at = at_;
  const std::vector<uint32_t>& code = program_.code;
  for (size_t at = function.entry;;) {
    if (at >= code.size()) Fail("", "the program is damaged: it runs over its end");
    Step();
    at_ = at;
    const TemplateOp op = static_cast<TemplateOp>(code[at] & 255);
    const uint32_t a = code[at] >> 8;
    const uint32_t extra = TemplateExtraWords(op);
    if (code.size() - at <= extra) Fail("", "the program is damaged: it runs over its end");
    const uint32_t b = extra > 0 ? code[at + 1] : 0, c = extra > 1 ? code[at + 2] : 0;
    at += 1 + extra;
    switch (op) {
      case TemplateOp::Const: Push(Constant(a)); break;
      case TemplateOp::Missing: Push({}); break;
      case TemplateOp::Load: Push(Variable(frame, a)); break;
      case TemplateOp::Store: Variable(frame, a) = Pop(); break;
      case TemplateOp::Resolve: {
        const TemplateValue* found = variables_->Find(Name(a));
        if (found == nullptr) found = globals_->Find(Name(a));
        Push(found == nullptr ? TemplateValue() : *found);
        break;
      }
      case TemplateOp::Defined:
        if (Top().Is(ValueKind::Missing)) Top() = Undefined(Repr(*this, Constant(a)) + " is undefined");
        break;
      case TemplateOp::NotProvided:
        Push(Undefined("parameter " + Repr(*this, Constant(a)) + " was not provided"));
        break;
      case TemplateOp::CondUndefined:
        Push(Undefined("the inline if-expression evaluated to false and no else section was defined."));
        break;
      case TemplateOp::Pop: Pop(); break;
      case TemplateOp::List: Push(List(PopMany(a))); break;
      case TemplateOp::Tuple: Push(Tuple(PopMany(a))); break;
      case TemplateOp::Dict: {
        DictObject* dict = NewDict();
        const std::vector<TemplateValue> parts = PopMany(2 * a);
        for (size_t i = 0; i < parts.size(); i += 2) SetKey(*this, *dict, parts[i], parts[i + 1]);
        Push(TemplateValue::Of(ValueKind::Dict, dict));
        break;
      }
      case TemplateOp::Binary: {
        const TemplateValue right = Pop(), left = Pop();
        Push(BinaryOf(*this, static_cast<TemplateBinary>(a), left, right));
        break;
      }
      case TemplateOp::Concat: {
        std::string text;
        for (const TemplateValue& value : PopMany(a)) {
          text += ToText(*this, value);
          CheckSize(text.size());
        }
        Push(Str(std::move(text)));
        break;
      }
      case TemplateOp::Compare:
      case TemplateOp::CompareNext: {
        const TemplateValue right = Pop(), left = Pop();
        if (op == TemplateOp::CompareNext) Push(right);
        Push(TemplateValue::Bool(CompareOf(*this, static_cast<TemplateCompare>(a), left, right)));
        break;
      }
      case TemplateOp::Under: {
        const TemplateValue top = Pop();
        Top() = top;
        break;
      }
      case TemplateOp::Not: Top() = TemplateValue::Bool(!Truth(Top())); break;
      case TemplateOp::Negative: Top() = Negated(*this, Top()); break;
      case TemplateOp::Positive: Top() = llmc::Positive(*this, Top()); break;
      case TemplateOp::Jump: at = a; break;
      case TemplateOp::JumpIfFalse:
        if (!Truth(Pop())) at = a;
        break;
      case TemplateOp::AndJump:
      case TemplateOp::OrJump:
        if (Truth(Top()) == (op == TemplateOp::OrJump))
          at = a;
        else
          Pop();
        break;
      case TemplateOp::JumpIfSet:
        if (!Pop().Is(ValueKind::Missing)) at = a;
        break;
      case TemplateOp::Attribute: Top() = GetAttribute(*this, TemplateValue(Top()), Name(a)); break;
      case TemplateOp::Item: {
        const TemplateValue key = Pop(), object = Pop();
        Push(GetItem(*this, object, key));
        break;
      }
      case TemplateOp::Slice: {
        const TemplateValue step = (a & 4) != 0 ? Pop() : TemplateValue(),
                            stop = (a & 2) != 0 ? Pop() : TemplateValue();
        const TemplateValue start = (a & 1) != 0 ? Pop() : TemplateValue(), object = Pop();
        Push(SliceOf(*this, object, start, stop, step));
        break;
      }
      case TemplateOp::Call: {
        const Arguments arguments = PopArguments(a, b);
        const TemplateValue callee = Pop();
        Push(Call(callee, arguments));
        break;
      }
      case TemplateOp::Filter:
      case TemplateOp::Test: {
        const Arguments arguments = PopArguments(a, c);
        if (arguments.positional.empty()) Fail("", "the program is damaged: a filter of nothing");
        Push(op == TemplateOp::Filter ? CallFilter(program_.filters[b], arguments)
                                      : TemplateValue::Bool(CallTest(program_.tests[b], arguments)));
        break;
      }
      case TemplateOp::Emit: {
        const TemplateValue value = Pop();
        if (value.Is(ValueKind::Str))
          Emit(value.str());
        else
          Emit(ToText(*this, value));
        break;
      }
      case TemplateOp::EmitConst: Emit(Name(a)); break;
      case TemplateOp::Capture:
        if (buffers_.size() > limits_.depth * 4) TooMuch("levels of nesting", limits_.depth * 4);
        buffers_.emplace_back();
        break;
      case TemplateOp::EndCapture: {
        if (buffers_.size() < 2) Fail("", "the program is damaged: no text is captured");
        std::string text = std::move(buffers_.back());
        buffers_.pop_back();
        Push(Str(std::move(text)));
        break;
      }
      case TemplateOp::DropCaptures:
        if (buffers_.size() <= a) Fail("", "the program is damaged: no text is captured");
        buffers_.resize(buffers_.size() - a);
        break;
      case TemplateOp::Iterate: Top() = TemplateValue::Of(ValueKind::Iterator, IteratorOf(*this, Top())); break;
      case TemplateOp::LoopContext: {
        LoopObject* loop = New<LoopObject>();
        loop->iterable = Pop();
        loop->iterator = IteratorOf(*this, loop->iterable);
        if (a != 0) {
          loop->recurse = &program_.functions[a - 1];
          loop->outer = frame.outer;
          loop->depth0 = AsIndex(*this, Variable(frame, 1));
        }
        Push(TemplateValue::Of(ValueKind::Loop, loop));
        break;
      }
      case TemplateOp::Next: {
        const TemplateValue source = Variable(frame, a);
        TemplateValue item;
        bool more = false;
        if (source.Is(ValueKind::Loop))
          more = LoopNext(source.As<LoopObject>(), item);
        else if (source.Is(ValueKind::Iterator))
          more = Next(source.As<IteratorObject>(), item);
        else
          Fail("", "the program is damaged: no loop");
        if (more)
          Push(item);
        else
          at = b;
        break;
      }
      case TemplateOp::Unpack: {
        const TemplateValue value = Pop();
        if (!IsIterable(value)) TypeError(std::string("cannot unpack non-iterable ") + TypeName(value) + " object");
        const std::vector<TemplateValue> items = ListOf(*this, value);
        if (items.size() > a) ValueError("too many values to unpack (expected " + std::to_string(a) + ")");
        if (items.size() < a)
          ValueError("not enough values to unpack (expected " + std::to_string(a) + ", got " +
                     std::to_string(items.size()) + ")");
        for (size_t i = items.size(); i-- > 0;) Push(items[i]);
        break;
      }
      case TemplateOp::CheckNamespace:
        if (!Pop().Is(ValueKind::Namespace))
          Fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
        break;
      case TemplateOp::SetAttribute: {
        const TemplateValue object = Pop(), value = Pop();
        if (!object.Is(ValueKind::Namespace))
          Fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
        if (Name(a).starts_with("_"))
          Fail("SecurityError", "Chat templates cannot store underscore-prefixed attributes on a namespace, but got " +
                                    Repr(*this, Constant(a)) + ". Please rename the attribute.");
        Charge(sizeof(TemplateValue) * 2);
        object.As<NamespaceObject>().attributes.Set(Constant(a), value);
        break;
      }
      case TemplateOp::Macro: {
        MacroObject* macro = New<MacroObject>();
        macro->function = &program_.functions[a];
        macro->outer = &frame;
        Push(TemplateValue::Of(ValueKind::Macro, macro));
        break;
      }
      case TemplateOp::LoopFilter: {
        const TemplateFunction* filter = &program_.functions[a];
        IteratorObject* source = IteratorOf(*this, Pop());
        FrameObject* inner = New<FrameObject>(filter->slots * sizeof(TemplateValue));
        inner->outer = &frame;
        Push(Iterator([filter, source, inner](TemplateRun& run, TemplateValue& out) {
          for (TemplateValue item; run.Next(*source, item);) {
            inner->slots.assign(filter->slots, {});
            inner->slots[0] = item;
            out = run.RunFunction(*filter, *inner);
            if (!out.Is(ValueKind::Missing)) return true;
          }
          return false;
        }));
        break;
      }
      case TemplateOp::RecursiveLoop: {
        const TemplateValue iterable = Pop();
        Push(RecursiveLoop(program_.functions[a], &frame, iterable, 0));
        break;
      }
      case TemplateOp::Return: {
        const TemplateValue result = Pop();
        if (stack_.size() < base) Fail("", "the program is damaged: nothing to pop");
        stack_.resize(base);
        at_ = caller_at;
        return result;
      }
      case TemplateOp::count: Fail("", "the program is damaged: an unknown instruction");
    }
  }
}

TemplateValue TemplateRun::RecursiveLoop(const TemplateFunction& function, FrameObject* outer,
                                         const TemplateValue& iterable, int64_t depth) {
  FrameObject* frame = New<FrameObject>(function.slots * sizeof(TemplateValue));
  frame->slots.resize(function.slots);
  frame->outer = outer;
  frame->slots[0] = iterable;
  frame->slots[1] = TemplateValue::Int(depth);
  return RunFunction(function, *frame);
}

TemplateValue TemplateRun::Call(const TemplateValue& callee, const Arguments& arguments) {
  Step();
  switch (callee.kind) {
    case ValueKind::Macro: return CallMacro(callee.As<MacroObject>(), arguments);
    case ValueKind::Function: return callee.As<FunctionObject>().function(*this, arguments);
    case ValueKind::Method: {
      const MethodObject& method = callee.As<MethodObject>();
      return method.method(*this, method.self, arguments);
    }
    case ValueKind::Joiner: {
      Bind("joiner", arguments, {}, 0);
      JoinerObject& joiner = callee.As<JoinerObject>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return Str("");
    }
    case ValueKind::Loop: {
      const LoopObject& loop = callee.As<LoopObject>();
      const TemplateValue iterable = Bind("loop", arguments, {"iterable"}, 1)[0];
      if (loop.recurse == nullptr) TypeError("The loop must have the 'recursive' marker to be called recursively.");
      return RecursiveLoop(*loop.recurse, loop.outer, iterable, loop.depth0 + 1);
    }
    case ValueKind::Undefined: FailUndefined(callee);
    default: TypeError(std::string("'") + TypeName(callee) + "' object is not callable");
  }
}

// Macro.__call__ of jinja2.
TemplateValue TemplateRun::CallMacro(const MacroObject& macro, const Arguments& arguments) {
  const TemplateFunction& f = *macro.function;
  const size_t count = f.parameters.size(), given = std::min(count, arguments.positional.size());
  FrameObject* frame = New<FrameObject>(f.slots * sizeof(TemplateValue));
  frame->slots.resize(f.slots);
  frame->outer = macro.outer;
  std::copy_n(arguments.positional.begin(), given, frame->slots.begin());
  auto keywords = arguments.keywords;
  const auto take = [&](std::string_view name) {
    const auto found = std::find_if(keywords.begin(), keywords.end(), [&](const auto& k) { return k.first == name; });
    if (found == keywords.end()) return TemplateValue();
    const TemplateValue value = found->second;
    keywords.erase(found);
    return value;
  };
  bool found_caller =
      given == count && std::find(f.parameters.begin(), f.parameters.end(), "caller") != f.parameters.end();
  for (size_t i = given; i < count; ++i) {
    frame->slots[i] = take(f.parameters[i]);
    found_caller = found_caller || f.parameters[i] == "caller";
  }
  const std::string shown = f.name.empty() ? "None" : "'" + f.name + "'";
  if (f.caller && !found_caller) {
    TemplateValue caller = take("caller");
    if (caller.Is(ValueKind::Missing) || caller.Is(ValueKind::None)) caller = Undefined("No caller defined");
    frame->slots[count] = caller;
  }
  if (f.kwargs) {
    DictObject* rest = NewDict();
    for (const auto& [name, value] : keywords) rest->Set(Str(name), value);
    frame->slots[count + 1] = TemplateValue::Of(ValueKind::Dict, rest);
  } else if (!keywords.empty()) {
    for (const auto& [name, value] : keywords) {
      if (name == "caller")
        TypeError("macro " + shown +
                  " was invoked with two values for the special caller argument. This is most likely a bug.");
    }
    TypeError("macro " + shown + " takes no keyword argument '" + keywords[0].first + "'");
  }
  if (f.varargs) {
    frame->slots[count + 2] =
        Tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(given), arguments.positional.end()});
  } else if (arguments.positional.size() > count) {
    TypeError("macro " + shown + " takes not more than " + std::to_string(count) + " argument(s)");
  }
  return RunFunction(f, *frame);
}

// LoopContext of jinja2.
bool TemplateRun::LoopNext(LoopObject& loop, TemplateValue& out) {
  if (!loop.after.Is(ValueKind::Missing)) {
    out = loop.after;
    loop.after = {};
  } else if (!Next(*loop.iterator, out)) {
    return false;
  }
  ++loop.index0;
  loop.before = loop.current;
  loop.current = out;
  return true;
}

const TemplateValue& TemplateRun::LoopPeek(LoopObject& loop) {
  TemplateValue next;
  if (loop.after.Is(ValueKind::Missing) && Next(*loop.iterator, next)) loop.after = next;
  return loop.after;
}

int64_t TemplateRun::LoopLength(LoopObject& loop) {
  if (loop.length >= 0) return loop.length;
  if (const std::optional<int64_t> length = LengthOf(*this, loop.iterable)) {
    loop.length = *length;
  } else {
    const TemplateValue rest = List(ListOf(*this, TemplateValue::Of(ValueKind::Iterator, loop.iterator)));
    loop.iterator = IteratorOf(*this, rest);
    loop.length =
        static_cast<int64_t>(rest.items().size()) + loop.index0 + 1 + (loop.after.Is(ValueKind::Missing) ? 0 : 1);
  }
  return loop.length;
}

}  // namespace llmc
