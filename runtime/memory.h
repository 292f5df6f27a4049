// Address space from mmap, or from a caller's allocator, given back on destruction.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

namespace llmc {

// Where memory comes from instead of mmap: zero bytes at a multiple of `alignment`, or null.
struct MemorySource {
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*release)(void* user, void* memory, size_t bytes) = nullptr;
  void* user = nullptr;
};

class Reservation {
 public:
  Reservation() = default;
  Reservation(void* base, size_t size) : base_(static_cast<uint8_t*>(base)), size_(size) {}
  ~Reservation();
  Reservation(Reservation&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)), source_(other.source_) {}
  Reservation& operator=(Reservation&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    std::swap(source_, other.source_);
    return *this;
  }

  // What Zeros maps for `size` bytes: whole pages, and one more, for vector loads may look behind the last value.
  static uint64_t MappedBytes(uint64_t size);

  // `size` zero bytes that take memory page by page as they are touched; null and size 0 for 0. huge: in huge pages
  // where the system can. `what` is for the PlanError when there is no room.
  static Reservation Zeros(uint64_t size, bool huge, const char* what, const MemorySource& source = {});

  // All bytes are zero again, and take no memory until they are touched. Of what Zeros gave.
  void Zero();

  uint8_t* data() const { return base_; }
  size_t size() const { return size_; }

 private:
  uint8_t* base_ = nullptr;
  size_t size_ = 0;
  MemorySource source_ = {};  // without `allocate`: mmap
};

}  // namespace llmc
