// The safetensors reader. The header's JSON is bounded by JsonLimits, everything else by comparison with the file's
// size.
#include "frontend/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>

#include "frontend/json.h"
#include "frontend/mxfp4_pairs.h"

namespace llmc {
namespace {

// Room for 37,000 tensors in one file, 250,000 in an index; the nodes of either stay below 12 MiB.
constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;
constexpr JsonLimits kHeaderLimits{kMaxHeaderBytes, uint64_t{1} << 18, 4};
constexpr JsonLimits kIndexLimits{uint64_t{32} << 20, uint64_t{1} << 18, 8};
constexpr uint64_t kMinHeader = 2;  // "{}"

constexpr std::array<std::string_view, 11> kUnsupportedTypes = {"F64", "I64", "I32",  "I16",     "I8",     "U64",
                                                                "U32", "U16", "BOOL", "F8_E4M3", "F8_E5M2"};
// Bytes, whose meaning their names say.
constexpr std::string_view kBytesType = "U8";

std::optional<DType> SupportedType(std::string_view text) {
  if (text == "F32") return DType::F32;
  if (text == "F16") return DType::F16;
  if (text == "BF16") return DType::BF16;
  return std::nullopt;
}

DType ReadType(const Json& value, const std::string& name) {
  std::string_view text = value.AsString();
  if (auto dtype = SupportedType(text)) return *dtype;
  bool known = std::find(kUnsupportedTypes.begin(), kUnsupportedTypes.end(), text) != kUnsupportedTypes.end();
  Fail(known ? DiagKind::Unsupported : DiagKind::BadFormat, value.place(),
       fmt::format("safetensors: tensor {}: type {} is {}; F32, F16 and BF16 are supported", JsonQuote(name),
                   JsonQuote(text), known ? "not supported" : "unknown"));
}

uint64_t ReadCount(const Json& value, std::string_view what) {
  if (!value.is(JsonKind::Int) || value.AsInt() < 0) {
    Fail(DiagKind::BadFormat, value.place(),
         fmt::format("safetensors: {} is {}, must be an integer from 0 to 2^63 - 1", what,
                     value.source().substr(0, 40)));
  }
  return static_cast<uint64_t>(value.AsInt());
}

Json Required(const Json& object, std::string_view key, const std::string& name) {
  Json v = object.Find(key);
  if (!v)
    Fail(DiagKind::BadFormat, object.place(),
         fmt::format("safetensors: tensor {} has no \"{}\"", JsonQuote(name), key));
  return v;
}

TensorInfo ReadTensor(std::string_view name, const Json& entry, uint64_t data_bytes) {
  TensorInfo t;
  t.name = name;
  const Json type = Required(entry, "dtype", t.name);
  t.bytes_only = type.AsString() == kBytesType;
  if (!t.bytes_only) t.dtype = ReadType(type, t.name);
  for (const Json& d : Required(entry, "shape", t.name).items())
    t.dims.push_back(static_cast<int64_t>(ReadCount(d, "a dim")));
  Json offsets = Required(entry, "data_offsets", t.name);
  if (offsets.size() != 2) Fail(DiagKind::BadFormat, offsets.place(), "safetensors: data_offsets must be two numbers");
  uint64_t begin = ReadCount(offsets.items()[0], "an offset");
  uint64_t end = ReadCount(offsets.items()[1], "an offset");
  if (begin > end || end > data_bytes) {
    Fail(DiagKind::BadFormat, offsets.place(),
         fmt::format("safetensors: tensor {} at [{}, {}) of {} bytes of data (truncated?)", JsonQuote(name), begin, end,
                     data_bytes));
  }
  const DTypeInfo& info = InfoOf(t.dtype);
  if (!TensorBytes(1, t.bytes_only ? 1 : info.block_bytes, t.dims, &t.bytes)) {
    Fail(DiagKind::BadFormat, entry.place(),
         fmt::format("safetensors: tensor {}: the size of {} overflows", JsonQuote(name), ShapeText(t.dims)));
  }
  if (t.bytes != end - begin) {
    Fail(DiagKind::BadFormat, offsets.place(),
         fmt::format("safetensors: tensor {}: {} of {} takes {} bytes, data_offsets give {}", JsonQuote(name),
                     ShapeText(t.dims), type.AsString(), t.bytes, end - begin));
  }
  t.offset = begin;
  return t;
}

// Texts by name, as the format's own reader wants them; nothing is done with them.
void CheckMetadata(const Json& metadata) {
  if (metadata.is(JsonKind::Null)) return;
  for (const auto& [key, value] : metadata.members()) {
    if (!value.is(JsonKind::String))
      Fail(DiagKind::BadFormat, value.place(),
           fmt::format("safetensors: the metadata {} is {}, must be text", JsonQuote(key), JsonKindText(value.kind())));
  }
}

// Ranges sorted by their begin must follow one another without a hole from 0 to the end of the data.
void CheckCover(std::vector<TensorInfo>& tensors, uint64_t data_bytes, const std::string& file) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  uint64_t next = 0;
  for (const TensorInfo& t : tensors) {
    if (t.offset != next) {
      Fail(DiagKind::BadFormat, {file, "tensor " + t.name},
           fmt::format("safetensors: starts at byte {} of the data, the tensor before ends at {} ({})", t.offset, next,
                       t.offset < next ? "overlap" : "hole"));
    }
    next += t.bytes;
  }
  if (next != data_bytes) {
    Fail(DiagKind::BadFormat, {file, ""},
         fmt::format("safetensors: the tensors end at byte {} of the data, the file has {}", next, data_bytes));
  }
}

std::string FileNameIn(const Json& value) {
  std::string name(value.AsString());
  if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos || name == "." ||
      name == "..") {
    Fail(DiagKind::BadValue, value.place(),
         fmt::format("safetensors index: {} is not a file name in the same folder", JsonQuote(name)));
  }
  return name;
}

