// A hand-made world for kernels: memory spaces, records by name, and the comparison of whole spaces, which catches
// stray writes too.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/kernels/kernel.h"
#include "tests/kernels/table.h"

namespace llmc::kernels_test {

using namespace llmc::kernels;

struct Bytes {  // 64-byte aligned
  std::vector<uint8_t> storage;
  size_t size = 0;
  uint8_t* data() { return storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64; }
  const uint8_t* data() const { return const_cast<Bytes*>(this)->data(); }
  void Resize(size_t n) {
    std::vector<uint8_t> old(data(), data() + (storage.empty() ? 0 : size));
    storage.assign(n + 64, 0xa5);
    size = n;
    if (!old.empty()) std::memcpy(data(), old.data(), std::min(n, old.size()));
  }
  Bytes() = default;
  Bytes(const Bytes& other) { *this = other; }
  Bytes& operator=(const Bytes& other) {
    if (this == &other) return *this;
    storage.assign(other.size + 64, 0xa5);
    size = other.size;
    if (size != 0) std::memcpy(data(), other.data(), size);
    return *this;
  }
};

// An operand's place.
struct Place {
  Space space;
  uint64_t offset;
};

// Spaces other than kPrivate are one buffer; kPrivate is kThreads buffers with the same content at first.
class World {
 public:
  static constexpr int kThreads = 4;

