// Tables and text of element types, layouts, dims, types and names; storage sizes.
#include "ir/type.h"

#include <array>
#include <limits>

#include "ir/diag.h"
#include "ir/layout.h"
#include "ir/round_up.h"

namespace llmc {
namespace {

constexpr DType kDTypes[] = {
#define DTYPE(name, number, text, gguf, block, bytes, cls) DType::name,
#include "ir/dtypes.def"
#undef DTYPE
};
constexpr std::string_view kLayouts[] = {"rows", "tiles16", "keys16", "heads"};

int64_t Multiply(int64_t a, int64_t b) {
  LLMC_CHECK(a >= 0 && b >= 0 && (a == 0 || b <= std::numeric_limits<int64_t>::max() / a), "size overflows 64 bits");
  return a * b;
}

int64_t Constant(const Dim& dim) {
  LLMC_CHECK(!dim.is_symbol(), "dim " + dim.symbol + " is not a constant");
  return dim.value;
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsBase(std::string_view text) {
  if (text.empty() || !IsLetter(text[0])) return false;
  for (char c : text) {
    if (!IsLetter(c) && !IsDigit(c)) return false;
  }
  return true;
}

// Up to nine digits without leading zeros: what ToText prints, nothing else, so that a name has one spelling.
std::optional<int> Number(std::string_view text) {
  if (text.empty() || text.size() > 9 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  int value = 0;
  for (char c : text) {
    if (!IsDigit(c)) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

const DTypeInfo& InfoOf(DType dtype) {
  switch (dtype) {  // refuses, when it is compiled, a number that two types have
#define DTYPE(name, number, text, gguf, block, bytes, cls)                          \
  case DType::name: {                                                               \
    static constexpr DTypeInfo kInfo = {text, gguf, block, bytes, DTypeClass::cls}; \
    return kInfo;                                                                   \
  }
#include "ir/dtypes.def"
#undef DTYPE
  }
  LLMC_CHECK(false, "element type " + std::to_string(static_cast<int>(dtype)));
}

std::optional<DType> DTypeFromText(std::string_view text) {
  for (DType dtype : kDTypes) {
    if (InfoOf(dtype).text == text) return dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeFromGguf(uint32_t id) {
  for (DType dtype : kDTypes) {
    const int gguf_id = InfoOf(dtype).gguf_id;
    if (gguf_id >= 0 && static_cast<uint32_t>(gguf_id) == id) return dtype;
  }
  return std::nullopt;
}

std::string_view LayoutText(Layout layout) { return kLayouts[static_cast<size_t>(layout)]; }

std::optional<Layout> LayoutFromText(std::string_view text) {
  for (size_t i = 0; i < std::size(kLayouts); ++i) {
    if (kLayouts[i] == text) return static_cast<Layout>(i);
  }
  return std::nullopt;
}

std::string ToText(const Dim& dim) { return dim.is_symbol() ? dim.symbol : std::to_string(dim.value); }

std::string ToText(const Type& type) {
  std::string text(InfoOf(type.dtype).text);
  text += '[';
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += ToText(type.dims[i]);
  }
  text += ']';
  if (type.layout != Layout::Rows) {
    text += ' ';
    text += LayoutText(type.layout);
  }
  return text;
}

int64_t ElementCount(const Type& type) {
  int64_t count = 1;
  for (const Dim& dim : type.dims) count = Multiply(count, Constant(dim));
  return count;
}

int64_t RowBytes(DType dtype, int64_t elements) {
  const DTypeInfo& info = InfoOf(dtype);
  LLMC_CHECK(elements >= 0 && elements % info.block == 0,
             "a row of " + std::to_string(elements) + " elements is not whole blocks of " + std::string(info.text));
  return Multiply(elements / info.block, info.block_bytes);
}

int64_t ByteSize(const Type& type) {
  const DTypeInfo& info = InfoOf(type.dtype);
  std::vector<Dim> dims = type.dims;
  if (dims.empty()) return info.block_bytes;
  if (type.layout == Layout::Keys16) dims[0].value = RoundUp(Constant(dims[0]), 16);
  int64_t bytes = 0;
  if (type.layout == Layout::Tiles16 && dims.size() > 1) {
    bytes = Multiply((Constant(dims[0]) + kTileRows - 1) / kTileRows, TileBytes(type.dtype, Constant(dims.back())));
    dims[0].value = 1;
  } else {
    bytes = RowBytes(type.dtype, Constant(dims.back()));
  }
  for (size_t i = 0; i + 1 < dims.size(); ++i) bytes = Multiply(bytes, Constant(dims[i]));
  return bytes;
}

std::string ToText(const Name& name) {
  std::string text;
  if (name.layer >= 0) text = "b" + std::to_string(name.layer) + ".";
  text += name.base;
  if (name.suffix > 0) text += "." + std::to_string(name.suffix);
  return text;
}

std::optional<Name> NameFromText(std::string_view text) {
  // At most three parts: [b<layer>.] base [.suffix]. A base starts with a letter, a suffix with a digit, so no two
  // readings exist.
  std::array<std::string_view, 3> parts;
  size_t n = 0;
  for (;;) {
    if (n == parts.size()) return std::nullopt;
    const size_t dot = text.find('.');
    parts[n++] = text.substr(0, dot);
    if (dot == std::string_view::npos) break;
    text.remove_prefix(dot + 1);
  }
  Name name;
  size_t i = 0;
  if (n > 1 && IsBase(parts[1])) {
    if (parts[0].size() < 2 || parts[0][0] != 'b') return std::nullopt;
    const std::optional<int> layer = Number(parts[0].substr(1));
    if (!layer) return std::nullopt;
    name.layer = *layer;
    i = 1;
  }
  if (!IsBase(parts[i])) return std::nullopt;
  name.base = parts[i++];
  if (i < n) {
    const std::optional<int> suffix = Number(parts[i++]);
    if (!suffix || *suffix == 0) return std::nullopt;
    name.suffix = *suffix;
  }
  if (i != n) return std::nullopt;
  return name;
}

}  // namespace llmc
