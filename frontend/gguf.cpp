// The GGUF reader: one cursor over the mapped bytes; every count and length is compared with the bytes that remain
// before it is used.
#include "frontend/gguf.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "frontend/json.h"

namespace llmc {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF" read as a little-endian u32
constexpr size_t kMaxTensorName = 63;    // the format's 64 bytes hold a terminator
constexpr size_t kMaxKey = 65535;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMaxRecords = 65536;  // keys, and tensors: far above any model, and small in memory
// Smallest records: key = length, one byte, type, one byte of value; tensor = length, one byte, n_dims, one dim, type,
// offset.
constexpr uint64_t kMinKeyRecord = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorRecord = 8 + 1 + 4 + 8 + 4 + 8;

struct ScalarType {
  std::string_view text;
  uint64_t bytes;  // 0: of variable length
};
constexpr std::array<ScalarType, 13> kTypes = {{{"u8", 1},
                                                {"i8", 1},
                                                {"u16", 2},
                                                {"i16", 2},
                                                {"u32", 4},
                                                {"i32", 4},
                                                {"f32", 4},
                                                {"bool", 1},
                                                {"string", 0},
                                                {"array", 0},
                                                {"u64", 8},
                                                {"i64", 8},
                                                {"f64", 8}}};

// Tensor types that the format knows and llmc does not read, for messages.
constexpr std::array<std::pair<uint32_t, std::string_view>, 13> kUnsupportedTypes = {{{9, "Q8_1"},
                                                                                      {15, "Q8_K"},
                                                                                      {16, "IQ2_XXS"},
                                                                                      {17, "IQ2_XS"},
                                                                                      {18, "IQ3_XXS"},
                                                                                      {19, "IQ1_S"},
                                                                                      {21, "IQ3_S"},
                                                                                      {22, "IQ2_S"},
                                                                                      {24, "I8"},
                                                                                      {25, "I16"},
                                                                                      {27, "I64"},
                                                                                      {28, "F64"},
                                                                                      {29, "IQ1_M"}}};

template <class T>
T Load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  uint64_t at() const { return at_; }
  uint64_t remaining() const { return bytes_.size() - at_; }
  Place Here() const { return {file_, fmt::format("byte {}", at_)}; }
  [[noreturn]] void Bad(const std::string& message) const { Fail(DiagKind::BadFormat, Here(), "GGUF: " + message); }

  std::span<const std::byte> Take(uint64_t n, std::string_view what) {
    if (n > remaining()) Bad(fmt::format("{} needs {} bytes, {} are left", what, n, remaining()));
    auto out = bytes_.subspan(at_, n);
    at_ += n;
    return out;
  }
  template <class T>
  T Number(std::string_view what) {
    return Load<T>(Take(sizeof(T), what).data());
  }
  // A count of records of at least `least` bytes each.
  uint64_t Count(uint64_t least, std::string_view what) {
    uint64_t at_count = at_;
    auto n = Number<uint64_t>(what);
    if (n > remaining() / least) {
      at_ = at_count;
      Bad(fmt::format("{} is {}, but {} bytes are left and each takes at least {}", what, n, remaining() - 8, least));
    }
    return n;
  }
  std::string_view Text(std::string_view what) {
    uint64_t n = Count(1, fmt::format("length of {}", what));
    auto data = Take(n, what);
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
  uint64_t at_ = 0;
};

GgufType ReadType(Reader& in, std::string_view what) {
  auto id = in.Number<uint32_t>(what);
  if (id >= kTypes.size()) in.Bad(fmt::format("{} is {}, the largest is {}", what, id, kTypes.size() - 1));
  return static_cast<GgufType>(id);
}

void CheckBools(const Reader& in, std::span<const std::byte> data) {
  for (std::byte b : data) {
    if (std::to_integer<int>(b) > 1) in.Bad(fmt::format("a bool is {}", std::to_integer<int>(b)));
  }
}

GgufValue ReadValue(Reader& in) {
  GgufValue v;
  v.type = ReadType(in, "value type");
  v.offset = in.at();
  if (v.type == GgufType::String) {
    auto text = in.Text("a string");
    v.data = {reinterpret_cast<const std::byte*>(text.data()), text.size()};
    return v;
  }
  if (v.type != GgufType::Array) {
    v.data = in.Take(kTypes[static_cast<size_t>(v.type)].bytes, "a value");
    if (v.type == GgufType::Bool) CheckBools(in, v.data);
    return v;
  }
  v.element = ReadType(in, "array element type");
  if (v.element == GgufType::Array) in.Bad("an array of arrays");
  uint64_t element_bytes = kTypes[static_cast<size_t>(v.element)].bytes;
  v.count = in.Count(element_bytes == 0 ? 8 : element_bytes, "number of array elements");
  v.offset = in.at();
  if (v.element != GgufType::String) {
    v.data = in.Take(v.count * element_bytes, "an array");
    if (v.element == GgufType::Bool) CheckBools(in, v.data);
    return v;
  }
  const std::byte* begin = in.Take(0, "").data();
  for (uint64_t i = 0; i < v.count; ++i) in.Text("a string");
  v.data = {begin, static_cast<size_t>(in.at() - v.offset)};
  return v;
}

DType TensorType(const std::string& file, const std::string& name, uint32_t id) {
  if (auto dtype = DTypeFromGguf(id)) return *dtype;
  Place place{file, "tensor " + name};
  for (auto [known, text] : kUnsupportedTypes) {
    if (known == id)
      Fail(DiagKind::Unsupported, place, fmt::format("GGUF: tensor type {} ({}) is not supported", text, id));
  }
  Fail(DiagKind::BadFormat, place, fmt::format("GGUF: there is no tensor type {}", id));
}

TensorInfo ReadTensor(Reader& in, const std::string& file, std::unordered_set<std::string_view>& seen) {
  TensorInfo t;
  std::string_view name = in.Text("a tensor name");
  if (!seen.insert(name).second)
    Fail(DiagKind::DuplicateName, in.Here(), fmt::format("GGUF: tensor {} stands twice", JsonQuote(name)));
  if (name.empty() || name.size() > kMaxTensorName)
    in.Bad(fmt::format("a tensor name has {} bytes; 1 to {} are allowed", name.size(), kMaxTensorName));
  t.name = name;
  auto n_dims = in.Number<uint32_t>("number of dims");
  if (n_dims < 1 || n_dims > kMaxDims)
    in.Bad(fmt::format("tensor {} has {} dims; 1 to {} are allowed", JsonQuote(name), n_dims, kMaxDims));
  for (uint32_t i = 0; i < n_dims; ++i) {
    auto d = in.Number<int64_t>("a dim");
    if (d < 1) in.Bad(fmt::format("dim {} of tensor {} is {}", i, JsonQuote(name), d));
    t.dims.insert(t.dims.begin(), d);  // the file has the innermost first
  }
  t.dtype = TensorType(file, t.name, in.Number<uint32_t>("tensor type"));
  t.offset = in.Number<uint64_t>("tensor offset");
  if (!TensorBytes(t.dtype, t.dims, &t.bytes)) {
    const DTypeInfo& info = InfoOf(t.dtype);
    if (t.dims.back() % info.block != 0) {
      Fail(DiagKind::BadFormat, {file, "tensor " + t.name},
           fmt::format("GGUF: rows of {} elements are not whole blocks of {} ({})", t.dims.back(), info.block,
                       info.text));
    }
    Fail(DiagKind::BadFormat, {file, "tensor " + t.name},
         fmt::format("GGUF: the size of {} overflows", ShapeText(t.dims)));
  }
  return t;
}

uint64_t ReadAlignment(const GgufHeader& header, const std::string& file) {
  const GgufValue* v = header.Find("general.alignment");
  if (v == nullptr) return 32;
  Place place{file, "key general.alignment"};
  if (v->type != GgufType::U32)
    Fail(DiagKind::BadFormat, place, fmt::format("GGUF: must be u32, is {}", GgufTypeText(v->type)));
  auto alignment = Load<uint32_t>(v->data.data());
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    Fail(DiagKind::BadFormat, place, fmt::format("GGUF: must be a power of two, is {}", alignment));
  }
  return alignment;
}

void CheckStart(Reader& in, const std::string& file) {
  auto magic = in.Number<uint32_t>("the magic");
  if (magic != kMagic)
    Fail(DiagKind::BadFormat, {file, "byte 0"},
         fmt::format("GGUF: the magic is {:#010x}, must be {:#010x}", magic, kMagic));
}

uint32_t ReadVersion(Reader& in, const std::string& file) {
  auto version = in.Number<uint32_t>("the version");
  Place place{file, "byte 4"};
  if (version != 0 && (version & 0xffff) == 0) {
    Fail(DiagKind::BadFormat, place,
         fmt::format("GGUF: version {:#x}: the file has the other byte order (big-endian), which is not supported",
                     version));
  }
  if (version != 2 && version != 3)
    Fail(DiagKind::BadFormat, place, fmt::format("GGUF: version {}; 2 and 3 are supported", version));
  return version;
}

// The format leaves no freedom: the first tensor at 0, each next one at the end of the one before, rounded up.
void PlaceTensors(std::vector<TensorInfo>& tensors, uint64_t header_end, uint64_t alignment, uint64_t file_size,
                  const std::string& file) {
  auto round_up = [&](uint64_t v) { return (v + alignment - 1) & ~(alignment - 1); };  // v < 2^63, alignment < 2^32
  uint64_t start = round_up(header_end);
  uint64_t next = 0;
  for (TensorInfo& t : tensors) {
    Place place{file, "tensor " + t.name};
    if (t.offset != next) {
      Fail(DiagKind::BadFormat, place,
           fmt::format("GGUF: offset {}, must be {} (the end of the tensor before, aligned to {})", t.offset, next,
                       alignment));
    }
    uint64_t available = file_size > start ? file_size - start : 0;
    if (next > available || t.bytes > available - next) {
      Fail(DiagKind::BadFormat, place,
           fmt::format("GGUF: ends at byte {} of the data, the file has {} (truncated?)", next + t.bytes, available));
    }
    next = round_up(next + t.bytes);
    t.offset += start;
  }
  if (file_size > start && file_size - start > next) {
    Fail(DiagKind::BadFormat, {file, fmt::format("byte {}", start + next)},
         fmt::format("GGUF: {} bytes behind the last tensor", file_size - start - next));
  }
}

}  // namespace

