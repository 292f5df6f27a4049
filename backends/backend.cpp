// The names of the backends, and the build id.
#include "backends/backend.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/diag.h"
#include "runtime/plan.h"
#include "runtime/plan_hash.h"
#ifdef LLMC_WITH_LLVM
#include "backends/llvm/codegen.h"
#endif

namespace llmc {

const std::vector<std::string>& BackendNames() {
  static const std::vector<std::string> names = {
      "reference",
#ifdef LLMC_WITH_LLVM
      "llvm",
#endif
#ifdef LLMC_WITH_ONEDNN
      "onednn",
#endif
#if defined(LLMC_WITH_LLVM) && defined(LLMC_WITH_ONEDNN)
      "auto",
#endif
  };
  return names;
}

std::string DefaultBackend() {
  const std::vector<std::string>& names = BackendNames();
  for (const char* name : {"llvm", "onednn"})
    if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  return "reference";
}

void CheckBackend(std::string_view name) {
  const std::vector<std::string>& names = BackendNames();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string lacks;
#ifndef LLMC_WITH_LLVM
  if (name == "llvm" || name == "auto") lacks = "LLVM (Debian's llvm-19-dev, clang-19, liblld-19-dev)";
#endif
#ifndef LLMC_WITH_ONEDNN
  if (name == "onednn" || name == "auto")
    lacks += (lacks.empty() ? "" : " and ") + std::string("oneDNN (Debian's libdnnl-dev)");
#endif
  if (!lacks.empty()) {
    throw UsageError(fmt::format("backend {} is not in this build of llmc, which was made without {}; there is {}",
                                 name, lacks, fmt::join(names, ", ")));
  }
  throw UsageError(fmt::format("no backend is called \"{}\"; there is {}", name, fmt::join(names, ", ")));
}

std::vector<std::string> TargetsHere() {
  std::vector<std::string> names;
#ifdef LLMC_WITH_LLVM
  for (const Target& target : AllTargets())
    if (MissingCpuFeatures(target.features).empty()) names.push_back(target.name);
#endif
  return names;
}

std::string BackendBuildId() {
  std::string id = "llmc " LLMC_VERSION;
#ifdef LLMC_WITH_LLVM
  id += ", LLVM " + LlvmVersion();
  for (const Target& target : AllTargets()) {
    const std::string_view kernels = KernelBitcode(target);
    id += fmt::format(", kernels {} {:016x}", target.name, Xxh3Of(kernels.data(), kernels.size()));
  }
#endif
  return id;
}

}  // namespace llmc
