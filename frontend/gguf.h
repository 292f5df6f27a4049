// GGUF files, versions 2 and 3, little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata,
// and the table of tensors. Everything is a view into the mapped bytes: reading a header allocates one small record per
// key and tensor that really stands in the file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/tensor_file.h"

namespace llmc {

// Value types by their ids in the file.
enum class GgufType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };
std::string_view GgufTypeText(GgufType type);

// One metadata value. Accessors give nullopt when the value is of another type.
struct GgufValue {
  GgufType type{};
  GgufType element{};               // of an array
  uint64_t count = 1;               // elements of an array
  std::span<const std::byte> data;  // payload: of a string its bytes, of an array all its elements as stored
  uint64_t offset = 0;              // of the payload in the file, for messages

  std::optional<int64_t> Int() const;   // any integer type whose value fits int64
  std::optional<double> Float() const;  // f32, f64
  std::optional<bool> Bool() const;
  std::optional<std::string_view> String() const;
  bool IsArrayOf(GgufType t) const { return type == GgufType::Array && element == t; }
  // All elements of an array of strings, of integers or of floats of one type; empty when it is none.
  std::vector<std::string_view> Strings() const;
  std::vector<int64_t> Ints() const;
  std::vector<double> Floats() const;
};

struct GgufKey {
  std::string_view key;
  GgufValue value;
};

struct GgufHeader {
  uint32_t version = 0;
  std::vector<GgufKey> keys;  // in file order
  std::vector<TensorInfo> tensors;

  const GgufValue* Find(std::string_view key) const;
};

// Parses and checks a whole file: header, and that every tensor's bytes lie in it. Throws InputError BadFormat,
// DuplicateName or Unsupported with "byte N", "key K" or "tensor T" as place in `file`. The header's views live as long
// as `bytes`.
GgufHeader ParseGguf(std::span<const std::byte> bytes, const std::string& file);

// An opened model: the first file's header (with the keys) and the tensors of all splits NAME-00001-of-0000N.gguf
// beside it.
struct GgufModel {
  GgufHeader header;
  TensorSet tensors;
};
GgufModel OpenGguf(const std::string& path);

}  // namespace llmc
