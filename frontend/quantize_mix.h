// Which block type --quantize gives each matrix: mixtures by the names of ggml's quantiser.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/type.h"

namespace llmc {

struct Mixture {
  std::string_view name;  // "q4_k_m"; "q4_k" says the same
  DType main;             // of matrices that no rule of the mixture names
};
// Null: there is no mixture `text`.
const Mixture* FindMixture(std::string_view text);

// A matrix, as far as the choice depends on it.
struct MixedMatrix {
  std::string_view base;  // of its name: "wv", "w_down"
  int layer = -1;         // of n_layers; -1: in none
  int n_layers = 0;
  int64_t query_group = 1;  // query heads to a key head
  int64_t k = 0;            // elements of a row
  bool is_head = false;     // it makes the logits: the head, or an embedding that is one too
};
// The type, or where its blocks don't divide the rows the one of 32 codes that stands in for it; null where 32 doesn't
// divide them either.
std::optional<DType> TypeInMixture(const Mixture& mixture, const MixedMatrix& matrix);
// The type without regard to the rows.
DType WantedInMixture(const Mixture& mixture, const MixedMatrix& matrix);

}  // namespace llmc
