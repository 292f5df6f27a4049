// What the golden tests share: the goldens' files, options that match them, and how logits are judged.
#pragma once
#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontend/frontend.h"
#include "frontend/json.h"
#include "tests/support/nmse.h"
#include "tests/support/temp_dir.h"

namespace llmc {

inline const std::string kData = std::string(LLMC_SOURCE_DIR) + "/tests/data/";
inline const std::string kGoldens = kData + "golden/";
constexpr double kNmseF32 = 1e-9;
constexpr double kNmseF16Cache = 1e-5;
constexpr double kNmseBf16 = 5e-6;  // activations rounded to bf16, against a reference that rounds them too
constexpr float kSureMargin = 1e-3F;

struct Golden {
  std::vector<int32_t> prompt, greedy;
  std::vector<int64_t> rows;
  std::vector<double> margins;
  std::vector<float> logits;  // [rows, vocab]
  size_t vocab = 0;
};

template <class T>
std::vector<T> Numbers(const Json& list) {
  std::vector<T> out;
  for (const Json& v : list.items()) {
    if constexpr (std::is_floating_point_v<T>) {
      out.push_back(static_cast<T>(v.AsDouble()));
    } else {
      out.push_back(static_cast<T>(v.AsInt()));
    }
  }
  return out;
}

// The values of an f32 file in NPY 1.0.
inline std::vector<float> ReadNpy(const std::string& path) {
  const std::string npy = test::ReadBytes(path);
  constexpr size_t kNpyStart = 10;  // magic, version, u16 length of the header
  uint16_t header = 0;
  std::memcpy(&header, npy.data() + 8, sizeof(header));
  std::vector<float> values((npy.size() - kNpyStart - header) / sizeof(float));
  std::memcpy(values.data(), npy.data() + kNpyStart + header, values.size() * sizeof(float));
  return values;
}

// path: below tests/data.
inline Golden ReadGoldenAt(const std::string& folder) {
  std::string path = kData + folder + "/golden.json";
  Json root = ParseJson(test::ReadBytes(path), path);
  Golden g;
  g.prompt = Numbers<int32_t>(root.Find("prompt"));
  g.greedy = Numbers<int32_t>(root.Find("greedy"));
  g.rows = Numbers<int64_t>(root.Find("rows"));
  g.margins = Numbers<double>(root.Find("margins"));
  g.logits = ReadNpy(kData + folder + "/logits.npy");
  g.vocab = g.logits.size() / g.rows.size();
  return g;
}

inline Golden ReadGolden(const std::string& name) { return ReadGoldenAt("golden/" + name); }

inline ModelOptions OptionsFor(const std::string& path, const std::string& kv_type) {
  ModelOptions options;
  options.model = path;
  options.kv_type = kv_type;
  options.activations = "f32";
  return options;
}

inline double WorstNmse(const Golden& g, const std::vector<float>& logits) {
  double worst = 0;
  for (size_t r = 0; r < g.rows.size(); ++r) {
    worst = std::max(
        worst, Nmse(logits.data() + static_cast<size_t>(g.rows[r]) * g.vocab, g.logits.data() + r * g.vocab, g.vocab));
  }
  return worst;
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// "golden/llama-mha", "golden-gguf/llama-q4_0", ...
inline std::vector<std::string> AllFolders() {
  std::vector<std::string> names;
  for (const char* kind : {"golden", "golden-gguf"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kData + kind)) {
      if (entry.is_directory()) names.push_back(std::string(kind) + "/" + entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A file that repeats rows, put together (tools/golden/make_kquants.py): u32 count, pairs of u32 offset and length, and
// the bytes that they point into.
inline std::string PutTogether(const std::string& rows) {
  const auto number = [&](size_t i) {
    uint32_t value = 0;
    std::memcpy(&value, rows.data() + 4 * i, sizeof value);
    return value;
  };
  const size_t count = number(0), start = 4 * (2 * count + 1);
  std::string out;
  for (size_t i = 0; i < count; ++i) out += rows.substr(start + number(2 * i + 1), number(2 * i + 2));
  return out;
}

// A folder with config.json, or one with model.gguf, or model.rows, of which a file is made.
inline std::string ModelIn(const std::string& folder) {
  std::string gguf = kData + folder + "/model.gguf";
  if (const std::string rows = kData + folder + "/model.rows"; std::filesystem::exists(rows)) {
    static const test::TempDir made;
    const std::string file = std::filesystem::path(folder).filename().string() + ".gguf";
    if (!std::filesystem::exists(made.path() + "/" + file)) return made.Write(file, PutTogether(test::ReadBytes(rows)));
    return made.path() + "/" + file;
  }
  return std::filesystem::exists(gguf) ? gguf : kData + folder;
}

// A test's name from a folder's.
inline std::string NameOf(std::string folder) {
  for (char& c : folder) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return folder;
}
inline std::string TestName(const testing::TestParamInfo<std::string>& test) { return NameOf(test.param); }

}  // namespace llmc
