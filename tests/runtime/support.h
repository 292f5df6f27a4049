// The model of tests/runtime/model.c: its plan, and its logits computed here.
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "runtime/loader.h"
#include "tests/plan/support.h"

namespace llmc {

inline constexpr int32_t kHashVocab = 64;
inline constexpr uint32_t kHashContext = 48;

inline std::string HashModelText() { return ReadFile(LLMC_SOURCE_DIR "/tests/runtime/model.plan.txt"); }

// The logits behind `tokens`, by model.c's definition.
inline std::vector<float> HashLogits(std::span<const int32_t> tokens) {
  uint32_t hash = 0;
  for (size_t p = 0; p < tokens.size(); ++p)
    hash += (static_cast<uint32_t>(tokens[p]) + 1) * static_cast<uint32_t>(2 * p + 1);
  hash *= 2654435761u;
  std::vector<float> logits(kHashVocab);
  for (uint32_t v = 0; v < kHashVocab; ++v) {
    logits[v] = static_cast<float>((hash ^ (v * 40503u << 8)) >> 16 & 1023) *
                (1.0f + static_cast<float>(37 * v % kHashVocab) / static_cast<float>(kHashVocab));
  }
  return logits;
}

inline bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// A folder with the model's plan; `to` stands for the first `from` of its text.
class HashModel {
 public:
  explicit HashModel(const std::string& from = "", const std::string& to = "") {
    std::string text = HashModelText();
    const size_t at = text.find(from);
    if (at == std::string::npos) throw std::logic_error("no " + from);
    text.replace(at, from.size(), to);
    Assemble(text, path());
  }
  std::string path() const { return folder_ / "hash.plan"; }
  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
};

}  // namespace llmc
