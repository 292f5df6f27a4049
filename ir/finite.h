// Numbers of a weight that aren't finite. Read where the bytes are in the cache anyway: a few bytes of each block.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "ir/type.h"

namespace llmc {

struct NotFinite {
  int64_t at = 0;    // the element of a float type, the block of a block type
  std::string what;  // "is NaN", "has an infinite scale"
};

// The first element of a float type that is a NaN or an infinity, or the first block whose scale or minimum is (mxfp4's
// exponent 255 counts as NaN). `in`: n elements, whole blocks, in rows layout.
std::optional<NotFinite> FindNotFinite(DType dtype, const std::byte* in, int64_t n);

}  // namespace llmc
