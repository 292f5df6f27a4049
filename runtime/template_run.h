// One rendering of a chat template: its objects, its limits, and the operations of its values. Every operation does
// what Python, jinja2 3.1's sandbox and transformers' additions do, or throws TemplateError, whose text begins with
// Python's name of the exception.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/template_value.h"

namespace llmc {

struct TemplateLimits {
  uint64_t steps = 50'000'000;           // instructions, items and 64 bytes of text each count as one
  uint64_t output = uint64_t{64} << 20;  // bytes of the rendered text, and of any one string
  uint64_t memory = uint64_t{1} << 30;   // bytes of all objects, roughly
  uint32_t depth = 300;                  // nested calls, and nesting of what is printed or compared
};

class TemplateRun {
 public:
  TemplateRun(const TemplateProgram& program, const TextTables& tables, const TemplateLimits& limits);
  ~TemplateRun();

  std::string Render();

  void SetVariable(const std::string& name, const Value& value) { variables_->Set(Str(name), value); }
  // Seconds since 1970 and microseconds, for strftime_now; without it the system's clock.
  std::optional<std::pair<int64_t, int64_t>> now;

  // Objects.
  template <typename T>
  T* New(size_t bytes = 0) {
    Charge(sizeof(T) + bytes);
    auto object = std::make_unique<T>();
    T* pointer = object.get();
    objects_.push_back(std::move(object));
    return pointer;
  }
  Value Str(std::string text, bool markup = false);
  Value List(std::vector<Value> items);
  Value Tuple(std::vector<Value> items);
  Value Big(BigInt value);  // an Int if it fits
  Value Undefined(std::string message, bool security = false);
  DictObject* NewDict() { return New<DictObject>(); }
  Value Iterator(std::function<bool(TemplateRun&, Value&)> next, const char* type = "generator");
  Value Function(const char* name, NativeFunction function);

  // Limits.
  void Step(uint64_t count = 1) {
    if ((steps_ += count) > limits_.steps) TooMuch("steps", limits_.steps);
  }
  void Charge(uint64_t bytes) {
    if ((memory_ += bytes) > limits_.memory) TooMuch("bytes of memory", limits_.memory);
  }
  // What a string or a list may grow to, before it is made.
  void CheckSize(uint64_t bytes) {
    if (bytes > limits_.output) TooMuch("bytes of text", limits_.output);
  }
  class Deeper {
   public:
    explicit Deeper(TemplateRun& run) : run_(run) {
      if (++run_.depth_ > run_.limits_.depth) {
        --run_.depth_;
        run_.TooMuch("levels of nesting", run_.limits_.depth);
      }
    }
    ~Deeper() { --run_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    TemplateRun& run_;
  };

  [[noreturn]] void Fail(std::string_view type, std::string_view message) const;
  [[noreturn]] void TypeError(std::string_view message) const { Fail("TypeError", message); }
  [[noreturn]] void ValueError(std::string_view message) const { Fail("ValueError", message); }
  // Using an undefined value.
  [[noreturn]] void FailUndefined(const Value& undefined) const;

  // Calls.
  Value Call(const Value& callee, const Arguments& arguments);
  Value CallMacro(const MacroObject& macro, const Arguments& arguments);
  Value CallFilter(const std::string& name, const Arguments& arguments);
  bool CallTest(const std::string& name, const Arguments& arguments);
  // The text of a recursive loop's body over a value.
  Value RecursiveLoop(const TemplateFunction& function, FrameObject* outer, const Value& iterable, int64_t depth);
  bool Next(IteratorObject& iterator, Value& out);
  bool LoopNext(LoopObject& loop, Value& out);
  const Value& LoopPeek(LoopObject& loop);
  int64_t LoopLength(LoopObject& loop);
  // Binds arguments to names, the first `required` of which must be there; others are Missing.
  std::vector<Value> Bind(std::string_view function, const Arguments& arguments,
                          std::initializer_list<std::string_view> names, size_t required, size_t skip = 0);

  const TextTables& tables() const { return tables_; }
  const TemplateProgram& program() const { return program_; }

 private:
  [[noreturn]] void TooMuch(const char* what, uint64_t limit) const;
  Value RunFunction(const TemplateFunction& function, FrameObject& frame);
  Arguments PopArguments(uint32_t shape, uint32_t names);
  Value Pop();
  Value& Top();
  void Push(const Value& value) { stack_.push_back(value); }
  std::vector<Value> PopMany(uint32_t count);
  Value& Variable(FrameObject& frame, uint32_t place);
  void Emit(std::string_view text);
  const Value& Constant(uint32_t index) const { return constants_[index]; }
  const std::string& Name(uint32_t index) const { return program_.constants[index].text; }

