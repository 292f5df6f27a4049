// The plan's text form (runtime/README.md, "Text form"): one line a value, sections as quoted text, hex, zeros or
// another file. It makes plans for tests without a compiler, and shows plans to people.
#include "runtime/plan_text.h"

#include <algorithm>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "runtime/plan.h"
#include "runtime/plan_io.h"
#include "runtime/plan_steps.h"

namespace llmc {
namespace {

constexpr SectionKind kTextKinds[] = {SectionKind::Weights,      SectionKind::Code,     SectionKind::Tokenizer,
                                      SectionKind::ChatTemplate, SectionKind::ImportIr, SectionKind::FinalIr,
                                      SectionKind::Chat};

std::string VersionText(uint16_t minor) { return std::to_string(kPlanMajor) + "." + std::to_string(minor); }

// Dump.

void DumpManifest(std::ostringstream& out, const Manifest& m, bool chat) {
  out << "plan " << VersionText(PlanMinorOf(m, chat)) << '\n';
  out << "model " << Quote(m.model) << "\nbackend " << Quote(m.backend) << "\nnumerics " << Quote(m.numerics)
      << "\nbuild " << Quote(m.build_id) << "\noptions " << Quote(m.options) << "\npasses " << Quote(m.passes) << '\n';
  if (!m.kernels.empty()) out << "kernels " << Quote(m.kernels) << '\n';
  out << "abi " << m.abi << "\nvocab " << m.vocab << "\ncontext " << m.context << "\nchunk " << m.chunk << "\nshared "
      << m.shared_bytes << "\nprivate " << m.private_bytes << "\nstates " << m.state_bytes << '\n';
  for (const PlanPhase& phase : m.phases) {
    out << "phase " << PhaseKindName(phase.kind) << ' ' << phase.min_rows << ' ' << phase.max_rows << '\n';
    const PlanContract& c = phase.contract;
    if (!(c == PlanContract{})) {
      out << "  contract " << EntryKindText(c.kind) << ' ' << EntryOutputText(c.output) << (c.by_row ? " by_row" : "");
      for (const EntryInput input : c.inputs) out << ' ' << EntryInputText(input);
      out << '\n';
    }
    if (phase.width != 0 || phase.width_in != 0 || phase.types != 0)
      out << "  width " << phase.width << ' ' << phase.width_in << ' ' << phase.types << '\n';
    for (const PlanStep& step : phase.steps) out << "  step " << StepText(step) << '\n';
  }
  for (const PlanState& s : m.states) {
    out << "state " << FindRow(kStateKinds, s.kind)->text << ' ' << s.offset << ' ' << s.blocks << ' ' << s.block_bytes;
    if (s.slots > 0) out << ' ' << s.slots << ' ' << s.unit << ' ' << s.unit_bytes << ' ' << s.window;
    out << '\n';
  }
  for (const PlanTarget& target : m.targets) {
    out << "target " << Quote(target.name) << '\n';
    for (const std::string& feature : target.features) out << "  feature " << Quote(feature) << '\n';
    for (const auto& [name, offset] : target.entries) out << "  entry " << Quote(name) << ' ' << offset << '\n';
    for (const auto& [name, place] : target.symbols)
      out << "  symbol " << Quote(name) << ' ' << place.first << ' ' << place.second << '\n';
  }
  const PlanGeneration& g = m.generation;
  out << "stop_ids " << ListText(g.stop_ids) << '\n';
  if (g.bos_id) out << "bos " << *g.bos_id << '\n';
  if (g.add_bos) out << "add_bos\n";
  if (g.do_sample) out << "do_sample\n";
  if (g.temperature) out << "temperature " << FloatText(*g.temperature) << '\n';
  if (g.top_k) out << "top_k " << *g.top_k << '\n';
  if (g.top_p) out << "top_p " << FloatText(*g.top_p) << '\n';
  if (g.min_p) out << "min_p " << FloatText(*g.min_p) << '\n';
  if (g.rules != PlanRules{}) out << "rules " << Quote(RulesText(g.rules)) << '\n';
  if (const PlanPooling& p = m.pooling; p != PlanPooling{}) {
    out << "pooling " << PoolingText(p.kind) << (p.normalize ? " normalize" : "") << ' ' << p.max_tokens << ' '
        << Quote(p.default_prompt) << '\n';
    for (const PlanPooling::Prompt& prompt : p.prompts)
      out << "prompt " << Quote(prompt.name) << ' ' << Quote(prompt.text) << '\n';
  }
  for (const PlanInput& input : m.inputs) {
    out << "input " << Quote(input.role) << ' '
        << Hex({reinterpret_cast<const char*>(input.sha256.data()), input.sha256.size()}) << '\n';
  }
  const PlanSelfTest& t = m.self_test;
  out << "self_test " << ListText(t.ids) << ' ' << Hex64(t.prefill) << ' ' << Hex64(t.decode) << ' ' << Hex64(t.score)
      << '\n';
  if (t.approximate) {
    const PlanSelfTestLogits& a = *t.approximate;
    out << "self_test_logits " << FloatText(a.bound) << ' ' << ListText(a.at) << ' ' << ListText(a.prefill) << ' '
        << ListText(a.decode) << ' ' << ListText(a.score) << '\n';
  }
}

bool IsText(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](char c) { return static_cast<uint8_t>(c) >= 0x20 || c == '\n' || c == '\t'; });
}

