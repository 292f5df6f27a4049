// OpKind: the enumeration of ir/ops.def.
#pragma once
#include <cstdint>

namespace llmc {

enum class OpKind : uint8_t {
#define OP(name, text) name,
#include "ir/ops.def"
#undef OP
};

}  // namespace llmc
