// The rules between a manifest's values (runtime/README.md, "Rules"). The reader and the writer both apply them, so
// what was written can be read.
#include <algorithm>
#include <cstdio>

#include "runtime/context.h"
#include "runtime/plan.h"
#include "runtime/plan_layout.h"
#include "runtime/plan_step_check.h"

namespace llmc {
namespace {

// Bounds that keep every later product and sum of these values inside 64 bits, and refuse nonsense early.
constexpr uint32_t kMaxVocab = 1u << 24;
constexpr uint32_t kMaxContext = 1u << 26;
constexpr uint32_t kMaxChunk = 1u << 16;
constexpr uint32_t kMaxWidth = 1u << 24;
constexpr uint64_t kMaxArena = uint64_t{1} << 40;
constexpr uint64_t kMaxStates = uint64_t{1} << 46;
constexpr size_t kMaxName = 4096;
constexpr size_t kMaxPrompts = 256, kMaxPrompt = 1u << 16;
constexpr size_t kMaxPhases = 64, kMaxTargets = 64, kMaxTestLogits = 32;

class Checker {
 public:
  Checker(const Manifest& m, std::span<const uint64_t> code_sizes, uint64_t weights_size, std::string_view where)
      : m_(m), sizes_(code_sizes), weights_size_(weights_size), where_(where) {}

  void Run() const {
    if ((m_.abi & 0xffff) != (LLMC_ABI_VERSION & 0xffff) || m_.abi > LLMC_ABI_VERSION) {
      Fail("ABI " + AbiText(m_.abi) + ", this program has " + AbiText(LLMC_ABI_VERSION));
    }
    Name("model", m_.model);
    Name("backend", m_.backend);
    Between("vocab", m_.vocab, 1, kMaxVocab);
    Between("context", m_.context, 1, kMaxContext);
    Between("chunk", m_.chunk, 1, std::min(m_.context, kMaxChunk));
    Between("shared arena bytes", m_.shared_bytes, 0, kMaxArena);
    Between("private arena bytes", m_.private_bytes, 0, kMaxArena);
    Between("state bytes", m_.state_bytes, 0, kMaxStates);
    if (m_.private_bytes % 64 != 0) Fail("private arena bytes " + Str(m_.private_bytes) + " aren't a multiple of 64");
    Phases();
    States();
    if (!m_.kernels.empty()) Name("version of the kernels", m_.kernels);
    CheckSteps(m_, weights_size_, where_);
    Targets();
    Generation();
    Pooling();
    for (const PlanInput& input : m_.inputs) Name("input role", input.role);
    SelfTest();
  }

 private:
  static std::string Str(uint64_t value) { return std::to_string(value); }
  [[noreturn]] void Fail(const std::string& rule) const {
    throw PlanError(std::string(where_) + ": manifest: " + rule);
  }
  void Between(const char* what, uint64_t value, uint64_t low, uint64_t high) const {
    if (value < low || value > high)
      Fail(std::string(what) + " " + Str(value) + " isn't in " + Str(low) + ".." + Str(high));
  }
  // Names reach messages and perf's map: printable ASCII only.
  void Name(const char* what, const std::string& name) const {
    const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
    if (name.empty() || name.size() > kMaxName || !printable)
      Fail(std::string(what) + " isn't 1.." + Str(kMaxName) + " printable characters");
  }
  void Id(const char* what, int32_t id) const {
    if (id < 0 || static_cast<uint32_t>(id) >= m_.vocab)
      Fail(std::string(what) + " " + std::to_string(id) + " isn't in 0.." + Str(m_.vocab - 1));
  }
  void Number(const char* what, const std::optional<float>& value, float low, float high) const {
    if (value && !(*value >= low && *value <= high))
      Fail(std::string(what) + " " + std::to_string(*value) + " is out of range");
  }

  static std::string AbiText(uint32_t abi) { return Str(abi & 0xffff) + "." + Str(abi >> 16); }

  // Row counts 1..limit must each be in the range of some phase of these kinds.
  void Cover(const char* what, uint32_t limit, bool (*takes)(PhaseKind)) const {
    uint32_t next = 1;
    for (bool moved = true; moved && next <= limit;) {
      moved = false;
      for (const PlanPhase& phase : m_.phases) {
        if (takes(phase.kind) && phase.min_rows <= next && next <= phase.max_rows) {
          next = phase.max_rows + 1;
          moved = true;
        }
      }
    }
    if (next <= limit) Fail(std::string("no phase ") + what + " " + Str(next) + " rows");
  }