void DumpSection(std::ostringstream& out, const PlanFile& plan, const PlanSection& section, uint64_t hex_limit) {
  out << "section " << SectionKindName(section.kind);
  const bool binary = section.kind == SectionKind::Weights || section.kind == SectionKind::Code ||
                      section.kind == SectionKind::Tokenizer || section.kind == SectionKind::Chat;
  if (binary && section.size > hex_limit) {
    out << " omitted " << section.size << ' ' << Hex64(section.xxh3) << '\n';
    return;
  }
  const std::string bytes = plan.Read(section.kind, section.index);
  if (bytes.find_first_not_of('\0') == std::string::npos) {
    out << " zero " << bytes.size() << '\n';
  } else if (!binary && IsText(bytes)) {
    out << " text\n";
    for (size_t at = 0; at < bytes.size();) {
      const size_t end = std::min(bytes.find('\n', at), bytes.size() - 1) + 1;
      out << "  " << Quote(std::string_view(bytes).substr(at, end - at)) << '\n';
      at = end;
    }
    out << "end\n";
  } else {
    out << " hex\n";
    for (size_t at = 0; at < bytes.size(); at += 32) out << "  " << Hex(std::string_view(bytes).substr(at, 32)) << '\n';
    out << "end\n";
  }
}

// Assemble.

struct TextSection {
  SectionKind kind{};
  uint64_t zeros = 0;
  std::string bytes;
};

class Assembler {
 public:
  Assembler(std::string_view text, std::string folder) : in_(text), folder_(std::move(folder)) {}

  void Run() {
    while (in_.NextLine()) {
      const std::string word = in_.Word();
      if (word.empty()) continue;
      Statement(word);
      in_.End();
    }
    const bool chat = std::any_of(sections.begin(), sections.end(),
                                  [](const TextSection& section) { return section.kind == SectionKind::Chat; });
    const std::string version = VersionText(PlanMinorOf(manifest, chat));
    if (!version_.empty() && version_ != version)
      in_.Fail("the text says plan " + version_ + ", and what it has is of " + version);
  }
  Manifest manifest;
  std::vector<TextSection> sections;

