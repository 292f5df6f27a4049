// The C interface over loader, sessions, tokenizer and sampler: no exception leaves it.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include <fcntl.h>

#include "runtime/dry.h"
#include "runtime/embedding.h"
#include "runtime/gbnf.h"
#include "runtime/json_schema.h"
#include "runtime/llmc.h"
#include "runtime/loader.h"
#include "runtime/plan_io.h"
#include "runtime/sampler.h"
#include "runtime/token_constraint.h"
#include "runtime/tokenizer.h"

using namespace llmc;

struct llmc_model {
  Executable executable;
  std::string name, chat_template;
  std::optional<Tokenizer> tokenizer;
  std::string tokenizer_fault;  // why there is none, of a plan that has a section: ids work all the same
};

struct llmc_session {
  Executable executable;  // of the model, which may be closed
  std::optional<Session> session;
  std::optional<Tokenizer> tokenizer;  // where the model has one
  const float* logits = nullptr;
  std::vector<int32_t> history;  // ids appended since it was created, reset or restored
  std::optional<Sampler> sampler;
  llmc_sampling sampling{};  // the sampler's
  std::shared_ptr<TokenConstraint> constraint;
};

struct llmc_snapshot {
  std::string bytes;
};

namespace {

// What a caller of this interface may not do.
class ApiUsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};
void Need(bool condition, const char* rule) {
  if (!condition) throw ApiUsageError(rule);
}

std::string& LastError() {
  thread_local std::string text;
  return text;
}

llmc_status Failed(llmc_status status, const char* message) {
  LastError() = message;
  return status;
}

template <class Run>
llmc_status Guarded(Run run) {
  try {
    run();
    return LLMC_OK;
  } catch (const StoppedError& error) {
    return Failed(LLMC_CANCELLED, error.what());
  } catch (const PlanError& error) {
    return Failed(LLMC_ERROR_INPUT, error.what());
  } catch (const ApiUsageError& error) {
    return Failed(LLMC_ERROR_USAGE, error.what());
  } catch (const std::bad_alloc&) {
    return Failed(LLMC_ERROR_INPUT, "out of memory");
  } catch (const std::system_error& error) {  // no more threads
    return Failed(LLMC_ERROR_INPUT, error.what());
  } catch (const std::exception& error) {
    return Failed(LLMC_ERROR_INTERNAL, error.what());
  }
}

llmc_status Open(llmc_model** model, PlanFile (*open)(const void*), const void* what, std::span<const uint8_t> memory) {
  if (model != nullptr) *model = nullptr;
  return Guarded([&] {
    Need(model != nullptr && what != nullptr, "no model, or no place for it");
    auto opened = std::make_unique<llmc_model>();
    PlanFile plan = open(what);
    opened->chat_template = plan.Read(SectionKind::ChatTemplate);
    opened->name = plan.manifest().model;
    opened->executable = LoadPlan(std::move(plan), {}, memory);
    try {
      if (!opened->executable.tokenizer.empty()) opened->tokenizer.emplace(opened->executable.tokenizer);
    } catch (const PlanError& error) {
      opened->tokenizer_fault = error.what();
    }
    *model = opened.release();
  });
}

class BorrowedBytes : public PlanBytes {
 public:
  explicit BorrowedBytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void Read(uint64_t offset, void* to, size_t size) const override {
    if (offset > bytes_.size() || size > bytes_.size() - offset) throw PlanError("a read behind the plan's end");
    std::memcpy(to, bytes_.data() + offset, size);
  }

 private:
  std::span<const uint8_t> bytes_;
};

const Tokenizer& TokenizerOf(const llmc_model* model) {
  Need(model != nullptr, "no model");
  if (!model->tokenizer_fault.empty()) throw PlanError(model->tokenizer_fault);
  if (!model->tokenizer) throw PlanError("the plan has no tokenizer");
  return *model->tokenizer;
}

