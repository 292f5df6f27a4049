// The chat templates' section: bytes and back.
#include "runtime/plan_template.h"

#include <algorithm>
#include <bit>

#include "runtime/plan_error.h"

namespace llmc {
namespace {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kMost = 1u << 22;  // of anything that is counted

class Writer {
 public:
  void U32(uint64_t value) {
    for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void Text(std::string_view text) {
    U32(text.size());
    bytes_.append(text);
  }
  void Texts(const std::vector<std::string>& texts) {
    U32(texts.size());
    for (const std::string& text : texts) Text(text);
  }
  template <typename T>
  void Rows(const std::vector<T>& rows) {
    U32(rows.size());
    for (const T& row : rows) {
      for (uint32_t value : row) U32(value);
    }
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  Reader(std::string_view bytes, std::string_view where) : bytes_(bytes), where_(where) {}
  [[noreturn]] void Fail(const std::string& rule) const {
    throw PlanError(std::string(where_) + ": chat templates: byte " + std::to_string(at_) + ": " + rule);
  }
  uint32_t U32() {
    if (bytes_.size() - at_ < 4) Fail("ends early");
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes_[at_ + i])) << (8 * i);
    at_ += 4;
    return value;
  }
  // A number of things of at least `size` bytes each.
  uint32_t Count(size_t size) {
    const uint32_t count = U32();
    if (count > kMost || count > (bytes_.size() - at_) / size) Fail(std::to_string(count) + " entries are too many");
    return count;
  }
  std::string Text() {
    const uint32_t size = Count(1);
    at_ += size;
    return std::string(bytes_.substr(at_ - size, size));
  }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts(Count(4));
    for (std::string& text : texts) text = Text();
    return texts;
  }
  template <typename T>
  std::vector<T> Rows() {
    std::vector<T> rows(Count(sizeof(T)));
    for (T& row : rows) {
      for (uint32_t& value : row) value = U32();
    }
    return rows;
  }
  bool Flag() {
    const uint32_t value = U32();
    if (value > 1) Fail("a flag of " + std::to_string(value));
    return value != 0;
  }
  void End() const {
    if (at_ != bytes_.size()) Fail("more bytes than the section needs");
  }

