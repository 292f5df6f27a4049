// Tensors and single ops for the tests of ir: an op is inferred and evaluated by itself, without a text.
#pragma once
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ir/blocks.h"
#include "ir/op.h"

namespace llmc::test {

// A tensor that owns its bytes.
struct Owned {
  Type type;
  std::vector<std::byte> bytes;
  Tensor tensor() { return {type, bytes.data()}; }
  float* f32() { return reinterpret_cast<float*>(bytes.data()); }
};

// Every type that a weight can have, and those of blocks.
inline std::vector<DType> TypesOf(bool floats) {
  std::vector<DType> types;
#define DTYPE(name, ...) types.push_back(DType::name);
#include "ir/dtypes.def"
#undef DTYPE
  std::erase_if(types, [&](DType dtype) {
    const DTypeClass cls = InfoOf(dtype).cls;
    return cls != DTypeClass::BLOCK && !(floats && cls == DTypeClass::FLOAT);
  });
  return types;
}
inline std::vector<DType> WeightTypes() { return TypesOf(true); }
inline std::vector<DType> BlockTypes() { return TypesOf(false); }

inline Owned Make(Type type) {
  Owned t{std::move(type), {}};
  t.bytes.resize(static_cast<size_t>(ByteSize(t.type)));
  return t;
}

inline Owned F32(std::vector<Dim> dims, const std::vector<float>& values) {
  Owned t = Make({DType::F32, std::move(dims), Layout::Rows, -1});
  LLMC_CHECK(values.size() * 4 == t.bytes.size(), "test tensor: wrong number of values");
  if (!values.empty()) std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

inline Owned I32(std::vector<Dim> dims, const std::vector<int32_t>& values) {
  Owned t = Make({DType::I32, std::move(dims), Layout::Rows, -1});
  std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

inline std::vector<float> Floats(const Owned& t) {
  std::vector<float> out(t.bytes.size() / 4);
  std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
  return out;
}

// Uniform in (-1, 1), the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 1) {}
  uint32_t Bits() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 32);
  }
  float Unit() { return static_cast<float>(static_cast<int32_t>(Bits() >> 8) * 2 - 0xffffff) * 0x1p-24F; }
  std::vector<float> Vector(int64_t n, float spread = 1) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = Unit() * spread;
    return v;
  }

 private:
  uint64_t state_;
};

inline Type F32Type(std::vector<Dim> dims) { return {DType::F32, std::move(dims), Layout::Rows, -1}; }

// A module and function to infer in: S = rows_min..rows_max, one state per state operand.
struct OpCase {
  OpKind kind{};
  std::vector<Type> operands;
  Attrs attrs;
  int64_t rows_min = 1;
  int64_t rows_max = 8;
  int64_t context = 0;  // 0: the module has no such option
  std::string state_kind = "kv";

  OpCase& Set(std::string_view name, AttrValue value) {
    attrs.Set(name, std::move(value));
    return *this;
  }

  std::vector<Type> Infer() const {
    Module module;
    module.dims = {{"S", rows_min, rows_max}};
    if (context > 0) module.options.Set("context", context);
    Func func;
    Op op;
    op.kind = kind;
    op.attrs = attrs;
    for (const Type& type : operands) {
      if (type.state >= 0) {
        Global global;
        global.kind = GlobalKind::State;
        global.name = Name(-1, "state", static_cast<int>(module.globals.size()));
        global.type = type;
        global.type.state = static_cast<int>(module.globals.size());
        global.attrs.Set("kind", state_kind);
        op.operands.push_back(Operand::OfGlobal(global.type.state));
        module.globals.push_back(global);
      } else {
        op.operands.push_back(Operand::Local(AddValue(func, Name("v"), type)));
      }
    }
    return llmc::Infer(module, func, op);
  }

  // The message of the constraint that fails; empty: none.
  std::string Fault() const {
    try {
      Infer();
      return "";
    } catch (const InputError& error) {
      return error.diag().message;
    }
  }
};

// The case with another type for one operand.
inline OpCase Replaced(OpCase op, size_t operand, Type type) {
  op.operands[operand] = std::move(type);
  return op;
}

struct Constraint {
  const char* label;
  OpCase op;
};

// Each case must fail, and by this label.
inline void ExpectFaults(const std::vector<Constraint>& cases) {
  for (const Constraint& c : cases) {
    const std::string fault = c.op.Fault();
    EXPECT_NE(fault.find(std::string("(") + c.label + ")"), std::string::npos) << c.label << ": " << fault;
  }
}

// Infers and evaluates one op on tensors with constant dims.
inline std::vector<Owned> Eval(OpKind kind, const std::vector<Owned*>& operands, const Attrs& attrs, int threads = 1,
                               int64_t context = 0, const std::string& state_kind = "kv") {
  OpCase infer{kind, {}, attrs};
  infer.context = context;
  infer.state_kind = state_kind;
  std::vector<Tensor> inputs;
  for (Owned* t : operands) {
    infer.operands.push_back(t->type);
    inputs.push_back(t->tensor());
  }
  std::vector<Owned> outputs;
  for (const Type& type : infer.Infer()) outputs.push_back(Make(type));
  std::vector<Tensor> results;
  const OpDef& def = DefOf(kind);
  for (Owned& t : outputs) results.push_back(def.appends_state ? inputs[0] : t.tensor());
  Op op;
  op.kind = kind;
  op.attrs = attrs;
  def.eval({op, inputs, results, threads});
  return outputs;
}

inline Attrs With(std::vector<std::pair<std::string, AttrValue>> list) {
  Attrs attrs;
  for (auto& [name, value] : list) attrs.Set(name, std::move(value));
  return attrs;
}

}  // namespace llmc::test