// Copies up to `capacity` items and says how many there are.
template <class T, class Items>
void Give(const Items& items, T* to, size_t capacity, size_t* count) {
  Need(count != nullptr && (to != nullptr || capacity == 0), "no place for the result");
  *count = items.size();
  std::copy_n(items.begin(), std::min(items.size(), capacity), to);
  Need(items.size() <= capacity, "the result is longer than the capacity");
}

// A structure of a caller that was compiled with an older header is shorter; one of a newer header is longer, and what
// this library doesn't know must then be 0.
template <class T>
T Taken(const T* given, const char* what) {
  T taken{};
  taken.size = sizeof(T);
  if (given == nullptr) return taken;
  Need(given->size >= sizeof(size_t), what);
  std::memcpy(&taken, given, std::min(given->size, sizeof(T)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(T); i < given->size; ++i) Need(bytes[i] == 0, what);
  taken.size = sizeof(T);
  return taken;
}

Session& SessionOf(llmc_session* session) {
  Need(session != nullptr, "no session");
  return *session->session;
}

// The session stands somewhere else, or at the start: what was there before no longer counts.
void Forget(llmc_session& session) {
  session.history.clear();
  session.logits = nullptr;
  if (session.constraint != nullptr) session.constraint->Reset();
}

// What call() appends of `ids` joins the history, also when it stops on the way.
template <class Call>
void Appending(llmc_session& session, std::span<const int32_t> ids, Call call) {
  const uint32_t before = session.session->position();
  const auto note = [&] {
    const std::span<const int32_t> done = ids.first(session.session->position() - before);
    session.history.insert(session.history.end(), done.begin(), done.end());
  };
  try {
    call();
  } catch (...) {
    note();
    throw;
  }
  note();
}

SamplerOptions Defaults(const PlanGeneration& g) {
  SamplerOptions options;
  if (!g.do_sample) return options;
  options.temperature = g.temperature.value_or(1.0f);
  options.top_k = g.top_k.value_or(0);
  options.top_p = g.top_p.value_or(1.0f);
  options.min_p = g.min_p.value_or(0.0f);
  return options;
}

SamplerOptions OptionsOf(const llmc_sampling& given, const Executable& executable) {
  const auto otherwise = [](double value, double none) { return value == 0 ? none : value; };
  SamplerOptions options;
  options.temperature = given.temperature;
  options.top_k = given.top_k;
  options.top_p = given.top_p;
  options.min_p = given.min_p;
  options.seed = given.seed;
  options.rules.repetition_penalty = static_cast<float>(otherwise(given.repetition_penalty, 1));
  options.penalties = {static_cast<float>(given.presence_penalty), static_cast<float>(given.frequency_penalty)};
  options.penalty_last_n = given.penalty_last_n;
  options.dry.multiplier = static_cast<float>(given.dry_multiplier);
  options.dry.base = static_cast<float>(otherwise(given.dry_base, 1.75));
  options.dry.allowed_length = given.dry_allowed_length == 0 ? 2 : given.dry_allowed_length;
  if (given.dry_multiplier > 0 && !executable.tokenizer.empty())
    options.dry.breakers = DryBreakers(Tokenizer(executable.tokenizer), DefaultDryBreakers());
  options.xtc_probability = given.xtc_probability;
  options.xtc_threshold = otherwise(given.xtc_threshold, 0.1);
  options.mirostat_tau = given.mirostat_tau;
  options.mirostat_eta = otherwise(given.mirostat_eta, 0.1);
  return options;
}

}  // namespace

const char* llmc_version(void) { return LLMC_VERSION; }
uint32_t llmc_api_version(void) { return LLMC_API_VERSION; }
const char* llmc_last_error(void) { return LastError().c_str(); }

llmc_status llmc_model_open(const char* path, llmc_model** model) {
  return Open(model, [](const void* p) { return PlanFile(std::string(static_cast<const char*>(p))); }, path, {});
}

