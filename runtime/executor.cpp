// One forward call: the phase, the context, the threads. All memory is set up when the session is made; a call
// allocates nothing but the small objects by which oneDNN is told where the operands of a product lie.
#include "runtime/executor.h"

#include <algorithm>
#include <cstring>

#include "runtime/barrier.h"
#include "runtime/plan_finite.h"
#include "runtime/step_library.h"

namespace llmc {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kAlikeRows = 16;  // calls of more rows use the threads of those of one

std::string Str(uint64_t value) { return std::to_string(value); }

uint32_t CheckedThreads(uint32_t threads) {
  if (threads < 1 || threads > kMaxThreads) throw PlanError(Str(threads) + " threads: not in 1.." + Str(kMaxThreads));
  return threads;
}

}  // namespace

SessionBytes SessionBytesOf(const Manifest& manifest, uint32_t threads) {
  uint64_t output = 0;
  for (const PlanPhase& phase : manifest.phases) output = std::max(output, OutputBytes(manifest, phase));
  uint64_t copy = 0;
  for (const PlanState& state : manifest.states) {
    if (FindRow(kStateKinds, state.kind)->abort == StateAbort::COPY) copy += state.bytes();
  }
  return {manifest.shared_bytes, manifest.private_bytes * threads, manifest.state_bytes, output, copy};
}

struct Session::Job {
  const std::vector<ExecutableStep>* steps;
  const StepProgram* program;
  const LlmcContext* context;
  uint32_t threads;
  uint8_t* scratchpads;
  std::atomic<uint32_t> aborted{0};
  std::atomic<size_t> failed{0};  // 1 + number of a library step that failed
};

Workspace::Workspace(const Executable& executable, const SessionOptions& options)
    : pool(options.pool ? options.pool : std::make_shared<ThreadPool>(CheckedThreads(options.threads))),
      claims(std::make_unique<LlmcClaims[]>(pool->size())),
      governors(kAlikeRows + 1, ThreadGovernor(pool->size(), UsableCores())) {
  const SessionBytes bytes = SessionBytesOf(*executable.manifest, pool->size());
  if (!executable.interpret) {
    shared = Reservation::Zeros(bytes.shared, bytes.shared >= kHugePage, "the shared arena", options.memory);
    scratch = Reservation::Zeros(bytes.scratch, false, "the threads' arenas", options.memory);
    if (executable.program)
      scratchpads = Reservation::Zeros(executable.program->scratchpad_bytes() * pool->size(), false, "scratchpads",
                                       options.memory);
  }
  logits = Reservation::Zeros(bytes.logits, false, "logits", options.memory);
}

Session::Session(const Executable& executable, const SessionOptions& options)
    : executable_(executable),
      manifest_(executable.manifest),
      context_(options.context == 0 ? manifest_->context : options.context),
      chunk_(options.chunk == 0 ? manifest_->chunk : options.chunk),
      adapt_(options.adapt),
      progress_(options.progress) {
  const Manifest& m = *manifest_;
  if (context_ > m.context)
    throw PlanError("a context of " + Str(context_) + " positions is over the plan's " + Str(m.context));
  if (chunk_ > m.chunk) throw PlanError("calls of " + Str(chunk_) + " rows are over the plan's " + Str(m.chunk));
  if (!executable_.interpret && executable_.steps.size() != m.phases.size())
    throw PlanError("there is no code for this plan's phases");
  workspace_ = options.workspace ? options.workspace : std::make_shared<Workspace>(executable_, options);
  // Small pages: a huge page per layer's cache would be touched and zeroed by the first token.
  if (executable_.interpret) return;
  states_ = Reservation::Zeros(m.state_bytes, false, "caches", options.memory);
  copy_ = Reservation::Zeros(SessionBytesOf(m, threads()).copy, false, "the copy of states", options.memory);
}

