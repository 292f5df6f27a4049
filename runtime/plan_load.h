// Reading integers out of mapped bytes: any alignment, little-endian.
#pragma once
#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace llmc {

static_assert(std::endian::native == std::endian::little, "plan files are little-endian and used in place");

// Element `index` of an array of T in `bytes`; the caller knows that it lies inside.
template <typename T>
T LoadAt(std::string_view bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace llmc