  const TemplateProgram& program_;
  const TextTables& tables_;
  TemplateLimits limits_;
  uint64_t steps_ = 0, memory_ = 0;
  uint32_t depth_ = 0;
  size_t at_ = 0;  // the instruction that runs: for messages
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<Value> constants_, stack_;
  std::vector<std::string> buffers_;
  DictObject* variables_ = nullptr;
  DictObject* globals_ = nullptr;
};

// Operations. Python's name of a value's type: "str", "dict", "NoneType", ..
const char* TypeName(const Value& value);
bool Truth(const Value& value);
std::string ToText(TemplateRun& run, const Value& value);  // str(x)
std::string Repr(TemplateRun& run, const Value& value);
// soft_str: a Str as it is, anything else as its text.
Value SoftText(TemplateRun& run, const Value& value);
std::string FloatRepr(double value);
struct JsonStyle {
  bool ascii = false, sort = false;
  std::optional<std::string> indent;
  std::string item = ", ", key = ": ";
};
std::string ToJson(TemplateRun& run, const Value& value, const JsonStyle& style);

Value BinaryOf(TemplateRun& run, TemplateBinary op, const Value& a, const Value& b);
Value Negated(TemplateRun& run, const Value& value);
Value Positive(TemplateRun& run, const Value& value);
bool Equal(TemplateRun& run, const Value& a, const Value& b);
bool CompareOf(TemplateRun& run, TemplateCompare op, const Value& a, const Value& b);
bool Contains(TemplateRun& run, const Value& item, const Value& container);
BigInt AsBig(const Value& integer);                      // of Int, Bool, BigInt
double AsDouble(TemplateRun& run, const Value& number);  // OverflowError for an integer that is too large
int CompareNumbers(const Value& a, const Value& b, bool& unordered);
// A number of things: of an Int or Bool, clamped to 64 bits. TypeError: `what` for anything else.
int64_t AsIndex(TemplateRun& run, const Value& value, std::string_view what = "integer");

Value GetAttribute(TemplateRun& run, const Value& object, const std::string& name);  // x.name
Value GetItem(TemplateRun& run, const Value& object, const Value& key);              // x[key]
// The attribute alone; Missing: there is none. Used by both.
Value FindAttribute(TemplateRun& run, const Value& object, const std::string& name);
Value SliceOf(TemplateRun& run, const Value& object, const Value& start, const Value& stop, const Value& step);
struct SliceRange {
  int64_t start, step, length;
};
SliceRange ResolveSlice(TemplateRun& run, int64_t size, const Value& start, const Value& stop, const Value& step);
std::optional<int64_t> LengthOf(TemplateRun& run, const Value& value);  // len(x); nothing: it has none
IteratorObject* IteratorOf(TemplateRun& run, const Value& value);       // iter(x)
bool IsIterable(const Value& value);
std::vector<Value> ListOf(TemplateRun& run, const Value& iterable);
Value ReversedOf(TemplateRun& run, const Value& value);  // reversed(x); Missing: it isn't reversible
std::vector<Value> DictItems(TemplateRun& run, const DictObject& dict, ViewObject::Part part);
// dict(x): from a dict or pairs, into `to`.
void UpdateDict(TemplateRun& run, DictObject& to, const Value& from);
void SetKey(TemplateRun& run, DictObject& to, const Value& key, const Value& value);  // TypeError: unhashable

// sorted(): stable, by `keys` (as many as items).
void SortBy(TemplateRun& run, std::vector<Value>& items, const std::vector<Value>& keys, bool reverse);

// '%' and str.format, with the argument values. markup: escapes what it fills in.
std::string FormatPercent(TemplateRun& run, const Value& format, const Value& arguments);
std::string FormatBraces(TemplateRun& run, const Value& format, const Arguments& arguments);
std::string FormatSpec(TemplateRun& run, const Value& value, std::string_view spec);
std::string EscapeHtml(std::string_view text);
Value EscapedOf(TemplateRun& run, const Value& value);  // markupsafe.escape

// Methods and globals by name; null: none.
NativeMethod FindMethod(const Value& self, std::string_view name, const char*& stored_name);
bool IsKnownFilter(std::string_view name);
bool IsKnownTest(std::string_view name);
NativeFunction FindFilter(std::string_view name);
NativeFunction FindTest(std::string_view name);
NativeFunction FindNumberFilter(std::string_view name);
NativeFunction FindSequenceFilter(std::string_view name);
void AddGlobals(TemplateRun& run, DictObject& globals);
Value StrftimeNow(TemplateRun& run, const Arguments& arguments);

}  // namespace llmc
