// The manifest's encoding: a flat list of records (tag, length, payload), and the step lists. What a record belongs to
// is told by order alone: a feature belongs to the target before it. One manifest has one encoding, and decoding
// accepts no other.
#include <algorithm>

#include "runtime/plan.h"
#include "runtime/plan_encoding.h"
#include "runtime/plan_layout.h"

namespace llmc {
namespace {

enum class Tag : uint32_t {
  Model = 1,
  Backend = 2,
  Numerics = 3,
  BuildId = 4,
  Options = 5,
  Passes = 6,
  Sizes = 10,     // u32 abi, vocab, context, chunk; u64 shared, private, state bytes
  Kernels = 11,   // version. Since 1.2
  Phase = 20,     // u32 kind, min rows, max rows
  Contract = 21,  // u32 kind, output, flags (1: by row); u32 inputs ... Since 1.2
  Width = 23,     // u32 numbers in a row that the phase gives, in one of `hidden` that it takes; its types. Since 1.5
  State = 22,     // u32 kind, blocks, unit, slots, window, 0; u64 offset, block bytes, unit bytes. Since 1.2
  Target = 30,    // name
  Feature = 31,   // name
  Entry = 32,     // u64 offset, name
  Symbol = 33,    // u64 offset, u64 size, name
  StopIds = 40,   // i32 ...
  BosId = 41,     // i32
  Flags = 42,     // u32: bit 0 add_bos, bit 1 do_sample
  Temperature = 43,  // f32
  TopK = 44,         // i32
  TopP = 45,         // f32
  MinP = 46,         // f32
  Rules = 47,        // RulesText. Since 1.3
  Pooling = 48,      // u32 kind, flags (1: normalise), most tokens; name of the default prompt. Since 1.5
  Prompt = 49,       // u32 bytes of the name; name, text. Since 1.5
  Input = 50,        // 32 bytes SHA-256, role
  SelfTest = 60,     // u64 prefill, decode, score; i32 ids ...
  Approximate = 61,  // f32 bound; n times i32 id of the vocabulary; n times f32 prefill, decode, score. Since 1.1
};

void PutRecord(std::string& out, Tag tag, std::string_view payload) {
  Put(out, static_cast<uint32_t>(tag));
  Put(out, static_cast<uint32_t>(payload.size()));
  out += payload;
  PadTo(out, 8);
}

template <typename... T>
std::string Pack(T... values) {
  std::string out;
  (Put(out, values), ...);
  return out;
}

template <typename T>
void PutOptional(std::string& out, Tag tag, const std::optional<T>& value) {
  if (value) PutRecord(out, tag, Pack(*value));
}

std::string EncodeRecords(const Manifest& m) {
  std::string out;
  PutRecord(out, Tag::Model, m.model);
  PutRecord(out, Tag::Backend, m.backend);
  PutRecord(out, Tag::Numerics, m.numerics);
  PutRecord(out, Tag::BuildId, m.build_id);
  PutRecord(out, Tag::Options, m.options);
  PutRecord(out, Tag::Passes, m.passes);
  PutRecord(out, Tag::Sizes, Pack(m.abi, m.vocab, m.context, m.chunk, m.shared_bytes, m.private_bytes, m.state_bytes));
  if (!m.kernels.empty()) PutRecord(out, Tag::Kernels, m.kernels);
  for (const PlanPhase& phase : m.phases) {
    PutRecord(out, Tag::Phase, Pack(static_cast<uint32_t>(phase.kind), phase.min_rows, phase.max_rows));
    const PlanContract& c = phase.contract;
    if (!(c == PlanContract{})) {
      std::string contract = Pack(static_cast<uint32_t>(c.kind), static_cast<uint32_t>(c.output), c.by_row ? 1u : 0u);
      for (const EntryInput input : c.inputs) Put(contract, static_cast<uint32_t>(input));
      PutRecord(out, Tag::Contract, contract);
    }
    if (phase.width != 0 || phase.width_in != 0 || phase.types != 0)
      PutRecord(out, Tag::Width, Pack(phase.width, phase.width_in, phase.types));
  }
  for (const PlanState& s : m.states) {
    PutRecord(out, Tag::State,
              Pack(static_cast<uint32_t>(s.kind), s.blocks, s.unit, s.slots, s.window, 0u, s.offset, s.block_bytes,
                   s.unit_bytes));
  }
  for (const PlanTarget& target : m.targets) {
    PutRecord(out, Tag::Target, target.name);
    for (const std::string& feature : target.features) PutRecord(out, Tag::Feature, feature);
    for (const auto& [name, offset] : target.entries) PutRecord(out, Tag::Entry, Pack(offset) + name);
    for (const auto& [name, place] : target.symbols)
      PutRecord(out, Tag::Symbol, Pack(place.first, place.second) + name);
  }
  const PlanGeneration& g = m.generation;
  std::string ids;
  for (int32_t id : g.stop_ids) Put(ids, id);
  PutRecord(out, Tag::StopIds, ids);
  PutOptional(out, Tag::BosId, g.bos_id);
  PutRecord(out, Tag::Flags, Pack((g.add_bos ? 1u : 0u) | (g.do_sample ? 2u : 0u)));
  PutOptional(out, Tag::Temperature, g.temperature);
  PutOptional(out, Tag::TopK, g.top_k);
  PutOptional(out, Tag::TopP, g.top_p);
  PutOptional(out, Tag::MinP, g.min_p);
  if (const std::string rules = RulesText(g.rules); !rules.empty()) PutRecord(out, Tag::Rules, rules);
  if (const PlanPooling& p = m.pooling; p != PlanPooling{}) {
    PutRecord(out, Tag::Pooling,
              Pack(static_cast<uint32_t>(p.kind), p.normalize ? 1u : 0u, p.max_tokens) + p.default_prompt);
    for (const PlanPooling::Prompt& prompt : p.prompts)
      PutRecord(out, Tag::Prompt, Pack(static_cast<uint32_t>(prompt.name.size())) + prompt.name + prompt.text);
  }
  for (const PlanInput& input : m.inputs) {
    PutRecord(out, Tag::Input,
              std::string(reinterpret_cast<const char*>(input.sha256.data()), input.sha256.size()) + input.role);
  }
  std::string test = Pack(m.self_test.prefill, m.self_test.decode, m.self_test.score);
  for (int32_t id : m.self_test.ids) Put(test, id);
  PutRecord(out, Tag::SelfTest, test);
  if (const auto& approximate = m.self_test.approximate) {
    std::string values = Pack(approximate->bound);
    for (int32_t id : approximate->at) Put(values, id);
    for (const std::vector<float>* row : {&approximate->prefill, &approximate->decode, &approximate->score}) {
      for (float logit : *row) Put(values, logit);
    }
    PutRecord(out, Tag::Approximate, values);
  }
  return out;
}

std::string EncodeSteps(const Manifest& m) {
  std::string out;
  for (size_t p = 0; p < m.phases.size(); ++p) {
    for (const PlanStep& step : m.phases[p].steps) {
      Put(out, static_cast<uint32_t>(p));
      Put(out, step.kind);
      Put(out, static_cast<uint64_t>(step.payload.size()));
      out += step.payload;
      PadTo(out, 8);
    }
  }
  return out;
}

std::vector<int32_t> TakeIds(ByteReader& record) {
  std::vector<int32_t> ids;
  while (!record.done()) ids.push_back(record.Take<int32_t>());
  return ids;
}

// A number of one of ir/entries.def's or ir/states.def's tables.
template <class Row, size_t N>
auto TakeRow(ByteReader& record, const char* what, const Row (&table)[N]) {
  const uint32_t number = record.Take<uint32_t>();
  for (const Row& row : table) {
    if (static_cast<uint32_t>(row.value) == number) return row.value;
  }
  record.Fail(Joined({what, " ", std::to_string(number), " isn't known"}));
}

PlanTarget& LastTarget(Manifest& m, const ByteReader& record) {
  if (m.targets.empty()) record.Fail("stands before any target");
  return m.targets.back();
}

void DecodeRecord(Manifest& m, Tag tag, ByteReader& record) {
  const auto text = [&] { return std::string(record.TakeBytes(record.left())); };
  PlanGeneration& g = m.generation;
  switch (tag) {
    case Tag::Model: m.model = text(); return;
    case Tag::Backend: m.backend = text(); return;
    case Tag::Numerics: m.numerics = text(); return;
    case Tag::BuildId: m.build_id = text(); return;
    case Tag::Options: m.options = text(); return;
    case Tag::Passes: m.passes = text(); return;
    case Tag::Sizes:
      for (uint32_t* value : {&m.abi, &m.vocab, &m.context, &m.chunk}) *value = record.Take<uint32_t>();
      for (uint64_t* value : {&m.shared_bytes, &m.private_bytes, &m.state_bytes}) *value = record.Take<uint64_t>();
      return;
    case Tag::Phase: {
      PlanPhase& phase = m.phases.emplace_back();
      const uint32_t kind = record.Take<uint32_t>();
      if (kind >= std::size(kPhaseKinds)) record.Fail("phase kind " + std::to_string(kind) + " isn't known");
      phase.kind = static_cast<PhaseKind>(kind);
      phase.min_rows = record.Take<uint32_t>();
      phase.max_rows = record.Take<uint32_t>();
      return;
    }
    case Tag::Kernels: m.kernels = text(); return;
    case Tag::Contract: {
      if (m.phases.empty()) record.Fail("stands before any phase");
      PlanContract& c = m.phases.back().contract;
      c.kind = TakeRow(record, "kind of contract", kEntryKinds);
      c.output = TakeRow(record, "output", kEntryOutputs);
      c.by_row = record.Take<uint32_t>() == 1;
      c.inputs.clear();
      while (!record.done()) c.inputs.push_back(TakeRow(record, "input", kEntryInputs));
      return;
    }
    case Tag::Width:
      if (m.phases.empty()) record.Fail("stands before any phase");
      m.phases.back().width = record.Take<uint32_t>();
      m.phases.back().width_in = record.Take<uint32_t>();
      m.phases.back().types = record.Take<uint32_t>();
      return;
    case Tag::State: {
      PlanState& s = m.states.emplace_back();
      s.kind = TakeRow(record, "kind of state", kStateKinds);
      for (uint32_t* value : {&s.blocks, &s.unit, &s.slots, &s.window}) *value = record.Take<uint32_t>();
      record.Take<uint32_t>();
      for (uint64_t* value : {&s.offset, &s.block_bytes, &s.unit_bytes}) *value = record.Take<uint64_t>();
      return;
    }
    case Tag::Target: m.targets.emplace_back().name = text(); return;
    case Tag::Feature: LastTarget(m, record).features.push_back(text()); return;
    case Tag::Entry: {
      const uint64_t offset = record.Take<uint64_t>();
      LastTarget(m, record).entries[text()] = offset;
      return;
    }
    case Tag::Symbol: {
      const uint64_t offset = record.Take<uint64_t>(), size = record.Take<uint64_t>();
      LastTarget(m, record).symbols[text()] = {offset, size};
      return;
    }
    case Tag::StopIds: g.stop_ids = TakeIds(record); return;
    case Tag::BosId: g.bos_id = record.Take<int32_t>(); return;
    case Tag::Flags: {
      const uint32_t flags = record.Take<uint32_t>();
      g.add_bos = (flags & 1) != 0;
      g.do_sample = (flags & 2) != 0;
      return;
    }
    case Tag::Temperature: g.temperature = record.Take<float>(); return;
    case Tag::TopK: g.top_k = record.Take<int32_t>(); return;
    case Tag::TopP: g.top_p = record.Take<float>(); return;
    case Tag::MinP: g.min_p = record.Take<float>(); return;
    case Tag::Rules: g.rules = ParseRules(text(), record.where()); return;
    case Tag::Pooling: {
      const uint32_t kind = record.Take<uint32_t>();
      if (kind > static_cast<uint32_t>(PoolingKind::Last))
        record.Fail("pooling " + std::to_string(kind) + " isn't known");
      m.pooling.kind = static_cast<PoolingKind>(kind);
      const uint32_t flags = record.Take<uint32_t>();
      m.pooling.normalize = (flags & 1) != 0;
      m.pooling.max_tokens = record.Take<uint32_t>();
      m.pooling.default_prompt = text();
      return;
    }
    case Tag::Prompt: {
      const uint32_t bytes = record.Take<uint32_t>();
      std::string name(record.TakeBytes(bytes));
      m.pooling.prompts.push_back({std::move(name), text()});
      return;
    }
    case Tag::Input: {
      PlanInput& input = m.inputs.emplace_back();
      std::memcpy(input.sha256.data(), record.TakeBytes(input.sha256.size()).data(), input.sha256.size());
      input.role = text();
      return;
    }
    case Tag::SelfTest:
      for (uint64_t* value : {&m.self_test.prefill, &m.self_test.decode, &m.self_test.score})
        *value = record.Take<uint64_t>();
      m.self_test.ids = TakeIds(record);
      return;
    case Tag::Approximate: {
      PlanSelfTestLogits& approximate = m.self_test.approximate.emplace();
      approximate.bound = record.Take<float>();
      const size_t count = record.left() / 16;
      for (size_t i = 0; i < count; ++i) approximate.at.push_back(record.Take<int32_t>());
      for (std::vector<float>* row : {&approximate.prefill, &approximate.decode, &approximate.score}) {
        for (size_t i = 0; i < count; ++i) row->push_back(record.Take<float>());
      }
      return;
    }
  }
  record.Fail("the tag isn't known");
}

}  // namespace

ManifestBytes EncodeManifest(const Manifest& manifest) { return {EncodeRecords(manifest), EncodeSteps(manifest)}; }

uint16_t PlanMinorOf(const Manifest& manifest, bool chat) {
  return std::max<uint16_t>(PlanMinorOf(manifest), chat ? 4 : 0);
}

uint16_t PlanMinorOf(const Manifest& manifest) {
  const bool hidden = std::any_of(manifest.phases.begin(), manifest.phases.end(),
                                  [](const PlanPhase& phase) { return !GivesLogits(phase.kind); });
  if (hidden || manifest.pooling != PlanPooling{}) return 5;
  if (manifest.generation.rules != PlanRules{}) return 3;
  const bool plain = std::all_of(manifest.phases.begin(), manifest.phases.end(),
                                 [](const PlanPhase& phase) { return phase.contract == PlanContract{}; });
  if (!plain || !manifest.states.empty() || !manifest.kernels.empty()) return 2;
  if (manifest.self_test.approximate) return 1;
  for (const PlanPhase& phase : manifest.phases) {
    for (const PlanStep& step : phase.steps) {
      if (step.kind >= static_cast<uint32_t>(PlanStepKind::Dnnl) &&
          step.kind <= static_cast<uint32_t>(PlanStepKind::Kernel))
        return 1;
    }
  }
  return 0;
}

Manifest DecodeManifest(std::string_view manifest, std::string_view steps, std::string_view where) {
  Manifest m;
  ByteReader records(manifest, std::string(where) + ": manifest");
  while (!records.done()) {
    const uint32_t tag = records.Take<uint32_t>();
    const std::string_view payload = records.TakeBytes(records.Take<uint32_t>());
    records.SkipPadding(8);
    ByteReader record(payload, records.where() + ": record " + std::to_string(tag));
    DecodeRecord(m, static_cast<Tag>(tag), record);
    if (!record.done()) record.Fail(std::to_string(record.left()) + " bytes too many");
  }
  ByteReader lists(steps, std::string(where) + ": steps");
  size_t count = 0;
  while (!lists.done()) {
    if (++count > kMaxSteps) lists.Fail("more than " + std::to_string(kMaxSteps) + " steps");
    const uint32_t phase = lists.Take<uint32_t>();
    if (phase >= m.phases.size())
      lists.Fail("phase " + std::to_string(phase) + " of " + std::to_string(m.phases.size()));
    PlanStep& step = m.phases[phase].steps.emplace_back();
    step.kind = lists.Take<uint32_t>();
    step.payload = lists.TakeBytes(lists.Take<uint64_t>());
    lists.SkipPadding(8);
  }
  // Repeated, missing or reordered records and unused bits all show here.
  const ManifestBytes canonical = EncodeManifest(m);
  if (canonical.manifest != manifest) records.Fail("records are missing, repeated or out of order");
  if (canonical.steps != steps) lists.Fail("steps are out of order");
  return m;
}

}  // namespace llmc