void Session::Reset() {
  pos_ = written_ = 0;
  if (executable_.interpret) return;  // it has its own, whose ops start from nothing at position 0
  for (const PlanState& state : manifest_->states) {
    if (FindRow(kStateKinds, state.kind)->reset == StateReset::CLEAR)
      std::memset(states_.data() + state.offset, 0, state.bytes());
  }
}

void Session::Clear() {
  pos_ = written_ = 0;
  Workspace& w = *workspace_;
  for (Reservation* memory : {&states_, &copy_, &w.shared, &w.scratch, &w.logits, &w.scratchpads}) memory->Zero();
}

std::optional<bool> Session::Overflow() const { return CacheOverflow({states_.data(), states_.size()}); }

uint32_t Session::MostRows(PhaseKind work) const {
  uint32_t most = 0;
  for (const PlanPhase& phase : manifest_->phases) {
    if (WorkOf(phase.kind) == work) most = std::max(most, phase.max_rows);
  }
  return most;
}

const PlanPhase* Session::FindPhase(PhaseKind kind) const {
  for (const PlanPhase& phase : manifest_->phases) {
    if (phase.kind == kind) return &phase;
  }
  return nullptr;
}

const PlanPhase& Session::PickPhase(PhaseKind work, uint32_t rows) const {
  const PlanPhase* best = nullptr;
  for (const PlanPhase& phase : manifest_->phases) {
    if (WorkOf(phase.kind) != work || rows < phase.min_rows || rows > phase.max_rows) continue;
    if (best == nullptr || phase.max_rows - phase.min_rows < best->max_rows - best->min_rows) best = &phase;
  }
  if (best == nullptr) throw PlanError("the plan has no phase for " + Str(rows) + " rows");
  return *best;
}

void Session::CheckTokens(std::span<const int32_t> tokens) const {
  if (tokens.empty()) throw PlanError("no tokens");
  if (tokens.size() > context_ - pos_) {
    throw PlanError(Str(tokens.size()) + " tokens" + (pos_ == 0 ? "" : " behind " + Str(pos_)) +
                    " don't fit into the context: " + Str(pos_ + tokens.size()) + " > " + Str(context_));
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= vocab()) {
      throw PlanError("token " + Str(i) + " is " + std::to_string(tokens[i]) + ", not in 0.." + Str(vocab() - 1));
    }
  }
}

bool Session::Rewind(uint32_t position) {
  if (position >= pos_) return position == pos_;
  if (manifest_->states.empty()) return false;  // plans before 1.2 don't say what a state is
  bool whole = true;
  for (const PlanState& state : manifest_->states) whole = whole && state.slots > 0;
  ForRings(position, [&](const PlanState& state, uint32_t first) {
    whole = whole && (written_ <= state.slots || written_ - state.slots <= first);
  });
  if (whole) pos_ = position;
  return whole;
}

uint32_t Session::MostVerified() const {
  const uint32_t scored = MostRows(PhaseKind::Score);
  if (scored < 2) throw PlanError("the plan has no phase that gives the logits of several rows");
  if (manifest_->states.empty() && manifest_->state_bytes > 0)
    throw PlanError("a plan of a format before 1.2 doesn't say what its states are: compile the model again");
  const bool past = std::any_of(manifest_->states.begin(), manifest_->states.end(),
                                [](const PlanState& state) { return state.slots == 0; });
  if (past && executable_.interpret) throw PlanError("the interpreter's states of the past can't be put back");
  uint32_t most = scored;
  ForRings(0, [&](const PlanState& state, uint32_t) {
    most = std::min(most, state.window > 0 && state.slots > state.window ? state.slots - state.window + 1 : 1);
  });
  if (most < 2) throw PlanError("a sliding window's cache has no room for rows that are taken back");
  return most;
}

