// libllmc: runs plans that llmc has compiled. A C interface whose symbols and structures only grow: a structure begins
// with its size as the caller knows it, and new members go to the end.
//
// Threads. A model is immutable once it is open: any number of sessions in any threads may use it at once. A session is
// used by one thread at a time; llmc_cancel alone may be called from any thread. Errors are kept by thread.
//
// Status. Functions return LLMC_OK, or what was at fault; llmc_last_error() then says what rule and what values. Nothing
// throws, nothing ends the process, but for weights of a file that is cut while it is mapped.
//
// Plans are code: run only those that you made, or whose origin you trust (runtime/README.md).
#ifndef LLMC_H
#define LLMC_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LLMC_API __attribute__((visibility("default")))
#else
#define LLMC_API
#endif

#define LLMC_API_VERSION 3 /* of this header; raised when something is added */

typedef enum llmc_status {
  LLMC_OK = 0,
  LLMC_ERROR_INPUT = 1,    /* a plan, a session file, tokens or text */
  LLMC_ERROR_USAGE = 2,    /* an argument that no caller may pass */
  LLMC_ERROR_INTERNAL = 3, /* a fault of the library */
  LLMC_CANCELLED = 4       /* llmc_cancel, or a progress callback that said so */
} llmc_status;

typedef struct llmc_model llmc_model;
typedef struct llmc_session llmc_session;
typedef struct llmc_snapshot llmc_snapshot;

/* "0.1.0", and LLMC_API_VERSION of the library: at least the header's that a program was compiled with. */
LLMC_API const char* llmc_version(void);
LLMC_API uint32_t llmc_api_version(void);
/* The message of this thread's last call that failed; "" when none has. Valid until the thread's next call. */
LLMC_API const char* llmc_last_error(void);

/* Models. */

/* A plan by path, by an open file (the library takes a copy of the descriptor), or in memory, which the caller keeps
 * until the model and its sessions are closed; it is read where it lies if it is at a multiple of 64 bytes. */
LLMC_API llmc_status llmc_model_open(const char* path, llmc_model** model);
LLMC_API llmc_status llmc_model_open_fd(int fd, llmc_model** model);
LLMC_API llmc_status llmc_model_open_memory(const void* plan, size_t size, llmc_model** model);
/* Sessions keep what they need of it. Null is nothing. */
LLMC_API void llmc_model_close(llmc_model* model);

typedef struct llmc_model_info {
  size_t size; /* sizeof(llmc_model_info), set by the caller */
  const char* name;
  const char* numerics;      /* "exact": the same bits on every machine; else what isn't */
  const char* chat_template; /* as the model has it; "" without one */
  uint32_t vocab;            /* ids are 0 .. vocab - 1 */
  uint32_t context;          /* most positions of a sequence */
  uint32_t chunk;            /* most rows of one call inside llmc_prefill */
  int32_t bos_id;            /* -1: none */
  int32_t add_bos;           /* 1: text prompts start with bos_id */
  int32_t has_tokenizer;
  const int32_t* stop_ids; /* ids that end a text */
  size_t stop_count;
} llmc_model_info;
/* Pointers are valid until the model is closed. */
LLMC_API llmc_status llmc_model_get_info(const llmc_model* model, llmc_model_info* info);

/* Text to ids. flags: LLMC_NO_SPECIAL leaves out what the tokenizer puts around a text (BOS, EOS); LLMC_PLAIN takes text that spells
 * a control token as plain text. Writes up to `capacity` ids and the number that there are; LLMC_ERROR_USAGE when they
 * are more, so that (NULL, 0) asks for the number. */
#define LLMC_NO_SPECIAL 1u
#define LLMC_PLAIN 2u
LLMC_API llmc_status llmc_tokenize(const llmc_model* model, const char* text, size_t bytes, uint32_t flags,
                                   int32_t* ids, size_t capacity, size_t* count);
/* Ids to text in UTF-8, without a 0 behind it; parts that are none become U+FFFD. Capacity and count as above. */
LLMC_API llmc_status llmc_detokenize(const llmc_model* model, const int32_t* ids, size_t id_count, char* text,
                                     size_t capacity, size_t* count);

/* Sessions: one sequence each, with its states. */

typedef struct llmc_allocator {
  /* `bytes` zero bytes at a multiple of `alignment` (a power of two, at most 4,096), or NULL. */
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  void (*release)(void* user, void* memory, size_t bytes);
  void* user;
} llmc_allocator;

typedef struct llmc_session_options {
  size_t size;       /* sizeof(llmc_session_options), set by the caller */
  uint32_t threads;  /* 0: 1 */
  uint32_t context;  /* most positions; 0: the model's */
  uint32_t chunk;    /* rows of a call inside llmc_prefill; 0: the model's. No bit depends on it, nor on threads */
  uint32_t reserved; /* 0 */
  /* Called between the calls of a prefill with the tokens that are done; another value than 0 cancels. May be NULL. */
  int (*progress)(void* user, size_t done, size_t total);
  void* progress_user;
  /* Where arenas, states and logits come from; NULL: the system, page by page as they are touched. */
  const llmc_allocator* allocator;
} llmc_session_options;

/* options may be NULL. */
LLMC_API llmc_status llmc_session_create(const llmc_model* model, const llmc_session_options* options,
                                         llmc_session** session);
LLMC_API void llmc_session_destroy(llmc_session* session);

