// Speculation: several tokens by one reading of the weights, and not a bit of the text changed. A proposer guesses what
// follows; one call computes the rows of the last token and of all guesses; a guess counts if and only if it is the
// token that the sampler picks from the row before it, with the draw that this token has anyway. Rows don't influence
// each other's bits, so every token is picked from the logits that a call of its own would have given.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/executor.h"
#include "runtime/proposer.h"
#include "runtime/sampler.h"

namespace llmc {

struct SpeculationCounts {
  uint64_t proposed = 0;  // guesses that calls verified
  uint64_t accepted = 0;  // of them, those that were right
  uint64_t calls = 0;     // that verified any
};

// Makes a session's calls of one token, or of more ahead. Between Begin and Settle the session itself must not be used.
class Speculator {
 public:
  // proposer null: a call a token. always: so many guesses a call, where 0 means as many as pay.
  Speculator(Session& session, std::unique_ptr<Proposer> proposer, uint32_t always = 0);

  // ids: all that the session holds.
  void Begin(std::span<const int32_t> ids);
  // As Session::Decode: appends `id`, which `sampler` has just picked, and returns its logits, valid until the next call.
  // more: how many tokens behind the next one may be wanted; nothing is guessed beyond.
  std::span<const float> Decode(int32_t id, uint32_t more, const Sampler& sampler);
  // Tokens appended so far; the session may be ahead.
  uint32_t position() const;
  // Takes back what was guessed and not appended.
  void Settle();

  bool speculates() const { return proposer_ != nullptr; }
  const SpeculationCounts& counts() const { return counts_; }

 private:
  std::vector<Draft> Guess(uint32_t most, const Sampler& sampler);
  std::span<const float> Row(size_t row) const { return rows_.subspan(row * session_.vocab(), session_.vocab()); }

  Session& session_;
  std::unique_ptr<Proposer> proposer_;
  uint32_t always_, most_ = 0;
  DraftPolicy policy_;
  SpeculationCounts counts_;
  std::vector<int32_t> ids_;                // appended so far
  std::vector<Draft> drafts_;               // verified by the last call
  size_t right_ = 0;                        // of them, those that were appended
  std::span<const float> rows_;             // logits of the last call
  double call_time_ = 0;                    // nanoseconds
  std::optional<Draft> watched_;            // a guess that no call verifies: whether it is right is known for nothing
  double guess_time_ = 0;                   // nanoseconds for each guess, of a proposer that takes time
  uint32_t pause_ = 0, longest_pause_ = 0;  // tokens until such a proposer is tried again
};

}  // namespace llmc
