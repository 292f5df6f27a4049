// Forms of a plan's code for people who look at it or link it, and how it is read back.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace llmc {

// Assembly and LlvmIr are of one module, in LLVM's spelling.
enum class CodeForm { Object, SharedObject, Assembly, LlvmIr };

// Code of a plan's target as text (DisassembleX86, backends/llvm/object.h): nothing is executed, the code may be of any
// x86-64. Throws UsageError in a build without LLVM.
std::string Disassemble(std::string_view code, uint64_t begin, uint64_t size,
                        const std::map<std::string, std::pair<uint64_t, uint64_t>>& symbols);

}  // namespace llmc
