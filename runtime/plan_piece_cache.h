// The pieces of a text that were encoded last, with their tokens: most words of a text come again.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

namespace llmc {

class PieceCache {
 public:
  static constexpr size_t kMostBytes = 48, kMostTokens = 6;

  // Room for the pieces of a text of so many bytes: up to 640 KiB, none for a short text.
  void Reserve(size_t text_bytes) {
    constexpr size_t kFewBytes = 512, kMostSlots = 8192;
    if (text_bytes < kFewBytes) return;
    bits_ = static_cast<uint32_t>(std::bit_width(std::min(text_bytes / 16, kMostSlots / 2) - 1));
    slots_ = std::make_unique<Entry[]>(size_t{2} << bits_);
  }

  struct Entry {
    std::array<uint64_t, kMostBytes / 8> words;  // the piece: its words of 8 bytes, the last one at its end
    uint8_t bytes, tokens;                       // 0 bytes: free; 0 tokens: not known
    std::array<uint8_t, kMostTokens> ends;
    std::array<int32_t, kMostTokens> ids;
  };
  // The piece's entry, made in the place of an older one if there is none; null for a piece that can't be kept.
  Entry* Find(std::string_view piece) {
    if (slots_ == nullptr || piece.empty() || piece.size() > kMostBytes) return nullptr;
    std::array<uint64_t, kMostBytes / 8> words;
    const size_t count = Words(piece, words.data());
    constexpr uint64_t kFactor = 0x9E3779B97F4A7C15U;
    uint64_t hash = piece.size();
    for (size_t i = 0; i < count; ++i) hash = (hash ^ hash >> 32 ^ words[i]) * kFactor;
    Entry* const pair = &slots_[hash >> (64 - bits_) << 1];
    for (Entry* entry : {pair, pair + 1}) {
      if (entry->bytes == piece.size() && Same(words.data(), entry->words.data(), count)) return entry;
    }
    pair[1] = pair[0];
    std::copy_n(words.data(), count, pair->words.data());
    pair->bytes = static_cast<uint8_t>(piece.size());
    pair->tokens = 0;
    return pair;
  }

 private:
  // Words that together with the size are the piece, by loads that overlap; their number.
  static size_t Words(std::string_view piece, uint64_t* out) {
    const size_t size = piece.size();
    auto half = [&](size_t at) {
      uint32_t value;
      std::memcpy(&value, piece.data() + at, 4);
      return uint64_t{value};
    };
    auto byte = [&](size_t at) { return uint64_t{static_cast<uint8_t>(piece[at])}; };
    if (size < 8) {
      out[0] = size >= 4 ? half(0) | half(size - 4) << 32 : byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16;
      return 1;
    }
    const size_t count = (size + 7) / 8;
    for (size_t i = 0; i < count; ++i) std::memcpy(out + i, piece.data() + std::min(i * 8, size - 8), 8);
    return count;
  }
  static bool Same(const uint64_t* a, const uint64_t* b, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

  uint32_t bits_ = 0;  // of the number of pairs
  std::unique_ptr<Entry[]> slots_;
};

}  // namespace llmc