void Session::CopyPast(bool back) {
  uint8_t* copy = copy_.data();
  for (const PlanState& state : manifest_->states) {
    if (FindRow(kStateKinds, state.kind)->abort != StateAbort::COPY) continue;
    uint8_t* bytes = states_.data() + state.offset;
    std::memcpy(back ? bytes : copy, back ? copy : bytes, state.bytes());
    copy += state.bytes();
  }
}

std::span<const float> Session::Verify(std::span<const int32_t> tokens) {
  CheckTokens(tokens);
  const auto rows = static_cast<uint32_t>(tokens.size());
  if (rows > MostVerified()) throw PlanError("can't verify " + Str(rows) + " rows, only " + Str(MostVerified()));
  CopyPast(false);
  verified_.assign(tokens.begin(), tokens.end());
  Forward(PickPhase(PhaseKind::Score, rows), {tokens, pos_ + rows});
  return {reinterpret_cast<const float*>(workspace_->logits.data()), uint64_t{rows} * vocab()};
}

void Session::KeepVerified(uint32_t rows) {
  const auto all = static_cast<uint32_t>(verified_.size());
  if (rows < 1 || rows > all) throw PlanError("can't keep " + Str(rows) + " of " + Str(all) + " rows");
  if (rows == all) return;
  const uint32_t start = pos_ - all;
  if (copy_.size() == 0) {
    if (!Rewind(start + rows)) throw PlanError("rows can't be taken back at position " + Str(pos_));
  } else {
    CopyPast(true);
    pos_ = start;
    Prefill(std::span(verified_).first(rows));
  }
  verified_.resize(rows);
}

std::span<const float> Session::Prefill(std::span<const int32_t> tokens) {
  CheckTokens(tokens);
  if (MostRows(PhaseKind::Prefill) == 0)
    throw PlanError("the plan is an encoder's: it gives hidden rows and embeddings, and no logits");
  const uint32_t total = pos_ + static_cast<uint32_t>(tokens.size());
  const size_t count = tokens.size();
  while (!tokens.empty()) {
    const uint32_t rows = static_cast<uint32_t>(std::min<size_t>(tokens.size(), chunk_));
    Forward(PickPhase(PhaseKind::Prefill, rows), {tokens.first(rows), total});
    tokens = tokens.subspan(rows);
    if (!tokens.empty() && progress_ && !progress_(count - tokens.size(), count))
      throw StoppedError("stopped on request at position " + Str(pos_));
  }
  return {reinterpret_cast<const float*>(workspace_->logits.data()), vocab()};
}

void Session::Score(std::span<const int32_t> tokens, const std::function<void(std::span<const float>)>& row) {
  CheckTokens(tokens);
  const uint32_t most = std::min(MostRows(PhaseKind::Score), chunk_);
  if (most == 0) throw PlanError("the plan has no phase that gives the logits of every position");
  const uint32_t total = pos_ + static_cast<uint32_t>(tokens.size());
  while (!tokens.empty()) {
    const uint32_t rows = static_cast<uint32_t>(std::min<size_t>(tokens.size(), most));
    Forward(PickPhase(PhaseKind::Score, rows), {tokens.first(rows), total});
    for (uint32_t r = 0; r < rows; ++r)
      row({reinterpret_cast<const float*>(workspace_->logits.data()) + uint64_t{r} * vocab(), vocab()});
    tokens = tokens.subspan(rows);
  }
}

uint32_t Session::hidden_width() const {
  const PlanPhase* phase = FindPhase(PhaseKind::Hidden);
  return phase == nullptr ? 0 : phase->width;
}

