// The plan's text form (runtime/README.md, "Text form"): one line a value, sections as quoted text, hex, zeros or
// another file. It makes plans for tests without a compiler, and shows plans to people.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "runtime/plan.h"

namespace llmc {
namespace {

constexpr SectionKind kTextKinds[] = {SectionKind::Weights,      SectionKind::Code,     SectionKind::Tokenizer,
                                      SectionKind::ChatTemplate, SectionKind::ImportIr, SectionKind::FinalIr};

// Values as text.

const char* const kHexDigits = "0123456789abcdef";

int HexDigit(char c) {
  const char* at = c == 0 ? nullptr : std::strchr(kHexDigits, c);
  return at == nullptr ? -1 : static_cast<int>(at - kHexDigits);
}

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += kHexDigits[static_cast<uint8_t>(c) >> 4];
    out += kHexDigits[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

std::string Hex64(uint64_t value) {
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += kHexDigits[(value >> shift) & 15];
  return out;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      out += "\\x" + Hex({&c, 1});
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string Float(float value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr};
}

template <typename List>
std::string Ids(const List& ids) {
  std::string out;
  for (int32_t id : ids) out += (out.empty() ? "" : ",") + std::to_string(id);
  return out.empty() ? "none" : out;
}

// Dump.

void DumpManifest(std::ostringstream& out, const Manifest& m) {
  out << "plan " << kPlanMajor << '.' << kPlanMinor << '\n';
  out << "model " << Quote(m.model) << "\nbackend " << Quote(m.backend) << "\nnumerics " << Quote(m.numerics)
      << "\nbuild " << Quote(m.build_id) << "\noptions " << Quote(m.options) << "\npasses " << Quote(m.passes) << '\n';
  out << "abi " << m.abi << "\nvocab " << m.vocab << "\ncontext " << m.context << "\nchunk " << m.chunk << "\nshared "
      << m.shared_bytes << "\nprivate " << m.private_bytes << "\nstates " << m.state_bytes << '\n';
  for (const PlanPhase& phase : m.phases) {
    out << "phase " << PhaseKindName(phase.kind) << ' ' << phase.min_rows << ' ' << phase.max_rows << '\n';
    for (const PlanStep& step : phase.steps) {
      if (step.kind == static_cast<uint32_t>(PlanStepKind::Code)) {
        out << "  step code " << Quote(step.payload) << '\n';
      } else {
        out << "  step " << step.kind << ' ' << Quote(step.payload) << '\n';
      }
    }
  }
  for (const PlanTarget& target : m.targets) {
    out << "target " << Quote(target.name) << '\n';
    for (const std::string& feature : target.features) out << "  feature " << Quote(feature) << '\n';
    for (const auto& [name, offset] : target.entries) out << "  entry " << Quote(name) << ' ' << offset << '\n';
    for (const auto& [name, place] : target.symbols)
      out << "  symbol " << Quote(name) << ' ' << place.first << ' ' << place.second << '\n';
  }
  const PlanGeneration& g = m.generation;
  out << "stop_ids " << Ids(g.stop_ids) << '\n';
  if (g.bos_id) out << "bos " << *g.bos_id << '\n';
  if (g.add_bos) out << "add_bos\n";
  if (g.do_sample) out << "do_sample\n";
  if (g.temperature) out << "temperature " << Float(*g.temperature) << '\n';
  if (g.top_k) out << "top_k " << *g.top_k << '\n';
  if (g.top_p) out << "top_p " << Float(*g.top_p) << '\n';
  if (g.min_p) out << "min_p " << Float(*g.min_p) << '\n';
  for (const PlanInput& input : m.inputs) {
    out << "input " << Quote(input.role) << ' '
        << Hex({reinterpret_cast<const char*>(input.sha256.data()), input.sha256.size()}) << '\n';
  }
  const PlanSelfTest& t = m.self_test;
  out << "self_test " << Ids(t.ids) << ' ' << Hex64(t.prefill) << ' ' << Hex64(t.decode) << ' ' << Hex64(t.score)
      << '\n';
}

bool IsText(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](char c) { return static_cast<uint8_t>(c) >= 0x20 || c == '\n' || c == '\t'; });
}

void DumpSection(std::ostringstream& out, const PlanFile& plan, const PlanSection& section, uint64_t hex_limit) {
  out << "section " << SectionKindName(section.kind);
  const bool binary = section.kind == SectionKind::Weights || section.kind == SectionKind::Code ||
                      section.kind == SectionKind::Tokenizer;
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
  Assembler(std::string_view text, std::string folder) : text_(text), folder_(std::move(folder)) {}

  void Run() {
    while (NextLine()) {
      const std::string word = Word();
      if (word.empty()) continue;
      Statement(word);
      End();
    }
  }
  Manifest manifest;
  std::vector<TextSection> sections;

 private:
  [[noreturn]] void Fail(const std::string& rule) const {
    throw PlanError("plan text:" + std::to_string(number_) + ": " + rule);
  }

  // Takes the next line without its comment; false at the end of the text.
  bool NextLine() {
    if (next_ >= text_.size()) return false;
    const size_t end = std::min(text_.find('\n', next_), text_.size());
    line_ = text_.substr(next_, end - next_);
    next_ = end + 1;
    ++number_;
    Blank();
    return true;
  }
  void Blank() {
    while (!line_.empty() && (line_[0] == ' ' || line_[0] == '\t' || line_[0] == '\r')) line_.remove_prefix(1);
    if (!line_.empty() && line_[0] == '#') line_ = {};
  }
  // The next word of the line; empty at its end.
  std::string Word() {
    const size_t size = std::min(line_.find_first_of(" \t\r#\""), line_.size());
    std::string word(line_.substr(0, size));
    line_.remove_prefix(size);
    Blank();
    return word;
  }
  void End() const {
    if (!line_.empty()) Fail("\"" + std::string(line_) + "\" is too much");
  }
  template <typename T>
  T Number(int base = 10) {
    const std::string word = Word();
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    if (word.empty() || error != std::errc() || end != word.data() + word.size())
      Fail("\"" + word + "\" isn't a number here");
    return value;
  }
  float Float32() {
    const std::string word = Word();
    float value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || error != std::errc() || end != word.data() + word.size())
      Fail("\"" + word + "\" isn't a number");
    return value;
  }
  std::string String() {
    if (line_.empty() || line_[0] != '"') Fail("a quoted string is missing");
    std::string out;
    size_t at = 1;
    const auto take = [&] {
      if (at >= line_.size()) Fail("a string has no end");
      return line_[at++];
    };
    for (char c = take(); c != '"'; c = take()) {
      if (c != '\\') {
        out += c;
        continue;
      }
      c = take();
      if (c == 'n') {
        out += '\n';
      } else if (c == 'x') {
        const int high = HexDigit(take()), low = HexDigit(take());
        if (high < 0 || low < 0) Fail("\\x needs two hex digits");
        out += static_cast<char>(high * 16 + low);
      } else if (c == '"' || c == '\\') {
        out += c;
      } else {
        Fail(std::string("\\") + c + " isn't known");
      }
    }
    line_.remove_prefix(at);
    Blank();
    return out;
  }
  std::vector<int32_t> IdList() {
    std::vector<int32_t> ids;
    std::string word = Word();
    if (word == "none") return ids;
    for (size_t at = 0; at <= word.size();) {
      const size_t comma = std::min(word.find(',', at), word.size());
      int32_t id = 0;
      const auto [end, error] = std::from_chars(word.data() + at, word.data() + comma, id);
      if (error != std::errc() || end != word.data() + comma) Fail("\"" + word + "\" isn't a list of ids");
      ids.push_back(id);
      at = comma + 1;
    }
    return ids;
  }
  Sha256Digest Digest() {
    const std::string word = Word();
    Sha256Digest digest{};
    if (word.size() != 2 * digest.size()) Fail("a SHA-256 has 64 hex digits");
    for (size_t i = 0; i < digest.size(); ++i) {
      const int high = HexDigit(word[2 * i]), low = HexDigit(word[2 * i + 1]);
      if (high < 0 || low < 0) Fail("a SHA-256 has 64 hex digits");
      digest[i] = static_cast<uint8_t>(high * 16 + low);
    }
    return digest;
  }

