// Activations of feed-forward parts, by the names that the ops `act` and `gated` have for them.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace llmc {

enum class Activation : uint8_t { Silu, Gelu, GeluTanh, Relu, Relu2 };
inline constexpr std::array<std::string_view, 5> kActivations = {"silu", "gelu", "gelu_tanh", "relu", "relu2"};
inline std::span<const std::string_view> TextsOf(Activation) { return kActivations; }

// The texts of a list of choices that is these and one more.
constexpr std::array<std::string_view, kActivations.size() + 1> WithActivation(std::string_view last) {
  std::array<std::string_view, kActivations.size() + 1> all{};
  for (size_t i = 0; i < kActivations.size(); ++i) all[i] = kActivations[i];
  all.back() = last;
  return all;
}

}  // namespace llmc
