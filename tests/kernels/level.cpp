// Which of the two builds of a level's kernels this CPU can run.
#include <sstream>

#include "runtime/plan.h"
#include "tests/kernels/table.h"

std::vector<const KernelEntry*> RunnableKernels() {
  std::vector<std::string> needs;
  std::istringstream in(LLMC_LEVEL_NEEDS);
  for (std::string feature; std::getline(in, feature, ',');) needs.push_back(feature);
  if (!llmc::MissingCpuFeatures(needs).empty()) return {EmulatedKernels()};
  return {NativeKernels(), EmulatedKernels()};
}