 private:
  void Statement(const std::string& word) {
    Manifest& m = manifest;
    PlanGeneration& g = m.generation;
    if (word == "plan") {
      version_ = in_.Word();
      bool known = false;
      for (uint16_t minor = 0; minor <= kPlanMinor; ++minor) known = known || version_ == VersionText(minor);
      if (!known) in_.Fail("format " + version_ + " isn't known");
    } else if (word == "model") {
      m.model = in_.String();
    } else if (word == "backend") {
      m.backend = in_.String();
    } else if (word == "numerics") {
      m.numerics = in_.String();
    } else if (word == "build") {
      m.build_id = in_.String();
    } else if (word == "options") {
      m.options = in_.String();
    } else if (word == "passes") {
      m.passes = in_.String();
    } else if (word == "abi") {
      m.abi = in_.Number<uint32_t>();
    } else if (word == "vocab") {
      m.vocab = in_.Number<uint32_t>();
    } else if (word == "context") {
      m.context = in_.Number<uint32_t>();
    } else if (word == "chunk") {
      m.chunk = in_.Number<uint32_t>();
    } else if (word == "shared") {
      m.shared_bytes = in_.Number<uint64_t>();
    } else if (word == "private") {
      m.private_bytes = in_.Number<uint64_t>();
    } else if (word == "states") {
      m.state_bytes = in_.Number<uint64_t>();
    } else if (word == "kernels") {
      m.kernels = in_.String();
    } else if (word == "phase") {
      Phase();
    } else if (word == "width") {
      if (manifest.phases.empty()) in_.Fail("stands before any phase");
      manifest.phases.back().width = in_.Number<uint32_t>();
      manifest.phases.back().width_in = in_.Number<uint32_t>();
      manifest.phases.back().types = in_.Number<uint32_t>();
    } else if (word == "contract") {
      Contract();
    } else if (word == "state") {
      State();
    } else if (word == "step") {
      Step();
    } else if (word == "target") {
      m.targets.emplace_back().name = in_.String();
    } else if (word == "feature") {
      Target().features.push_back(in_.String());
    } else if (word == "entry") {
      const std::string name = in_.String();
      Target().entries[name] = in_.Number<uint64_t>();
    } else if (word == "symbol") {
      const std::string name = in_.String();
      const uint64_t offset = in_.Number<uint64_t>();
      Target().symbols[name] = {offset, in_.Number<uint64_t>()};
    } else if (word == "stop_ids") {
      g.stop_ids = in_.List<int32_t>();
    } else if (word == "bos") {
      g.bos_id = in_.Number<int32_t>();
    } else if (word == "add_bos") {
      g.add_bos = true;
    } else if (word == "do_sample") {
      g.do_sample = true;
    } else if (word == "rules") {
      g.rules = ParseRules(in_.String(), "rules");
    } else if (word == "temperature") {
      g.temperature = in_.Float32();
    } else if (word == "top_k") {
      g.top_k = in_.Number<int32_t>();
    } else if (word == "top_p") {
      g.top_p = in_.Float32();
    } else if (word == "min_p") {
      g.min_p = in_.Float32();
    } else if (word == "pooling") {
      const std::string kind = in_.Word();
      const std::optional<PoolingKind> known = PoolingFromText(kind);
      if (!known && kind != PoolingText(PoolingKind::None)) in_.Fail("pooling \"" + kind + "\" isn't known");
      m.pooling.kind = known.value_or(PoolingKind::None);
      m.pooling.normalize = in_.Take("normalize");
      m.pooling.max_tokens = in_.Number<uint32_t>();
      m.pooling.default_prompt = in_.String();
    } else if (word == "prompt") {
      std::string name = in_.String();
      m.pooling.prompts.push_back({std::move(name), in_.String()});
    } else if (word == "input") {
      std::string role = in_.String();
      m.inputs.push_back({std::move(role), in_.Digest()});
    } else if (word == "self_test") {
      m.self_test.ids = in_.List<int32_t>();
      for (uint64_t* hash : {&m.self_test.prefill, &m.self_test.decode, &m.self_test.score})
        *hash = in_.Number<uint64_t>(16);
    } else if (word == "self_test_logits") {
      PlanSelfTestLogits& a = m.self_test.approximate.emplace();
      a.bound = in_.Float32();
      a.at = in_.List<int32_t>();
      for (std::vector<float>* row : {&a.prefill, &a.decode, &a.score}) *row = in_.List<float>();
    } else if (word == "section") {
      Section();
    } else {
      in_.Fail("\"" + word + "\" isn't known");
    }
  }

  PlanTarget& Target() {
    if (manifest.targets.empty()) in_.Fail("stands before any target");
    return manifest.targets.back();
  }

  void Phase() {
    const std::string name = in_.Word();
    PlanPhase& phase = manifest.phases.emplace_back();
    bool found = false;
    for (const PhaseKind kind : kPhaseKinds) {
      if (name == PhaseKindName(kind)) {
        phase.kind = kind;
        found = true;
      }
    }
    if (!found) in_.Fail("phase \"" + name + "\" isn't known");
    phase.min_rows = in_.Number<uint32_t>();
    phase.max_rows = in_.Number<uint32_t>();
  }

  // A word of one of the tables' texts.
  template <class Row, size_t N>
  auto OneOf(const char* what, const Row (&table)[N]) {
    const std::string word = in_.Word();
    const Row* row = FindRow(table, std::string_view(word));
    if (row == nullptr) in_.Fail(std::string(what) + " \"" + word + "\" isn't known");
    return row->value;
  }

  void Contract() {
    if (manifest.phases.empty()) in_.Fail("stands before any phase");
    PlanContract& c = manifest.phases.back().contract;
    c.kind = OneOf("kind of contract", kEntryKinds);
    c.output = OneOf("output", kEntryOutputs);
    c.by_row = in_.Take("by_row");
    c.inputs.clear();
    while (!in_.empty()) c.inputs.push_back(OneOf("input", kEntryInputs));
  }