 private:
  std::string_view bytes_, where_;
  size_t at_ = 0;
};

void WriteProgram(Writer& w, const TemplateProgram& program) {
  w.Text(program.name);
  w.U32(program.constants.size());
  for (const TemplateConst& constant : program.constants) {
    w.U32(static_cast<uint32_t>(constant.kind) | (constant.literal ? 256u : 0u));
    const uint64_t bits = std::bit_cast<uint64_t>(constant.number);
    w.U32(bits & 0xffffffffu);
    w.U32(bits >> 32);
    w.Text(constant.text);
    w.Texts(constant.names);
  }
  w.Texts(program.filters);
  w.Texts(program.tests);
  w.U32(program.functions.size());
  for (const TemplateFunction& f : program.functions) {
    w.Text(f.name);
    w.Texts(f.parameters);
    w.U32(f.entry);
    w.U32(f.slots);
    for (const bool flag : {f.macro, f.caller, f.kwargs, f.varargs}) w.U32(flag ? 1 : 0);
  }
  w.U32(program.code.size());
  for (uint32_t word : program.code) w.U32(word);
  w.U32(program.lines.size());
  for (const auto& [at, line] : program.lines) {
    w.U32(at);
    w.U32(line);
  }
}

// What the operand of an instruction counts in.
void CheckCode(const Reader& r, const TemplateProgram& p) {
  const auto below = [&](uint32_t value, size_t count, const char* what) {
    if (value >= count) r.Fail(std::string(what) + " " + std::to_string(value) + " of " + std::to_string(count));
  };
  const auto names = [&](uint32_t count, uint32_t constant) {
    if (count == 0) return;
    below(constant, p.constants.size(), "constant");
    const TemplateConst& c = p.constants[constant];
    if (c.kind != TemplateConst::Kind::Names || c.names.size() != count) r.Fail("names of arguments don't fit a call");
  };
  for (size_t at = 0; at < p.code.size();) {
    const uint32_t word = p.code[at], a = word >> 8;
    below(word & 255, static_cast<size_t>(TemplateOp::count), "op");
    const TemplateOp op = static_cast<TemplateOp>(word & 255);
    const uint32_t extra = TemplateExtraWords(op);
    if (p.code.size() - at <= extra) r.Fail("the code ends inside an instruction");
    const uint32_t b = extra > 0 ? p.code[at + 1] : 0;
    switch (op) {
      case TemplateOp::Const: below(a, p.constants.size(), "constant"); break;
      case TemplateOp::Resolve:
      case TemplateOp::Defined:
      case TemplateOp::NotProvided:
      case TemplateOp::Attribute:
      case TemplateOp::EmitConst:
      case TemplateOp::SetAttribute:
        below(a, p.constants.size(), "constant");
        if (p.constants[a].kind != TemplateConst::Kind::Str) r.Fail("a name that is no string");
        break;
      case TemplateOp::Binary: below(a, static_cast<size_t>(TemplateBinary::count), "operator"); break;
      case TemplateOp::Compare:
      case TemplateOp::CompareNext: below(a, static_cast<size_t>(TemplateCompare::count), "comparison"); break;
      case TemplateOp::Jump:
      case TemplateOp::JumpIfFalse:
      case TemplateOp::AndJump:
      case TemplateOp::OrJump:
      case TemplateOp::JumpIfSet: below(a, p.code.size(), "jump"); break;
      case TemplateOp::Next: below(b, p.code.size(), "jump"); break;
      case TemplateOp::Call: names(a >> 8 & 255, b); break;
      case TemplateOp::Filter:
        below(b, p.filters.size(), "filter");
        names(a >> 8 & 255, p.code[at + 2]);
        break;
      case TemplateOp::Test:
        below(b, p.tests.size(), "test");
        names(a >> 8 & 255, p.code[at + 2]);
        break;
      case TemplateOp::LoopContext: below(a, p.functions.size() + 1, "function"); break;
      case TemplateOp::Macro:
      case TemplateOp::LoopFilter:
      case TemplateOp::RecursiveLoop: below(a, p.functions.size(), "function"); break;
      default: break;
    }
    at += 1 + extra;
  }
}

TemplateProgram ReadProgram(Reader& r) {
  TemplateProgram p;
  p.name = r.Text();
  p.constants.resize(r.Count(20));
  for (TemplateConst& constant : p.constants) {
    const uint32_t kind = r.U32();
    if ((kind & 255) > static_cast<uint32_t>(TemplateConst::Kind::Names) || kind > 511) r.Fail("an unknown constant");
    constant.kind = static_cast<TemplateConst::Kind>(kind & 255);
    constant.literal = kind > 255;
    const uint64_t low = r.U32(), high = r.U32();
    constant.number = std::bit_cast<double>(low | high << 32);
    constant.text = r.Text();
    constant.names = r.Texts();
    if (constant.kind == TemplateConst::Kind::Int &&
        (constant.text.empty() || constant.text.find_first_not_of("0123456789") != std::string::npos))
      r.Fail("a number that isn't one");
  }
  p.filters = r.Texts();
  p.tests = r.Texts();
  p.functions.resize(r.Count(32));
  if (p.functions.empty()) r.Fail("a template without code");
  for (TemplateFunction& f : p.functions) {
    f.name = r.Text();
    f.parameters = r.Texts();
    f.entry = r.U32();
    f.slots = r.U32();
    f.macro = r.Flag();
    f.caller = r.Flag();
    f.kwargs = r.Flag();
    f.varargs = r.Flag();
    if (f.slots > 65536 || f.slots < f.parameters.size() + 3) r.Fail("slots don't hold the parameters");
  }
  p.code.resize(r.Count(4));
  for (uint32_t& word : p.code) word = r.U32();
  for (const TemplateFunction& f : p.functions) {
    if (f.entry >= p.code.size()) r.Fail("a function outside the code");
  }
  p.lines.resize(r.Count(8));
  for (auto& [at, line] : p.lines) {
    at = r.U32();
    line = r.U32();
  }
  CheckCode(r, p);
  return p;
}

}  // namespace

