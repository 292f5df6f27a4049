// What the tests against PyPI's tokenizers share: texts, and hashes of what they become.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/file.h"
#include "runtime/tokenizer.h"

namespace llmc::test {

inline std::vector<uint32_t> ReadHashes(const std::string& path) {
  const std::string bytes = ReadTextFile(path, uint64_t{1} << 24);
  std::vector<uint32_t> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), out.size() * 4);
  return out;
}

// tests/data/tokenizer/texts.bin, every step-th.
inline std::vector<std::string> ReadTexts(size_t step = 1) {
  const std::string bytes = ReadTextFile(LLMC_SOURCE_DIR "/tests/data/tokenizer/texts.bin", uint64_t{1} << 24);
  std::vector<std::string> out;
  size_t number = 0;
  for (size_t at = 0; at < bytes.size(); ++number) {
    uint16_t size = 0;
    std::memcpy(&size, bytes.data() + at, 2);
    if (number % step == 0) out.push_back(bytes.substr(at + 2, size));
    at += size_t{2} + size;
  }
  return out;
}

// FNV-1a.
inline uint32_t Fnv(const void* data, size_t size) {
  uint32_t hash = 0x811c9dc5;
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x01000193U;
  return hash;
}
inline uint32_t Fnv(const std::vector<int32_t>& ids) { return Fnv(ids.data(), ids.size() * 4); }

inline std::string Show(const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) out += std::to_string(id) + " ";
  return out;
}

// What tokenizers says: a post-processor's BOS comes even before a text that begins with BOS. llmc gives it once.
// plain: the text's ids without the template.
inline std::vector<int32_t> WithSecondBos(const Tokenizer& tokenizer, const std::vector<int32_t>& plain,
                                          std::vector<int32_t> ids) {
  if (tokenizer.adds_bos() && !plain.empty() && plain[0] == tokenizer.bos_id())
    ids.insert(ids.begin(), tokenizer.bos_id());
  return ids;
}

}  // namespace llmc::test
