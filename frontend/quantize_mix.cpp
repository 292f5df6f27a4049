// The mixtures as a table of exceptions: matrices that lose most by few bits get more of them.
#include "frontend/quantize_mix.h"

#include <algorithm>
#include <array>

namespace llmc {
namespace {

constexpr std::array kMixtures = {
    Mixture{"q4_0", DType::Q4_0},     Mixture{"q4_1", DType::Q4_1},   Mixture{"q5_0", DType::Q5_0},
    Mixture{"q5_1", DType::Q5_1},     Mixture{"q8_0", DType::Q8_0},   Mixture{"q2_k", DType::Q2_K},
    Mixture{"q3_k_s", DType::Q3_K},   Mixture{"q3_k_m", DType::Q3_K}, Mixture{"q3_k_l", DType::Q3_K},
    Mixture{"q4_k_s", DType::Q4_K},   Mixture{"q4_k_m", DType::Q4_K}, Mixture{"q5_k_s", DType::Q5_K},
    Mixture{"q5_k_m", DType::Q5_K},   Mixture{"q6_k", DType::Q6_K},   Mixture{"iq4_nl", DType::IQ4_NL},
    Mixture{"iq4_xs", DType::IQ4_XS}, Mixture{"mxfp4", DType::MXFP4}, Mixture{"tq1_0", DType::TQ1_0},
    Mixture{"tq2_0", DType::TQ2_0}};

// Layers of n that a rule holds for. Spread: the first and last eighth and every third between. Grouped: all, where
// four or more query heads share a key head.
enum class Where : uint8_t { All, FirstTwo, FirstFour, FirstEighth, FirstSixteenth, Spread, Grouped };

struct Exception {
  std::string_view mixture, base;
  Where where;
  DType type;
};
// The first that holds counts.
constexpr std::array kExceptions = {Exception{"q2_k", "wv", Where::Grouped, DType::Q4_K},
                                    Exception{"q2_k", "wv", Where::All, DType::Q3_K},
                                    Exception{"q2_k", "wo", Where::All, DType::Q3_K},
                                    Exception{"q2_k", "w_down", Where::All, DType::Q3_K},
                                    Exception{"q3_k_m", "wv", Where::FirstTwo, DType::Q5_K},
                                    Exception{"q3_k_m", "wv", Where::All, DType::Q4_K},
                                    Exception{"q3_k_m", "wo", Where::All, DType::Q4_K},
                                    Exception{"q3_k_m", "w_down", Where::FirstSixteenth, DType::Q5_K},
                                    Exception{"q3_k_m", "w_down", Where::All, DType::Q4_K},
                                    Exception{"q3_k_l", "wv", Where::All, DType::Q5_K},
                                    Exception{"q3_k_l", "wo", Where::All, DType::Q5_K},
                                    Exception{"q3_k_l", "w_down", Where::All, DType::Q5_K},
                                    Exception{"q4_k_s", "wv", Where::FirstFour, DType::Q5_K},
                                    Exception{"q4_k_s", "w_down", Where::FirstEighth, DType::Q5_K},
                                    Exception{"q4_k_m", "wv", Where::Spread, DType::Q6_K},
                                    Exception{"q4_k_m", "w_down", Where::Spread, DType::Q6_K},
                                    Exception{"q5_k_m", "wv", Where::Spread, DType::Q6_K},
                                    Exception{"q5_k_m", "w_down", Where::Spread, DType::Q6_K},
                                    Exception{"iq4_nl", "wv", Where::Grouped, DType::Q5_K},
                                    Exception{"iq4_nl", "w_down", Where::FirstEighth, DType::Q5_K},
                                    Exception{"iq4_xs", "wv", Where::Grouped, DType::Q5_K},
                                    Exception{"iq4_xs", "w_down", Where::FirstEighth, DType::Q5_K},
                                    Exception{"tq1_0", "embed", Where::All, DType::Q4_K},
                                    Exception{"tq2_0", "embed", Where::All, DType::Q4_K}};

bool Holds(Where where, const MixedMatrix& m) {
  const int eighth = m.n_layers / 8;
  switch (where) {
    case Where::All: return true;
    case Where::FirstTwo: return m.layer < 2;
    case Where::FirstFour: return m.layer < 4;
    case Where::FirstEighth: return m.layer < eighth;
    case Where::FirstSixteenth: return m.layer < m.n_layers / 16;
    case Where::Spread: return m.layer < eighth || m.layer >= 7 * m.n_layers / 8 || (m.layer - eighth) % 3 == 2;
    case Where::Grouped: return m.query_group >= 4;
  }
  return false;
}

// What stands in for a type of 256 codes where only 32 divide the rows.
DType StandIn(DType type) {
  switch (type) {
    case DType::Q4_K: return DType::Q5_0;
    case DType::Q5_K: return DType::Q5_1;
    case DType::Q6_K: return DType::Q8_0;
    case DType::IQ4_XS: return DType::IQ4_NL;
    default: return DType::Q4_0;  // q2_k, q3_k, tq1_0, tq2_0
  }
}

}  // namespace

const Mixture* FindMixture(std::string_view text) {
  const bool plain = text == "q3_k" || text == "q4_k" || text == "q5_k";
  const std::string name = std::string(text) + (plain ? "_m" : "");
  const auto* found =
      std::find_if(kMixtures.begin(), kMixtures.end(), [&](const Mixture& mixture) { return mixture.name == name; });
  return found == kMixtures.end() ? nullptr : found;
}

DType WantedInMixture(const Mixture& mixture, const MixedMatrix& matrix) {
  if (matrix.is_head) {
    const bool whole = matrix.k % InfoOf(mixture.main).block == 0;
    return mixture.main == DType::Q8_0 || !whole ? DType::Q8_0 : DType::Q6_K;
  }
  for (const Exception& exception : kExceptions) {
    if (exception.mixture == mixture.name && exception.base == matrix.base && Holds(exception.where, matrix))
      return exception.type;
  }
  return mixture.main;
}

std::optional<DType> TypeInMixture(const Mixture& mixture, const MixedMatrix& matrix) {
  const DType wanted = WantedInMixture(mixture, matrix);
  if (matrix.k % InfoOf(wanted).block == 0) return wanted;
  if (matrix.k % InfoOf(StandIn(wanted)).block == 0 && InfoOf(wanted).block > 32) return StandIn(wanted);
  return std::nullopt;
}

}  // namespace llmc
