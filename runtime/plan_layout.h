// Header and section table as they lie in the file (runtime/README.md, "Header"). Internal to the plan layer.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan.h"

namespace llmc {

inline constexpr char kPlanMagic[8] = {'L', 'L', 'M', 'C', 'P', 'L', 'A', 'N'};

struct PlanHeader {
  char magic[8];
  uint16_t major, minor;
  uint32_t abi;
  uint64_t file_size;
  uint32_t sections;
  uint32_t zero;
  uint64_t xxh3;  // of header and table, with this field 0
  uint8_t reserved[24];
};
static_assert(sizeof(PlanHeader) == 64);

struct PlanTableEntry {
  uint32_t kind, index;
  uint64_t offset, size, xxh3;
  uint8_t sha256[32];
};
static_assert(sizeof(PlanTableEntry) == 64);

// Bounds of a plan's step lists together.
inline constexpr size_t kMaxSteps = 65536;
inline constexpr uint64_t kMaxStepBytes = 64u << 20;  // of payloads

// Header and table have the first page to themselves.
inline constexpr uint32_t kMaxSections = (kPage - sizeof(PlanHeader)) / sizeof(PlanTableEntry);

// The first page for these sections.
std::string EncodeHeader(uint16_t minor, uint32_t abi, uint64_t file_size, const std::vector<PlanSection>& sections);

// The last bytes of a program that holds a plan: where the plan lies in the file, at a multiple of a page (of a huge page
// if its weights are).
struct StandaloneTrailer {
  char magic[8];
  uint64_t offset, size;
  uint64_t zero;
};
static_assert(sizeof(StandaloneTrailer) == 32);
inline constexpr char kStandaloneMagic[8] = {'L', 'L', 'M', 'C', 'A', 'P', 'P', '1'};

// Where a plan lies in a file of `size` bytes: all of it, or what a trailer says; nullopt: nowhere.
struct PlanExtent {
  uint64_t offset, size;
};
std::optional<PlanExtent> FindPlan(int fd, uint64_t size);

inline uint64_t SectionAlignment(SectionKind kind, uint64_t size) {
  if (kind == SectionKind::Weights) return size >= kHugeWeights ? kHugePage : kPage;
  return kind == SectionKind::Code ? kPage : 64;
}

}  // namespace llmc
