// The plan file in memory: what a plan says (Manifest), how it is read (PlanFile) and how it is written (PlanWriter).
// runtime/README.md specifies the bytes. Everything that is read from a file is checked before it is used; whatever
// doesn't hold is a PlanError that names file, rule and values.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/contracts.h"
#include "runtime/plan_error.h"
#include "runtime/plan_rules.h"

namespace llmc {

inline constexpr uint16_t kPlanMajor = 1;
// 1: steps other than code; approximate self-tests. 2: states; contracts other than a decoder's; the version of the
// kernels that steps need. 3: rules of the sampler. 4: the section chat. 5: phases that give hidden rows; pooling.
inline constexpr uint16_t kPlanMinor = 5;
// Weights of at least kHugeWeights bytes start at a multiple of kHugePage in the file, so that huge pages can map them;
// smaller ones on a page.
inline constexpr uint64_t kHugePage = 2u << 20;
inline constexpr uint64_t kHugeWeights = 8u << 20;
inline constexpr uint64_t kPage = 4096;

// What a plan says.

// A step of a phase. Every thread walks the steps of a phase in order.
enum class PlanStepKind : uint32_t {
  Code = 1,     // payload: name of an entry of the target's code, an LlmcPhaseFn
  Dnnl = 2,     // a matrix product by oneDNN: DnnlStep (plan_steps.h)
  Barrier = 3,  // all threads meet; no payload
  Kernel = 4,   // a kernel of libllmc_onednn.so: KernelStep
};
std::string_view PlanStepKindName(uint32_t kind);  // "code", "dnnl", ...; "" for others
struct PlanStep {
  uint32_t kind = 0;    // PlanStepKind; others are kept as they are, and refused by number when the plan is run
  std::string payload;  // meaning by kind
};

// Hidden: the rows behind the final norm. Project: what becomes of a pooled row.
enum class PhaseKind : uint8_t { Prefill, Decode, Score, Hidden, Project };
inline constexpr PhaseKind kPhaseKinds[] = {PhaseKind::Prefill, PhaseKind::Decode, PhaseKind::Score, PhaseKind::Hidden,
                                            PhaseKind::Project};
std::string_view PhaseKindName(PhaseKind kind);  // "prefill", "decode", "score", "hidden", "project"

// Whether a phase gives a row of its output for every row of the call, or for the last one alone.
bool GivesEveryRow(PhaseKind kind);
// Whether it gives logits: prefill, decode and score.
bool GivesLogits(PhaseKind kind);

// What a phase takes, what it gives and how it may be called (ir/entries.def). The values here are a decoder's: those of
// a phase without a record of its own.
struct PlanContract {
  EntryKind kind = EntryKind::Chunkable;
  EntryOutput output = EntryOutput::Logits;
  std::vector<EntryInput> inputs = {EntryInput::Tokens, EntryInput::Pos, EntryInput::Total};  // ascending
  bool by_row = false;  // each row has a position and a sequence of its own
  bool operator==(const PlanContract&) const = default;
};
// A decoder's, whether or not each row can have a position and a sequence of its own: else rows follow each other.
bool IsDecoders(PlanContract contract);

// One specialised forward function. `decode` and `prefill` give the logits of the last row, `score` those of every row,
// `hidden` and `project` every row.
struct PlanPhase {
  PhaseKind kind = PhaseKind::Decode;
  uint32_t min_rows = 1, max_rows = 1;  // row counts that it can do, both inclusive
  std::vector<PlanStep> steps;
  PlanContract contract = {};
  uint32_t width = 0;     // numbers in a row of what it gives; 0: logits, one for each id
  uint32_t width_in = 0;  // in a row of `hidden` that it takes; 0: it takes none
  uint32_t types = 0;     // types are 0 .. types - 1; 0: it takes none
};

// A state: `blocks` blocks of `block_bytes`, one behind the other, in the state region. Where its kind holds positions,
// each block has `slots` of them, `unit` at a time in `unit_bytes`, position p in slot p mod slots; else these are 0.
struct PlanState {
  StateKind kind = StateKind::Kv;
  uint64_t offset = 0;  // bytes in the state region, a multiple of 64
  uint32_t blocks = 1;
  uint32_t unit = 0;
  uint64_t block_bytes = 0, unit_bytes = 0;
  uint32_t slots = 0;
  uint32_t window = 0;  // positions that a row looks back, itself included; 0: all
  uint64_t bytes() const { return blocks * block_bytes; }
  bool operator==(const PlanState&) const = default;
};

// Machine code for one kind of CPU: flat, needs no relocation, calls nothing outside itself.
struct PlanTarget {
  std::string name;                                              // "x86-64-v3"
  std::vector<std::string> features;                             // /proc/cpuinfo's names: "avx2", "fma", "f16c"
  std::map<std::string, uint64_t> entries;                       // name -> offset in the code
  std::map<std::string, std::pair<uint64_t, uint64_t>> symbols;  // name -> (offset, size): for profiles alone
};

struct PlanGeneration {
  std::vector<int32_t> stop_ids;
  std::optional<int32_t> bos_id;
  bool add_bos = false;    // text prompts start with bos_id
  bool do_sample = false;  // else greedy, unless the command line sets a temperature
  std::optional<float> temperature, top_p, min_p;
  std::optional<int32_t> top_k;
  PlanRules rules;
};

// How a model's files say that a text's rows become its embedding.
enum class PoolingKind : uint8_t { None, Mean, First, Last };
std::string_view PoolingText(PoolingKind kind);                     // "none", "mean", "cls", "last"
std::optional<PoolingKind> PoolingFromText(std::string_view text);  // but for "none"
struct PlanPooling {
  PoolingKind kind = PoolingKind::None;
  bool normalize = true;    // to length 1
  uint32_t max_tokens = 0;  // longer texts are cut, what the template adds stays; 0: the context
  struct Prompt {
    std::string name, text;
    bool operator==(const Prompt&) const = default;
  };
  std::vector<Prompt> prompts;  // what may stand in front of a text, by name
  std::string default_prompt;   // "": none
  bool operator==(const PlanPooling&) const = default;
};

using Sha256Digest = std::array<uint8_t, 32>;

// An input that the compiler read, by role ("config", "weights", "tokenizer"): never a path.
struct PlanInput {
  std::string role;
  Sha256Digest sha256{};
};

// What the interpreter gives for the last row of each kind of call, at some ids of the vocabulary.
struct PlanSelfTestLogits {
  std::vector<int32_t> at;                    // 1..32 ids, ascending
  std::vector<float> prefill, decode, score;  // finite; as many as `at`
  float bound = 0;                            // the largest NMSE = sum (a - b)^2 / sum b^2 that passes; b: these
};

// Known numbers: XXH3-64 of the f32 bytes of the logits that `ids` give from position 0. The same on every CPU and
// thread count.
struct PlanSelfTest {
  std::vector<int32_t> ids;  // 1..8; empty: the plan has no self-test
  uint64_t prefill = 0;      // all ids in one prefill: logits of the last row
  uint64_t decode = 0;       // one id after the other: the rows one after the other
  // All ids in one score: all rows. Equal to `decode` when nothing is broken. Of an encoder the hidden rows, of type 0;
  // the others are 0.
  uint64_t score = 0;
  std::optional<PlanSelfTestLogits> approximate;  // of a plan that isn't exact, instead of the hashes, which are 0 then
};

struct Manifest {
  std::string model;           // "llama", for people
  std::string backend;         // "llvm"; "reference": a plan without code
  std::string numerics;        // "exact": bit-equal to the interpreter; else what isn't, in words
  std::string build_id;        // versions and hashes of the compiler; no path, host or time
  std::string options;         // every option that changes bytes, "key = value" lines
  std::string passes;          // names of the passes that ran, comma-separated
  uint32_t abi = 0;            // LLMC_ABI_VERSION of the code
  uint32_t vocab = 0;          // ids are 0 .. vocab - 1
  uint32_t context = 0;        // positions are 0 .. context - 1
  uint32_t chunk = 0;          // largest prefill call
  uint64_t shared_bytes = 0;   // arena that all threads see
  uint64_t private_bytes = 0;  // arena of each thread, a multiple of 64
  uint64_t state_bytes = 0;    // caches, zero at first
  // By offset, apart. Empty: the region holds positions and nothing else is known of it (plans before 1.2).
  std::vector<PlanState> states;
  std::string
      kernels;  // version of the kernels that kernel and dnnl steps need; empty before 1.2, and without such steps
  std::vector<PlanPhase> phases;
  std::vector<PlanTarget> targets;  // code section i belongs to targets[i]
  PlanGeneration generation;
  PlanPooling pooling;
  std::vector<PlanInput> inputs;
  PlanSelfTest self_test;
};

// Bytes of what a phase gives, and of what it takes by row.
uint64_t OutputBytes(const Manifest& manifest, const PlanPhase& phase);
uint64_t InputBytes(const Manifest& manifest, const PlanPhase& phase, EntryInput input);
// A plan without phases that give logits: of an encoder.
bool IsEncoder(const Manifest& manifest);

// The rules that hold between a manifest's values (runtime/README.md, "Rules"); throws PlanError("WHERE: rule,
// values"). code_sizes: bytes of each target's code; weights_size: of the weights.
void CheckManifest(const Manifest& manifest, std::span<const uint64_t> code_sizes, uint64_t weights_size,
                   std::string_view where);
// The lowest minor of the format that has all that the manifest uses, which is the one a plan is written in: older
// readers take what they can.
uint16_t PlanMinorOf(const Manifest& manifest);
uint16_t PlanMinorOf(const Manifest& manifest, bool chat);  // the same of a plan; chat: it has that section

// The manifest's encoding: sections `manifest` and `steps`. Decoding checks bounds and the records' form, CheckManifest
// the rest.
struct ManifestBytes {
  std::string manifest, steps;
};
ManifestBytes EncodeManifest(const Manifest& manifest);
Manifest DecodeManifest(std::string_view manifest, std::string_view steps, std::string_view where);

// The file.

enum class SectionKind : uint32_t {
  Manifest = 1,
  Steps = 2,
  Weights = 3,
  Code = 4,          // one per target, in order
  Tokenizer = 5,     // runtime/tokenizer.h
  ChatTemplate = 6,  // text as found
  ImportIr = 7,      // the IR's text after import
  FinalIr = 8,       // and after the last pass
  Chat = 9,          // compiled chat templates: runtime/plan_template.h
};
std::string_view SectionKindName(SectionKind kind);

struct PlanSection {
  SectionKind kind{};
  uint32_t index = 0;  // among the sections of this kind, from 0
  uint64_t offset = 0, size = 0;
  uint64_t xxh3 = 0;
  Sha256Digest sha256{};
};

// SHA-256 comes from the caller (the compiler has libcrypto, llmc-run needs none).
class Sha256 {
 public:
  virtual ~Sha256() = default;
  virtual void Update(const void* bytes, size_t size) = 0;
  virtual Sha256Digest Finish() = 0;
};
using Sha256Factory = std::function<std::unique_ptr<Sha256>()>;

// Where a plan's bytes come from: a file, or memory for tests.
class PlanBytes {
 public:
  virtual ~PlanBytes() = default;
  virtual uint64_t size() const = 0;
  virtual void Read(uint64_t offset, void* to, size_t size) const = 0;  // throws PlanError when it can't; within size()
};

// An open plan. The constructor checks header, table, the XXH3 of every section but the weights, and the manifest's
// rules.
class PlanFile {
 public:
  explicit PlanFile(const std::string& path);
  PlanFile(int fd, std::string name);  // takes the descriptor, of a regular file
  PlanFile(std::unique_ptr<PlanBytes> bytes, std::string name);
  ~PlanFile();
  PlanFile(PlanFile&&) noexcept;