void Session::Hidden(std::span<const int32_t> tokens, std::span<const int32_t> types,
                     const std::function<void(std::span<const float>)>& row) {
  const PlanPhase* phase = FindPhase(PhaseKind::Hidden);
  if (phase == nullptr)
    throw PlanError("the plan has no phase that gives hidden rows (llmc compile --hidden makes one)");
  const bool whole = phase->contract.kind == EntryKind::Whole;
  if (whole) Reset();
  CheckTokens(tokens);
  const bool typed = phase->types > 0;
  if (!types.empty() && types.size() != tokens.size())
    throw PlanError(Str(types.size()) + " types of " + Str(tokens.size()) + " tokens");
  std::vector<int32_t> none;
  if (typed && types.empty()) types = none = std::vector<int32_t>(tokens.size(), 0);
  for (const int32_t type : types) {
    if (!typed && type != 0) throw PlanError("the model has no token types");
    if (type < 0 || (typed && static_cast<uint32_t>(type) >= phase->types))
      throw PlanError("token type " + std::to_string(type) + " isn't in 0.." + Str(phase->types - 1));
  }
  const uint32_t total = pos_ + static_cast<uint32_t>(tokens.size());
  const uint32_t most = whole ? MostRows(PhaseKind::Hidden) : std::min(MostRows(PhaseKind::Hidden), chunk_);
  if (whole && tokens.size() > most)
    throw PlanError(Str(tokens.size()) + " tokens are more than a call of the plan takes, " + Str(most));
  while (!tokens.empty()) {
    const uint32_t rows = static_cast<uint32_t>(std::min<size_t>(tokens.size(), most));
    Forward(PickPhase(PhaseKind::Hidden, rows), {tokens.first(rows), total, typed ? types.first(rows) : types});
    for (uint32_t r = 0; r < rows; ++r)
      row({reinterpret_cast<const float*>(workspace_->logits.data()) + uint64_t{r} * phase->width, phase->width});
    tokens = tokens.subspan(rows);
    if (typed) types = types.subspan(rows);
  }
  if (whole) pos_ = 0;
}

std::vector<float> Session::Project(std::span<const float> row) {
  const PlanPhase* phase = FindPhase(PhaseKind::Project);
  if (phase == nullptr) return {row.begin(), row.end()};
  if (row.size() != phase->width_in)
    throw PlanError("a row of " + Str(row.size()) + " numbers, the plan's dense layers take " + Str(phase->width_in));
  const uint32_t position = pos_;
  Forward(*phase, {.tokens = {}, .total = 1, .types = {}, .hidden = row});
  pos_ = position;
  const auto* out = reinterpret_cast<const float*>(workspace_->logits.data());
  return {out, out + phase->width};
}

void Session::RunJob(void* data, uint32_t thread) {
  Job& job = *static_cast<Job*>(data);
  uint8_t* scratchpad =
      job.scratchpads == nullptr ? nullptr : job.scratchpads + thread * job.program->scratchpad_bytes();
  // Every thread learns of an abort at the same barrier. A library step that failed stops nobody: the others couldn't
  // know before the next barrier, and would wait there.
  for (const ExecutableStep& step : *job.steps) {
    uint32_t leave = 0;
    switch (step.kind) {
      case ExecutableStep::Kind::Code: leave = step.code(job.context, thread, job.threads); break;
      case ExecutableStep::Kind::Barrier: leave = MeetAtBarrier(job.context, thread, job.threads); break;
      case ExecutableStep::Kind::Library:
        if (job.program->Run(step.index, job.context, thread, job.threads, scratchpad) != 0)
          job.failed.store(static_cast<size_t>(&step - job.steps->data()) + 1);
        break;
    }
    if (leave != 0) {
      job.aborted.store(1);
      return;
    }
  }
}