llmc_status llmc_model_open_fd(int fd, llmc_model** model) {
  return Open(model,
              [](const void* p) {
                const int given = *static_cast<const int*>(p);
                return PlanFile(fcntl(given, F_DUPFD_CLOEXEC, 0), "descriptor " + std::to_string(given));
              },
              &fd, {});
}

llmc_status llmc_model_open_memory(const void* plan, size_t size, llmc_model** model) {
  const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(plan), plan == nullptr ? 0 : size);
  return Open(
      model,
      [](const void* p) {
        return PlanFile(std::make_unique<BorrowedBytes>(*static_cast<const std::span<const uint8_t>*>(p)),
                        "plan in memory");
      },
      plan == nullptr ? nullptr : static_cast<const void*>(&bytes), bytes);
}

void llmc_model_close(llmc_model* model) { delete model; }

llmc_status llmc_model_get_info(const llmc_model* model, llmc_model_info* info) {
  return Guarded([&] {
    Need(model != nullptr && info != nullptr && info->size >= sizeof(size_t),
         "no model, or no place for the information");
    const Manifest& m = *model->executable.manifest;
    llmc_model_info full{};
    full.size = std::min(info->size, sizeof full);
    full.name = model->name.c_str();
    full.numerics = m.numerics.c_str();
    full.chat_template = model->chat_template.c_str();
    full.vocab = m.vocab;
    full.context = m.context;
    full.chunk = m.chunk;
    full.bos_id = m.generation.bos_id.value_or(-1);
    full.add_bos = m.generation.add_bos ? 1 : 0;
    full.has_tokenizer = model->tokenizer ? 1 : 0;
    full.stop_ids = m.generation.stop_ids.data();
    full.stop_count = m.generation.stop_ids.size();
    std::memcpy(info, &full, full.size);
  });
}

llmc_status llmc_tokenize(const llmc_model* model, const char* text, size_t bytes, uint32_t flags, int32_t* ids,
                          size_t capacity, size_t* count) {
  return Guarded([&] {
    const Tokenizer& tokenizer = TokenizerOf(model);
    Need(text != nullptr || bytes == 0, "no text");
    Need((flags & ~(LLMC_NO_SPECIAL | LLMC_PLAIN)) == 0, "flags that this version doesn't have");
    EncodeOptions options;
    options.add_special = (flags & LLMC_NO_SPECIAL) == 0;
    options.parse_special = (flags & LLMC_PLAIN) == 0;
    Give(tokenizer.Encode({text, bytes}, options), ids, capacity, count);
  });
}

llmc_status llmc_detokenize(const llmc_model* model, const int32_t* ids, size_t id_count, char* text, size_t capacity,
                            size_t* count) {
  return Guarded([&] {
    const Tokenizer& tokenizer = TokenizerOf(model);
    Need(ids != nullptr || id_count == 0, "no ids");
    Give(tokenizer.Decode({ids, id_count}), text, capacity, count);
  });
}

llmc_status llmc_session_create(const llmc_model* model, const llmc_session_options* options, llmc_session** session) {
  if (session != nullptr) *session = nullptr;
  return Guarded([&] {
    Need(model != nullptr && session != nullptr, "no model, or no place for the session");
    const llmc_session_options given = Taken(options, "session options of a newer version");
    SessionOptions taken;
    taken.threads = std::max(1u, given.threads);
    taken.context = given.context;
    taken.chunk = given.chunk;
    if (given.progress != nullptr) {
      taken.progress = [call = given.progress, user = given.progress_user](size_t done, size_t total) {
        return call(user, done, total) == 0;
      };
    }
    if (given.allocator != nullptr) {
      Need(given.allocator->allocate != nullptr && given.allocator->release != nullptr,
           "an allocator without functions");
      taken.memory = {given.allocator->allocate, given.allocator->release, given.allocator->user};
    }
    auto made = std::make_unique<llmc_session>();
    made->executable = model->executable;
    made->tokenizer = model->tokenizer;
    made->session.emplace(model->executable, taken);
    *session = made.release();
  });
}

