// Writers of tiny safetensors and GGUF files, byte by byte from the formats' definitions, so that tests can also write
// them wrong.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmc::test {

template <class T>
std::string Bytes(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

// Safetensors.
struct StTensor {
  std::string name;
  std::vector<int64_t> dims;
  std::string data;
  std::string dtype = "F32";
};
inline StTensor F32Tensor(std::string name, std::vector<int64_t> dims, const std::vector<float>& values) {
  StTensor t{std::move(name), std::move(dims), std::string(values.size() * sizeof(float), '\0')};
  if (!values.empty()) std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

// A file from a header's text as it stands, and the data behind it.
inline std::string SafetensorsFile(std::string_view header, std::string_view data) {
  return Bytes(static_cast<uint64_t>(header.size())) + std::string(header) + std::string(data);
}
inline std::string SafetensorsFile(const std::vector<StTensor>& tensors) {
  std::string header = "{";
  std::string data;
  for (const StTensor& t : tensors) {
    if (header.size() > 1) header += ",";
    std::string shape;
    for (int64_t d : t.dims) shape += (shape.empty() ? "" : ",") + std::to_string(d);
    header += "\"" + t.name + "\":{\"dtype\":\"" + t.dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + t.data.size()) + "]}";
    data += t.data;
  }
  return SafetensorsFile(header + "}", data);
}

// GGUF.
// Value.
// type ids as in the format's description.
enum GgufId : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

inline std::string GgufString(std::string_view text) {
  return Bytes(static_cast<uint64_t>(text.size())) + std::string(text);
}

struct GgufTensor {
  std::string name;
  std::vector<int64_t> dims;  // innermost first, as in the file
  uint32_t type = 0;
  std::string data;
};

class GgufWriter {
 public:
  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  uint64_t alignment = 32;  // of the layout; the key general.alignment is the test's business
  std::vector<GgufTensor> tensors;
  bool pad_last = true;

  GgufWriter& Raw(std::string_view key, uint32_t type, std::string_view payload) {
    keys_ += GgufString(key) + Bytes(type) + std::string(payload);
    ++n_keys_;
    return *this;
  }
  GgufWriter& Text(std::string_view key, std::string_view value) { return Raw(key, kString, GgufString(value)); }
  GgufWriter& U32(std::string_view key, uint32_t value) { return Raw(key, kU32, Bytes(value)); }
  GgufWriter& Flag(std::string_view key, bool value) { return Raw(key, kBool, Bytes(static_cast<uint8_t>(value))); }
  GgufWriter& F32(std::string_view key, float value) { return Raw(key, kF32, Bytes(value)); }
  GgufWriter& Texts(std::string_view key, const std::vector<std::string>& values) {
    std::string payload = Bytes(uint32_t{kString}) + Bytes(static_cast<uint64_t>(values.size()));
    for (const std::string& v : values) payload += GgufString(v);
    return Raw(key, kArray, payload);
  }

  // Everything before the data.
  std::string Header() const {
    std::string out =
        Bytes(magic) + Bytes(version) + Bytes(static_cast<uint64_t>(tensors.size())) + Bytes(n_keys_) + keys_;
    uint64_t offset = 0;
    for (const GgufTensor& t : tensors) {
      out += GgufString(t.name) + Bytes(static_cast<uint32_t>(t.dims.size()));
      for (int64_t d : t.dims) out += Bytes(d);
      out += Bytes(t.type) + Bytes(offset);
      offset = RoundUp(offset + t.data.size());
    }
    return out;
  }
  std::string File() const {
    std::string out = Header();
    out.resize(RoundUp(out.size()), '\0');
    for (size_t i = 0; i < tensors.size(); ++i) {
      out += tensors[i].data;
      if (pad_last || i + 1 < tensors.size()) out.resize(RoundUp(out.size()), '\0');
    }
    return out;
  }

 private:
  uint64_t RoundUp(uint64_t v) const { return (v + alignment - 1) / alignment * alignment; }
  std::string keys_;
  uint64_t n_keys_ = 0;
};

}  // namespace llmc::test
