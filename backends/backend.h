// What the rest of the compiler asks of a backend before there is a plan.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// "reference" (the interpreter; its plans carry no code); in a build with LLVM "llvm", the default; in a build with
// oneDNN "onednn"; in one with both "auto".
const std::vector<std::string>& BackendNames();
// llvm, else onednn, else reference: what the build has.
std::string DefaultBackend();
// Throws UsageError for a name that isn't one of them, saying what this build lacks.
void CheckBackend(std::string_view name);

// What a plan holds code for unless told otherwise: any CPU with AVX2, and what there is of VNNI on one.
inline constexpr const char* kDefaultTargets = "x86-64-v3,x86-64-v3-vnni,x86-64-v4-vnni";

// The targets whose code this CPU runs, smallest first; none in a build without LLVM.
std::vector<std::string> TargetsHere();

// Versions of llmc and LLVM, and a hash of the embedded kernels. The same build gives the same text on any machine.
std::string BackendBuildId();

}  // namespace llmc
