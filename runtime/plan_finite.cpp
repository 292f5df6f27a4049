// A look at every number, and the words for one that is not finite.
#include "runtime/plan_finite.h"

#include <bit>
#include <cstring>

namespace llmc {
namespace {

bool Finite(float x) { return (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u; }

}  // namespace

size_t FindNotFinite(std::span<const float> numbers) {
  // Four at a time: a vocabulary is looked at once a token.
  using Vector = uint32_t __attribute__((vector_size(16), aligned(4), may_alias));
  Vector bad = {};
  size_t i = 0;
  for (; i + 4 <= numbers.size(); i += 4) {
    const Vector exponent = *reinterpret_cast<const Vector*>(&numbers[i]) & 0x7f800000u;
    bad |= reinterpret_cast<Vector>(exponent == 0x7f800000u);
  }
  bool any = (bad[0] | bad[1] | bad[2] | bad[3]) != 0;
  for (; i < numbers.size(); ++i) any |= !Finite(numbers[i]);
  if (!any) return numbers.size();
  for (i = 0; Finite(numbers[i]); ++i) {
  }
  return i;
}

std::string NotFiniteText(std::span<const float> logits, size_t at, uint64_t position) {
  return "position " + std::to_string(position) + ": the logit of id " + std::to_string(at) + " is " +
         (logits[at] != logits[at] ? "NaN" : "infinite");
}

std::optional<bool> CacheOverflow(std::span<const uint8_t> halves) {
  for (size_t i = 0; i + 2 <= halves.size(); i += 2) {
    uint16_t half = 0;
    std::memcpy(&half, &halves[i], 2);
    if ((half & 0x7c00) == 0x7c00) return (half & 0x3ff) == 0;
  }
  return std::nullopt;
}

std::string CacheOverflowText(std::string_view options, std::optional<bool> overflow) {
  if (!overflow.value_or(false) || options.find("\nkv_type = f16\n") == std::string_view::npos) return "";
  return ": a key or a value is beyond 65504, the largest number of the f16 cache; compiled with --kv-type f32 it fits";
}

}  // namespace llmc