  void Phases() const {
    Between("phases", m_.phases.size(), 1, kMaxPhases);
    bool has_decode = false, has_score = false, has_hidden = false;
    uint32_t score_limit = 1, hidden_limit = 1;
    for (const PlanPhase& phase : m_.phases) {
      const std::string name(PhaseKindName(phase.kind));
      Between((name + ": least rows").c_str(), phase.min_rows, 1, kMaxChunk);
      const uint32_t most = GivesEveryRow(phase.kind) ? std::min(m_.context, kMaxChunk) : m_.chunk;
      Between((name + ": most rows").c_str(), phase.max_rows, phase.min_rows, most);
      if (phase.kind == PhaseKind::Decode) {
        if (phase.max_rows != 1) Fail("decode takes " + Str(phase.max_rows) + " rows, not 1");
        has_decode = true;
      }
      Contract(name, phase.contract);
      Widths(name, phase);
      if (phase.kind == PhaseKind::Score) {
        has_score = true;
        score_limit = std::max(score_limit, phase.max_rows);
      } else if (phase.kind == PhaseKind::Hidden) {
        has_hidden = true;
        hidden_limit = std::max(hidden_limit, phase.max_rows);
      }
    }
    if (!has_decode && !(has_hidden && IsEncoder(m_))) Fail("there is no phase decode");
    if (has_decode) Cover("computes", m_.chunk, [](PhaseKind kind) { return !GivesEveryRow(kind); });
    if (has_score) Cover("scores", score_limit, [](PhaseKind kind) { return kind == PhaseKind::Score; });
    if (has_hidden)
      Cover("gives hidden rows of", hidden_limit, [](PhaseKind kind) { return kind == PhaseKind::Hidden; });
  }

  // Phases that don't give logits say how wide their rows are.
  void Widths(const std::string& name, const PlanPhase& phase) const {
    const auto takes = [&](EntryInput input) {
      const std::vector<EntryInput>& inputs = phase.contract.inputs;
      return std::find(inputs.begin(), inputs.end(), input) != inputs.end();
    };
    if (GivesLogits(phase.kind)) {
      if (phase.width != 0 || phase.width_in != 0 || phase.types != 0) Fail(name + ": a width of logits");
      return;
    }
    Between((name + ": width").c_str(), phase.width, 1, kMaxWidth);
    if (phase.contract.output != EntryOutput::Hidden) Fail(name + " doesn't give hidden rows");
    if (takes(EntryInput::Hidden) != (phase.kind == PhaseKind::Project))
      Fail(name + (phase.kind == PhaseKind::Project ? " doesn't take" : " takes") + " hidden rows");
    if (phase.kind == PhaseKind::Project)
      Between((name + ": width that it takes").c_str(), phase.width_in, 1, kMaxWidth);
    if (phase.kind != PhaseKind::Project && phase.width_in != 0) Fail(name + ": a width of rows that it doesn't take");
    if (takes(EntryInput::Types) != (phase.types != 0))
      Fail(name + ": " + Str(phase.types) + " types, and its inputs say otherwise");
    Between((name + ": types").c_str(), phase.types, 0, kMaxWidth);
    if (takes(EntryInput::Types) && m_.abi < LLMC_ABI_1_1) Fail(name + ": types, in code of ABI " + AbiText(m_.abi));
    if (takes(EntryInput::Hidden) && m_.abi < LLMC_ABI_1_1)
      Fail(name + ": hidden rows, in code of ABI " + AbiText(m_.abi));
  }

  // Inputs ascend, and are such as the verifier of the IR lets a function take.
  void Contract(const std::string& phase, const PlanContract& c) const {
    bool rows = false, pos = false, total = false;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (i > 0 && c.inputs[i] <= c.inputs[i - 1]) Fail(phase + ": inputs are out of order");
      const bool is_row = c.inputs[i] == EntryInput::Tokens || c.inputs[i] == EntryInput::Hidden;
      if (is_row && rows) Fail(phase + ": takes both tokens and hidden");
      rows = rows || is_row;
      pos = pos || c.inputs[i] == EntryInput::Pos;
      total = total || c.inputs[i] == EntryInput::Total;
    }
    if (!rows) Fail(phase + ": takes neither tokens nor hidden");
    if (c.kind == EntryKind::Chunkable && !(pos && total)) Fail(phase + ": chunkable, without pos and total");
    if (c.by_row && !pos) Fail(phase + ": positions of each row, without pos");
    if (c.by_row && m_.abi < LLMC_ABI_1_1) Fail(phase + ": positions of each row, in code of ABI " + AbiText(m_.abi));
  }

