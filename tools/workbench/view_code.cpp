// The machine code of a plan: what there is, and as instructions.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/code_form.h"
#include "ir/diag.h"
#include "tools/workbench/views.h"

namespace llmc {
namespace {

// Functions by their place.
std::vector<std::pair<std::string, std::pair<uint64_t, uint64_t>>> Functions(const PlanTarget& target) {
  std::vector<std::pair<std::string, std::pair<uint64_t, uint64_t>>> functions(target.symbols.begin(),
                                                                               target.symbols.end());
  std::stable_sort(functions.begin(), functions.end(),
                   [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  return functions;
}

std::vector<size_t> TargetsShown(const PlanFile& plan, const std::string& only) {
  std::vector<size_t> shown;
  std::vector<std::string> names;
  for (size_t t = 0; t < plan.manifest().targets.size(); ++t) {
    names.push_back(plan.manifest().targets[t].name);
    if (only.empty() || only == names.back()) shown.push_back(t);
  }
  if (!only.empty() && shown.empty())
    throw UsageError(fmt::format("{}: no code for \"{}\"; there is {}", plan.name(), only,
                                 names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  return shown;
}

std::string Hex(uint64_t value) { return fmt::format("{:x}", value); }

}  // namespace

Report CodeReport(const PlanFile& plan, const std::string& only) {
  const Manifest& m = plan.manifest();
  ReportTable targets{"targets", {"target", "bytes", "functions", "entries", "needs"}};
  ReportTable entries{"entries", {"target", "entry", "offset"}};
  ReportTable functions{"functions", {"target", "function", "offset", "bytes"}};
  for (const size_t t : TargetsShown(plan, only)) {
    const PlanTarget& target = m.targets[t];
    const PlanSection* code = plan.Find(SectionKind::Code, static_cast<uint32_t>(t));
    targets.rows.push_back({target.name, static_cast<int64_t>(code == nullptr ? 0 : code->size),
                            static_cast<int64_t>(target.symbols.size()), static_cast<int64_t>(target.entries.size()),
                            target.features});
    for (const auto& [name, offset] : target.entries) entries.rows.push_back({target.name, name, Hex(offset)});
    for (const auto& [name, place] : Functions(target))
      functions.rows.push_back({target.name, name, Hex(place.first), static_cast<int64_t>(place.second)});
  }
  return {{{"abi", fmt::format("{}.{}", m.abi & 0xffff, m.abi >> 16)}},
          {std::move(targets), std::move(entries), std::move(functions)}};
}

Report AssemblyReport(const PlanFile& plan, const std::string& only, const std::string& function) {
  ReportTable table{"assembly", {"target", "function", "offset", "instruction"}};
  bool found = false;
  for (const size_t t : TargetsShown(plan, only)) {
    const PlanTarget& target = plan.manifest().targets[t];
    const std::string code = plan.Read(SectionKind::Code, static_cast<uint32_t>(t));
    for (const auto& [name, place] : Functions(target)) {
      if (!function.empty() && name != function) continue;
      found = true;
      if (place.first > code.size() || place.second > code.size() - place.first)
        throw PlanError(fmt::format("{}: {} at {} of {} bytes lies outside the code of {}", plan.name(), name,
                                    place.first, place.second, target.name));
      const std::string listing = Disassemble(code, place.first, place.second, target.symbols);
      for (size_t begin = 0; begin < listing.size();) {
        const size_t end = listing.find('\n', begin), tab = listing.find('\t', begin);
        table.rows.push_back(
            {target.name, name, listing.substr(begin, tab - begin), listing.substr(tab + 1, end - tab - 1)});
        begin = end + 1;
      }
    }
  }
  if (!found && !function.empty())
    throw UsageError(fmt::format("{}: no function \"{}\" (--code lists them)", plan.name(), function));
  return {{}, {std::move(table)}};
}

std::string AssemblyText(const Report& assembly) {
  std::string text, last;
  for (const std::vector<Cell>& row : assembly.tables.at(0).rows) {
    const auto cell = [&](size_t c) -> const std::string& { return std::get<std::string>(row[c]); };
    if (const std::string head = cell(0) + " " + cell(1); head != last) {
      text += (last.empty() ? "" : "\n") + head + "\n";
      last = head;
    }
    text += fmt::format("{:>8}  {}\n", cell(2), cell(3));
  }
  return text;
}

}  // namespace llmc