void llmc_session_destroy(llmc_session* session) { delete session; }

llmc_status llmc_prefill(llmc_session* session, const int32_t* ids, size_t count) {
  return Guarded([&] {
    Session& s = SessionOf(session);
    Need(ids != nullptr || count == 0, "no ids");
    session->logits = nullptr;
    Appending(*session, {ids, count}, [&] { session->logits = s.Prefill({ids, count}).data(); });
  });
}

llmc_status llmc_decode(llmc_session* session, int32_t id) { return llmc_prefill(session, &id, 1); }

const float* llmc_logits(const llmc_session* session) { return session == nullptr ? nullptr : session->logits; }

llmc_status llmc_score(llmc_session* session, const int32_t* ids, size_t count,
                       int (*row)(void* user, size_t index, const float* logits), void* user) {
  return Guarded([&] {
    Session& s = SessionOf(session);
    Need((ids != nullptr || count == 0) && row != nullptr, "no ids, or nothing that takes their logits");
    session->logits = nullptr;
    size_t index = 0;
    Appending(*session, {ids, count}, [&] {
      s.Score({ids, count}, [&](std::span<const float> logits) {
        if (row(user, index++, logits.data()) != 0)
          throw StoppedError("stopped on request at row " + std::to_string(index));
      });
    });
  });
}

llmc_status llmc_hidden(llmc_session* session, const int32_t* ids, const int32_t* types, size_t count,
                        int (*row)(void* user, size_t index, const float* hidden, size_t width), void* user) {
  return Guarded([&] {
    Session& s = SessionOf(session);
    Need((ids != nullptr || count == 0) && row != nullptr, "no ids, or nothing that takes their rows");
    session->logits = nullptr;
    size_t index = 0;
    s.Hidden({ids, count}, {types, types == nullptr ? 0 : count}, [&](std::span<const float> hidden) {
      if (row(user, index++, hidden.data(), hidden.size()) != 0)
        throw StoppedError("stopped on request at row " + std::to_string(index));
    });
  });
}

llmc_status llmc_embed(llmc_session* session, const char* text, size_t bytes, const char* pooling, const char* prompt,
                       float* embedding, size_t capacity, size_t* count) {
  return Guarded([&] {
    Session& s = SessionOf(session);
    Need(text != nullptr || bytes == 0, "no text");
    const PlanPooling& own = session->executable.manifest->pooling;
    const std::optional<PoolingKind> asked = pooling == nullptr ? std::optional(own.kind) : PoolingFromText(pooling);
    Need(asked.has_value(), "pooling is mean, cls or last");
    if (!session->tokenizer) throw PlanError("the plan has no tokenizer");
    session->logits = nullptr;
    const std::string all =
        TextOfEmbedding(own, prompt == nullptr ? std::nullopt : std::optional<std::string>(prompt), {text, bytes});
    Give(Embed(s, EmbeddingInputOf(*session->tokenizer, all, MostTokens(s, own)), *asked, own.normalize), embedding,
         capacity, count);
  });
}

llmc_status llmc_sampling_defaults(const llmc_model* model, llmc_sampling* sampling) {
  return Guarded([&] {
    Need(model != nullptr && sampling != nullptr && sampling->size >= sizeof(size_t),
         "no model, or no place for the values");
    const SamplerOptions options = Defaults(model->executable.manifest->generation);
    llmc_sampling full{};
    full.size = std::min(sampling->size, sizeof full);
    full.temperature = options.temperature;
    full.top_p = options.top_p;
    full.min_p = options.min_p;
    full.top_k = options.top_k;
    std::memcpy(sampling, &full, full.size);
  });
}

