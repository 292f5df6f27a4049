// Logits and caches that aren't finite, and what to say about them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace llmc {

// The first NaN or infinity, else numbers.size().
size_t FindNotFinite(std::span<const float> numbers);

// "position 5: the logit of id 3 is NaN"; at: of the logit.
std::string NotFiniteText(std::span<const float> logits, size_t at, uint64_t position);

// Whether the first number of an f16 cache that isn't finite is an infinity, which is what a key or a value from 65520
// on becomes; what is computed from it is NaN. Null when all are finite. halves: caches in the order of the layers.
std::optional<bool> CacheOverflow(std::span<const uint8_t> halves);
// What to add to NotFiniteText: ": a key or value is ..", or "". options: the manifest's.
std::string CacheOverflowText(std::string_view options, std::optional<bool> overflow);

}  // namespace llmc
