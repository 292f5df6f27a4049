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

  void SetVariable(const std::string& name, const TemplateValue& value) { variables_->Set(Str(name), value); }
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
  TemplateValue Str(std::string text, bool markup = false);
  TemplateValue List(std::vector<TemplateValue> items);
  TemplateValue Tuple(std::vector<TemplateValue> items);
  TemplateValue Big(BigInt value);  // an Int if it fits
  TemplateValue Undefined(std::string message, bool security = false);
  DictObject* NewDict() { return New<DictObject>(); }
  TemplateValue Iterator(std::function<bool(TemplateRun&, TemplateValue&)> next, const char* type = "generator");
  TemplateValue Function(const char* name, NativeFunction function);

  // Limits.
  void Step(uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) TooMuch("steps", limits_.steps);
  }
  void Charge(uint64_t bytes) {
    memory_ += bytes;
    if (memory_ > limits_.memory) TooMuch("bytes of memory", limits_.memory);
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
  [[noreturn]] void FailUndefined(const TemplateValue& undefined) const;

  // Calls.
  TemplateValue Call(const TemplateValue& callee, const Arguments& arguments);
  TemplateValue CallMacro(const MacroObject& macro, const Arguments& arguments);
  TemplateValue CallFilter(const std::string& name, const Arguments& arguments);
  bool CallTest(const std::string& name, const Arguments& arguments);
  // The text of a recursive loop's body over a value.
  TemplateValue RecursiveLoop(const TemplateFunction& function, FrameObject* outer, const TemplateValue& iterable,
                              int64_t depth);
  bool Next(IteratorObject& iterator, TemplateValue& out);
  bool LoopNext(LoopObject& loop, TemplateValue& out);
  const TemplateValue& LoopPeek(LoopObject& loop);
  int64_t LoopLength(LoopObject& loop);
  // Binds arguments to names, the first `required` of which must be there; others are Missing.
  std::vector<TemplateValue> Bind(std::string_view function, const Arguments& arguments,
                                  std::initializer_list<std::string_view> names, size_t required, size_t skip = 0);

  const TextTables& tables() const { return tables_; }
  const TemplateProgram& program() const { return program_; }

 private:
  [[noreturn]] void TooMuch(const char* what, uint64_t limit) const;
  TemplateValue RunFunction(const TemplateFunction& function, FrameObject& frame);
  Arguments PopArguments(uint32_t shape, uint32_t names);
  TemplateValue Pop();
  TemplateValue& Top();
  void Push(const TemplateValue& value) { stack_.push_back(value); }
  std::vector<TemplateValue> PopMany(uint32_t count);
  TemplateValue& Variable(FrameObject& frame, uint32_t place);
  void Emit(std::string_view text);
  const TemplateValue& Constant(uint32_t index) const { return constants_[index]; }
  const std::string& Name(uint32_t index) const { return program_.constants[index].text; }

  const TemplateProgram& program_;
  const TextTables& tables_;
  TemplateLimits limits_;
  uint64_t steps_ = 0, memory_ = 0;
  uint32_t depth_ = 0;
  size_t at_ = 0;  // the instruction that runs: for messages
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<TemplateValue> constants_, stack_;
  std::vector<std::string> buffers_;
  DictObject* variables_ = nullptr;
  DictObject* globals_ = nullptr;
};

// Operations. Python's name of a value's type: "str", "dict", "NoneType", ..
const char* TypeName(const TemplateValue& value);
bool Truth(const TemplateValue& value);
std::string ToText(TemplateRun& run, const TemplateValue& value);  // str(x)
std::string Repr(TemplateRun& run, const TemplateValue& value);
// soft_str: a Str as it is, anything else as its text.
TemplateValue SoftText(TemplateRun& run, const TemplateValue& value);
std::string FloatRepr(double value);
struct JsonStyle {
  bool ascii = false, sort = false;
  std::optional<std::string> indent;
  std::string item = ", ", key = ": ";
};
std::string ToJson(TemplateRun& run, const TemplateValue& value, const JsonStyle& style);

