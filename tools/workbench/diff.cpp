// Facts of plans and models, and the difference of two texts by lines.
#include "tools/workbench/diff.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/frontend.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/plan.h"
#include "tools/scheduled_model.h"
#include "tools/text_file.h"

namespace llmc {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

// Past this many cells of the table only the equal head and tail of the texts are matched.
constexpr size_t kMostCells = size_t{1} << 26;

struct Edit {
  char kind;  // ' ', '-', '+'
  std::string line;
};

std::vector<Edit> Edits(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  size_t head = 0, tail = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  while (tail < a.size() - head && tail < b.size() - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  const size_t n = a.size() - head - tail, m = b.size() - head - tail;
  std::vector<Edit> edits;
  for (size_t i = 0; i < head; ++i) edits.push_back({' ', a[i]});
  size_t i = 0, j = 0;
  if (n > 0 && m > 0 && n < kMostCells / m) {
    std::vector<uint32_t> longest((n + 1) * (m + 1), 0);  // of the rests from (i, j) on
    const auto at = [&](size_t x, size_t y) -> uint32_t& { return longest[x * (m + 1) + y]; };
    for (size_t x = n; x-- > 0;)
      for (size_t y = m; y-- > 0;)
        at(x, y) = a[head + x] == b[head + y] ? at(x + 1, y + 1) + 1 : std::max(at(x + 1, y), at(x, y + 1));
    while (i < n && j < m) {
      if (a[head + i] == b[head + j]) {
        edits.push_back({' ', a[head + i]});
        ++i, ++j;
      } else if (at(i + 1, j) >= at(i, j + 1)) {
        edits.push_back({'-', a[head + i++]});
      } else {
        edits.push_back({'+', b[head + j++]});
      }
    }
  }
  for (; i < n; ++i) edits.push_back({'-', a[head + i]});
  for (; j < m; ++j) edits.push_back({'+', b[head + j]});
  for (size_t k = a.size() - tail; k < a.size(); ++k) edits.push_back({' ', a[k]});
  return edits;
}

void AddModule(const Module& module, Facts& facts) {
  for (const auto& [name, value] : module.options.all()) {
    std::string text = std::visit(
        []<typename T>(const T& v) -> std::string {
          if constexpr (std::is_same_v<T, std::string>) {
            return v;
          } else if constexpr (std::is_same_v<T, std::vector<Dim>>) {
            std::vector<std::string> all;
            for (const Dim& dim : v) all.push_back(ToText(dim));
            return fmt::format("{}", fmt::join(all, ", "));
          } else {
            return fmt::format("{}", v);
          }
        },
        value);
    facts.facts.push_back({"option", name, std::move(text)});
  }
  std::map<std::string, int64_t> bytes;
  for (const Global& global : module.globals)
    if (global.kind == GlobalKind::Weight) bytes[std::string(InfoOf(global.type.dtype).text)] += ByteSize(global.type);
  for (const auto& [type, size] : bytes) facts.facts.push_back({"weights", type, fmt::format("{} bytes", size)});
  facts.ir = Print(module);
}

void AddPlan(const PlanFile& plan, Facts& facts) {
  const Manifest& m = plan.manifest();
  const auto add = [&](const char* group, const std::string& name, const std::string& value) {
    facts.facts.push_back({group, name, value});
  };
  add("plan", "model", m.model);
  add("plan", "backend", m.backend);
  add("plan", "numerics", m.numerics);
  add("plan", "build", m.build_id);
  add("plan", "vocabulary", std::to_string(m.vocab));
  add("memory", "shared", fmt::format("{} bytes", m.shared_bytes));
  add("memory", "private", fmt::format("{} bytes a thread", m.private_bytes));
  add("memory", "states", fmt::format("{} bytes", m.state_bytes));
  for (const PlanPhase& phase : m.phases)
    add("phase", std::string(PhaseKindName(phase.kind)),
        fmt::format("{}..{} rows, {} steps", phase.min_rows, phase.max_rows, phase.steps.size()));
  for (size_t i = 0; i < m.targets.size(); ++i) {
    const PlanSection* code = plan.Find(SectionKind::Code, static_cast<uint32_t>(i));
    add("code", m.targets[i].name,
        fmt::format("{} bytes, {} functions, needs {}", code == nullptr ? 0 : code->size, m.targets[i].symbols.size(),
                    fmt::join(m.targets[i].features, " ")));
    std::map<std::string, int> kernels;  // "k_linear_a8.3" is one of the kernel's functions
    for (const auto& [symbol, place] : m.targets[i].symbols) ++kernels[symbol.substr(0, symbol.find('.'))];
    for (const auto& [kernel, count] : kernels)
      add("kernels", fmt::format("{} {}", m.targets[i].name, kernel), fmt::format("{} functions", count));
  }
  for (const PlanInput& input : m.inputs)
    add("input", input.role, fmt::format("sha256 {:02x}", fmt::join(input.sha256, "")));
  for (const PlanSection& section : plan.sections())
    add("section", fmt::format("{} {}", SectionKindName(section.kind), section.index),
        fmt::format("{} bytes, xxh3 {:016x}", section.size, section.xxh3));
  add("file", "size", fmt::format("{} bytes", plan.file_size()));
  AddModule(Parse(plan.Read(SectionKind::FinalIr), plan.name()), facts);
}

}  // namespace

std::string DiffLines(const std::string& a, const std::string& b, size_t context) {
  if (a == b) return "";
  const std::vector<Edit> edits = Edits(Lines(a), Lines(b));
  std::vector<bool> shown(edits.size(), false);
  for (size_t i = 0; i < edits.size(); ++i)
    if (edits[i].kind != ' ')
      for (size_t k = i < context ? 0 : i - context; k < std::min(edits.size(), i + context + 1); ++k) shown[k] = true;
  std::string text;
  for (size_t i = 0; i < edits.size(); ++i) {
    if (shown[i])
      text += fmt::format("{} {}\n", edits[i].kind, edits[i].line);
    else if (i == 0 || shown[i - 1])
      text += "...\n";
  }
  return text;
}

Facts FactsOf(const std::string& path) {
  Facts facts;
  if (IsPlanFile(path)) {
    AddPlan(PlanFile(path), facts);
  } else if (path.ends_with(".ir")) {
    const Module module = Parse(ReadText(path), path);
    Verify(module, path);
    AddModule(module, facts);
  } else {
    ModelOptions options;
    options.model = path;
    options.no_weights = true;
    options.no_tokenizer = true;
    options.sink = PrintDiag;
    AddModule(LoadModel(options).module, facts);
  }
  return facts;
}

}  // namespace llmc
