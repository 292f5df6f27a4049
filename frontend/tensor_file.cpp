// The table of tensors that all weight formats fill.
#include "frontend/tensor_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace llmc {

const TensorInfo* TensorSet::Find(std::string_view name) const {
  auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

Place TensorSet::PlaceOf(const TensorInfo& tensor) const {
  return {files[tensor.file]->path(), "tensor " + tensor.name};
}

void TensorSet::Add(std::shared_ptr<const MappedFile> file, std::vector<TensorInfo> list) {
  auto index = static_cast<uint32_t>(files.size());
  files.push_back(std::move(file));
  for (TensorInfo& t : list) {
    t.file = index;
    std::string name = t.name;
    auto [it, fresh] = tensors.emplace(std::move(name), std::move(t));
    if (!fresh) {
      Fail(DiagKind::DuplicateName, {files[index]->path(), "tensor " + it->first},
           fmt::format("the tensor stands in {} too", files[it->second.file]->path()));
    }
  }
}

std::string ShapeText(const std::vector<int64_t>& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

bool TensorBytes(DType dtype, const std::vector<int64_t>& dims, uint64_t* bytes) {
  return TensorBytes(InfoOf(dtype).block, InfoOf(dtype).block_bytes, dims, bytes);
}

bool TensorBytes(int64_t block, int64_t block_bytes, const std::vector<int64_t>& dims, uint64_t* bytes) {
  int64_t inner = dims.empty() ? 1 : dims.back();
  if (inner < 0 || inner % block != 0) return false;
  int64_t total = 0;
  if (__builtin_mul_overflow(inner / block, block_bytes, &total)) return false;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (dims[i] < 0 || __builtin_mul_overflow(total, dims[i], &total)) return false;
  }
  // An inner zero must not hide an overflow of the outer dims: [2^32, 2^32, 0] is refused like [2^32, 2^32].
  int64_t count = 1;
  for (int64_t d : dims) {
    if (d != 0 && __builtin_mul_overflow(count, d, &count)) return false;
  }
  *bytes = static_cast<uint64_t>(total);
  return true;
}

}  // namespace llmc