  // By offset, apart and inside the region; what holds positions has them in whole units.
  void States() const {
    uint64_t end = 0;
    for (size_t i = 0; i < m_.states.size(); ++i) {
      const PlanState& s = m_.states[i];
      const std::string name = "state " + Str(i);
      Between((name + ": blocks").c_str(), s.blocks, 1, kMaxChunk);
      Between((name + ": bytes of a block").c_str(), s.block_bytes, 1, kMaxStates);
      if (s.offset % 64 != 0 || s.offset < end) Fail(name + " at " + Str(s.offset) + " isn't behind the one before it");
      if (s.offset > m_.state_bytes || s.block_bytes > (m_.state_bytes - s.offset) / s.blocks)
        Fail(name + ": " + Str(s.offset) + " + " + Str(s.blocks) + " times " + Str(s.block_bytes) + " of " +
             Str(m_.state_bytes) + " bytes of states");
      end = s.offset + s.bytes();
      if (FindRow(kStateKinds, s.kind)->holds != StateHolds::POSITIONS) {
        if (s.unit != 0 || s.unit_bytes != 0 || s.slots != 0 || s.window != 0)
          Fail(name + " has positions, its kind none");
        continue;
      }
      Between((name + ": slots").c_str(), s.slots, 1, 2 * kMaxContext);
      Between((name + ": positions of a unit").c_str(), s.unit, 1, 64);
      Between((name + ": window").c_str(), s.window, 0, kMaxContext);
      const uint64_t units = (uint64_t{s.slots} + s.unit - 1) / s.unit;
      if (s.unit_bytes == 0 || s.block_bytes / units != s.unit_bytes || s.block_bytes % units != 0)
        Fail(name + ": " + Str(units) + " units of " + Str(s.unit_bytes) + " bytes in a block of " +
             Str(s.block_bytes));
    }
  }

  // What isn't for the interpreter has steps, and code for those that are code.
  void Runnable() const {
    for (const PlanPhase& phase : m_.phases) {
      const std::string name(PhaseKindName(phase.kind));
      if (phase.steps.empty()) Fail("phase " + name + " has no steps");
      const bool code = std::any_of(phase.steps.begin(), phase.steps.end(), [](const PlanStep& step) {
        return step.kind == static_cast<uint32_t>(PlanStepKind::Code);
      });
      if (code && m_.targets.empty()) Fail("backend " + m_.backend + " without code, which phase " + name + " runs");
    }
  }

  void Targets() const {
    Between("targets", m_.targets.size(), 0, kMaxTargets);
    if (sizes_.size() != m_.targets.size())
      Fail(Str(m_.targets.size()) + " targets, " + Str(sizes_.size()) + " code sections");
    if (m_.backend != "reference") Runnable();
    for (size_t t = 0; t < m_.targets.size(); ++t) {
      const PlanTarget& target = m_.targets[t];
      Name("target", target.name);
      for (const std::string& feature : target.features) Name((target.name + ": feature").c_str(), feature);
      for (const auto& [name, offset] : target.entries) {
        Name((target.name + ": entry").c_str(), name);
        if (offset >= sizes_[t])
          Fail(target.name + ": entry " + name + " at " + Str(offset) + " of " + Str(sizes_[t]) + " bytes of code");
      }
      for (const auto& [name, place] : target.symbols) {
        Name((target.name + ": symbol").c_str(), name);
        if (place.first > sizes_[t] || place.second > sizes_[t] - place.first) {
          Fail(target.name + ": symbol " + name + " at " + Str(place.first) + " + " + Str(place.second) + " of " +
               Str(sizes_[t]) + " bytes of code");
        }
      }
      for (const PlanPhase& phase : m_.phases) {
        for (const PlanStep& step : phase.steps) {
          if (step.kind == static_cast<uint32_t>(PlanStepKind::Code) && !target.entries.contains(step.payload)) {
            Fail(target.name + ": no entry " + step.payload + ", which a step of " +
                 std::string(PhaseKindName(phase.kind)) + " names");
          }
        }
      }
    }
  }

  void Generation() const {
    const PlanGeneration& g = m_.generation;
    for (int32_t id : g.stop_ids) Id("stop id", id);
    if (g.bos_id) Id("BOS id", *g.bos_id);
    if (g.add_bos && !g.bos_id) Fail("prompts start with BOS, but there is no BOS id");
    Number("temperature", g.temperature, 0.0f, 1e6f);
    Number("top_p", g.top_p, 0.0f, 1.0f);
    Number("min_p", g.min_p, 0.0f, 1.0f);
    CheckRules(g.rules, m_.vocab, where_);
    if (g.top_k && *g.top_k < 0) Fail("top_k " + std::to_string(*g.top_k) + " is negative");
  }