std::string_view GgufTypeText(GgufType type) { return kTypes[static_cast<size_t>(type)].text; }

std::optional<int64_t> GgufValue::Int() const {
  switch (type) {
    case GgufType::U8: return Load<uint8_t>(data.data());
    case GgufType::I8: return Load<int8_t>(data.data());
    case GgufType::U16: return Load<uint16_t>(data.data());
    case GgufType::I16: return Load<int16_t>(data.data());
    case GgufType::U32: return Load<uint32_t>(data.data());
    case GgufType::I32: return Load<int32_t>(data.data());
    case GgufType::I64: return Load<int64_t>(data.data());
    case GgufType::U64: {
      auto v = Load<uint64_t>(data.data());
      if (v > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(v);
    }
    default: return std::nullopt;
  }
}
std::optional<double> GgufValue::Float() const {
  if (type == GgufType::F32) return Load<float>(data.data());
  if (type == GgufType::F64) return Load<double>(data.data());
  return std::nullopt;
}
std::optional<bool> GgufValue::Bool() const {
  if (type != GgufType::Bool) return std::nullopt;
  return data[0] != std::byte{0};
}
std::optional<std::string_view> GgufValue::String() const {
  if (type != GgufType::String) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(data.data()), data.size());
}
std::vector<std::string_view> GgufValue::Strings() const {
  std::vector<std::string_view> out;
  if (!IsArrayOf(GgufType::String)) return out;
  out.reserve(count);  // at most the file's bytes / 8: checked when it was read
  const std::byte* p = data.data();
  for (uint64_t i = 0; i < count; ++i) {
    auto n = Load<uint64_t>(p);
    out.emplace_back(reinterpret_cast<const char*>(p + 8), n);
    p += 8 + n;
  }
  return out;
}
std::vector<double> GgufValue::Floats() const {
  std::vector<double> out;
  for (uint64_t i = 0; IsArrayOf(GgufType::F32) && i < count; ++i)
    out.push_back(static_cast<double>(Load<float>(data.data() + i * sizeof(float))));
  for (uint64_t i = 0; IsArrayOf(GgufType::F64) && i < count; ++i)
    out.push_back(Load<double>(data.data() + i * sizeof(double)));
  return out;
}
std::vector<int64_t> GgufValue::Ints() const {
  std::vector<int64_t> out;
  if (type != GgufType::Array || element == GgufType::String) return out;
  uint64_t bytes = kTypes[static_cast<size_t>(element)].bytes;
  out.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    GgufValue v{element, {}, 1, data.subspan(i * bytes, bytes), 0};
    auto n = v.Int();
    if (!n) return {};
    out.push_back(*n);
  }
  return out;
}

const GgufValue* GgufHeader::Find(std::string_view key) const {
  auto it = std::find_if(keys.begin(), keys.end(), [&](const GgufKey& k) { return k.key == key; });
  return it == keys.end() ? nullptr : &it->value;
}

GgufHeader ParseGguf(std::span<const std::byte> bytes, const std::string& file) {
  Reader in(bytes, file);
  GgufHeader header;
  CheckStart(in, file);
  header.version = ReadVersion(in, file);
  uint64_t n_tensors = in.Count(kMinTensorRecord, "number of tensors");
  uint64_t n_keys = in.Count(kMinKeyRecord, "number of keys");
  if (n_tensors > kMaxRecords || n_keys > kMaxRecords) {
    Fail(DiagKind::TooLarge, {file, "byte 8"},
         fmt::format("GGUF: {} tensors and {} keys; at most {} of each", n_tensors, n_keys, kMaxRecords));
  }
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < n_keys; ++i) {
    std::string_view key = in.Text("a key");
    if (key.empty() || key.size() > kMaxKey)
      in.Bad(fmt::format("a key has {} bytes; 1 to {} are allowed", key.size(), kMaxKey));
    if (!seen.insert(key).second)
      Fail(DiagKind::DuplicateName, in.Here(), fmt::format("GGUF: key {} stands twice", JsonQuote(key)));
    header.keys.push_back({key, ReadValue(in)});
  }
  uint64_t alignment = ReadAlignment(header, file);
  seen.clear();
  for (uint64_t i = 0; i < n_tensors; ++i) {
    header.tensors.push_back(ReadTensor(in, file, seen));
  }
  PlaceTensors(header.tensors, in.at(), alignment, bytes.size(), file);
  return header;
}

}  // namespace llmc
