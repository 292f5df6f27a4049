// What this CPU can do: CPUID and, for registers that the operating system must save, XGETBV.
#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/plan.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace llmc {
namespace {

#if defined(__x86_64__)

enum class Register : uint8_t { Eax, Ebx, Ecx, Edx };
// Which register state the operating system must save for the feature to be usable: XCR0's bits.
constexpr uint64_t kNone = 0, kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;

struct Bit {
  const char* name;  // as in /proc/cpuinfo
  uint32_t leaf, subleaf;
  Register reg;
  uint32_t bit;
  uint64_t state;
};

constexpr Bit kBits[] = {
    {"sse3", 1, 0, Register::Ecx, 0, kNone},
    {"pni", 1, 0, Register::Ecx, 0, kNone},
    {"pclmulqdq", 1, 0, Register::Ecx, 1, kNone},
    {"ssse3", 1, 0, Register::Ecx, 9, kNone},
    {"fma", 1, 0, Register::Ecx, 12, kYmm},
    {"cx16", 1, 0, Register::Ecx, 13, kNone},
    {"sse4_1", 1, 0, Register::Ecx, 19, kNone},
    {"sse4_2", 1, 0, Register::Ecx, 20, kNone},
    {"movbe", 1, 0, Register::Ecx, 22, kNone},
    {"popcnt", 1, 0, Register::Ecx, 23, kNone},
    {"xsave", 1, 0, Register::Ecx, 26, kNone},
    {"avx", 1, 0, Register::Ecx, 28, kYmm},
    {"f16c", 1, 0, Register::Ecx, 29, kYmm},
    {"bmi1", 7, 0, Register::Ebx, 3, kNone},
    {"avx2", 7, 0, Register::Ebx, 5, kYmm},
    {"bmi2", 7, 0, Register::Ebx, 8, kNone},
    {"avx512f", 7, 0, Register::Ebx, 16, kZmm},
    {"avx512dq", 7, 0, Register::Ebx, 17, kZmm},
    {"avx512ifma", 7, 0, Register::Ebx, 21, kZmm},
    {"avx512cd", 7, 0, Register::Ebx, 28, kZmm},
    {"avx512bw", 7, 0, Register::Ebx, 30, kZmm},
    {"avx512vl", 7, 0, Register::Ebx, 31, kZmm},
    {"avx512vbmi", 7, 0, Register::Ecx, 1, kZmm},
    {"avx512_vbmi2", 7, 0, Register::Ecx, 6, kZmm},
    {"gfni", 7, 0, Register::Ecx, 8, kNone},
    {"avx512_vnni", 7, 0, Register::Ecx, 11, kZmm},
    {"avx512_bitalg", 7, 0, Register::Ecx, 12, kZmm},
    {"avx512_vpopcntdq", 7, 0, Register::Ecx, 14, kZmm},
    {"amx_bf16", 7, 0, Register::Edx, 22, kTiles},
    {"avx512_fp16", 7, 0, Register::Edx, 23, kZmm},
    {"amx_tile", 7, 0, Register::Edx, 24, kTiles},
    {"amx_int8", 7, 0, Register::Edx, 25, kTiles},
    {"avx_vnni", 7, 1, Register::Eax, 4, kYmm},
    {"avx512_bf16", 7, 1, Register::Eax, 5, kZmm},
    {"lahf_lm", 0x80000001, 0, Register::Ecx, 0, kNone},
    {"abm", 0x80000001, 0, Register::Ecx, 5, kNone},
    {"lzcnt", 0x80000001, 0, Register::Ecx, 5, kNone},
};

uint64_t SavedState() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & (1u << 27)) == 0) return 0;  // OSXSAVE
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool Has(const Bit& bit) {
  uint32_t regs[4] = {};
  if (__get_cpuid_count(bit.leaf, bit.subleaf, &regs[0], &regs[1], &regs[2], &regs[3]) == 0) return false;
  if ((regs[static_cast<int>(bit.reg)] & (1u << bit.bit)) == 0) return false;
  return (SavedState() & bit.state) == bit.state;
}

bool HasFeature(const std::string& name) {
  return std::any_of(std::begin(kBits), std::end(kBits), [&](const Bit& bit) { return name == bit.name && Has(bit); });
}

#else

bool HasFeature(const std::string&) { return false; }

#endif

}  // namespace

std::vector<std::string> MissingCpuFeatures(std::span<const std::string> features) {
  std::vector<std::string> missing;
  for (const std::string& feature : features) {
    if (!HasFeature(feature)) missing.push_back(feature);
  }
  return missing;
}

std::string CpuName() {
#if defined(__x86_64__)
  char brand[49] = {};
  for (uint32_t leaf = 0; leaf < 3; ++leaf) {
    uint32_t regs[4] = {};
    if (__get_cpuid(0x80000002 + leaf, &regs[0], &regs[1], &regs[2], &regs[3]) == 0) return "unknown";
    std::memcpy(brand + 16 * leaf, regs, 16);
  }
  const std::string name(brand);
  const size_t first = name.find_first_not_of(' ');
  if (first != std::string::npos) return name.substr(first, name.find_last_not_of(' ') - first + 1);
#endif
  return "unknown";
}

}  // namespace llmc
