// The CPUs that llmc compiles for: one row each, with the kernels' ISA level behind it.
#include <algorithm>
#include <initializer_list>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/llvm/codegen.h"
#include "ir/diag.h"
#include "runtime/plan.h"

// backends/llvm/embed.S
#define LEVEL(name) extern "C" const char llmc_kernels_##name[], llmc_kernels_##name##_end[];
LEVEL(v3)
LEVEL(v3_vnni)
LEVEL(v4)
LEVEL(v4_vnni)
#undef LEVEL

namespace llmc {
namespace {

struct TargetRow {
  std::string_view name, llvm_cpu;
  std::vector<std::string> llvm_features, features;  // beyond llvm_cpu; all, as /proc/cpuinfo spells them
  const char* begin;
  const char* end;
};

const std::vector<TargetRow>& Rows() {
  // Smallest first: "native" takes the last one that this machine can run, and the loader the one with the most
  // features.
  static const std::vector<TargetRow> rows = [] {
    const std::vector<std::string> v3 = {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"};
    const auto with = [](std::vector<std::string> base, std::initializer_list<const char*> more) {
      base.insert(base.end(), more.begin(), more.end());
      std::sort(base.begin(), base.end());
      return base;
    };
    const std::vector<std::string> v4 = with(v3, {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"});
#define BITCODE(name) llmc_kernels_##name, llmc_kernels_##name##_end
    return std::vector<TargetRow>{
        {"x86-64-v3", "x86-64-v3", {}, v3, BITCODE(v3)},
        {"x86-64-v3-vnni", "x86-64-v3", {"+avxvnni"}, with(v3, {"avx_vnni"}), BITCODE(v3_vnni)},
        {"x86-64-v4", "x86-64-v4", {}, v4, BITCODE(v4)},
        {"x86-64-v4-vnni", "x86-64-v4", {"+avx512vnni"}, with(v4, {"avx512_vnni"}), BITCODE(v4_vnni)},
    };
#undef BITCODE
  }();
  return rows;
}

Target FromRow(const TargetRow& row) {
  return {std::string(row.name), std::string(row.llvm_cpu), row.llvm_features, row.features};
}

const TargetRow* FindRow(std::string_view name) {
  for (const TargetRow& row : Rows()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::vector<std::string> TargetNames(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
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

std::vector<Target> TargetsOf(const std::string& list) {
  std::vector<Target> targets;
  for (const std::string& name : TargetNames(list)) {
    Target target = TargetFromName(name);
    const bool again =
        std::any_of(targets.begin(), targets.end(), [&](const Target& t) { return t.name == target.name; });
    if (!again) targets.push_back(std::move(target));
  }
  return targets;
}

const Target& BestTargetHere(const std::vector<Target>& targets) {
  const Target* best = nullptr;
  std::string missing;
  for (const Target& target : targets) {
    const std::vector<std::string> lacks = MissingCpuFeatures(target.features);
    if (!lacks.empty()) {
      missing += fmt::format("{}{} needs {}", missing.empty() ? "" : "; ", target.name, fmt::join(lacks, " "));
    } else if (best == nullptr || target.features.size() > best->features.size()) {
      best = &target;
    }
  }
  if (best == nullptr) throw UsageError("this CPU (" + CpuName() + ") can't run what it would compile: " + missing);
  return *best;
}

std::string_view KernelBitcode(const Target& target) {
  const TargetRow* row = FindRow(target.name);
  LLMC_CHECK(row != nullptr, "no kernels for target '" + target.name + "'");
  return {row->begin, static_cast<size_t>(row->end - row->begin)};
}

}  // namespace llmc