void Session::Forward(const PlanPhase& phase, const Call& call) {
  const uint32_t rows = call.hidden.empty() ? static_cast<uint32_t>(call.tokens.size())
                                            : static_cast<uint32_t>(call.hidden.size() / phase.width_in);
  written_ = std::max(written_, pos_ + rows);  // a call that is stopped has written too
  auto* logits = reinterpret_cast<float*>(workspace_->logits.data());
  if (executable_.interpret) {
    executable_.interpret({&phase, call.tokens, pos_, call.total, logits, call.types, call.hidden});
    pos_ += rows;
    return;
  }
  // A step of a library may fail in any call; code alone leaves when it is asked to.
  const bool moves = copy_.size() > 0, copied = moves && (rows > kAlikeRows || executable_.program);
  if (moves && abort_request_.exchange(0) != 0) throw StoppedError("stopped on request at position " + Str(pos_));
  if (copied) CopyPast(false);
  static constexpr uint32_t kNever = 0;
  LlmcContext context = ContextOf(rows);
  if (moves && !copied) context.abort_request = &kNever;
  const void* inputs[std::size(kEntryInputs)] = {};
  inputs[static_cast<size_t>(EntryInput::Types)] = call.types.data();
  inputs[static_cast<size_t>(EntryInput::Hidden)] = call.hidden.data();
  context.inputs = inputs;
  context.tokens = call.tokens.data();
  context.pos = pos_;
  context.total = call.total;
  try {
    Run(phase, context, "at position " + Str(pos_));
  } catch (const PlanError&) {
    if (copied) CopyPast(true);
    throw;
  }
  pos_ += rows;
}

LlmcContext Session::ContextOf(uint32_t rows) {
  Workspace& w = *workspace_;
  LlmcContext context{};
  context.weights = executable_.weights;
  context.shared = w.shared.data();
  context.scratch = w.scratch.data();
  context.scratch_stride = manifest_->private_bytes;
  context.states = states_.data();
  context.logits = reinterpret_cast<float*>(w.logits.data());
  context.rows = rows;
  context.abi = LLMC_ABI_VERSION;
  context.barrier = &w.barrier;
  std::fill_n(w.claims.get(), w.pool->size(), LlmcClaims{});
  context.claims = w.claims.get();
  context.abort_request = reinterpret_cast<const uint32_t*>(&abort_request_);
  return context;
}

void Session::Run(const PlanPhase& phase, const LlmcContext& context, const std::string& where) {
  Workspace& w = *workspace_;
  const uint32_t rows = context.rows;
  ThreadGovernor& governor = w.governors[rows <= kAlikeRows ? rows : 1];
  Job job{&executable_.steps[static_cast<size_t>(&phase - manifest_->phases.data())], executable_.program.get(),
          &context, adapt_ ? governor.threads() : w.pool->size(), w.scratchpads.data()};
  const uint64_t start = NowNanoseconds();
  const bool late = w.pool->Run(job.threads, RunJob, &job);
  if (rows <= kAlikeRows) governor.Report(NowNanoseconds() - start, w.barrier.long_waits + (late ? 1 : 0));
  w.barrier.long_waits = 0;
  if (job.aborted.load() != 0) {
    abort_request_.store(0);
    throw StoppedError("stopped on request " + where);
  }
  if (const size_t failed = job.failed.load(); failed != 0) {
    throw PlanError(Joined({"phase ", PhaseKindName(phase.kind), ", step ", Str(failed - 1), ": ",
                            executable_.program->version(), " failed ", where, " (out of memory?)"}));
  }
}

uint32_t Session::MostTogether() {
  if (most_together_ != 0) return most_together_;
  const PlanPhase* score = FindPhase(PhaseKind::Score);
  if (score == nullptr) throw PlanError("the plan has no phase that gives the logits of several rows");
  if (executable_.interpret) throw PlanError("the interpreter runs one sequence at a time");
  if (!score->contract.by_row)
    throw PlanError("the plan's rows are of one sequence: " +
                    std::string(std::all_of(manifest_->states.begin(), manifest_->states.end(),
                                            [](const PlanState& state) { return state.slots > 0; })
                                    ? "it is of an older llmc, compile the model again"
                                    : "the model's states of the past can't be moved together"));
  CheckRowsAreAlike(*manifest_);
  return most_together_ = score->max_rows;
}