TensorSet OpenIndex(const std::string& path) {
  Json root = ParseJson(ReadTextFile(path, kIndexLimits.max_bytes), path, kIndexLimits);
  Json map = root.is(JsonKind::Object) ? root.Find("weight_map") : Json();
  if (!map) Fail(DiagKind::MissingKey, {path, ""}, "safetensors index: no \"weight_map\"");
  std::map<std::string, std::vector<std::pair<std::string_view, Json>>> by_file;
  for (const auto& [tensor, file] : map.members()) by_file[FileNameIn(file)].emplace_back(tensor, file);

  TensorSet set;
  for (const auto& [name, wanted] : by_file) {
    std::string file_path = JoinPath(DirOf(path), name);
    if (!IsPresent(file_path)) {
      Fail(DiagKind::FileError, wanted.front().second.place(),
           fmt::format("safetensors index: the file {} that it names does not exist", file_path));
    }
    auto file = std::make_shared<const MappedFile>(file_path);
    set.Add(file, ParseSafetensors(file->bytes(), file_path));
    for (const auto& [tensor, value] : wanted) {
      const TensorInfo* t = set.Find(tensor);
      if (t == nullptr || set.files[t->file]->path() != file_path) {
        Fail(DiagKind::MissingTensor, value.place(),
             fmt::format("safetensors index: tensor {} is not in {}", JsonQuote(tensor), file_path));
      }
    }
  }
  std::unordered_set<std::string_view> named;
  for (const auto& [tensor, file] : map.members()) named.insert(tensor);
  for (const auto& [name, t] : set.tensors) {
    if (!named.contains(name))
      Fail(DiagKind::UnusedTensor, set.PlaceOf(t), fmt::format("the index {} does not name this tensor", path));
  }
  PairMxfp4(set);
  return set;
}

}  // namespace

std::vector<TensorInfo> ParseSafetensors(std::span<const std::byte> bytes, const std::string& file) {
  uint64_t n = 0;
  if (bytes.size() < sizeof(n))
    Fail(DiagKind::BadFormat, {file, "byte 0"},
         fmt::format("safetensors: {} bytes, the header's length alone takes 8", bytes.size()));
  std::memcpy(&n, bytes.data(), sizeof(n));
  uint64_t rest = bytes.size() - sizeof(n);
  if (n > rest || n < kMinHeader) {
    Fail(DiagKind::BadFormat, {file, "byte 0"},
         fmt::format("safetensors: the header has {} bytes, {} are left in the file", n, rest));
  }
  if (n > kMaxHeaderBytes)
    Fail(DiagKind::TooLarge, {file, "byte 0"},
         fmt::format("safetensors: the header has {} bytes; at most {}", n, kMaxHeaderBytes));
  std::string text(reinterpret_cast<const char*>(bytes.data()) + sizeof(n), n);
  // To the JSON reader a NUL is the end of the text.
  if (const size_t nul = text.find('\0'); nul != std::string::npos)
    Fail(DiagKind::BadFormat, {file, fmt::format("byte {}", sizeof(n) + nul)}, "safetensors: a NUL byte in the header");
  // Places in the header count lines and columns from its own first byte.
  Json root = ParseJson(std::move(text), file, kHeaderLimits);
  uint64_t data_bytes = rest - n;
  std::vector<TensorInfo> tensors;
  for (const auto& [name, entry] : root.members()) {
    if (name == "__metadata__") {
      CheckMetadata(entry);
    } else {
      tensors.push_back(ReadTensor(name, entry, data_bytes));
    }
  }
  CheckCover(tensors, data_bytes, file);
  for (TensorInfo& t : tensors) t.offset += sizeof(n) + n;
  return tensors;
}

TensorSet OpenSafetensors(const std::string& path) {
  if (path.ends_with(".index.json")) return OpenIndex(path);
  TensorSet set;
  auto file = std::make_shared<const MappedFile>(path);
  set.Add(file, ParseSafetensors(file->bytes(), path));
  PairMxfp4(set);
  return set;
}

std::string FindSafetensors(const std::string& dir) {
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"}) {
    std::string path = JoinPath(dir, name);
    if (IsPresent(path)) return path;
  }
  return "";
}

}  // namespace llmc
