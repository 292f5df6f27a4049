// Helpers for tests of plans: a stand-in for SHA-256, a folder of its own, files as strings.
#pragma once
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "runtime/plan.h"
#include "runtime/plan_hash.h"
#include "tests/support/temp_dir.h"

namespace llmc {

// The plan layer takes SHA-256 from its caller; any 32-byte hash shows that it is asked and compared.
class FakeSha256 : public Sha256 {
 public:
  void Update(const void* bytes, size_t size) override { hash_.Update(bytes, size); }
  Sha256Digest Finish() override {
    Sha256Digest digest;
    for (uint64_t i = 0; i < 4; ++i) {
      const uint64_t word = hash_.Digest() ^ i;
      std::memcpy(digest.data() + 8 * i, &word, 8);
    }
    return digest;
  }

 private:
  Xxh3 hash_;
};
inline std::unique_ptr<Sha256> MakeFakeSha256() { return std::make_unique<FakeSha256>(); }

using TempFolder = test::TempDir;

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}
inline void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class MemoryBytes : public PlanBytes {
 public:
  explicit MemoryBytes(std::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void Read(uint64_t offset, void* to, size_t size) const override {
    if (offset > bytes_.size() || size > bytes_.size() - offset) throw std::logic_error("a read behind the end");
    std::memcpy(to, bytes_.data() + offset, size);
  }

 private:
  std::string_view bytes_;
};

// The message of the PlanError that `run` throws; "" when it throws none.
template <typename Run>
std::string ErrorOf(Run run) {
  try {
    run();
  } catch (const PlanError& error) {
    return error.what();
  }
  return "";
}

inline void Assemble(const std::string& text, const std::string& path) {
  PlanWriter::Options options;
  options.path = path;
  options.sha256 = MakeFakeSha256;
  AssemblePlan(text, ".", options);
}

}  // namespace llmc