/* Appends tokens (at least one, inside the vocabulary and the context). */
LLMC_API llmc_status llmc_prefill(llmc_session* session, const int32_t* ids, size_t count);
LLMC_API llmc_status llmc_decode(llmc_session* session, int32_t id);
/* The logits of the last token, f32[vocab]; NULL before the first. Valid until the session's next call. */
LLMC_API const float* llmc_logits(const llmc_session* session);
/* Appends tokens and calls `row` with the logits of each, in order; another value than 0 from it cancels behind that
 * call's rows. */
LLMC_API llmc_status llmc_score(llmc_session* session, const int32_t* ids, size_t count,
                                int (*row)(void* user, size_t index, const float* logits), void* user);

/* Hidden rows, behind the final norm: calls `row` with each, f32[width], as llmc_score does. An encoder's call is one
 * sequence, and nothing stays of it; a decoder's appends tokens (its plan is compiled with --hidden, or makes
 * embeddings). types: the segment of each token, 0 or 1; NULL: all 0. Since 2. */
LLMC_API llmc_status llmc_hidden(llmc_session* session, const int32_t* ids, const int32_t* types, size_t count,
                                 int (*row)(void* user, size_t index, const float* hidden, size_t width), void* user);
/* The embedding of a text, as the model's files say: its prompt, the longest text, pooling, dense layers, length 1.
 * pooling: "mean", "cls" or "last" in place of what they say, or NULL. prompt: a prompt's name; NULL: the default one.
 * The session begins a new sequence. Capacity and count as in llmc_tokenize. Since 2. */
LLMC_API llmc_status llmc_embed(llmc_session* session, const char* text, size_t bytes, const char* pooling,
                                const char* prompt, float* embedding, size_t capacity, size_t* count);

/* The next id from the last logits, by runtime/README.md's "Sampling": repetition, presence and frequency penalties, DRY,
 * temperature (0: the likeliest, nothing is drawn), top_k (0: off), top_p (1: off), min_p (0: off), XTC; mirostat for
 * all behind temperature. Penalties and DRY look at the ids that were appended to the session since it was created,
 * reset or restored. The generator, and what mirostat has learnt, are the session's, and begin anew with the first call
 * and whenever a value changes; a seed gives the same ids on every machine. */
typedef struct llmc_sampling {
  size_t size; /* sizeof(llmc_sampling), set by the caller */
  double temperature, top_p, min_p;
  int32_t top_k;
  uint32_t reserved; /* 0 */
  uint64_t seed;
  /* Since version 2; 0 is off, or the value in brackets. */
  double repetition_penalty, presence_penalty, frequency_penalty;
  double dry_multiplier, dry_base /* [1.75] */;
  double xtc_probability, xtc_threshold /* [0.1] */;
  double mirostat_tau, mirostat_eta /* [0.1] */;
  uint32_t penalty_last_n; /* ids that count for presence, frequency and DRY [all] */
  uint32_t dry_allowed_length /* [2] */;
} llmc_sampling;
/* What the model asks for; greedy if it asks for nothing. */
LLMC_API llmc_status llmc_sampling_defaults(const llmc_model* model, llmc_sampling* sampling);
LLMC_API llmc_status llmc_sample(llmc_session* session, const llmc_sampling* sampling, int32_t* id);

/* What llmc_sample gives from now on is a text of a grammar, in GBNF or as the JSON that a schema allows
 * (runtime/README.md, "Constraints"), wherever tokens cut it; ids that end a text come where the grammar can end. The
 * text begins with the next llmc_sample, and anew when a value of its sampling changes and with llmc_reset, a restored
 * snapshot or a loaded session; ids that were not sampled are no part of it. LLMC_UNCONSTRAINED ends it (text and bytes
 * are not looked at). The model needs a tokenizer. Since 3. */
typedef enum llmc_constraint_kind { LLMC_UNCONSTRAINED = 0, LLMC_GBNF = 1, LLMC_JSON_SCHEMA = 2 } llmc_constraint_kind;
LLMC_API llmc_status llmc_constrain(llmc_session* session, llmc_constraint_kind kind, const char* text, size_t bytes);
/* 1: what was sampled is a whole text of the grammar, and nothing can follow. Since 3. */
LLMC_API int llmc_constraint_finished(const llmc_session* session);

LLMC_API uint32_t llmc_position(const llmc_session* session); /* tokens appended so far */
/* From any thread: the call that runs, or the next one, returns LLMC_CANCELLED. The session then stands where it stood
 * before the part of the call that was stopped, unless the model has states that can't go back: calls then fail until
 * llmc_reset. */
LLMC_API void llmc_cancel(llmc_session* session);
LLMC_API llmc_status llmc_reset(llmc_session* session); /* a new sequence begins */

/* Position and states, as far as they are used, in memory: going back to a snapshot gives the bits that followed it.
 * Of any session of the same plan. The last logits are not in it: llmc_logits is NULL until the next call. */
LLMC_API llmc_status llmc_snapshot_take(const llmc_session* session, llmc_snapshot** snapshot);
LLMC_API llmc_status llmc_snapshot_restore(llmc_session* session, const llmc_snapshot* snapshot);
LLMC_API void llmc_snapshot_free(llmc_snapshot* snapshot);
/* The same in a file, which appears whole or not at all. A file of another plan, a cut or changed one is refused, and
 * the session is then as it was. */
LLMC_API llmc_status llmc_session_save(const llmc_session* session, const char* path);
LLMC_API llmc_status llmc_session_load(llmc_session* session, const char* path);

#ifdef __cplusplus
}
#endif
#endif
