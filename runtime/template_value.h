// Values of a rendering chat template, with the meaning that Python gives them. Objects live until the rendering ends.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/plan_bigint.h"
#include "runtime/plan_error.h"
#include "runtime/plan_template.h"

namespace llmc {

// The template or its data are at fault: the message begins with the place in the template.
class TemplateError : public PlanError {
 public:
  using PlanError::PlanError;
};

class TemplateRun;

enum class ValueKind : uint8_t {
  Missing,  // a variable that was never set; never seen by a template
  Undefined,
  None,
  Bool,
  Int,
  BigInt,
  Float,
  Str,
  List,
  Tuple,
  Dict,
  View,  // d.keys(), d.values(), d.items()
  Range,
  Iterator,  // generators and iterators: consumed once
  Namespace,
  Macro,
  Loop,
  Cycler,
  Joiner,
  Function,  // a global
  Method,    // of an object
};

struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
};
struct StrObject;
struct ListObject;
struct DictObject;

struct TemplateValue {
  ValueKind kind = ValueKind::Missing;
  union {
    bool boolean;
    int64_t integer;
    double number;
    Object* object;
  };
  TemplateValue() : integer(0) {}
  bool Is(ValueKind k) const { return kind == k; }
  bool IsInteger() const { return kind == ValueKind::Int || kind == ValueKind::Bool || kind == ValueKind::BigInt; }
  bool IsNumber() const { return IsInteger() || kind == ValueKind::Float; }
  bool IsSequence() const { return kind == ValueKind::List || kind == ValueKind::Tuple; }
  template <typename T>
  T& As() const {
    return static_cast<T&>(*object);
  }
  inline const std::string& str() const;
  inline bool markup() const;
  inline std::vector<TemplateValue>& items() const;  // of lists and tuples

  static TemplateValue None() { return Of(ValueKind::None); }
  static TemplateValue Bool(bool b) {
    TemplateValue v = Of(ValueKind::Bool);
    v.boolean = b;
    return v;
  }
  static TemplateValue Int(int64_t i) {
    TemplateValue v = Of(ValueKind::Int);
    v.integer = i;
    return v;
  }
  static TemplateValue Float(double d) {
    TemplateValue v = Of(ValueKind::Float);
    v.number = d;
    return v;
  }
  static TemplateValue Of(ValueKind kind, Object* object = nullptr) {
    TemplateValue v;
    v.kind = kind;
    v.object = object;
    return v;
  }
};

struct StrObject : Object {
  std::string text;             // UTF-8
  bool markup = false;          // Markup: escapes what is added to it
  mutable int64_t points = -1;  // code points, once counted
};
struct BigObject : Object {
  BigInt value;
};
struct UndefinedObject : Object {
  std::string message;    // of the error that using it gives
  bool security = false;  // an attribute that the sandbox refuses
};
struct ListObject : Object {
  std::vector<TemplateValue> items;
  bool group = false;  // a tuple of groupby: has attributes grouper and list
};
// Keys in order of insertion; nothing is ever removed.
struct DictObject : Object {
  std::vector<std::pair<TemplateValue, TemplateValue>> items;
  std::vector<uint32_t> index;                                // open addressing: 1 + place in items, 0 free
  const TemplateValue* Find(const TemplateValue& key) const;  // the key is hashable
  const TemplateValue* Find(std::string_view key) const;
  void Set(const TemplateValue& key, const TemplateValue& value);
};
struct ViewObject : Object {
  enum class Part : uint8_t { Keys, Values, Items };
  DictObject* dict = nullptr;
  Part part = Part::Keys;
};
struct RangeObject : Object {
  int64_t start = 0, stop = 0, step = 1, length = 0;
};
struct IteratorObject : Object {
  // False: nothing is left.
  virtual bool Next(TemplateRun& run, TemplateValue& out) = 0;
  const char* type = "generator";  // Python's name, in messages
  bool reentered = false;
};
struct NamespaceObject : Object {
  DictObject attributes;
};
// Variables of a function that runs, or ran.
struct FrameObject : Object {
  std::vector<TemplateValue> slots;
  FrameObject* outer = nullptr;
};
struct MacroObject : Object {
  const TemplateFunction* function = nullptr;
  FrameObject* outer = nullptr;
};
struct LoopObject : Object {
  TemplateValue iterable;
  IteratorObject* iterator = nullptr;
  int64_t index0 = -1, length = -1;
  int64_t depth0 = 0;
  TemplateValue after, current, before;  // Missing: none
  TemplateValue changed;                 // what changed() saw last
  const TemplateFunction* recurse = nullptr;
  FrameObject* outer = nullptr;
};
struct CyclerObject : Object {
  std::vector<TemplateValue> items;
  size_t position = 0;
};
struct JoinerObject : Object {
  TemplateValue separator;
  bool used = false;
};
struct Arguments;
using NativeFunction = TemplateValue (*)(TemplateRun& run, const Arguments& arguments);
struct FunctionObject : Object {
  const char* name = "";
  NativeFunction function = nullptr;
};
using NativeMethod = TemplateValue (*)(TemplateRun& run, const TemplateValue& self, const Arguments& arguments);
struct MethodObject : Object {
  const char* name = "";
  TemplateValue self;
  NativeMethod method = nullptr;
};

inline const std::string& TemplateValue::str() const { return As<StrObject>().text; }
inline bool TemplateValue::markup() const { return kind == ValueKind::Str && As<StrObject>().markup; }
inline std::vector<TemplateValue>& TemplateValue::items() const { return As<ListObject>().items; }

// Arguments of a call. For filters and tests positional[0] is the value they are applied to.
struct Arguments {
  std::vector<TemplateValue> positional;
  std::vector<std::pair<std::string, TemplateValue>> keywords;
};

// Hash and equality of Python: 1 == 1.0 == true. Hashable says whether a value can be a key.
bool Hashable(const TemplateValue& value);
uint64_t HashOf(const TemplateValue& value);
bool KeyEqual(const TemplateValue& a, const TemplateValue& b);

}  // namespace llmc
