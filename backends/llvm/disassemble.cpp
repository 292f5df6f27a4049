// Machine code as text, by LLVM's disassembler through its C interface.
#include <array>
#include <cstring>

#include <fmt/format.h>
#include <llvm-c/Disassembler.h>

#include "backends/llvm/codegen.h"
#include "ir/diag.h"

namespace llmc {
namespace {

using Names = std::map<uint64_t, std::string>;  // by where a symbol begins

// Branches alone: any other number that happens to be an offset is a number.
const char* NameOf(void* names, uint64_t value, uint64_t* type, uint64_t /*pc*/, const char** reference_name) {
  *reference_name = nullptr;
  const bool branch = *type == LLVMDisassembler_ReferenceType_In_Branch;
  *type = LLVMDisassembler_ReferenceType_InOut_None;
  if (!branch) return nullptr;
  const auto& known = *static_cast<const Names*>(names);
  const auto found = known.find(value);
  return found == known.end() ? nullptr : found->second.c_str();
}

}  // namespace

std::string DisassembleX86(std::string_view code, uint64_t begin, uint64_t size,
                           const std::map<std::string, std::pair<uint64_t, uint64_t>>& symbols) {
  LLMC_CHECK(begin <= code.size() && size <= code.size() - begin, "disassembly outside the code");
  StartLlvm();
  Names names;
  for (const auto& [name, place] : symbols) names.emplace(place.first, name);
  LLVMDisasmContextRef disassembler =
      LLVMCreateDisasm("x86_64-pc-linux-gnu", &names, LLVMDisassembler_ReferenceType_InOut_None, nullptr, NameOf);
  LLMC_CHECK(disassembler != nullptr, "LLVM has no disassembler for x86-64");
  LLVMSetDisasmOptions(disassembler, LLVMDisassembler_Option_AsmPrinterVariant | LLVMDisassembler_Option_PrintImmHex);
  std::string bytes(code);  // the interface takes no const
  auto* data = reinterpret_cast<uint8_t*>(bytes.data());
  std::string text;
  std::array<char, 256> line{};
  for (uint64_t at = begin; at < begin + size;) {
    const size_t taken =
        LLVMDisasmInstruction(disassembler, data + at, begin + size - at, at, line.data(), line.size());
    std::string instruction = taken == 0 ? fmt::format("\t.byte\t0x{:02x}", data[at]) : line.data();
    for (size_t tab; (tab = instruction.find('\t', 1)) != std::string::npos;) instruction[tab] = ' ';
    text += fmt::format("{:x}{}\n", at, instruction.starts_with('\t') ? instruction : "\t" + instruction);
    at += taken == 0 ? 1 : taken;
  }
  LLVMDisasmDispose(disassembler);
  return text;
}

}  // namespace llmc
