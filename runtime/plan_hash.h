// XXH3-64 behind two small declarations, so that xxhash's header is compiled once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace llmc {

uint64_t Xxh3Of(const void* bytes, size_t size);

// The same over pieces.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  void Update(const void* bytes, size_t size);
  uint64_t Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmc
