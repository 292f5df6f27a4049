// The golden models (tests/data/golden): imported and interpreted, their logits are those of transformers in float64;
// and the model agrees with itself however a sequence is cut into calls. A cache test is no golden: the last test here
// keeps both apart.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontend/frontend.h"
#include "frontend/json.h"
#include "frontend/safetensors.h"
#include "ir/interpreter.h"
#include "ir/verify.h"
#include "tests/golden/golden_files.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace llmc {
namespace {

// The logits of all rows when `tokens` come in calls of these sizes.
std::vector<float> RunCut(Interpreter& interpreter, const std::vector<int32_t>& tokens,
                          const std::vector<size_t>& cuts) {
  interpreter.ResetStates();
  std::vector<float> out;
  size_t at = 0;
  for (size_t n : cuts) {
    std::vector<float> part = interpreter.Run("forward", std::span(tokens).subspan(at, n), static_cast<int64_t>(at),
                                              static_cast<int64_t>(tokens.size()));
    out.insert(out.end(), part.begin(), part.end());
    at += n;
  }
  return out;
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, MatchesTransformersAtEveryPosition) {
  Golden g = ReadGoldenAt(GetParam());
  Model model = LoadModel(OptionsFor(ModelIn(GetParam()), "f32"));
  Verify(model.module, "import");
  Interpreter interpreter(model.module, *model.weights);
  std::vector<float> logits = RunCut(interpreter, g.prompt, {g.prompt.size()});
  ASSERT_EQ(logits.size(), g.prompt.size() * g.vocab);
  EXPECT_LE(WorstNmse(g, logits), kNmseF32);

  // Greedy continuation: the same ids as long as the golden is sure of them.
  std::vector<float> last(logits.end() - static_cast<std::ptrdiff_t>(g.vocab), logits.end());
  auto pos = static_cast<int64_t>(g.prompt.size());
  for (size_t i = 0; i < g.greedy.size(); ++i) {
    auto id = static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
    if (g.margins[i] <= static_cast<double>(kSureMargin)) break;
    ASSERT_EQ(id, g.greedy[i]) << "step " << i;
    last = interpreter.Run("forward", std::span(&id, 1), pos, pos + 1);
    ++pos;
  }
}

TEST_P(GoldenTest, AnyCutGivesTheSameBits) {
  Golden g = ReadGoldenAt(GetParam());
  Model model = LoadModel(OptionsFor(ModelIn(GetParam()), "f16"));
  Interpreter interpreter(model.module, *model.weights);
  constexpr size_t kMostTokens = 37;  // the long prompt is cut short: each split costs a run
  std::vector<int32_t> tokens(g.prompt.begin(),
                              g.prompt.begin() + static_cast<std::ptrdiff_t>(std::min(g.prompt.size(), kMostTokens)));
  std::vector<float> whole = RunCut(interpreter, tokens, {tokens.size()});
  EXPECT_TRUE(SameBits(whole, RunCut(interpreter, tokens, std::vector<size_t>(tokens.size(), 1)))) << "one by one";
  for (size_t split = 1; split < tokens.size(); ++split) {
    // Prefill of `split`, then decode.
    std::vector<size_t> cuts(tokens.size() - split, 1);
    cuts.insert(cuts.begin(), split);
    EXPECT_TRUE(SameBits(whole, RunCut(interpreter, tokens, cuts))) << "split at " << split;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(AllFolders()), TestName);

TEST(Golden, ThereAreEnough) { EXPECT_GE(AllFolders().size(), 27U); }

TEST(Golden, TheirFilesStaySmall) {
  constexpr uint64_t kMostOfFolder = 192 << 10, kMost = 20 << 20;  // bytes
  uint64_t all = 0;
  for (const std::string& folder : AllFolders()) {
    uint64_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(kData + folder)) bytes += file.file_size();
    EXPECT_LE(bytes, kMostOfFolder) << folder;
    all += bytes;
  }
  for (const char* folder : {"golden-hidden", "embeddings"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(kData + folder))
      if (file.is_regular_file()) all += file.file_size();
  }
  EXPECT_LE(all, kMost);
}

TEST(Golden, F16Cache) {
  for (const char* name : {"llama-gqa4", "mistral-full", "qwen2-bias", "qwen3-bias"}) {
    Golden g = ReadGolden(name);
    Model model = LoadModel(OptionsFor(kGoldens + name, "f16"));
    Interpreter interpreter(model.module, *model.weights);
    double worst = WorstNmse(g, RunCut(interpreter, g.prompt, {g.prompt.size()}));
    EXPECT_LE(worst, kNmseF16Cache) << name;
    EXPECT_GT(worst, kNmseF32) << name << ": is the cache really f16?";
  }
}

// A grouped model with its KV heads written out once per query head is an ordinary one, with the same bits.
TEST(Golden, GroupedQueryAttentionIsRepeatedHeads) {
  std::string source = kGoldens + "llama-gqa2";
  Json config = ParseJson(test::ReadBytes(source + "/config.json"), "config.json");
  int64_t heads = config.Find("num_attention_heads").AsInt();
  int64_t kv = config.Find("num_key_value_heads").AsInt();
  ASSERT_GT(heads, kv);
  std::string text = test::ReadBytes(source + "/config.json");
  std::string from = "\"num_key_value_heads\": " + std::to_string(kv);
  text.replace(text.find(from), from.size(), "\"num_key_value_heads\": " + std::to_string(heads));

  TensorSet set = OpenSafetensors(source + "/model.safetensors");
  std::vector<test::StTensor> tensors;
  for (const auto& [name, t] : set.tensors) {
    std::string data(reinterpret_cast<const char*>(set.Data(t)), t.bytes);
    std::vector<int64_t> dims = t.dims;
    if (name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos) {
      size_t head_bytes = t.bytes / static_cast<size_t>(kv);
      std::string repeated;
      for (int64_t h = 0; h < heads; ++h)
        repeated += data.substr(static_cast<size_t>(h / (heads / kv)) * head_bytes, head_bytes);
      data = repeated;
      dims[0] = dims[0] / kv * heads;
    }
    tensors.push_back({name, dims, data, t.dtype == DType::F16 ? "F16" : "F32"});
  }
  test::TempDir dir;
  dir.Write("config.json", text);
  dir.Write("model.safetensors", test::SafetensorsFile(tensors));

  Golden g = ReadGolden("llama-gqa2");
  Model grouped = LoadModel(OptionsFor(source, "f32"));
  Model plain = LoadModel(OptionsFor(dir.path(), "f32"));
  Interpreter a(grouped.module, *grouped.weights);
  Interpreter b(plain.module, *plain.weights);
  EXPECT_TRUE(SameBits(RunCut(a, g.prompt, {g.prompt.size()}), RunCut(b, g.prompt, {g.prompt.size()})));
}

// Window of 3 in one layer: position 4 sees the ids at 2, 3 and 4 alone (CASES E04).
TEST(Golden, WindowCountsItself) {
  Model model = LoadModel(OptionsFor(kGoldens + "mistral-window3", "f32"));
  Interpreter interpreter(model.module, *model.weights);
  std::vector<int32_t> ids = {7, 8, 9, 10, 11, 12, 13, 14};
  size_t vocab = ReadGolden("mistral-window3").vocab;
  auto at4 = [&](size_t changed) {
    std::vector<int32_t> tokens = ids;
    if (changed < tokens.size()) tokens[changed] += 20;
    std::vector<float> logits = RunCut(interpreter, tokens, {tokens.size()});
    return std::vector<float>(logits.begin() + static_cast<std::ptrdiff_t>(4 * vocab),
                              logits.begin() + static_cast<std::ptrdiff_t>(5 * vocab));
  };
  std::vector<float> base = at4(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(SameBits(base, at4(i)), i < 2 || i > 4) << "id " << i;
}

// Config and files of a golden in a folder of its own, with one text of the config replaced.
void CopyWith(const test::TempDir& dir, const std::string& name, const std::string& from, const std::string& to) {
  std::string config = test::ReadBytes(kGoldens + name + "/config.json");
  size_t at = config.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  dir.Write("config.json", config.replace(at, from.size(), to));
  dir.Write("model.safetensors", test::ReadBytes(kGoldens + name + "/model.safetensors"));
}

// A model whose rope base is wrong agrees with itself and misses the golden: agreement with itself proves nothing about
// being right.
TEST(Golden, BrokenRopePassesTheCacheTestAndMissesTheGolden) {
  test::TempDir dir;
  CopyWith(dir, "llama-mqa", "\"rope_theta\": 10000.0", "\"rope_theta\": 20000.0");
  Golden g = ReadGolden("llama-mqa");
  Model model = LoadModel(OptionsFor(dir.path(), "f32"));
  Interpreter interpreter(model.module, *model.weights);
  std::vector<float> whole = RunCut(interpreter, g.prompt, {g.prompt.size()});
  EXPECT_TRUE(SameBits(whole, RunCut(interpreter, g.prompt, std::vector<size_t>(g.prompt.size(), 1))));
  EXPECT_GT(WorstNmse(g, whole), 1e-2);
}

// Where theta stands makes no difference; without it the class default 10000 holds (CASES A01).
TEST(Golden, RopeThetaInEverySpelling) {
  Golden g = ReadGolden("llama-mqa");
  auto run = [&](const std::string& theta) {
    test::TempDir dir;
    CopyWith(dir, "llama-mqa", "\"rope_theta\": 10000.0,", theta);
    Model model = LoadModel(OptionsFor(dir.path(), "f32"));
    Interpreter interpreter(model.module, *model.weights);
    return RunCut(interpreter, g.prompt, {g.prompt.size()});
  };
  std::vector<float> top = run("\"rope_theta\": 500000.0,");
  EXPECT_TRUE(SameBits(top, run("\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0},")));
  EXPECT_TRUE(SameBits(
      top,
      run("\"rope_theta\": 10000.0, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0},")));
  std::vector<float> plain = run("\"rope_theta\": 10000.0,");
  EXPECT_TRUE(SameBits(plain, run("")));
  EXPECT_FALSE(SameBits(top, plain));
}

}  // namespace
}  // namespace llmc
