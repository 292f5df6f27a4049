// Lookup, draft models, and what can't be.
#include "runtime/proposer.h"

#include <algorithm>
#include <optional>

#include "runtime/loader.h"
#include "runtime/plan_finite.h"

namespace llmc {
namespace {

// Classes: runs of 1, 2, 3, 4, 5..7, 8..15 and at least 16 ids, and those that have just passed a change.
constexpr size_t kLongestRun = 16;
constexpr uint32_t kChanged = 7;
uint32_t ClassOfRun(size_t length) {
  if (length <= 4) return static_cast<uint32_t>(length) - 1;
  return length < 8 ? 4 : length < kLongestRun ? 5 : 6;
}

// How many ids before `a` and before `b` are the same, up to kLongestRun.
size_t RunBefore(std::span<const int32_t> ids, size_t a, size_t b) {
  size_t length = 0;
  while (length < std::min({kLongestRun, a, b}) && ids[a - 1 - length] == ids[b - 1 - length]) ++length;
  return length;
}

class NgramProposer : public Proposer {
 public:
  std::array<double, kDraftClasses> Prior() const override { return {0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.5}; }
  bool TakesTime() const override { return false; }

  void Propose(std::span<const int32_t> ids, uint32_t most, const Sampler&, std::vector<Draft>& drafts) override {
    // A text that is edited as it is copied goes on behind a changed id: a run of at least kBefore ids counts, though
    // one id behind it, with fewer than kBehind that are the same again, is another.
    constexpr size_t kBehind = 2, kBefore = 4;
    const size_t n = ids.size();
    size_t longest = 0, next = 0, behind = 0;  // the run, where what followed it is, and its part behind a change
    for (size_t end = n - 1; end > 0 && behind < kLongestRun; --end) {
      const size_t same = RunBefore(ids, end, n);
      size_t length = same;
      if (same < kBehind && end > same + 1) {
        const size_t before = RunBefore(ids, end - same - 1, n - same - 1);
        if (before >= kBefore) length += before;
      }
      if (length > longest) longest = length, next = end, behind = same;
    }
    if (longest == 0) return;
    const size_t first = drafts.size();
    for (size_t i = 0; i < most; ++i) {
      // Behind the end go the guesses themselves: a text that repeats goes on repeating.
      const int32_t id = next + i < n ? ids[next + i] : drafts[first + next + i - n].id;
      const bool changed = longest > behind && behind + i < kBehind;
      drafts.push_back({id, changed ? kChanged : ClassOfRun(longest + i)});
    }
  }
};

class DraftModel : public Proposer {
 public:
  DraftModel(const Executable& draft, const SessionOptions& options, uint32_t vocab)
      : executable_(draft), session_(draft, options), vocab_(vocab) {}
  std::array<double, kDraftClasses> Prior() const override {
    std::array<double, kDraftClasses> prior;
    prior.fill(0.7);
    return prior;
  }
  bool TakesTime() const override { return true; }

  void Propose(std::span<const int32_t> ids, uint32_t most, const Sampler& sampler,
               std::vector<Draft>& drafts) override {
    if (executable_.check_unchanged) executable_.check_unchanged();
    const auto known = [&](int32_t id) { return static_cast<uint32_t>(id) < session_.vocab(); };
    if (ids.size() > session_.context() || !std::all_of(ids.begin(), ids.end(), known)) return;
    auto same =
        static_cast<size_t>(std::mismatch(ids.begin(), ids.end(), fed_.begin(), fed_.end()).first - ids.begin());
    same = std::min(same, ids.size() - 1);  // the last one's logits are needed
    if (!session_.Rewind(static_cast<uint32_t>(same))) {
      session_.Reset();
      same = 0;
    }
    fed_.assign(ids.begin(), ids.end());
    std::span<const float> logits = session_.Prefill(ids.subspan(same));
    guess_.Follow(sampler);
    for (uint32_t i = 0; i < most; ++i) {
      const std::optional<int32_t> id = Pick(logits);
      if (!id || static_cast<uint32_t>(*id) >= vocab_) return;
      drafts.push_back({*id, 0});
      if (i + 1 == most || session_.position() == session_.context()) return;
      fed_.push_back(*id);
      logits = session_.Decode(*id);
    }
  }

 private:
  // None: from such logits nothing can be picked. That ends a text only when the target says so.
  std::optional<int32_t> Pick(std::span<const float> logits) {
    if (FindNotFinite(logits) != logits.size()) return std::nullopt;
    try {
      return guess_.Next(logits, session_.position() - 1);
    } catch (const PlanError&) {
      return std::nullopt;
    }
  }

  Executable executable_;
  Session session_;
  uint32_t vocab_;                   // the target's
  std::vector<int32_t> fed_;         // what the session holds
  Sampler guess_{SamplerOptions{}};  // the target's, one step ahead of it and more
};

}  // namespace

std::unique_ptr<Proposer> MakeNgramProposer() { return std::make_unique<NgramProposer>(); }

std::unique_ptr<Proposer> MakeDraftModel(const Executable& draft, const Executable& target, const Session& session,
                                         std::string_view name) {
  if (draft.tokenizer.empty() != target.tokenizer.empty())
    throw PlanError(Joined({name, ": one of draft and plan has a tokenizer, the other has none"}));
  if (draft.tokenizer != target.tokenizer)
    throw PlanError(Joined({name, ": its tokenizer isn't the plan's, byte for byte"}));
  const uint32_t vocab = draft.manifest->vocab;
  if (target.tokenizer.empty() && vocab != session.vocab())
    throw PlanError(Joined({name, ": its vocabulary has ", std::to_string(vocab), " ids, the plan's has ",
                            std::to_string(session.vocab())}));
  SessionOptions options;
  options.pool = session.pool();
  options.context = std::min(draft.manifest->context, session.context());
  return std::make_unique<DraftModel>(draft, options, session.vocab());
}

std::unique_ptr<Proposer> MakeProposer(std::string_view name, const Executable& target, const Session& session) {
  if (name == "off") return nullptr;
  try {
    if (name == "mtp") throw PlanError("the plan has no draft module of its own");
    CheckRowsAreAlike(*target.manifest);
    session.MostVerified();
  } catch (const PlanError& error) {
    throw PlanError(Joined({"--speculate ", name, ": ", error.what()}));
  }
  if (name == "ngram") return MakeNgramProposer();
  const std::string file(name);
  return MakeDraftModel(LoadPlan(file), target, session, "--speculate " + file);
}

}  // namespace llmc
