// The CPUs that llmc compiles for: one row each, with the kernels' ISA level behind it.
#include <iterator>

#include "backends/llvm/codegen.h"
#include "ir/diag.h"
#include "runtime/plan.h"

// backends/llvm/embed.S
extern "C" const char llmc_kernels_v3[], llmc_kernels_v3_end[];

namespace llmc {
namespace {

struct TargetRow {
  std::string_view name;
  std::vector<std::string> features;  // as /proc/cpuinfo spells them
  const char* begin;
  const char* end;
};

const std::vector<TargetRow>& Rows() {
  // Smallest first: "native" takes the last one that this machine can run.
  static const std::vector<TargetRow> rows = {
      {"x86-64-v3",
       {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
       llmc_kernels_v3,
       llmc_kernels_v3_end},
  };
  return rows;
}

Target FromRow(const TargetRow& row) { return {std::string(row.name), std::string(row.name), {}, row.features}; }

const TargetRow* FindRow(std::string_view name) {
  for (const TargetRow& row : Rows()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace

std::vector<Target> AllTargets() {
  std::vector<Target> targets;
  for (const TargetRow& row : Rows()) targets.push_back(FromRow(row));
  return targets;
}

Target TargetFromName(std::string_view name) {
  const TargetRow* row = FindRow(name);
  if (name == "native") {
    for (const TargetRow& candidate : Rows()) {
      if (MissingCpuFeatures(candidate.features).empty()) row = &candidate;
    }
    if (row == nullptr) {
      std::string missing;
      for (const std::string& feature : MissingCpuFeatures(Rows()[0].features)) missing += " " + feature;
      throw UsageError("target CPU 'native': this machine lacks" + missing + ", which the smallest target needs (" +
                       std::string(Rows()[0].name) + ")");
    }
  }
  if (row == nullptr) {
    std::string known;
    for (const TargetRow& candidate : Rows()) known += std::string(candidate.name) + ", ";
    throw UsageError("unknown target CPU '" + std::string(name) + "'; there is " + known + "native");
  }
  return FromRow(*row);
}

std::string_view KernelBitcode(const Target& target) {
  const TargetRow* row = FindRow(target.name);
  LLMC_CHECK(row != nullptr, "no kernels for target '" + target.name + "'");
  return {row->begin, static_cast<size_t>(row->end - row->begin)};
}

}  // namespace llmc
