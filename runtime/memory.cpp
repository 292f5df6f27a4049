// Anonymous mappings: NORESERVE, since caches are reserved for the whole context and most runs fill little of it.
#include "runtime/memory.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>

#include "runtime/plan.h"

namespace llmc {

Reservation::~Reservation() {
  if (base_ == nullptr) return;
  if (source_.allocate != nullptr) {
    source_.release(source_.user, base_, size_);
  } else {
    munmap(base_, size_);
  }
}

uint64_t Reservation::MappedBytes(uint64_t size) { return size == 0 ? 0 : (size / kPage + 2) * kPage; }

Reservation Reservation::Zeros(uint64_t size, bool huge, const char* what, const MemorySource& source) {
  if (size == 0) return {};
  const size_t bytes = MappedBytes(size);
  if (source.allocate != nullptr) {
    void* memory = source.allocate(source.user, bytes, kPage);
    if (memory == nullptr)
      throw PlanError("the allocator has no " + std::to_string(size) + " bytes for " + std::string(what));
    Reservation reservation(memory, bytes);
    reservation.source_ = source;
    return reservation;
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    throw PlanError("can't reserve " + std::to_string(size) + " bytes for " + what + ": " + std::strerror(errno));
  madvise(base, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // advice: its failure changes speed alone
  return {base, bytes};
}

void Reservation::Zero() {
  if (base_ == nullptr) return;
  if (source_.allocate == nullptr && madvise(base_, size_, MADV_DONTNEED) == 0) return;
  std::memset(base_, 0, size_);  // locked pages can't be dropped
}

}  // namespace llmc
