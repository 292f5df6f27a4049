// Little-endian reading and writing of the plan's tables (runtime/README.md, "Records"). Internal to the plan layer.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "runtime/plan_error.h"

namespace llmc {

static_assert(std::endian::native == std::endian::little, "plans are read and written as they lie in memory");

template <typename T>
void Put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

inline void PadTo(std::string& out, size_t unit) { out.append((unit - out.size() % unit) % unit, '\0'); }

// A cursor over untrusted bytes: every read is checked.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  bool done() const { return at_ == bytes_.size(); }
  size_t left() const { return bytes_.size() - at_; }
  const std::string& where() const { return where_; }

  template <typename T>
  T Take() {
    T value;
    const std::string_view bytes = TakeBytes(sizeof(T));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::string_view TakeBytes(size_t size) {
    if (size > left()) {
      Fail("needs " + std::to_string(size) + " bytes at byte " + std::to_string(at_) + " of " +
           std::to_string(bytes_.size()));
    }
    std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }
  void SkipPadding(size_t unit) {
    for (char c : TakeBytes((unit - at_ % unit) % unit)) {
      if (c != 0) Fail("padding before byte " + std::to_string(at_) + " isn't zero");
    }
  }
  [[noreturn]] void Fail(const std::string& rule) const { throw PlanError(where_ + ": " + rule); }

 private:
  std::string_view bytes_;
  std::string where_;
  size_t at_ = 0;
};

}  // namespace llmc
