// What tests/runtime/fake_library.cpp computes, for the library and for the test that checks it.
#pragma once
#include <cstdint>

namespace llmc {

inline constexpr uint32_t kFakeVocab = 64;
inline uint32_t FakeMix(uint32_t sum, uint32_t i) {
  const uint32_t hash = (sum + 0x9e3779b9u * (i + 1)) * 2654435761u;
  return hash ^ hash >> 15;
}

}  // namespace llmc
