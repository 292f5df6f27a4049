// From the hidden rows of a text to its embedding, as sentence-transformers makes it: the text with its prompt, cut to
// what the model takes; rows pooled; the plan's dense layers; length 1.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executor.h"
#include "runtime/tokenizer.h"

namespace llmc {

struct EmbeddingInput {
  std::vector<int32_t> ids, types;  // types: of a pair; empty: all 0
};

// The text's ids, cut to `most` with what the template adds kept. Throws PlanError for one that leaves no room.
EmbeddingInput EmbeddingInputOf(const Tokenizer& tokenizer, std::string_view text, uint32_t most);
// A pair's; throws PlanError when it is longer than `most`.
EmbeddingInput PairInputOf(const Tokenizer& tokenizer, std::string_view first, std::string_view second, uint32_t most);

// The text behind the prompt of that name; nullopt: the default one, "" without any. Throws PlanError for a name there
// isn't.
std::string TextOfEmbedding(const PlanPooling& pooling, const std::optional<std::string>& prompt,
                            std::string_view text);

// The most tokens of a text of this session.
uint32_t MostTokens(const Session& session, const PlanPooling& pooling);

// The embedding; the session begins a new sequence. Sums are in double, in the order of the rows, and rounded once.
// Throws PlanError for a kind none, and for numbers that aren't finite.
std::vector<float> Embed(Session& session, const EmbeddingInput& input, PoolingKind kind, bool normalize);

}  // namespace llmc