std::span<const std::string_view> TemplateFilterNames() {
  constexpr static std::string_view kNames[] = {
      // Unsupported: as many as kUnsupportedFilters says.
      "pprint",   "random",      "striptags",  "urlize",    "wordwrap",       "abs",
      "attr",     "batch",       "capitalize", "center",    "count",          "d",
      "default",  "dictsort",    "e",          "escape",    "filesizeformat", "first",
      "float",    "forceescape", "format",     "groupby",   "indent",         "int",
      "items",    "join",        "last",       "length",    "list",           "lower",
      "map",      "max",         "min",        "reject",    "rejectattr",     "replace",
      "reverse",  "round",       "safe",       "select",    "selectattr",     "slice",
      "sort",     "string",      "sum",        "title",     "tojson",         "trim",
      "truncate", "unique",      "upper",      "urlencode", "wordcount",      "xmlattr"};
  return kNames;
}

std::span<const std::string_view> TemplateTestNames() {
  constexpr static std::string_view kNames[] = {
      "!=",       "<",           "<=",          "==",      ">",       ">=",        "boolean",  "callable",
      "defined",  "divisibleby", "eq",          "equalto", "escaped", "even",      "false",    "filter",
      "float",    "ge",          "greaterthan", "gt",      "in",      "integer",   "iterable", "le",
      "lessthan", "lower",       "lt",          "mapping", "ne",      "none",      "number",   "odd",
      "sameas",   "sequence",    "string",      "test",    "true",    "undefined", "upper"};
  return kNames;
}

TemplateNameKind TemplateFilterKind(std::string_view name) {
  constexpr std::ptrdiff_t kUnsupportedFilters = 5;
  const std::span<const std::string_view> names = TemplateFilterNames();
  const std::ptrdiff_t at = std::find(names.begin(), names.end(), name) - names.begin();
  if (at == std::ssize(names)) return TemplateNameKind::Unknown;
  return at < kUnsupportedFilters ? TemplateNameKind::Unsupported : TemplateNameKind::Supported;
}

TemplateNameKind TemplateTestKind(std::string_view name) {
  const std::span<const std::string_view> names = TemplateTestNames();
  return std::find(names.begin(), names.end(), name) == names.end() ? TemplateNameKind::Unknown
                                                                    : TemplateNameKind::Supported;
}

uint32_t TemplateExtraWords(TemplateOp op) {
  switch (op) {
    case TemplateOp::Call:
    case TemplateOp::Next: return 1;
    case TemplateOp::Filter:
    case TemplateOp::Test: return 2;
    default: return 0;
  }
}

std::string EncodeTemplates(const TemplateSection& section) {
  Writer w;
  w.U32(kVersion);
  w.U32(section.templates.size());
  for (const TemplateProgram& program : section.templates) WriteProgram(w, program);
  w.U32(section.variables.size());
  for (const auto& [name, text] : section.variables) {
    w.Text(name);
    w.Text(text);
  }
  w.U32(section.has_control_tokens ? 1 : 0);
  w.Texts(section.control_tokens);
  w.Rows(section.tables.properties);
  w.Rows(section.tables.cases);
  w.Rows(section.tables.special);
  w.U32(section.tables.digits.size());
  for (uint32_t first : section.tables.digits) w.U32(first);
  return w.Take();
}

TemplateSection DecodeTemplates(std::string_view bytes, std::string_view where) {
  Reader r(bytes, where);
  const uint32_t version = r.U32();
  if (version != kVersion) r.Fail("version " + std::to_string(version) + ", this program reads 1");
  TemplateSection section;
  const uint32_t count = r.Count(4);
  for (uint32_t i = 0; i < count; ++i) section.templates.push_back(ReadProgram(r));
  section.variables.resize(r.Count(8));
  for (auto& [name, text] : section.variables) {
    name = r.Text();
    text = r.Text();
  }
  section.has_control_tokens = r.Flag();
  section.control_tokens = r.Texts();
  section.tables.properties = r.Rows<std::array<uint32_t, 2>>();
  section.tables.cases = r.Rows<std::array<uint32_t, 6>>();
  section.tables.special = r.Rows<std::array<uint32_t, 10>>();
  section.tables.digits.resize(r.Count(4));
  for (uint32_t& first : section.tables.digits) first = r.U32();
  r.End();
  return section;
}

}  // namespace llmc
