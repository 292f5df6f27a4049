// Where the pre-tokenizers cut text. Internal to the runtime layer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/plan_tokenizer.h"

namespace llmc {

// End of the piece of text that begins at `begin` (< text.size()), by the rules of `kind`; adds the code points it
// looked at to steps. Cutting a text with it from 0 on looks at each code point a bounded number of times.
size_t PieceEnd(StepKind kind, const UnicodeTables& unicode, std::string_view text, size_t begin, uint64_t& steps);

}  // namespace llmc
