// What a recurrent part forgets by: exp(-e^w time) by the weight decay_log, or exp(w time) by decay_rate, of each head.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "frontend/graph.h"

namespace llmc {

enum class Decay : uint8_t { Log, Rate };
inline constexpr std::array<std::string_view, 2> kDecays = {"log", "rate"};
inline std::span<const std::string_view> TextsOf(Decay) { return kDecays; }

// From the heads' times, f32[S, heads].
inline Operand DecayOf(Graph& g, int layer, Operand time, Decay stored) {
  const Operand rate =
      stored == Decay::Rate ? g.Weight(layer, "decay_rate") : g.NegExp(layer, "decay_log", "decay_rate");
  const Operand exponent = g.One(OpKind::Mul, {time, rate}, {}, Name(layer, "decay_exponent"));
  return g.Act(exponent, "exp", Name(layer, "decay"));
}

}  // namespace llmc
