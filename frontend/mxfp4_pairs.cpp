// Codes and exponents of two tensors as blocks.
#include "frontend/mxfp4_pairs.h"

#include <utility>

#include <fmt/format.h>

namespace llmc {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";
constexpr int64_t kCodeBytes = 16, kCodes = 32;  // of a block

// The shape of what the two say; false: they don't fit.
bool Together(const TensorInfo& blocks, const TensorInfo& scales, std::vector<int64_t>* dims) {
  *dims = scales.dims;
  dims->push_back(kCodeBytes);
  if (scales.dims.empty() || blocks.dims != *dims) return false;
  dims->pop_back();
  uint64_t bytes = 0;  // beside a zero the other dims may be anything
  return !__builtin_mul_overflow(dims->back(), kCodes, &dims->back()) && TensorBytes(DType::MXFP4, *dims, &bytes);
}

}  // namespace

void PairMxfp4(TensorSet& set) {
  std::vector<std::string> paired;
  for (auto& [name, blocks] : set.tensors) {
    if (!blocks.bytes_only || !name.ends_with(kBlocks)) continue;
    const std::string other = name.substr(0, name.size() - kBlocks.size()) + std::string(kScales);
    const TensorInfo* scales = set.Find(other);
    if (scales == nullptr || !scales->bytes_only) continue;
    std::vector<int64_t> dims;
    if (!Together(blocks, *scales, &dims)) {
      Fail(DiagKind::ShapeMismatch, set.PlaceOf(blocks),
           fmt::format("{} and the exponents {} {} must be [.., n, {}] and [.., n]", ShapeText(blocks.dims), other,
                       ShapeText(scales->dims), kCodeBytes));
    }
    paired.push_back(other);
    blocks.scales = TensorInfo::Scales{scales->file, scales->offset};
    blocks.bytes_only = false;
    blocks.dtype = DType::MXFP4;
    blocks.dims = std::move(dims);
  }
  for (const std::string& name : paired) set.tensors.erase(name);
  for (const auto& [name, t] : set.tensors) {
    if (!t.bytes_only) continue;
    Fail(
        DiagKind::Unsupported, set.PlaceOf(t),
        "safetensors: type \"U8\" is supported for pairs NAME_blocks and NAME_scales of mxfp4 alone; else F32, F16 and "
        "BF16 are");
  }
}

// The two codes of a byte are neighbours there; here byte j has codes j and j + 16. The lower bits are the first.
void ReadMxfp4(const TensorSet& set, const TensorInfo& tensor, size_t begin, size_t n, std::byte* out) {
  const std::byte* codes = set.Data(tensor) + begin * kCodeBytes;
  const std::byte* scales = set.files[tensor.scales->file]->bytes().data() + tensor.scales->offset + begin;
  constexpr std::byte kLow{15};
  for (size_t i = 0; i < n; ++i, codes += kCodeBytes) {
    *out++ = scales[i];
    for (size_t j = 0; j < kCodeBytes; j += 2) {
      const std::byte low = codes[j / 2], high = codes[j / 2 + kCodeBytes / 2];
      *out++ = (low & kLow) | (high & kLow) << 4;
      *out++ = low >> 4 | (high & ~kLow);
    }
  }
}

}  // namespace llmc
