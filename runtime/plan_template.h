// Chat templates of a plan: each a small program for the stack machine of template_vm.cpp, what all of them share, and
// the section's bytes. The compiler is frontend/template.h; runtime/README.md, "Chat templates", specifies both.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/plan_text_tables.h"

namespace llmc {

// One word an instruction: the op in the lower 8 bits, an operand a in the upper 24; ops marked + have a second word b.
// "push", "pop" and the like are about the stack of values.
enum class TemplateOp : uint8_t {
  Const,           // push constant a
  Missing,         // push the value that stands for a variable which was never set
  Load,            // push a variable: a = levels up (8 bits) and slot (16 bits)
  Store,           // pop into a variable
  Resolve,         // push the variable of the rendering named by constant a, else a global, else Missing
  Defined,         // a missing top becomes the undefined value named by constant a
  NotProvided,     // push the undefined value of a macro's parameter, named by constant a
  CondUndefined,   // push the undefined value of an inline if without else
  Pop,             // drop the top
  List,            // pop a values, push a list
  Tuple,           // pop a values, push a tuple
  Dict,            // pop a pairs of key and value, push a dict
  Binary,          // pop two, push the result of operator a (TemplateBinary)
  Concat,          // pop a values, push their texts joined (~)
  Compare,         // pop two, push the result of comparison a (TemplateCompare)
  CompareNext,     // the same, and keep the second operand below the result: a < b < c
  Under,           // drop the value below the top
  Not,             // pop, push the truth's opposite
  Negative,        // pop, push -x
  Positive,        // pop, push +x
  Jump,            // to a
  JumpIfFalse,     // pop; to a if it isn't true
  AndJump,         // to a if the top isn't true, else pop
  OrJump,          // to a if the top is true, else pop
  JumpIfSet,       // pop; to a unless it is missing
  Attribute,       // pop an object, push its attribute (or item) named by constant a
  Item,            // pop key and object, push its item (or attribute)
  Slice,           // pop those of start, stop, step that a's bits 1, 2, 4 announce, and the object; push obj[..:..:..]
  Call,            // +a: positional (8 bits), keywords (8), bits 1: *args, 2: **kwargs. b: constant with the keywords'
                   // names (if any). Stack: function, positional, keywords' values, *args, **kwargs. Push the result
  Filter,          // + the same for filter b, whose first positional value is the filtered one; names: next word
  Test,            // + the same for a test
  Emit,            // pop, write its text
  EmitConst,       // write constant a
  Capture,         // what is written from here on goes into a new buffer
  EndCapture,      // push the buffer's text
  DropCaptures,    // forget the a innermost buffers
  Iterate,         // pop a value, push an iterator over it
  LoopContext,     // pop an iterator, push a loop context over it; a: 1 + function of a recursive loop, or 0
  Next,            // + push the next item of the iterator or loop in slot a, or go to b
  Unpack,          // pop, push its a items, the last one first
  CheckNamespace,  // fail unless the top is a namespace; pop it
  SetAttribute,    // pop a value, then a namespace; set attribute constant a
  Macro,           // push a macro of function a, closed over this frame
  LoopFilter,      // pop an iterator, push one over the items that function a lets through
  RecursiveLoop,   // pop a value, push the text of function a over it
  Return,          // pop and give it to the caller
  count
};

enum class TemplateBinary : uint8_t { Add, Sub, Mul, Div, FloorDiv, Mod, Pow, count };
enum class TemplateCompare : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, In, NotIn, count };

struct TemplateConst {
  enum class Kind : uint8_t { None, True, False, Int, Float, Str, Names };
  Kind kind = Kind::None;
  // Str: a text or string literal of the template (control tokens are looked for there), not an attribute's or
  // argument's name.
  bool literal = false;
  double number = 0;               // Float
  std::string text;                // Str; Int: decimal digits
  std::vector<std::string> names;  // Names: of keyword arguments
};

struct TemplateFunction {
  std::string name;  // of a macro; "" for a call block's
  std::vector<std::string> parameters;
  uint32_t entry = 0;  // in `code`
  uint32_t slots = 0;  // variables; parameters come first, then those that the flags announce
  bool macro = false, caller = false, kwargs = false, varargs = false;
};

// functions[0] is the template itself.
struct TemplateProgram {
  std::string name;  // "default", "tool_use", ..
  std::vector<TemplateConst> constants;
  std::vector<std::string> filters, tests;  // names that Filter and Test index
  std::vector<TemplateFunction> functions;
  std::vector<uint32_t> code;
  std::vector<std::pair<uint32_t, uint32_t>> lines;  // from this place in `code` on: line of the source
};

struct TemplateSection {
  std::vector<TemplateProgram> templates;
  std::vector<std::pair<std::string, std::string>> variables;  // "bos_token", ..: what every rendering sees
  bool has_control_tokens = false;          // the model lists tokens that a message may not spell, beside special ones
  std::vector<std::string> control_tokens;  // that list
  TextTables tables;
};

// Filters and tests by name. Unsupported: jinja2 has it, this runtime refuses it when it is reached.
enum class TemplateNameKind : uint8_t { Unknown, Supported, Unsupported };
TemplateNameKind TemplateFilterKind(std::string_view name);
TemplateNameKind TemplateTestKind(std::string_view name);
std::span<const std::string_view> TemplateFilterNames();  // supported or not
std::span<const std::string_view> TemplateTestNames();

inline uint32_t TemplateWord(TemplateOp op, uint32_t a = 0) { return static_cast<uint32_t>(op) | a << 8; }
// Ops followed by one word, or two.
uint32_t TemplateExtraWords(TemplateOp op);

std::string EncodeTemplates(const TemplateSection& section);
// Checks the form: counts, indices of constants, functions, names and jumps. What depends on values is checked where it
// is used. Throws PlanError, which begins with `where`.
TemplateSection DecodeTemplates(std::string_view bytes, std::string_view where);

}  // namespace llmc