  const Manifest& manifest() const { return manifest_; }
  const std::vector<PlanSection>& sections() const { return sections_; }
  const PlanSection* Find(SectionKind kind, uint32_t index = 0) const;  // null: there is none
  // A section's bytes, checked against its XXH3 in the memory that is returned; empty when there is none.
  std::string Read(SectionKind kind, uint32_t index = 0) const;
  // The same into memory of the caller's (Find(kind, index)->size bytes).
  void ReadInto(const PlanSection& section, void* to) const;
  // Reads again what opening has read: whether the header's page and the sections but the weights are as they were.
  bool Unchanged() const;
  // Every byte: sections by SHA-256 and XXH3, and zeros between them. Throws PlanError at the first that doesn't hold.
  void VerifyAll(const Sha256Factory& sha256) const;
  uint64_t file_size() const { return bytes_->size(); }  // of the plan
  // Where the plan begins in the file: 0, or behind the loader of a program that holds one (standalone).
  uint64_t file_offset() const { return file_offset_; }
  // XXH3-64 of header and table, and so of every section's hashes: what tells one plan from another.
  uint64_t hash() const { return hash_; }
  const std::string& name() const { return name_; }
  int fd() const { return fd_; }  // -1 for memory; owned by this object

 private:
  void Load();
  std::string name_;
  std::string page_;  // the header's
  std::unique_ptr<PlanBytes> bytes_;
  int fd_ = -1;
  uint64_t file_offset_ = 0;
  uint64_t hash_ = 0;
  std::vector<PlanSection> sections_;
  Manifest manifest_;
};

// Writes a plan to a unique temporary beside `path`, and renames it in Finish(); until then, and after any exception,
// `path` is as it was and the temporary is removed. Order: weights first (in any number of pieces), then sections, then
// Finish. Same calls, same bytes.
class PlanWriter {
 public:
  struct Options {
    std::string path;
    std::vector<std::string> inputs;  // files that were read: an output that is one of them is refused
    uint64_t weights_size = 0;        // exact
    uint64_t other_size = 1 << 20;    // estimate of everything else, for the check of the disk
    Sha256Factory sha256;
    // A program that runs the plan behind it: written in front, and the file is executable then.
    std::string loader;
  };
  // Throws PlanError: path is an input, a directory or a device; the folder isn't writable; too little space (both
  // numbers).
  explicit PlanWriter(Options options);
  ~PlanWriter();
  PlanWriter(const PlanWriter&) = delete;
  PlanWriter& operator=(const PlanWriter&) = delete;

