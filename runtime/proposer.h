// What guesses the tokens that may follow: by looking up what followed before, or by a smaller model.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/draft_policy.h"
#include "runtime/executor.h"
#include "runtime/sampler.h"

namespace llmc {

// A token that may come next, if those before it do.
struct Draft {
  int32_t id = 0;
  uint32_t draft_class = 0;  // below kDraftClasses
};

// Whatever it proposes, the text is the same: a wrong guess costs time alone.
class Proposer {
 public:
  virtual ~Proposer() = default;
  // How often guesses of each class are right, before any was seen.
  virtual std::array<double, kDraftClasses> Prior() const = 0;
  // Whether guessing takes time that counts beside a call. Then all guesses are of class 0.
  virtual bool TakesTime() const = 0;
  // Adds up to `most` guesses of what follows `ids` (at least one) to `drafts`. sampler: as it stands before the next
  // token. Throws PlanError when a plan's file was changed.
  virtual void Propose(std::span<const int32_t> ids, uint32_t most, const Sampler& sampler,
                       std::vector<Draft>& drafts) = 0;
};

// What followed the longest earlier run of ids that is also their end, but for one id near it; of equally long ones the
// last. Classes tell the lengths of these runs.
std::unique_ptr<Proposer> MakeNgramProposer();

// A model of the same tokens, by what the target's sampler would make of its logits with its own next draws. It runs in
// the target's threads. Throws PlanError, beginning with `name`: its tokenizer, or without one its vocabulary, is not
// the target's.
std::unique_ptr<Proposer> MakeDraftModel(const Executable& draft, const Executable& target, const Session& session,
                                         std::string_view name);

// The proposer that --speculate names: "ngram", or a plan's file; null: "off". Throws PlanError: what can't be; for a
// target whose rows depend on how many there are in a call, or that MostVerified refuses.
std::unique_ptr<Proposer> MakeProposer(std::string_view name, const Executable& target, const Session& session);

}  // namespace llmc
