// The least multiple of `unit` that isn't below `value`. Needs nothing else, so that every layer may use it.
#pragma once
#include <type_traits>

namespace llmc {

template <class T>
constexpr T RoundUp(T value, std::type_identity_t<T> unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace llmc