TemplateValue BinaryOf(TemplateRun& run, TemplateBinary op, const TemplateValue& a, const TemplateValue& b);
TemplateValue Negated(TemplateRun& run, const TemplateValue& value);
TemplateValue Positive(TemplateRun& run, const TemplateValue& value);
bool Equal(TemplateRun& run, const TemplateValue& a, const TemplateValue& b);
bool CompareOf(TemplateRun& run, TemplateCompare op, const TemplateValue& a, const TemplateValue& b);
bool Contains(TemplateRun& run, const TemplateValue& item, const TemplateValue& container);
BigInt AsBig(const TemplateValue& integer);                      // of Int, Bool, BigInt
double AsDouble(TemplateRun& run, const TemplateValue& number);  // OverflowError for an integer that is too large
int CompareNumbers(const TemplateValue& a, const TemplateValue& b, bool& unordered);
// A number of things: of an Int or Bool, clamped to 64 bits. TypeError: `what` for anything else.
int64_t AsIndex(TemplateRun& run, const TemplateValue& value, std::string_view what = "integer");

TemplateValue GetAttribute(TemplateRun& run, const TemplateValue& object, const std::string& name);  // x.name
TemplateValue GetItem(TemplateRun& run, const TemplateValue& object, const TemplateValue& key);      // x[key]
// The attribute alone; Missing: there is none. Used by both.
TemplateValue FindAttribute(TemplateRun& run, const TemplateValue& object, const std::string& name);
TemplateValue SliceOf(TemplateRun& run, const TemplateValue& object, const TemplateValue& start,
                      const TemplateValue& stop, const TemplateValue& step);
struct SliceRange {
  int64_t start, step, length;
};
SliceRange ResolveSlice(TemplateRun& run, int64_t size, const TemplateValue& start, const TemplateValue& stop,
                        const TemplateValue& step);
std::optional<int64_t> LengthOf(TemplateRun& run, const TemplateValue& value);  // len(x); nothing: it has none
IteratorObject* IteratorOf(TemplateRun& run, const TemplateValue& value);       // iter(x)
bool IsIterable(const TemplateValue& value);
std::vector<TemplateValue> ListOf(TemplateRun& run, const TemplateValue& iterable);
TemplateValue ReversedOf(TemplateRun& run, const TemplateValue& value);  // reversed(x); Missing: it isn't reversible
std::vector<TemplateValue> DictItems(TemplateRun& run, const DictObject& dict, ViewObject::Part part);
// dict(x): from a dict or pairs, into `to`.
void UpdateDict(TemplateRun& run, DictObject& to, const TemplateValue& from);
void SetKey(TemplateRun& run, DictObject& to, const TemplateValue& key,
            const TemplateValue& value);  // TypeError: unhashable

// sorted(): stable, by `keys` (as many as items).
void SortBy(TemplateRun& run, std::vector<TemplateValue>& items, const std::vector<TemplateValue>& keys, bool reverse);

// '%' and str.format, with the argument values. markup: escapes what it fills in.
std::string FormatPercent(TemplateRun& run, const TemplateValue& format, const TemplateValue& arguments);
std::string FormatBraces(TemplateRun& run, const TemplateValue& format, const Arguments& arguments);
std::string FormatSpec(TemplateRun& run, const TemplateValue& value, std::string_view spec);
std::string EscapeHtml(std::string_view text);
TemplateValue EscapedOf(TemplateRun& run, const TemplateValue& value);  // markupsafe.escape

// Methods and globals by name; null: none.
NativeMethod FindMethod(const TemplateValue& self, std::string_view name, const char*& stored_name);
bool IsKnownFilter(std::string_view name);
bool IsKnownTest(std::string_view name);
NativeFunction FindFilter(std::string_view name);
NativeFunction FindTest(std::string_view name);
NativeFunction FindNumberFilter(std::string_view name);
NativeFunction FindSequenceFilter(std::string_view name);
void AddGlobals(TemplateRun& run, DictObject& globals);
TemplateValue StrftimeNow(TemplateRun& run, const Arguments& arguments);

}  // namespace llmc