llmc_status llmc_sample(llmc_session* session, const llmc_sampling* sampling, int32_t* id) {
  return Guarded([&] {
    Session& s = SessionOf(session);
    Need(sampling != nullptr && id != nullptr, "no sampling, or no place for the id");
    const llmc_sampling given = Taken(sampling, "sampling of a newer version");
    if (session->logits == nullptr) throw PlanError("there are no logits to sample from");
    // A structure without padding: its bytes are its members. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    if (!session->sampler || std::memcmp(&given, &session->sampling, sizeof given) != 0) {
      SamplerOptions options = OptionsOf(given, session->executable);
      options.constraint = session->constraint;
      session->sampler.emplace(options);
      session->sampling = given;
    }
    session->sampler->SetHistory(session->history);
    *id = session->sampler->Next({session->logits, s.vocab()}, s.position());
  });
}

llmc_status llmc_constrain(llmc_session* session, llmc_constraint_kind kind, const char* text, size_t bytes) {
  return Guarded([&] {
    SessionOf(session);
    std::shared_ptr<TokenConstraint> made;
    if (kind != LLMC_UNCONSTRAINED) {
      Need(kind == LLMC_GBNF || kind == LLMC_JSON_SCHEMA, "a constraint is GBNF or a JSON schema");
      Need(text != nullptr, "no grammar");
      constexpr size_t kMost = size_t{1} << 22;
      if (bytes > kMost) throw PlanError("a grammar of " + std::to_string(bytes) + " bytes, the limit is 4 MiB");
      if (!session->tokenizer) throw PlanError("the plan has no tokenizer");
      Grammar grammar =
          kind == LLMC_GBNF ? ParseGbnf({text, bytes}, "grammar") : GrammarOfJsonSchema({text, bytes}, "schema");
      made = std::make_shared<TokenConstraint>(std::move(grammar), *session->tokenizer,
                                               session->executable.manifest->generation.stop_ids);
    }
    session->constraint = std::move(made);
    session->sampler.reset();
  });
}

int llmc_constraint_finished(const llmc_session* session) {
  return session != nullptr && session->constraint != nullptr && session->constraint->finished() ? 1 : 0;
}

uint32_t llmc_position(const llmc_session* session) { return session == nullptr ? 0 : session->session->position(); }

void llmc_cancel(llmc_session* session) {
  if (session != nullptr) session->session->RequestAbort();
}

llmc_status llmc_reset(llmc_session* session) {
  return Guarded([&] {
    SessionOf(session).Reset();
    Forget(*session);
  });
}

llmc_status llmc_snapshot_take(const llmc_session* session, llmc_snapshot** snapshot) {
  if (snapshot != nullptr) *snapshot = nullptr;
  return Guarded([&] {
    Need(session != nullptr && snapshot != nullptr, "no session, or no place for the snapshot");
    *snapshot = new llmc_snapshot{session->session->SaveState()};
  });
}

llmc_status llmc_snapshot_restore(llmc_session* session, const llmc_snapshot* snapshot) {
  return Guarded([&] {
    Session& s = SessionOf(session);
    Need(snapshot != nullptr, "no snapshot");
    s.RestoreState(snapshot->bytes);
    Forget(*session);
  });
}

void llmc_snapshot_free(llmc_snapshot* snapshot) { delete snapshot; }

llmc_status llmc_session_save(const llmc_session* session, const char* path) {
  return Guarded([&] {
    Need(session != nullptr && path != nullptr, "no session, or no path");
    const std::string bytes = session->session->SaveState();
    OutputFile file(path, OutputFile::Devices::Refuse);
    file.Write(bytes.data(), bytes.size());
    file.Publish(false);
  });
}

llmc_status llmc_session_load(llmc_session* session, const char* path) {
  return Guarded([&] {
    Session& s = SessionOf(session);
    Need(path != nullptr, "no path");
    constexpr size_t kMost = size_t{1} << 40;
    const std::string bytes = ReadWholeFile(path, kMost);
    try {
      s.RestoreState(bytes);
    } catch (const PlanError& error) {
      throw PlanError(std::string(path) + ": " + error.what());
    }
    Forget(*session);
  });
}