  void Statement(const std::string& word) {
    Manifest& m = manifest;
    PlanGeneration& g = m.generation;
    if (word == "plan") {
      if (const std::string version = Word(); version != std::to_string(kPlanMajor) + "." + std::to_string(kPlanMinor))
        Fail("format " + version + " isn't known");
    } else if (word == "model") {
      m.model = String();
    } else if (word == "backend") {
      m.backend = String();
    } else if (word == "numerics") {
      m.numerics = String();
    } else if (word == "build") {
      m.build_id = String();
    } else if (word == "options") {
      m.options = String();
    } else if (word == "passes") {
      m.passes = String();
    } else if (word == "abi") {
      m.abi = Number<uint32_t>();
    } else if (word == "vocab") {
      m.vocab = Number<uint32_t>();
    } else if (word == "context") {
      m.context = Number<uint32_t>();
    } else if (word == "chunk") {
      m.chunk = Number<uint32_t>();
    } else if (word == "shared") {
      m.shared_bytes = Number<uint64_t>();
    } else if (word == "private") {
      m.private_bytes = Number<uint64_t>();
    } else if (word == "states") {
      m.state_bytes = Number<uint64_t>();
    } else if (word == "phase") {
      Phase();
    } else if (word == "step") {
      Step();
    } else if (word == "target") {
      m.targets.emplace_back().name = String();
    } else if (word == "feature") {
      Target().features.push_back(String());
    } else if (word == "entry") {
      const std::string name = String();
      Target().entries[name] = Number<uint64_t>();
    } else if (word == "symbol") {
      const std::string name = String();
      const uint64_t offset = Number<uint64_t>();
      Target().symbols[name] = {offset, Number<uint64_t>()};
    } else if (word == "stop_ids") {
      g.stop_ids = IdList();
    } else if (word == "bos") {
      g.bos_id = Number<int32_t>();
    } else if (word == "add_bos") {
      g.add_bos = true;
    } else if (word == "do_sample") {
      g.do_sample = true;
    } else if (word == "temperature") {
      g.temperature = Float32();
    } else if (word == "top_k") {
      g.top_k = Number<int32_t>();
    } else if (word == "top_p") {
      g.top_p = Float32();
    } else if (word == "min_p") {
      g.min_p = Float32();
    } else if (word == "input") {
      std::string role = String();
      m.inputs.push_back({std::move(role), Digest()});
    } else if (word == "self_test") {
      m.self_test.ids = IdList();
      for (uint64_t* hash : {&m.self_test.prefill, &m.self_test.decode, &m.self_test.score})
        *hash = Number<uint64_t>(16);
    } else if (word == "section") {
      Section();
    } else {
      Fail("\"" + word + "\" isn't known");
    }
  }