std::span<const float> Session::DecodeTogether(std::span<Session* const> sessions, std::span<const int32_t> tokens) {
  const auto rows = static_cast<uint32_t>(sessions.size());
  if (rows == 0 || tokens.size() != rows)
    throw PlanError(Str(tokens.size()) + " tokens of " + Str(rows) + " sequences");
  Session& first = *sessions[0];
  if (rows > first.MostTogether())
    throw PlanError(Str(rows) + " sequences, a call of the plan takes " + Str(first.MostTogether()));
  std::vector<int32_t> positions(rows);
  std::vector<uint64_t> bases(rows);
  LlmcContext context = first.ContextOf(rows);
  // Offsets go up from the lowest states: pointers don't wrap.
  for (const Session* session : sessions) context.states = std::min(context.states, session->states_.data());
  for (uint32_t i = 0; i < rows; ++i) {
    Session& session = *sessions[i];
    if (session.workspace_ != first.workspace_ || session.manifest_ != first.manifest_)
      throw PlanError("sequences that decode together share a plan and a workspace");
    for (uint32_t j = 0; j < i; ++j) {
      if (sessions[j] == &session) throw PlanError("a sequence is there twice");
    }
    session.CheckTokens({&tokens[i], 1});
    positions[i] = static_cast<int32_t>(session.pos_);
    bases[i] = reinterpret_cast<uintptr_t>(session.states_.data()) - reinterpret_cast<uintptr_t>(context.states);
    context.total = std::max(context.total, session.pos_ + 1);
  }
  for (Session* session : sessions) session->written_ = std::max(session->written_, session->pos_ + 1);
  const void* inputs[std::size(kEntryInputs)] = {};
  context.inputs = inputs;
  context.tokens = tokens.data();
  context.positions = positions.data();
  context.state_bases = bases.data();
  first.Run(*first.FindPhase(PhaseKind::Score), context, "with " + Str(rows) + " sequences together");
  for (Session* session : sessions) ++session->pos_;
  return {context.logits, uint64_t{rows} * first.vocab()};
}

// Each thread reads its part in pieces of a cache line, as plain loads; the sum keeps the compiler from leaving them
// out.
namespace {

// A share of the weights: pieces of a MiB in turn, so that the threads read side by side as they do in a matrix; four
// lines at a time, fetched ahead as kernels do.
struct Stream {
  static constexpr uint64_t kPiece = 1 << 20, kStep = 256, kAhead = 5120;
  const uint8_t* bytes;
  uint64_t size;
  uint32_t threads;
  std::atomic<uint64_t> sum{0};

  void Read(uint32_t thread) {
    using Vector = uint64_t __attribute__((vector_size(16), aligned(16), may_alias));
    Vector sums[kStep / sizeof(Vector)] = {};
    for (uint64_t piece = thread * kPiece; piece < size; piece += threads * kPiece) {
      const uint64_t end = std::min(piece + kPiece, size / kStep * kStep);
      for (uint64_t at = piece; at < end; at += kStep) {
        const auto* v = reinterpret_cast<const Vector*>(bytes + at);
        for (uint64_t line = 0; line < kStep; line += 64) __builtin_prefetch(bytes + at + kAhead + line);
        for (size_t i = 0; i < std::size(sums); ++i) sums[i] |= v[i];
      }
    }
    for (const Vector& v : sums) sum.fetch_add(v[0] + v[1]);
  }
};

}  // namespace

double Session::StreamWeights() {
  ThreadPool& pool = *workspace_->pool;
  Stream stream{executable_.weights, executable_.weights_size, pool.size()};
  if (stream.size == 0) return 0;
  // The fastest of three: whatever else the machine does makes it slower alone.
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const uint64_t start = NowNanoseconds();
    pool.Run(pool.size(), [](void* data, uint32_t thread) { static_cast<Stream*>(data)->Read(thread); }, &stream);
    best = std::min(best, std::max<uint64_t>(NowNanoseconds() - start, 1));
  }
  return static_cast<double>(stream.size) * 1e9 / static_cast<double>(best);
}

}  // namespace llmc
