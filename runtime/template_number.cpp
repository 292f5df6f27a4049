// Arithmetic and comparison of values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "runtime/template_run.h"

namespace llmc {
namespace {

int64_t SmallOf(const TemplateValue& v) { return v.Is(ValueKind::Bool) ? int64_t{v.boolean} : v.integer; }

const char* OperatorName(TemplateBinary op) {
  constexpr const char* kNames[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return kNames[static_cast<size_t>(op)];
}

[[noreturn]] void Unsupported(TemplateRun& run, TemplateBinary op, const TemplateValue& a, const TemplateValue& b) {
  for (const TemplateValue& v : {a, b}) {
    if (v.Is(ValueKind::Undefined)) run.FailUndefined(v);
  }
  run.TypeError(std::string("unsupported operand type(s) for ") + OperatorName(op) + ": '" + TypeName(a) + "' and '" +
                TypeName(b) + "'");
}

// Python's float_divmod: the sign of the remainder is the divisor's.
void FloatDivMod(double a, double b, double& quotient, double& remainder) {
  remainder = std::fmod(a, b);
  double division = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      division -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (division != 0) {
    quotient = std::floor(division);
    if (division - quotient > 0.5) quotient += 1;
  } else {
    quotient = std::copysign(0.0, a / b);
  }
}

TemplateValue FloatBinary(TemplateRun& run, TemplateBinary op, double a, double b) {
  double quotient = 0, remainder = 0;
  switch (op) {
    case TemplateBinary::Add: return TemplateValue::Float(a + b);
    case TemplateBinary::Sub: return TemplateValue::Float(a - b);
    case TemplateBinary::Mul: return TemplateValue::Float(a * b);
    case TemplateBinary::Div:
      if (b == 0) run.Fail("ZeroDivisionError", "float division by zero");
      return TemplateValue::Float(a / b);
    case TemplateBinary::FloorDiv:
      if (b == 0) run.Fail("ZeroDivisionError", "float floor division by zero");
      FloatDivMod(a, b, quotient, remainder);
      return TemplateValue::Float(quotient);
    case TemplateBinary::Mod:
      if (b == 0) run.Fail("ZeroDivisionError", "float modulo");
      FloatDivMod(a, b, quotient, remainder);
      return TemplateValue::Float(remainder);
    default: break;
  }
  if (a == 0 && b < 0) run.Fail("ZeroDivisionError", "0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
    run.Fail("", "a negative number to a broken power is complex, which is not supported");
  const double power = std::pow(a, b);
  if (std::isinf(power) && std::isfinite(a) && std::isfinite(b))
    run.Fail("OverflowError", "(34, 'Numerical result out of range')");
  return TemplateValue::Float(power);
}

TemplateValue BigBinary(TemplateRun& run, TemplateBinary op, const TemplateValue& left, const TemplateValue& right) {
  const BigInt a = AsBig(left), b = AsBig(right);
  run.Step((a.bits() / 32 + 1) * (b.bits() / 32 + 1));
  BigInt quotient, remainder;
  try {
    switch (op) {
      case TemplateBinary::Add: return run.Big(a + b);
      case TemplateBinary::Sub: return run.Big(a - b);
      case TemplateBinary::Mul: return run.Big(a * b);
      case TemplateBinary::Div: {
        if (b.zero()) run.Fail("ZeroDivisionError", "division by zero");
        // Exact for what 64 bits hold; beyond that the quotient's integral part decides.
        const double x = a.ToDouble(), y = b.ToDouble();
        if (a.bits() <= 53 && b.bits() <= 53) return TemplateValue::Float(x / y);
        // Scale so that the integral quotient has 64 bits or more, then round once.
        const int64_t shift = 66 - static_cast<int64_t>(a.bits()) + static_cast<int64_t>(b.bits());
        const BigInt scale = BigInt(2).Pow(static_cast<uint64_t>(shift < 0 ? -shift : shift));
        const bool negative = a.negative() != b.negative();
        const BigInt positive_a = a.negative() ? -a : a, positive_b = b.negative() ? -b : b;
        (shift >= 0 ? positive_a * scale : positive_a)
            .DivMod(shift >= 0 ? positive_b : positive_b * scale, quotient, remainder);
        if (!remainder.zero()) quotient = quotient * BigInt(2) + BigInt(1);  // below half of the last bit kept
        const int down = static_cast<int>(shift) + (remainder.zero() ? 0 : 1);
        const double value = std::ldexp(quotient.ToDouble(), -down);
        if (std::isinf(value)) run.Fail("OverflowError", "integer division result too large for a float");
        return TemplateValue::Float(negative ? -value : value);
      }
      case TemplateBinary::FloorDiv:
      case TemplateBinary::Mod:
        if (b.zero()) run.Fail("ZeroDivisionError", "integer division or modulo by zero");
        run.Step(a.bits() * (a.bits() / 32 + 1) / 8);
        a.DivMod(b, quotient, remainder);
        return run.Big(op == TemplateBinary::Mod ? remainder : quotient);
      default:
        if (b.negative()) return FloatBinary(run, op, AsDouble(run, left), AsDouble(run, right));
        if (!b.FitsInt64()) run.Fail("OverflowError", "a power that is too large");
        run.Step(1u << 16);
        return run.Big(a.Pow(static_cast<uint64_t>(b.ToInt64())));
    }
  } catch (const std::length_error&) {
    run.Fail("OverflowError", "an integer of more than 65536 bits is not supported");
  }
}

TemplateValue IntBinary(TemplateRun& run, TemplateBinary op, const TemplateValue& left, const TemplateValue& right) {
  if (left.Is(ValueKind::BigInt) || right.Is(ValueKind::BigInt)) return BigBinary(run, op, left, right);
  const int64_t a = SmallOf(left), b = SmallOf(right);
  int64_t result = 0;
  switch (op) {
    case TemplateBinary::Add:
      if (!__builtin_add_overflow(a, b, &result)) return TemplateValue::Int(result);
      break;
    case TemplateBinary::Sub:
      if (!__builtin_sub_overflow(a, b, &result)) return TemplateValue::Int(result);
      break;
    case TemplateBinary::Mul:
      if (!__builtin_mul_overflow(a, b, &result)) return TemplateValue::Int(result);
      break;
    case TemplateBinary::FloorDiv:
    case TemplateBinary::Mod:
      if (b == 0 || b == -1) break;  // an error, and INT64_MIN / -1
      result = a / b;
      if (a % b != 0 && (a < 0) != (b < 0)) --result;
      return TemplateValue::Int(op == TemplateBinary::Mod ? a - result * b : result);
    default: break;
  }
  return BigBinary(run, op, left, right);
}

TemplateValue Repeated(TemplateRun& run, const TemplateValue& sequence, const TemplateValue& times) {
  int64_t count = times.Is(ValueKind::BigInt) ? INT64_MAX : SmallOf(times);
  if (times.Is(ValueKind::BigInt) && times.As<BigObject>().value.negative()) count = 0;
  count = count < 0 ? 0 : count;
  const size_t size =
      sequence.Is(ValueKind::Str) ? sequence.str().size() : sequence.items().size() * sizeof(TemplateValue);
  if (size != 0 && static_cast<uint64_t>(count) > (uint64_t{1} << 40) / size) run.CheckSize(UINT64_MAX);
  run.CheckSize(size * static_cast<uint64_t>(count));
  if (size == 0) count = 0;
  if (sequence.Is(ValueKind::Str)) {
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += sequence.str();
    return run.Str(std::move(text), sequence.markup());
  }
  run.Step(static_cast<uint64_t>(count) * sequence.items().size());
  std::vector<TemplateValue> items;
  for (int64_t i = 0; i < count; ++i) items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  return sequence.Is(ValueKind::List) ? run.List(std::move(items)) : run.Tuple(std::move(items));
}

TemplateValue Joined(TemplateRun& run, TemplateBinary op, const TemplateValue& a, const TemplateValue& b) {
  if (a.Is(ValueKind::Str) && b.Is(ValueKind::Str)) {
    run.CheckSize(a.str().size() + b.str().size());
    if (!a.markup() && !b.markup()) return run.Str(a.str() + b.str());
    return run.Str(EscapedOf(run, a).str() + EscapedOf(run, b).str(), true);
  }
  if (a.IsSequence() && a.kind == b.kind) {
    std::vector<TemplateValue> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    run.Step(items.size());
    return a.Is(ValueKind::List) ? run.List(std::move(items)) : run.Tuple(std::move(items));
  }
  if (b.Is(ValueKind::Undefined)) run.FailUndefined(b);
  if (a.Is(ValueKind::Str) && !a.markup())
    run.TypeError(std::string("can only concatenate str (not \"") + TypeName(b) + "\") to str");
  if (a.IsSequence())
    run.TypeError(std::string("can only concatenate ") + TypeName(a) + " (not \"" + TypeName(b) + "\") to " +
                  TypeName(a));
  Unsupported(run, op, a, b);
}

}  // namespace

BigInt AsBig(const TemplateValue& integer) {
  return integer.Is(ValueKind::BigInt) ? integer.As<BigObject>().value : BigInt(SmallOf(integer));
}

double AsDouble(TemplateRun& run, const TemplateValue& number) {
  if (number.Is(ValueKind::Float)) return number.number;
  if (!number.Is(ValueKind::BigInt)) return static_cast<double>(SmallOf(number));
  const double value = number.As<BigObject>().value.ToDouble();
  if (std::isinf(value)) run.Fail("OverflowError", "int too large to convert to float");
  return value;
}

int64_t AsIndex(TemplateRun& run, const TemplateValue& value, std::string_view what) {
  if (value.Is(ValueKind::BigInt)) return value.As<BigObject>().value.negative() ? INT64_MIN : INT64_MAX;
  if (value.Is(ValueKind::Int) || value.Is(ValueKind::Bool)) return SmallOf(value);
  if (value.Is(ValueKind::Undefined)) run.TypeError("'Undefined' object cannot be interpreted as an integer");
  run.TypeError(std::string("'") + TypeName(value) + "' object cannot be interpreted as an " + std::string(what));
}

TemplateValue BinaryOf(TemplateRun& run, TemplateBinary op, const TemplateValue& a, const TemplateValue& b) {
  if (a.IsInteger() && b.IsInteger()) return IntBinary(run, op, a, b);
  if (a.IsNumber() && b.IsNumber()) return FloatBinary(run, op, AsDouble(run, a), AsDouble(run, b));
  if (op == TemplateBinary::Mod && a.Is(ValueKind::Str)) return run.Str(FormatPercent(run, a, b), a.markup());
  if (op == TemplateBinary::Add && !a.Is(ValueKind::Undefined)) return Joined(run, op, a, b);
  if (op == TemplateBinary::Mul) {
    const auto repeats = [](const TemplateValue& x) { return x.Is(ValueKind::Str) || x.IsSequence(); };
    if (repeats(a) && b.IsInteger()) return Repeated(run, a, b);
    if (a.IsInteger() && repeats(b)) return Repeated(run, b, a);
  }
  if (a.Is(ValueKind::View) || b.Is(ValueKind::View)) {
    if (op == TemplateBinary::Sub) run.Fail("", "operations on sets are not supported");
  }
  Unsupported(run, op, a, b);
}

TemplateValue Negated(TemplateRun& run, const TemplateValue& value) {
  if (value.Is(ValueKind::Float)) return TemplateValue::Float(-value.number);
  if (value.IsInteger()) return IntBinary(run, TemplateBinary::Sub, TemplateValue::Int(0), value);
  if (value.Is(ValueKind::Undefined)) run.FailUndefined(value);
  run.TypeError(std::string("bad operand type for unary -: '") + TypeName(value) + "'");
}

TemplateValue Positive(TemplateRun& run, const TemplateValue& value) {
  if (value.Is(ValueKind::Float) || value.Is(ValueKind::BigInt)) return value;
  if (value.IsInteger()) return TemplateValue::Int(SmallOf(value));
  if (value.Is(ValueKind::Undefined)) run.FailUndefined(value);
  run.TypeError(std::string("bad operand type for unary +: '") + TypeName(value) + "'");
}

int CompareNumbers(const TemplateValue& a, const TemplateValue& b, bool& unordered) {
  unordered = false;
  if (a.IsInteger() && b.IsInteger()) {
    if (a.Is(ValueKind::BigInt) || b.Is(ValueKind::BigInt)) return AsBig(a).Compare(AsBig(b));
    const int64_t x = SmallOf(a), y = SmallOf(b);
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.Is(ValueKind::Float) && b.Is(ValueKind::Float)) {
    unordered = std::isnan(a.number) || std::isnan(b.number);
    return a.number < b.number ? -1 : a.number > b.number ? 1 : 0;
  }
  if (a.Is(ValueKind::Float)) return -CompareNumbers(b, a, unordered);
  // An integer and a float, exactly.
  if (std::isnan(b.number)) {
    unordered = true;
    return 0;
  }
  if (std::isinf(b.number)) return b.number > 0 ? -1 : 1;
  const double whole = std::floor(b.number);
  const int order = AsBig(a).Compare(BigInt::FromDouble(whole));
  return order != 0 ? order : whole < b.number ? -1 : 0;
}

bool Equal(TemplateRun& run, const TemplateValue& a, const TemplateValue& b) {
  if (a.IsSequence() && a.kind == b.kind) {
    const TemplateRun::Deeper deeper(run);
    const std::vector<TemplateValue>&x = a.items(), &y = b.items();
    if (x.size() != y.size()) return false;
    run.Step(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (!Equal(run, x[i], y[i])) return false;
    }
    return true;
  }
  if (a.Is(ValueKind::Dict) && b.Is(ValueKind::Dict)) {
    const TemplateRun::Deeper deeper(run);
    const DictObject &x = a.As<DictObject>(), &y = b.As<DictObject>();
    if (x.items.size() != y.items.size()) return false;
    run.Step(x.items.size());
    for (const auto& [key, value] : x.items) {
      const TemplateValue* other = y.Find(key);
      if (other == nullptr || !Equal(run, value, *other)) return false;
    }
    return true;
  }
  if (a.Is(ValueKind::Range) && b.Is(ValueKind::Range)) {
    const RangeObject &x = a.As<RangeObject>(), &y = b.As<RangeObject>();
    return x.length == y.length && (x.length == 0 || x.start == y.start) && (x.length <= 1 || x.step == y.step);
  }
  if (a.Is(ValueKind::Str) && b.Is(ValueKind::Str)) run.Step(a.str().size() / 64);
  return KeyEqual(a, b);
}

namespace {

const char* CompareName(TemplateCompare op) {
  constexpr const char* kNames[] = {"==", "!=", "<", "<=", ">", ">="};
  return kNames[static_cast<size_t>(op)];
}

bool Holds(TemplateCompare op, int order) {
  switch (op) {
    case TemplateCompare::Lt: return order < 0;
    case TemplateCompare::Le: return order <= 0;
    case TemplateCompare::Gt: return order > 0;
    default: return order >= 0;
  }
}

}  // namespace

bool CompareOf(TemplateRun& run, TemplateCompare op, const TemplateValue& a, const TemplateValue& b) {
  switch (op) {
    case TemplateCompare::Eq: return Equal(run, a, b);
    case TemplateCompare::Ne: return !Equal(run, a, b);
    case TemplateCompare::In: return Contains(run, a, b);
    case TemplateCompare::NotIn: return !Contains(run, a, b);
    default: break;
  }
  if (a.IsNumber() && b.IsNumber()) {
    bool unordered = false;
    const int order = CompareNumbers(a, b, unordered);
    return !unordered && Holds(op, order);
  }
  if (a.Is(ValueKind::Str) && b.Is(ValueKind::Str)) {
    run.Step(a.str().size() / 64);
    return Holds(op, a.str().compare(b.str()));  // UTF-8 sorts as code points do
  }
  if (a.IsSequence() && a.kind == b.kind) {
    const TemplateRun::Deeper deeper(run);
    const std::vector<TemplateValue>&x = a.items(), &y = b.items();
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      run.Step();
      if (!Equal(run, x[i], y[i])) return CompareOf(run, op, x[i], y[i]);
    }
    return Holds(op, x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0);
  }
  for (const TemplateValue& v : {a, b}) {
    if (v.Is(ValueKind::Undefined)) run.FailUndefined(v);
  }
  run.TypeError(std::string("'") + CompareName(op) + "' not supported between instances of '" + TypeName(a) +
                "' and '" + TypeName(b) + "'");
}

bool Contains(TemplateRun& run, const TemplateValue& item, const TemplateValue& container) {
  switch (container.kind) {
    case ValueKind::Str:
      if (!item.Is(ValueKind::Str))
        run.TypeError(std::string("'in <string>' requires string as left operand, not ") + TypeName(item));
      run.Step(container.str().size() / 64);
      return container.str().find(item.str()) != std::string::npos;
    case ValueKind::View:
      if (container.As<ViewObject>().part != ViewObject::Part::Keys) break;
      [[fallthrough]];
    case ValueKind::Dict:
      if (!Hashable(item)) run.TypeError(std::string("unhashable type: '") + TypeName(item) + "'");
      return (container.Is(ValueKind::View) ? *container.As<ViewObject>().dict : container.As<DictObject>())
                 .Find(item) != nullptr;
    default:
      if (!IsIterable(container))
        run.TypeError(std::string("argument of type '") + TypeName(container) + "' is not iterable");
      break;
  }
  IteratorObject* iterator = IteratorOf(run, container);
  for (TemplateValue next; run.Next(*iterator, next);) {
    if (Equal(run, next, item)) return true;
  }
  return false;
}

void SortBy(TemplateRun& run, std::vector<TemplateValue>& items, const std::vector<TemplateValue>& keys, bool reverse) {
  // A merge sort of places: the comparison may throw, and may be no order at all (NaN).
  std::vector<size_t> order(items.size()), merged(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = reverse ? order.size() - 1 - i : i;
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size()), end = std::min(begin + 2 * width, order.size());
      size_t left = begin, right = middle;
      for (size_t out = begin; out < end; ++out) {
        run.Step();
        const bool take_right = right < end && (left >= middle || CompareOf(run, TemplateCompare::Lt,
                                                                            keys[order[right]], keys[order[left]]));
        merged[out] = order[take_right ? right++ : left++];
      }
    }
    order.swap(merged);
  }
  std::vector<TemplateValue> sorted;
  for (size_t i = 0; i < order.size(); ++i) sorted.push_back(items[order[reverse ? order.size() - 1 - i : i]]);
  items = std::move(sorted);
}

}  // namespace llmc
