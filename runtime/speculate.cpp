// The bookkeeping of guesses that are ahead of the text.
#include "runtime/speculate.h"

#include <algorithm>
#include <array>

namespace llmc {
namespace {

constexpr uint32_t kMostDrafts = 11;  // calls of up to 12 rows, which the kernels of AVX-512 take at once
constexpr uint32_t kShortestPause = 16, kLongestPause = 512;
constexpr uint32_t kTrial = 2;  // guesses after a pause

}  // namespace

Speculator::Speculator(Session& session, std::unique_ptr<Proposer> proposer, uint32_t always)
    : session_(session),
      proposer_(std::move(proposer)),
      always_(always),
      policy_(proposer_ ? proposer_->Prior() : std::array<double, kDraftClasses>{}),
      longest_pause_(kShortestPause) {
  if (proposer_)
    most_ = std::min({session.MostVerified() - 1, DraftPolicy::kMostRows - 1, always ? always : kMostDrafts});
}

void Speculator::Begin(std::span<const int32_t> ids) {
  ids_.assign(ids.begin(), ids.end());
  drafts_.clear();
  right_ = 0;
  watched_.reset();
}

uint32_t Speculator::position() const { return session_.position() - static_cast<uint32_t>(drafts_.size() - right_); }

void Speculator::Settle() {
  if (drafts_.empty()) return;
  const uint64_t start = NowNanoseconds();
  const auto rows = static_cast<uint32_t>(drafts_.size()) + 1;
  session_.KeepVerified(static_cast<uint32_t>(right_) + 1);
  policy_.Took(rows, call_time_ + static_cast<double>(NowNanoseconds() - start));
  drafts_.clear();
  right_ = 0;
}

std::vector<Draft> Speculator::Guess(uint32_t most, const Sampler& sampler) {
  std::vector<Draft> drafts;
  watched_.reset();
  if (most == 0) return drafts;
  if (!proposer_->TakesTime()) {
    proposer_->Propose(ids_, most, sampler, drafts);
    std::array<uint32_t, kMostDrafts> classes;
    if (always_ != 0 || drafts.empty()) return drafts;
    std::transform(drafts.begin(), drafts.end(), classes.begin(), [](const Draft& d) { return d.draft_class; });
    const uint32_t chosen = policy_.Choose(std::span(classes).first(drafts.size()), 0);
    if (chosen == 0) watched_ = drafts.front();
    drafts.resize(chosen);
    return drafts;
  }
  uint32_t chosen = most;
  if (always_ == 0) {
    const std::array<uint32_t, kMostDrafts> classes{};
    chosen = policy_.Cost(1) == 0 ? 0 : policy_.Choose(std::span(classes).first(most), guess_time_);
    if (chosen > 0) {
      longest_pause_ = kShortestPause;
    } else if (pause_ > 0) {
      --pause_;
    } else if (policy_.Cost(1) > 0) {
      pause_ = longest_pause_;
      longest_pause_ = std::min(2 * longest_pause_, kLongestPause);
      chosen = std::min(kTrial, most);
    }
  }
  if (chosen == 0) return drafts;
  const uint64_t start = NowNanoseconds();
  proposer_->Propose(ids_, chosen, sampler, drafts);
  if (drafts.empty()) return drafts;
  const double each = static_cast<double>(NowNanoseconds() - start) / static_cast<double>(drafts.size());
  guess_time_ = guess_time_ == 0 || each < guess_time_ ? each : guess_time_ + (each - guess_time_) / 8;
  return drafts;
}

std::span<const float> Speculator::Decode(int32_t id, uint32_t more, const Sampler& sampler) {
  if (!proposer_) return session_.Decode(id);
  ids_.push_back(id);
  if (right_ < drafts_.size()) {
    const bool right = drafts_[right_].id == id;
    policy_.Saw(drafts_[right_].draft_class, right);
    if (right) {
      ++counts_.accepted;
      return Row(++right_);
    }
  }
  if (watched_) policy_.Saw(watched_->draft_class, watched_->id == id);
  Settle();
  std::vector<Draft> drafts = Guess(std::min(more, most_), sampler);
  const uint64_t start = NowNanoseconds();
  if (drafts.empty()) {
    const std::span<const float> logits = session_.Decode(id);
    policy_.Took(1, static_cast<double>(NowNanoseconds() - start));
    return logits;
  }
  std::vector<int32_t> tokens = {id};
  for (const Draft& draft : drafts) tokens.push_back(draft.id);
  rows_ = session_.Verify(tokens);
  call_time_ = static_cast<double>(NowNanoseconds() - start);
  drafts_ = std::move(drafts);
  counts_.proposed += drafts_.size();
  ++counts_.calls;
  return Row(0);
}

}  // namespace llmc
