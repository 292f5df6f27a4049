// Weights that are looked at as they are read: what isn't finite is an error.
#pragma once
#include <map>
#include <memory>

#include "ir/diag.h"
#include "ir/weights.h"

namespace llmc {

// Reads of the result throw InputError BadValue at a NaN or an infinity among the values, scales and minima that they
// give, naming tensor, row, and element or block. places: of each weight's tensor in its file; a weight that isn't
// there is named as the IR names it.
std::shared_ptr<const WeightSource> CheckedWeights(std::shared_ptr<const WeightSource> source,
                                                   std::map<Name, Place> places);

}  // namespace llmc
