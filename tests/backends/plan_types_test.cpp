// The plan layer's own table of element types says what ir/dtypes.def and ir/layout.h say.
#include <gtest/gtest.h>

#include "ir/layout.h"
#include "runtime/plan_steps.h"

namespace llmc {
namespace {

TEST(PlanTypes, AreThoseOfTheIr) {
  uint32_t value = 0;
  const auto check = [&](DType dtype, std::string_view name, bool weights) {
    EXPECT_EQ(static_cast<uint32_t>(dtype), value);
    EXPECT_EQ(PlanTypeName(value), name);
    for (uint64_t k : {32u, 64u, 4096u})
      EXPECT_EQ(PlanTileBytes(value, k), weights ? static_cast<uint64_t>(TileBytes(dtype, static_cast<int64_t>(k))) : 0)
          << name << ", k " << k;
    Type row;
    row.dtype = dtype;
    row.dims = {Dim(1), Dim(96)};
    const bool activations = dtype == DType::F32 || dtype == DType::A8;
    EXPECT_EQ(PlanRowBytes(value, 96), activations ? static_cast<uint64_t>(ByteSize(row)) : 0) << name;
    ++value;
  };
#define DTYPE(name, text, gguf, block, bytes, cls) \
  check(DType::name, text, DTypeClass::cls == DTypeClass::FLOAT || DTypeClass::cls == DTypeClass::BLOCK);
#include "ir/dtypes.def"
#undef DTYPE
  EXPECT_EQ(PlanTypeName(value), "");
  EXPECT_EQ(PlanTileBytes(static_cast<uint32_t>(DType::F16), 3), static_cast<uint64_t>(TileBytes(DType::F16, 3)));
}

}  // namespace
}  // namespace llmc