  void AppendWeights(std::span<const uint8_t> bytes);
  // The weights as written so far, all of them, mapped for reading until the writer goes away: for the self-test. Null
  // when weights_size is 0.
  const uint8_t* MapWeights();
  // Sections other than weights, manifest and steps; code in the order of manifest.targets. Empty ones are left out.
  void AddSection(SectionKind kind, std::string_view bytes);
  // Checks the manifest, writes it, then header and table; syncs and renames. Returns the file's size.
  uint64_t Finish(const Manifest& manifest);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The text form (tests and people).

// A plan as text that assembles back to the same bytes. Code and weights are written as hex when they are at most
// `hex_limit` bytes, else left out with their size and hash, and such a text doesn't assemble.
std::string DumpPlan(const PlanFile& plan, uint64_t hex_limit = 1 << 20);
// Writes the plan that `text` describes to options.path (weights_size is set by the text). `file NAME` is relative to
// `folder`.
void AssemblePlan(std::string_view text, const std::string& folder, PlanWriter::Options options);

// The CPU.

// Those of `features` that this CPU, or its operating system's saved state, lacks, or that aren't known here.
std::vector<std::string> MissingCpuFeatures(std::span<const std::string> features);
// The brand string, "unknown" when there is none.
std::string CpuName();

}  // namespace llmc
