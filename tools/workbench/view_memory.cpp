// What a plan's loader and session map, and what lies in it.
#include <algorithm>

#include <fmt/format.h>

#include "ir/op.h"
#include "ir/round_up.h"
#include "passes/buffers.h"
#include "passes/rewrite.h"
#include "runtime/executor.h"
#include "tools/workbench/views.h"

namespace llmc {
namespace {

int64_t Signed(uint64_t bytes) { return static_cast<int64_t>(bytes); }

uint64_t SectionBytes(const PlanFile& plan, SectionKind kind, uint32_t index = 0) {
  const PlanSection* section = plan.Find(kind, index);
  return section == nullptr ? 0 : section->size;
}

struct Mapped {
  uint64_t fixed = 0;       // whatever the number of threads and positions: weights, largest code, arena, logits, copy
  uint64_t per_thread = 0;  // bytes of each thread's arena
};

ReportTable MappedTable(const PlanFile& plan, uint32_t threads, Mapped& sums) {
  const Manifest& m = plan.manifest();
  const SessionBytes session = SessionBytesOf(m, threads);
  ReportTable table{"mapped", {"what", "bytes", "mapped", "how"}};
  uint64_t total = 0, mapped_total = 0;
  const auto add = [&](const std::string& what, uint64_t bytes, uint64_t mapped, const char* how) {
    table.rows.push_back({what, Signed(bytes), Signed(mapped), how});
  };
  const auto count = [&](uint64_t bytes, uint64_t mapped) { total += bytes, mapped_total += mapped; };
  const uint64_t weights = SectionBytes(plan, SectionKind::Weights);
  add("weights", weights, RoundUp(weights, kPage), "the file, shared between processes");
  count(weights, RoundUp(weights, kPage));
  uint64_t code = 0;
  for (size_t t = 0; t < m.targets.size(); ++t) {
    const uint64_t bytes = SectionBytes(plan, SectionKind::Code, static_cast<uint32_t>(t));
    add("code " + m.targets[t].name, bytes, Reservation::MappedBytes(bytes),
        m.targets.size() > 1 ? "one of these, the best that the CPU runs" : "read and sealed");
    code = std::max(code, bytes);
  }
  count(code, Reservation::MappedBytes(code));
  const auto zeros = [&](const std::string& what, uint64_t bytes, const char* how) {
    add(what, bytes, Reservation::MappedBytes(bytes), how);
    count(bytes, Reservation::MappedBytes(bytes));
  };
  zeros("shared arena", session.shared, "zeros");
  zeros(fmt::format("private arenas of {}", threads), session.scratch, "zeros");
  zeros("states", session.states, "zeros, touched as positions come");
  zeros("logits", session.logits, "zeros");
  if (session.copy > 0) zeros("copy of states", session.copy, "zeros, of states that a stopped call would spoil");
  add("all", total, mapped_total, m.targets.size() > 1 ? "with the largest code" : "");
  sums.fixed = weights + code + session.shared + session.logits + session.copy;
  sums.per_thread = m.private_bytes;
  return table;
}

// Doubling from 512, then `last`.
std::vector<uint32_t> Positions(uint32_t last) {
  std::vector<uint32_t> positions;
  for (uint64_t at = 512; at < last; at *= 2) positions.push_back(static_cast<uint32_t>(at));
  positions.push_back(last);
  return positions;
}

ReportTable PeakTable(const Manifest& m, const Mapped& sums, uint32_t threads, uint32_t context) {
  ReportTable table{"peak", {"positions", "threads", "states", "bytes"}};
  std::vector<uint32_t> counts = {1};
  if (threads > 1) counts.push_back(threads);
  for (const uint32_t count : counts)
    for (const uint32_t positions : Positions(context)) {
      const uint64_t states = WrittenStateBytes(m, positions);
      table.rows.push_back(
          {int64_t{positions}, int64_t{count}, Signed(states), Signed(sums.fixed + sums.per_thread * count + states)});
    }
  return table;
}

ReportTable StatesTable(const Module& module, const Manifest& m) {
  ReportTable table{"states",
                    {"state", "offset", "bytes", "kind", "positions", "bytes a position", "type"},
                    {},
                    /*fold=*/true};
  for (const PlanState& state : m.states) {
    std::string name, type;
    for (const Global& global : module.globals)
      if (global.kind == GlobalKind::State && global.offset && static_cast<uint64_t>(*global.offset) == state.offset) {
        name = "$" + ToText(global.name);
        type = ToText(global.type);
      }
    const uint64_t position = state.unit == 0 ? 0 : state.blocks * state.unit_bytes / state.unit;
    table.rows.push_back({name, Signed(state.offset), Signed(state.bytes()),
                          std::string(FindRow(kStateKinds, state.kind)->text), int64_t{state.slots}, Signed(position),
                          type});
  }
  return table;
}

// By first step, then place.
ReportTable ArenaTable(const Module& module, const Func& func) {
  std::vector<ValueId> root;
  ReportTable table{
      func.name + " arenas", {"buffer", "arena", "offset", "bytes", "from step", "to step", "type"}, {}, /*fold=*/true};
  for (const Buffer& buffer : BuffersOf(module, func, root)) {
    const Op& op = func.ops[buffer.op];
    const std::string made = "%" + ToText(ValueAt(func, op.results.at(0)).name);
    table.rows.push_back({buffer.value < 0 ? "scratch of " + made : "%" + ToText(ValueAt(func, buffer.value).name),
                          std::string(buffer.space == Space::Shared ? "shared" : "private"), buffer.offset,
                          buffer.bytes, int64_t{buffer.first}, int64_t{buffer.last},
                          buffer.value < 0 ? std::string("bytes") : ToText(ValueAt(func, buffer.value).type)});
  }
  return table;
}

// The least that any placement needs, and where: the step at which most bytes of an arena live.
std::vector<Cell> PeakStep(const Module& module, const Func& func, Space space) {
  std::vector<ValueId> root;
  const std::vector<Buffer> buffers = BuffersOf(module, func, root);
  int64_t end = 0, most = 0, at = 0;
  for (const Buffer& buffer : buffers) {
    if (buffer.space != space) continue;
    end = std::max(end, buffer.offset + buffer.bytes);
    int64_t live = 0;
    for (const Buffer& other : buffers)
      if (other.space == space && other.first <= buffer.first && buffer.first <= other.last) live += other.bytes;
    if (live > most) most = live, at = buffer.first;
  }
  return {func.name, std::string(space == Space::Shared ? "shared" : "private"), end, most, at};
}

}  // namespace

Report MemoryReport(const PlanFile& plan, uint32_t threads, uint32_t context) {
  const Manifest& m = plan.manifest();
  if (context > m.context) throw UsageError(fmt::format("--context {} is over the plan's {}", context, m.context));
  const Module module = FinalModule(plan);
  Report report;
  report.facts = {
      {"context", int64_t{m.context}}, {"threads", int64_t{threads}}, {"a thread more", Signed(m.private_bytes)}};
  Mapped sums;
  report.tables.push_back(MappedTable(plan, threads, sums));
  report.tables.push_back(PeakTable(m, sums, threads, context == 0 ? m.context : context));
  report.tables.push_back(StatesTable(module, m));
  ReportTable peaks{"arenas", {"phase", "arena", "bytes", "live at most", "at step"}};
  for (const Func& func : module.funcs)
    for (const Space space : {Space::Shared, Space::Private}) peaks.rows.push_back(PeakStep(module, func, space));
  report.tables.push_back(std::move(peaks));
  for (const Func& func : module.funcs) report.tables.push_back(ArenaTable(module, func));
  return report;
}

}  // namespace llmc