  PlanTarget& Target() {
    if (manifest.targets.empty()) Fail("stands before any target");
    return manifest.targets.back();
  }

  void Phase() {
    const std::string name = Word();
    PlanPhase& phase = manifest.phases.emplace_back();
    bool found = false;
    for (const PhaseKind kind : {PhaseKind::Prefill, PhaseKind::Decode, PhaseKind::Score}) {
      if (name == PhaseKindName(kind)) {
        phase.kind = kind;
        found = true;
      }
    }
    if (!found) Fail("phase \"" + name + "\" isn't known");
    phase.min_rows = Number<uint32_t>();
    phase.max_rows = Number<uint32_t>();
  }

  void Step() {
    if (manifest.phases.empty()) Fail("stands before any phase");
    PlanStep& step = manifest.phases.back().steps.emplace_back();
    if (line_.substr(0, 5) == "code ") {
      Word();
      step.kind = static_cast<uint32_t>(PlanStepKind::Code);
    } else {
      step.kind = Number<uint32_t>();
    }
    step.payload = String();
  }

  void Section() {
    const std::string name = Word(), form = Word();
    const auto kind = std::find_if(std::begin(kTextKinds), std::end(kTextKinds),
                                   [&](SectionKind k) { return name == SectionKindName(k); });
    if (kind == std::end(kTextKinds)) Fail("section \"" + name + "\" isn't known");
    TextSection& section = sections.emplace_back();
    section.kind = *kind;
    if (form == "zero") {
      section.zeros = Number<uint64_t>();
    } else if (form == "file") {
      ReadFile(section, String());
    } else if (form == "hex" || form == "text") {
      End();
      Block(section, form == "hex");
    } else {
      Fail("section \"" + name + "\" is " + (form.empty() ? "empty" : form) + ", not hex, text, zero or file");
    }
  }

  void ReadFile(TextSection& section, const std::string& name) {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    std::ostringstream bytes;
    if (!file || !(bytes << file.rdbuf())) Fail("can't read " + folder_ + "/" + name);
    section.bytes = bytes.str();
  }

  void Block(TextSection& section, bool hex) {
    int high = -1;
    while (NextLine()) {
      if (line_.substr(0, 3) == "end") {
        if (high >= 0) Fail("an odd number of hex digits");
        line_.remove_prefix(3);
        Blank();
        return;
      }
      if (!hex) {
        if (!line_.empty()) section.bytes += String();
        End();
        continue;
      }
      for (std::string word = Word(); !word.empty(); word = Word()) {
        for (const char c : word) {
          const int digit = HexDigit(c);
          if (digit < 0) Fail(std::string("'") + c + "' isn't a hex digit");
          if (high >= 0) section.bytes += static_cast<char>(high * 16 + digit);
          high = high >= 0 ? -1 : digit;
        }
      }
      End();
    }
    Fail("a section has no end");
  }

  std::string_view text_, line_;
  std::string folder_;
  size_t next_ = 0;
  int number_ = 0;
};

}  // namespace

std::string DumpPlan(const PlanFile& plan, uint64_t hex_limit) {
  std::ostringstream out;
  DumpManifest(out, plan.manifest());
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
