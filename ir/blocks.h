// Conversions of elements and quantised blocks. All exact or correctly rounded (nearest even); no libm, no dependence
// on the CPU.
#pragma once
#include <cstddef>
#include <cstdint>

#include "ir/type.h"

namespace llmc {

float F16ToF32(uint16_t half);
uint16_t F32ToF16(float value);  // nearest even; overflow to infinity; subnormals kept; NaN to a quiet NaN
float Bf16ToF32(uint16_t bits);
uint16_t F32ToBf16(float value);  // nearest even

// n elements (a multiple of the block) from `dtype` in rows layout to f32: q8_0 d*code, q4_1 d*code + m (product and
// sum rounded to f32 each), etc.
void Dequantize(DType dtype, const std::byte* in, int64_t n, float* out);
// f32 to float and block types (ir/README.md, Recipes: quantize).
void QuantizeRow(DType dtype, const float* in, int64_t n, std::byte* out);

}  // namespace llmc