  void State() {
    PlanState& s = manifest.states.emplace_back();
    s.kind = OneOf("kind of state", kStateKinds);
    s.offset = in_.Number<uint64_t>();
    s.blocks = in_.Number<uint32_t>();
    s.block_bytes = in_.Number<uint64_t>();
    if (in_.empty()) return;
    s.slots = in_.Number<uint32_t>();
    s.unit = in_.Number<uint32_t>();
    s.unit_bytes = in_.Number<uint64_t>();
    s.window = in_.Number<uint32_t>();
  }

  void Step() {
    if (manifest.phases.empty()) in_.Fail("stands before any phase");
    manifest.phases.back().steps.push_back(ReadStep(in_));
  }

  void Section() {
    const std::string name = in_.Word(), form = in_.Word();
    const auto kind = std::find_if(std::begin(kTextKinds), std::end(kTextKinds),
                                   [&](SectionKind k) { return name == SectionKindName(k); });
    if (kind == std::end(kTextKinds)) in_.Fail("section \"" + name + "\" isn't known");
    TextSection& section = sections.emplace_back();
    section.kind = *kind;
    if (form == "zero") {
      section.zeros = in_.Number<uint64_t>();
    } else if (form == "file") {
      ReadFile(section, in_.String());
    } else if (form == "hex" || form == "text") {
      in_.End();
      Block(section, form == "hex");
    } else {
      in_.Fail("section \"" + name + "\" is " + (form.empty() ? "empty" : form) + ", not hex, text, zero or file");
    }
  }

  void ReadFile(TextSection& section, const std::string& name) {
    try {
      section.bytes = ReadWholeFile(folder_ + "/" + name);
    } catch (const PlanError&) {
      in_.Fail("can't read " + folder_ + "/" + name);
    }
  }

  void Block(TextSection& section, bool hex) {
    int high = -1;
    while (in_.NextLine()) {
      if (in_.Take("end")) {
        if (high >= 0) in_.Fail("an odd number of hex digits");
        return;
      }
      if (!hex) {
        if (!in_.empty()) section.bytes += in_.String();
        in_.End();
        continue;
      }
      for (std::string word = in_.Word(); !word.empty(); word = in_.Word()) {
        for (const char c : word) {
          const int digit = HexDigit(c);
          if (digit < 0) in_.Fail(std::string("'") + c + "' isn't a hex digit");
          if (high >= 0) section.bytes += static_cast<char>(high * 16 + digit);
          high = high >= 0 ? -1 : digit;
        }
      }
      in_.End();
    }
    in_.Fail("a section has no end");
  }

  PlanTextReader in_;
  std::string folder_, version_;
};

}  // namespace

std::string DumpPlan(const PlanFile& plan, uint64_t hex_limit) {
  std::ostringstream out;
  DumpManifest(out, plan.manifest(), plan.Find(SectionKind::Chat) != nullptr);
  for (const PlanSection& section : plan.sections()) {
    if (section.kind != SectionKind::Manifest && section.kind != SectionKind::Steps)
      DumpSection(out, plan, section, hex_limit);
  }
  return std::move(out).str();
}

void AssemblePlan(std::string_view text, const std::string& folder, PlanWriter::Options options) {
  Assembler assembler(text, folder);
  assembler.Run();
  uint64_t other = 1 << 16;
  options.weights_size = 0;
  for (const TextSection& section : assembler.sections) {
    (section.kind == SectionKind::Weights ? options.weights_size : other) += section.zeros + section.bytes.size();
  }
  options.other_size = other;
  PlanWriter writer(std::move(options));
  const std::string zeros(1 << 16, '\0');
  for (const TextSection& section : assembler.sections) {
    if (section.kind != SectionKind::Weights) continue;
    writer.AppendWeights({reinterpret_cast<const uint8_t*>(section.bytes.data()), section.bytes.size()});
    for (uint64_t left = section.zeros; left > 0;) {
      const uint64_t piece = std::min<uint64_t>(left, zeros.size());
      writer.AppendWeights({reinterpret_cast<const uint8_t*>(zeros.data()), piece});
      left -= piece;
    }
  }
  for (const TextSection& section : assembler.sections) {
    if (section.kind != SectionKind::Weights)
      writer.AddSection(section.kind, section.zeros > 0 ? std::string(section.zeros, '\0') : section.bytes);
  }
  writer.Finish(assembler.manifest);
}

}  // namespace llmc