  void Pooling() const {
    const PlanPooling& p = m_.pooling;
    Between("prompts", p.prompts.size(), 0, kMaxPrompts);
    bool known = p.default_prompt.empty();
    for (const PlanPooling::Prompt& prompt : p.prompts) {
      Name("prompt", prompt.name);
      if (prompt.text.size() > kMaxPrompt) Fail("prompt " + prompt.name + " of " + Str(prompt.text.size()) + " bytes");
      known = known || prompt.name == p.default_prompt;
    }
    if (!known) Fail("there is no prompt \"" + p.default_prompt + "\", the default one");
  }

  void SelfTest() const {
    const PlanSelfTest& test = m_.self_test;
    if (test.ids.size() > 8 || test.ids.size() > m_.context) Fail("self-test of " + Str(test.ids.size()) + " ids");
    for (int32_t id : test.ids) Id("self-test id", id);
    if (!test.approximate) return;
    const PlanSelfTestLogits& a = *test.approximate;
    if (m_.numerics == "exact") Fail("an exact plan with an approximate self-test");
    if (test.ids.empty()) Fail("an approximate self-test without ids");
    if (test.prefill != 0 || test.decode != 0 || test.score != 0) Fail("an approximate self-test with hashes");
    Between("logits of the self-test", a.at.size(), 1, kMaxTestLogits);
    int32_t last = -1;
    for (int32_t id : a.at) {
      Id("self-test's id of a logit", id);
      if (id <= last) Fail("self-test's ids of logits: " + std::to_string(id) + " behind " + std::to_string(last));
      last = id;
    }
    if (!(a.bound >= 0 && a.bound <= 1)) Fail("self-test's bound " + std::to_string(a.bound) + " isn't in 0..1");
    for (const std::vector<float>* row : {&a.prefill, &a.decode, &a.score}) {
      if (row->size() != a.at.size())
        Fail("self-test: " + Str(row->size()) + " logits at " + Str(a.at.size()) + " ids");
      for (float logit : *row) {
        if (!(logit - logit == 0)) Fail("self-test: a logit isn't finite");
      }
    }
  }

  const Manifest& m_;
  std::span<const uint64_t> sizes_;
  uint64_t weights_size_;
  std::string_view where_;
};

}  // namespace

std::string_view PhaseKindName(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::Prefill: return "prefill";
    case PhaseKind::Decode: return "decode";
    case PhaseKind::Hidden: return "hidden";
    case PhaseKind::Project: return "project";
    case PhaseKind::Score: break;
  }
  return "score";
}

bool GivesEveryRow(PhaseKind kind) { return kind != PhaseKind::Prefill && kind != PhaseKind::Decode; }
bool IsDecoders(PlanContract contract) {
  contract.by_row = false;
  return contract == PlanContract{};
}
bool GivesLogits(PhaseKind kind) { return kind != PhaseKind::Hidden && kind != PhaseKind::Project; }

std::string_view PoolingText(PoolingKind kind) {
  switch (kind) {
    case PoolingKind::Mean: return "mean";
    case PoolingKind::First: return "cls";
    case PoolingKind::Last: return "last";
    case PoolingKind::None: break;
  }
  return "none";
}

std::optional<PoolingKind> PoolingFromText(std::string_view text) {
  for (const PoolingKind kind : {PoolingKind::Mean, PoolingKind::First, PoolingKind::Last}) {
    if (text == PoolingText(kind)) return kind;
  }
  return std::nullopt;
}

bool IsEncoder(const Manifest& manifest) {
  return std::none_of(manifest.phases.begin(), manifest.phases.end(),
                      [](const PlanPhase& phase) { return GivesLogits(phase.kind); });
}

uint64_t OutputBytes(const Manifest& manifest, const PlanPhase& phase) {
  const uint64_t rows = GivesEveryRow(phase.kind) ? phase.max_rows : 1;
  return rows * (phase.width != 0 ? phase.width : manifest.vocab) * sizeof(float);
}

uint64_t InputBytes(const Manifest&, const PlanPhase& phase, EntryInput input) {
  return uint64_t{phase.max_rows} * (input == EntryInput::Hidden ? phase.width_in : 1) * sizeof(float);
}

void CheckManifest(const Manifest& manifest, std::span<const uint64_t> code_sizes, uint64_t weights_size,
                   std::string_view where) {
  Checker(manifest, code_sizes, weights_size, where).Run();
}

}  // namespace llmc
