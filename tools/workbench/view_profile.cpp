// A profile as tables.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tools/workbench/profile.h"

namespace llmc {
namespace {

// Calls that differ in their layer alone, or the calls of one layer.
struct Part {
  std::string value;
  const CallProfile* first = nullptr;
  int64_t count = 0;
  double work = 0, wait = 0, bytes = 0, operations = 0;
  void Add(const CallProfile& call) {
    if (first == nullptr) first = &call;
    ++count;
    work += call.work, wait += call.wait, bytes += call.bytes, operations += call.operations;
  }
};

std::string WithoutLayer(const CallProfile& call) {
  const size_t dot = call.value.find('.');
  return call.layer < 0 || dot == std::string::npos ? call.value : "%b{i}" + call.value.substr(dot);
}

std::vector<Part> PartsOf(const PhaseProfile& phase) {
  std::vector<Part> parts;
  for (const CallProfile& call : phase.steps) {
    const std::string value = WithoutLayer(call);
    const auto same = [&](const Part& part) { return part.value == value && part.first->function == call.function; };
    auto at = std::find_if(parts.begin(), parts.end(), same);
    if (at == parts.end()) at = parts.insert(at, Part{value});
    at->Add(call);
  }
  return parts;
}

std::vector<Part> LayersOf(const PhaseProfile& phase) {
  std::map<int, Part> layers;  // the calls of no layer last
  for (const CallProfile& call : phase.steps) {
    Part& part = layers[call.layer < 0 ? INT32_MAX : call.layer];
    part.value = call.layer < 0 ? "rest" : std::to_string(call.layer);
    part.Add(call);
  }
  std::vector<Part> parts;
  for (auto& [layer, part] : layers) parts.push_back(std::move(part));
  return parts;
}

double Share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// Microseconds, per cent, megabytes, and the rates of the time in the call.
void AddFigures(const Part& part, const PhaseProfile& phase, double stream, std::vector<Cell>& row) {
  const double rate = part.work > 0 ? 1 / part.work : 0;
  for (const double figure :
       {part.work * 1e6, part.wait * 1e6, Share(part.work + part.wait, phase.wall), part.bytes * 1e-6,
        part.bytes * rate * 1e-9, Share(part.bytes * rate, stream), part.operations * rate * 1e-9})
    row.emplace_back(figure);
}
const std::vector<std::string> kFigures = {"us", "wait us", "% of all", "MB", "GB/s", "% of stream", "Gop/s"};

ReportTable TableOf(const std::string& name, std::vector<std::string> columns) {
  columns.insert(columns.end(), kFigures.begin(), kFigures.end());
  return {name, std::move(columns)};
}

}  // namespace

Report ProfileReport(const Profile& profile, bool by_layer) {
  Report report;
  report.facts = {
      {"target", profile.target}, {"threads", int64_t{profile.threads}}, {"stream GB/s", profile.stream * 1e-9}};
  for (const PhaseProfile& phase : profile.phases) {
    report.facts.push_back({phase.name + " us", phase.wall * 1e6});
    report.facts.push_back({phase.name + " in code us", phase.inside * 1e6});
    report.facts.push_back({phase.name + " in rows %", Share(phase.accounted, phase.wall)});
    ReportTable table = TableOf(phase.name, {"value", "ops", "function", "calls"});
    for (const Part& part : PartsOf(phase)) {
      table.rows.push_back({part.value, part.first->ops, part.first->function, part.count});
      AddFigures(part, phase, profile.stream, table.rows.back());
    }
    report.tables.push_back(std::move(table));
    if (by_layer) {
      ReportTable layers = TableOf(phase.name + " layers", {"layer", "calls"});
      for (const Part& part : LayersOf(phase)) {
        layers.rows.push_back({part.value, part.count});
        AddFigures(part, phase, profile.stream, layers.rows.back());
      }
      report.tables.push_back(std::move(layers));
    }
    ReportTable threads{phase.name + " threads", {"thread", "us", "wait us"}};
    for (size_t t = 0; t < phase.threads.size(); ++t)
      threads.rows.push_back({static_cast<int64_t>(t), phase.threads[t].work * 1e6, phase.threads[t].wait * 1e6});
    report.tables.push_back(std::move(threads));
  }
  return report;
}

}  // namespace llmc
