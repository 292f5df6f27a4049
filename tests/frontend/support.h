// Tiny models for the front end's tests: configs with a key changed, and weight files that fit a description.
#pragma once
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/config_source.h"
#include "frontend/preset.h"
#include "frontend/weight_list.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace llmc::test {

// A config of two layers without any key that has a default: vocab 40, d 16, 4 heads, 2 KV heads, FFN 24. `keys`
// ("\"a\": 1, ") stands in front.
inline std::string TinyConfig(std::string_view family, const std::string& keys = "") {
  return "{" + keys + "\"model_type\": \"" + std::string(family) +
         "\", \"vocab_size\": 40, \"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
         "\"num_key_value_heads\": 2, "
         "\"intermediate_size\": 24, \"max_position_embeddings\": 64}";
}

inline Description Describe(const std::string& config, std::vector<std::string> allow_unknown = {},
                            std::vector<Diag>* warnings = nullptr) {
  PresetOptions options;
  options.allow_unknown = std::move(allow_unknown);
  if (warnings != nullptr) options.sink = [warnings](const Diag& diag) { warnings->push_back(diag); };
  return DescribeHf(HfConfig(ParseJson(config, "config.json"), "config.json"), options);
}

// A field of a layer's block by its dotted name: "attention.window".
inline FieldValue FieldOf(const Description& d, int64_t layer, std::string_view field) {
  std::optional<FieldValue> v = GetField(d, d.BlockOf(layer), field);
  return v ? *v : throw InternalError(__FILE__, __LINE__, "no field " + std::string(field));
}
inline int64_t IntOf(const Description& d, int64_t layer, std::string_view field) {
  return FieldOf(d, layer, field).integer;
}
inline double DoubleOf(const Description& d, int64_t layer, std::string_view field) {
  return FieldOf(d, layer, field).number;
}
inline std::string TextOf(const Description& d, int64_t layer, std::string_view field) {
  return FieldOf(d, layer, field).text;
}

inline const std::string kData = std::string(LLMC_SOURCE_DIR) + "/tests/data/";

// A file of tests/data: larger than what users may bring.
inline Json ReadJson(const std::string& path) {
  JsonLimits limits;
  limits.max_bytes = uint64_t{16} << 20;
  limits.max_values = uint64_t{1} << 20;
  return ParseJson(ReadBytes(path), path, limits);
}

// f32 values in -0.5..0.5, by tensor and index.
inline std::vector<float> SomeValues(size_t tensor, size_t n) {
  std::vector<float> out(n);
  auto state = static_cast<uint32_t>(tensor * 2654435761U + 12345U);
  for (float& v : out) {
    state = state * 1664525U + 1013904223U;
    v = static_cast<float>(state >> 8) / 16777216.0F - 0.5F;
  }
  return out;
}

// Every tensor that the description's graph reads, in f32.
inline std::vector<StTensor> TensorsFor(const Description& d) {
  std::vector<StTensor> tensors;
  for (const WeightUse& use : WeightsOf(d)) {
    if (use.cut) continue;
    size_t n = 1;
    for (int64_t dim : use.dims) n *= static_cast<size_t>(dim);
    tensors.push_back(F32Tensor(use.source.from, use.dims, SomeValues(tensors.size(), n)));
  }
  return tensors;
}

inline StTensor* FindTensor(std::vector<StTensor>& tensors, std::string_view name) {
  for (StTensor& t : tensors) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

// A model directory: config.json, and model.safetensors unless `tensors` is empty.
inline void WriteModel(const TempDir& dir, const std::string& config, const std::vector<StTensor>& tensors) {
  dir.Write("config.json", config);
  if (!tensors.empty()) dir.Write("model.safetensors", SafetensorsFile(tensors));
}

}  // namespace llmc::test