  Place Reserve(Space space, size_t bytes) {
    const size_t offset = (spaces_[space].size + 63) / 64 * 64;
    spaces_[space].Resize(offset + bytes);
    return {space, offset};
  }
  template <class T>
  Place Put(Space space, const std::vector<T>& values) {
    const Place place = Reserve(space, values.size() * sizeof(T));
    Write(place, values);
    return place;
  }
  template <class T>
  void Write(Place place, const std::vector<T>& values) {
    if (!values.empty())
      std::memcpy(spaces_[place.space].data() + place.offset, values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> Read(Place place, size_t count) const {
    std::vector<T> out(count);
    if (count != 0) std::memcpy(out.data(), spaces_[place.space].data() + place.offset, count * sizeof(T));
    return out;
  }
  Bytes& space(Space s) { return spaces_[s]; }

  uint32_t pos = 0;

 private:
  Bytes spaces_[6];
  friend class Call;
};

inline std::vector<std::string> Words(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// One call of a kernel by names. Space constants are filled in from the places.
class Call {
 public:
  explicit Call(std::string kernel, uint32_t rows) : kernel_(std::move(kernel)), rows_(rows) {}
  Call& Constant(const std::string& name, int64_t value) {
    constants_[name] = value;
    return *this;
  }
  Call& Operand(const std::string& name, Place place) {
    places_[name] = place;
    constants_[name + "_space"] = place.space;
    return *this;
  }
  Call& Divide(Over over, int64_t grain) { return Constant("over", over).Constant("grain", grain); }

  // Runs all threads of the call, one after another; claimed: the first then does the work of all.
  void Run(const KernelEntry* table, World& world, uint32_t threads, bool claimed = false) const {
    const KernelEntry* entry = table;
    while (entry->name != nullptr && kernel_ != entry->name) ++entry;
    ASSERT_NE(entry->name, nullptr) << kernel_;
    std::vector<uint64_t> record;
    for (const std::string& word : Words(entry->record)) {
      const auto place = places_.find(word);
      record.push_back(place == places_.end() ? 0 : place->second.offset);
    }
    std::vector<int64_t> k;
    for (const std::string& name : Words(entry->constants)) {
      const auto value = constants_.find(name);
      k.push_back(name == "claimed" && claimed ? 1 : value == constants_.end() ? 0 : value->second);
    }
    ASSERT_EQ(static_cast<size_t>(entry->arity), k.size()) << kernel_;
    const size_t stride = (world.spaces_[kPrivate].size + 63) / 64 * 64;
    Bytes scratch;
    scratch.Resize(stride * threads + 64);
    for (uint32_t t = 0; t < threads && stride != 0; ++t) {
      std::memcpy(scratch.data() + t * stride, world.spaces_[kPrivate].data(), world.spaces_[kPrivate].size);
    }
    LlmcContext c{};
    c.weights = world.spaces_[kWeights].data();
    c.shared = world.spaces_[kShared].data();
    c.states = world.spaces_[kStates].data();
    c.logits = reinterpret_cast<float*>(world.spaces_[kLogits].data());
    c.tokens = reinterpret_cast<const int32_t*>(world.spaces_[kTokens].data());
    c.scratch = scratch.data();
    c.scratch_stride = stride;
    c.rows = rows_;
    c.pos = world.pos;
    c.total = world.pos + rows_;
    LlmcClaims claims[World::kThreads] = {};
    c.claims = claims;
    for (uint32_t t = 0; t < threads; ++t)
      Invoke(entry, c, t, threads, record.data(), k, std::make_index_sequence<33>());
    // Thread 0's private space counts; with one thread or undivided work the others' are equal to it.
    if (stride != 0) std::memcpy(world.spaces_[kPrivate].data(), scratch.data(), world.spaces_[kPrivate].size);
  }

  // Native with 1 .. 4 threads and with claimed tiles, emulated (slow) with 1 and 3: every space but the private one as
  // in `expected` to the bit.
  void Check(const World& before, const World& expected, const std::string& what) const {
    const auto over = constants_.find("over");
    const bool tiles = over != constants_.end() && over->second == kTiles;
    for (const KernelEntry* table : RunnableKernels()) {
      const bool native = table == NativeKernels();
      for (uint32_t threads = 1; threads <= World::kThreads + (native && tiles ? 1 : 0); threads += native ? 1 : 2) {
        World world = before;
        const bool claimed = threads > World::kThreads;
        Run(table, world, claimed ? 2 : threads, claimed);
        for (const long space : {kWeights, kShared, kStates, kLogits}) {
          const Bytes &got = world.spaces_[space], &want = expected.spaces_[space];
          ASSERT_EQ(got.size, want.size);
          if (got.size == 0 || std::memcmp(got.data(), want.data(), got.size) == 0) continue;
          size_t at = 0;
          while (got.data()[at] == want.data()[at]) ++at;
          at = at / 4 * 4;
          uint32_t a = 0, b = 0;
          std::memcpy(&a, got.data() + at, std::min<size_t>(4, got.size - at));
          std::memcpy(&b, want.data() + at, std::min<size_t>(4, want.size - at));
          FAIL() << kernel_ << " " << what << " rows " << rows_ << (table == NativeKernels() ? " native" : " emulated")
                 << ", threads " << threads << ": space " << space << " differs at byte " << at << ": got " << std::hex
                 << a << " (" << std::bit_cast<float>(a) << "), want " << b << " (" << std::bit_cast<float>(b) << ")";
        }
      }
    }
  }

 private:
  template <size_t... I>
  static void Invoke(const KernelEntry* entry, const LlmcContext& c, uint32_t thread, uint32_t threads,
                     const uint64_t* rec, const std::vector<int64_t>& k, std::index_sequence<I...>) {
    const bool found =
        ((k.size() == I && (InvokeN(entry, c, thread, threads, rec, k, std::make_index_sequence<I>()), true)) || ...);
    ASSERT_TRUE(found);
  }
  template <size_t I>
  using Constant64 = int64_t;
  template <size_t... I>
  static void InvokeN(const KernelEntry* entry, const LlmcContext& c, uint32_t thread, uint32_t threads,
                      const uint64_t* rec, const std::vector<int64_t>& k, std::index_sequence<I...>);

  std::string kernel_;
  uint32_t rows_;
  std::map<std::string, int64_t> constants_;
  std::map<std::string, Place> places_;
};

template <size_t... I>
void Call::InvokeN(const KernelEntry* entry, const LlmcContext& c, uint32_t thread, uint32_t threads,
                   const uint64_t* rec, const std::vector<int64_t>& k, std::index_sequence<I...>) {
  using Function = void (*)(const LlmcContext*, uint32_t, uint32_t, uint32_t, const uint64_t*, Constant64<I>...);
  const uint32_t rows = c.rows;
  reinterpret_cast<Function>(entry->function)(&c, thread, threads, rows, rec, k[I]...);
}

}  // namespace llmc::kernels_test
