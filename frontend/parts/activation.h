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

}  // namespace llmc
