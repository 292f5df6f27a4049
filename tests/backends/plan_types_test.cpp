// The plan layer's own table of element types says what ir/dtypes.def and ir/layout.h say.
#include <gtest/gtest.h>

#include "ir/layout.h"
#include "runtime/plan_steps.h"

namespace llmc {
namespace {

TEST(PlanTypes, AreThoseOfTheIr) {
  const auto check = [&](DType dtype, std::string_view name, bool weights) {
    const auto value = static_cast<uint32_t>(dtype);
    EXPECT_EQ(PlanTypeName(value), name);
    for (uint64_t k : {32u, 64u, 4096u})
      EXPECT_EQ(PlanTileBytes(value, k), weights ? static_cast<uint64_t>(TileBytes(dtype, static_cast<int64_t>(k))) : 0)
          << name << ", k " << k;
    Type row;
    row.dtype = dtype;
    row.dims = {Dim(1), Dim(96)};
    const bool activations = dtype == DType::F32 || dtype == DType::A8;
    EXPECT_EQ(PlanRowBytes(value, 96), activations ? static_cast<uint64_t>(ByteSize(row)) : 0) << name;
  };
#define DTYPE(name, number, text, gguf, block, bytes, cls) \
  check(DType::name, text, DTypeClass::cls == DTypeClass::FLOAT || DTypeClass::cls == DTypeClass::BLOCK);
#include "ir/dtypes.def"
#undef DTYPE
  EXPECT_EQ(PlanTypeName(255), "");
  EXPECT_EQ(PlanTileBytes(static_cast<uint32_t>(DType::F16), 3), static_cast<uint64_t>(TileBytes(DType::F16, 3)));
}

// Old plans store them.
TEST(PlanTypes, NumbersStay) {
  const std::pair<std::string_view, uint32_t> numbers[] = {{"f32", 0},  {"f16", 1},  {"bf16", 2}, {"i32", 3},
                                                           {"q4_0", 4}, {"q4_1", 5}, {"q5_0", 6}, {"q5_1", 7},
                                                           {"q8_0", 8}, {"a8", 9}};
  for (const auto& [name, number] : numbers) {
    EXPECT_EQ(PlanTypeName(number), name);
    EXPECT_EQ(DTypeFromText(name), static_cast<DType>(number)) << name;
  }
}

}  // namespace
}  // namespace llmc
