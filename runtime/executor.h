// Runs forward calls. A Session is one sequence on an Executable: its caches, its threads, its position.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/context.h"
#include "runtime/executable.h"
#include "runtime/memory.h"
#include "runtime/plan.h"
#include "runtime/threads.h"

namespace llmc {

struct Workspace;

struct SessionOptions {
  uint32_t threads = 1;
  uint32_t context = 0;      // limit of positions; 0: the manifest's
  uint32_t chunk = 0;        // rows of a prefill call; 0: the manifest's
  bool adapt = true;         // fewer threads while a core is busy with something else
  MemorySource memory = {};  // of arenas, states, their copy and logits
  // Threads that make this session's calls; they may be another session's, when no two of them run calls at once. Null:
  // `threads` of its own.
  std::shared_ptr<ThreadPool> pool = {};
  // What this session's calls work in (Session::workspace), with its threads; it may be that of another session of the
  // same executable, when no two of them run calls at once. Null: one of its own.
  std::shared_ptr<Workspace> workspace = {};
  // Called between the calls of a prefill with the tokens that are done; false stops it there. May be empty.
  std::function<bool(size_t done, size_t total)> progress = {};
};

// Bytes of what a session of a plan asks memory for, which is also what it asks for: arenas, states, logits, and room
// for a copy of the states that a stopped call would spoil (StateAbort::COPY). (What a
// library of steps wants beside, it says when it is loaded.)
struct SessionBytes {
  uint64_t shared = 0;   // arena of all threads
  uint64_t scratch = 0;  // arenas of each, together
  uint64_t states = 0;
  uint64_t logits = 0;
  uint64_t copy = 0;
};
SessionBytes SessionBytesOf(const Manifest& manifest, uint32_t threads);
// Bytes of states that the first `position` positions have written; of plans before 1.2 all of them.
uint64_t WrittenStateBytes(const Manifest& manifest, uint32_t position);

// What calls work in and leave nothing in but the logits of the last one.
struct Workspace {
  // Throws PlanError when memory is short, or for a number of threads out of range.
  Workspace(const Executable& executable, const SessionOptions& options);

  std::shared_ptr<ThreadPool> pool;
  Reservation shared, scratch, logits, scratchpads;
  LlmcBarrier barrier{};
  std::unique_ptr<LlmcClaims[]> claims;   // of each thread
  std::vector<ThreadGovernor> governors;  // by the rows of a call: calls of as many rows are alike
};

// A call that RequestAbort, or the progress function, has stopped.
class StoppedError : public PlanError {
 public:
  using PlanError::PlanError;
};

// Not thread-safe, except RequestAbort. Every call checks its arguments before any work and throws PlanError.
class Session {
 public:
  Session(const Executable& executable, const SessionOptions& options);

  // Appends `tokens` (at least one) in calls of up to chunk rows. Returns the logits of the last one, valid until the
  // next call.
  std::span<const float> Prefill(std::span<const int32_t> tokens);
  std::span<const float> Decode(int32_t token) { return Prefill({&token, 1}); }
  // Appends `tokens` and gives each one's logits to `row`, in order.
  void Score(std::span<const int32_t> tokens, const std::function<void(std::span<const float> logits)>& row);

  // One call whose rows can be taken back from its end, for tokens that are guesses (runtime/speculate.h): appends
  // `tokens`, at most MostVerified(), and returns f32[tokens, vocab], valid until the next call.
  std::span<const float> Verify(std::span<const int32_t> tokens);
  // Of the last Verify the first `rows` tokens stay, at least one, and the others are as if they had never been.
  // Positions are forgotten as Rewind does, without a copy; a state that holds the past is put back from a copy that
  // Verify made, and moved by the tokens that stay.
  void KeepVerified(uint32_t rows);
  // Rows that a score phase takes and that no ring loses a key for which is still needed: slots - window + 1 of them.
  // Throws PlanError when that is less than two: the plan can't verify, and why.
  uint32_t MostVerified() const;
  // One call for several sequences: tokens[i] is appended to sessions[i]. They are different sessions that share a
  // workspace, at most MostTogether(). Returns f32[tokens, vocab], valid until the next call of any of them; each row has
  // the bits that Decode gives the session alone. When it is stopped or fails, all are as they were.
  static std::span<const float> DecodeTogether(std::span<Session* const> sessions, std::span<const int32_t> tokens);
  // Throws PlanError for a plan that can't decode several sequences in a call, and why.
  uint32_t MostTogether();
  const std::shared_ptr<Workspace>& workspace() const { return workspace_; }

