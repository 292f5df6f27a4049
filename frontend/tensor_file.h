// Tensors of a model's weight files, whatever the format: a table of names, types, shapes and the mapped bytes of each.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/file.h"
#include "ir/diag.h"
#include "ir/type.h"

namespace llmc {

// One tensor as its file's header describes it; the range has been checked against the file.
struct TensorInfo {
  std::string name;
  DType dtype{};
  std::vector<int64_t> dims;  // outermost first
  uint64_t offset = 0;        // of the first byte, from the start of its file
  uint64_t bytes = 0;
  uint32_t file = 0;  // index into TensorSet::files
  // mxfp4 in two tensors (mxfp4_pairs.h): `offset` and `bytes` are those of the codes, these of the exponents.
  struct Scales {
    uint32_t file = 0;
    uint64_t offset = 0;
  };
  std::optional<Scales> scales;
  bool bytes_only = false;  // of plain bytes, with no dtype; a set that is open has no such tensor
};

// All tensors of a model, in one or more mapped files.
struct TensorSet {
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::map<std::string, TensorInfo, std::less<>> tensors;

  const TensorInfo* Find(std::string_view name) const;
  const std::byte* Data(const TensorInfo& tensor) const { return files[tensor.file]->bytes().data() + tensor.offset; }
  // {the file's path, "tensor NAME"}
  Place PlaceOf(const TensorInfo& tensor) const;
  // Adds the tensors of one more file; throws InputError DuplicateName when a name is there already.
  void Add(std::shared_ptr<const MappedFile> file, std::vector<TensorInfo> list);
};

// "[3, 4]"
std::string ShapeText(const std::vector<int64_t>& dims);

// Bytes of a tensor of these dims in rows layout, of blocks of so many elements and bytes. False when a dim is negative, a
// product overflows int64, or the innermost dim is not whole blocks.
bool TensorBytes(int64_t block, int64_t block_bytes, const std::vector<int64_t>& dims, uint64_t* bytes);
bool TensorBytes(DType dtype, const std::vector<int64_t>& dims, uint64_t* bytes);

}  // namespace llmc
