// Types of the IR: element types (ir/dtypes.def), symbolic dims, layouts, tensor types, and names.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// The values are the numbers that plans store: no order, no range of them means anything (InfoOf(d).cls does).
enum class DType : uint8_t {
#define DTYPE(name, number, text, gguf, block, bytes, cls) name = number,
#include "ir/dtypes.def"
#undef DTYPE
};
enum class DTypeClass : uint8_t { FLOAT, INT, BLOCK, ACT };

struct DTypeInfo {
  std::string_view text;
  int gguf_id;      // -1: not a GGUF type
  int block;        // elements per block
  int block_bytes;  // bytes per block, in rows layout
  DTypeClass cls;
};
const DTypeInfo& InfoOf(DType dtype);
std::optional<DType> DTypeFromText(std::string_view text);
std::optional<DType> DTypeFromGguf(uint32_t id);  // nullopt: unknown, or known and not supported

// A constant, or a symbol that the module declares with a range (`dim S = 1..4096`).
struct Dim {
  int64_t value = 0;   // when symbol is empty
  std::string symbol;  // e.g. "S"
  Dim() = default;
  Dim(int64_t v) : value(v) {}
  explicit Dim(std::string s) : symbol(std::move(s)) {}
  bool is_symbol() const { return !symbol.empty(); }
  bool operator==(const Dim&) const = default;
};

// Layouts are part of a type and depend on the element type alone, never on the ISA (ir/layout.h has the byte formats).
//   rows     row-major; block types: blocks of one row consecutively
//   tiles16  weights [N, K]: tiles of 16 rows
//   keys16   key cache [slots, heads, d]: [head][slot / 16][d][16 slots]
//   heads    value cache [slots, heads, d]: [head][slot][d]
enum class Layout : uint8_t { Rows, Tiles16, Keys16, Heads };
std::string_view LayoutText(Layout layout);
std::optional<Layout> LayoutFromText(std::string_view text);

struct Type {
  DType dtype = DType::F32;
  std::vector<Dim> dims;
  Layout layout = Layout::Rows;
  int state = -1;  // >= 0: the value is that state (index into Module::globals); printed as the state's name
  bool operator==(const Type&) const = default;
};
std::string ToText(const Dim& dim);
std::string ToText(const Type& type);  // without the state's name: "q4_1[3072, 2048] tiles16"

// Product of constant dims; LLMC_CHECKs that none is a symbol and nothing overflows.
int64_t ElementCount(const Type& type);
// Storage in bytes incl. the layout's padding (tiles16: rows up to 16, keys16: slots up to 16). Constant dims only.
int64_t ByteSize(const Type& type);
// Bytes of one row (the innermost dim) in rows layout.
int64_t RowBytes(DType dtype, int64_t elements);

// `b3.wq.1` is {layer 3, base "wq", suffix 1}; `tokens` is {-1, "tokens", 0}. A base is [A-Za-z_][A-Za-z0-9_]*.
struct Name {
  int layer = -1;
  std::string base;
  int suffix = 0;
  Name() = default;
  Name(std::string b) : base(std::move(b)) {}
  Name(int l, std::string b, int s = 0) : layer(l), base(std::move(b)), suffix(s) {}
  auto operator<=>(const Name&) const = default;
  bool operator==(const Name&) const = default;
};
std::string ToText(const Name& name);
std::optional<Name> NameFromText(std::string_view text);

}  // namespace llmc