  // The hidden rows of `tokens`, f32[width], in order. A decoder appends the tokens in calls of up to chunk rows; of an
  // encoder one call is one sequence, and nothing stays of it. types: the segment of each token, where the model has
  // types; empty: all 0. Throws PlanError where the plan has no such phase.
  void Hidden(std::span<const int32_t> tokens, std::span<const int32_t> types,
              const std::function<void(std::span<const float>)>& row);
  bool encoder() const { return IsEncoder(*manifest_); }  // it gives hidden rows alone
  uint32_t hidden_width() const;                          // 0: the plan has no phase that gives hidden rows
  // What the plan makes of a pooled row: its dense layers; the row itself where there are none.
  std::vector<float> Project(std::span<const float> row);

  // What each call checks first: at least one token, ids in the vocabulary, room in the context. Throws PlanError.
  void CheckTokens(std::span<const int32_t> tokens) const;

  // Forgets everything: a new sequence begins. States are cleared where their kind asks for it (ir/states.def).
  void Reset();
  // Forgets what came behind the first `position` tokens, as if it had never been. False, and nothing is changed: the
  // states no longer hold all that those tokens need.
  bool Rewind(uint32_t position);
  // The same, and the memory is as of a new session: caches, arenas and logits are zero. For tests: nothing that an
  // earlier call left can stand in for what a later one leaves out.
  void Clear();
  // Position and states, as far as later calls depend on them (ir/states.def), for any session of the same plan: the
  // bits that follow are the same. Bound to the plan by its hash, and to itself by one (runtime/README.md, "Saved
  // sessions"). Restoring throws PlanError for anything else, and the session is then as it was.
  std::string SaveState() const;
  void RestoreState(std::string_view saved);

  uint32_t position() const { return pos_; }  // tokens appended so far
  uint32_t context() const { return context_; }
  uint32_t vocab() const { return manifest_->vocab; }
  uint32_t threads() const { return workspace_->pool->size(); }
  const std::shared_ptr<ThreadPool>& pool() const { return workspace_->pool; }

  // CacheOverflow (runtime/plan_finite.h) of the caches, for the message about logits that aren't finite.
  std::optional<bool> Overflow() const;

  // From any thread: the running call, or the next one, stops at a barrier; it throws StoppedError, and the session goes
  // on from where it was. With states that only a copy brings back (ir/states.def), calls of up to kAlikeRows rows go to
  // their end, which is near, and the next one stops: copying for each token would cost more.
  void RequestAbort() { abort_request_.store(1); }

  // Bytes per second at which all threads read the weights: the fastest of three readings.
  double StreamWeights();

 private:
  struct Job;
  // Phases that do the same work: decode is a prefill of one row.
  static PhaseKind WorkOf(PhaseKind kind) { return kind == PhaseKind::Decode ? PhaseKind::Prefill : kind; }
  const PlanPhase& PickPhase(PhaseKind work, uint32_t rows) const;
  const PlanPhase* FindPhase(PhaseKind kind) const;  // null: there is none
  uint32_t MostRows(PhaseKind work) const;
  struct Call {
    std::span<const int32_t> tokens;
    uint32_t total = 0;
    std::span<const int32_t> types = {};
    std::span<const float> hidden = {};
  };
  void Forward(const PlanPhase& phase, const Call& call);
  // What a call of `rows` rows is given, but for tokens and where they stand.
  LlmcContext ContextOf(uint32_t rows);
  // Runs the phase on all threads. where: the end of messages about a stop or a fault.
  void Run(const PlanPhase& phase, const LlmcContext& context, const std::string& where);
  static void RunJob(void* job, uint32_t thread);
  // visit(state, its first position that a row at `position` needs) for each state that is a ring: one of fewer slots
  // than the context, which loses what lies so many slots behind the last position that was written.
  template <class Visit>
  void ForRings(uint32_t position, const Visit& visit) const {
    for (const PlanState& state : manifest_->states) {
      if (state.slots == 0 || state.slots >= manifest_->context) continue;
      visit(state, state.window == 0 || position < state.window ? 0 : position - state.window + 1);
    }
  }
  void CopyPast(bool back);  // states that hold the past, to copy_ or back

  Executable executable_;
  std::shared_ptr<const Manifest> manifest_;
  uint32_t context_, chunk_, pos_ = 0;
  uint32_t most_together_ = 0;     // 0: nobody has asked
  uint32_t written_ = 0;           // the furthest that calls have come since the sequence began, which rings know of
  std::vector<int32_t> verified_;  // tokens of the last Verify
  bool adapt_;
  std::function<bool(size_t, size_t)> progress_;
  std::shared_ptr<Workspace> workspace_;
  Reservation states_, copy_;
  std::atomic<uint32_t> abort_request_{0};
};

}  // namespace llmc
