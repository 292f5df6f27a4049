// Lowered tokenizers against PyPI's tokenizers: thousands of texts, by hash (tools/golden/tokenizer.py), and short ones
// by id.
#include "tests/tokenizer/golden.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontend/file.h"
#include "frontend/json.h"
#include "frontend/tokenizer.h"
#include "runtime/tokenizer.h"

namespace llmc {
namespace {

const std::string kData = LLMC_SOURCE_DIR "/tests/data/tokenizer/";
const std::vector<std::string> kVariants = {"gpt2",      "gpt2-prefix", "llama3",        "llama3-merges", "qwen2",
                                            "qwen2-raw", "smollm",      "smollm-prefix", "digit-runs",    "added",
                                            "added-raw", "lost-bytes",  "unk",           "unk-fused"};

std::string Read(const std::string& name) { return ReadTextFile(kData + name, uint64_t{1} << 24); }

void Compare(const std::string& name, const std::string& section) {
  const Tokenizer tokenizer(section);
  const std::vector<std::string> texts = test::ReadTexts();
  const std::vector<uint32_t> hashes = test::ReadHashes(kData + name + ".hashes");
  const std::vector<uint32_t> decoded = test::ReadHashes(kData + name + ".decoded");
  ASSERT_EQ(hashes.size(), texts.size() * 2);
  ASSERT_EQ(decoded.size(), texts.size());
  ASSERT_GE(texts.size(), 3000U);
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const bool special : {true, false}) {
      const std::vector<int32_t> ids =
          test::WithSecondBos(tokenizer, tokenizer.Encode(texts[i], {.add_special = false, .parse_special = special}),
                              tokenizer.Encode(texts[i], {.parse_special = special}));
      ASSERT_EQ(test::Fnv(ids), hashes[i + (special ? 0 : texts.size())])
          << name << " text " << i << (special ? "" : ", special as text") << ": " << JsonQuote(texts[i]) << " gives "
          << test::Show(ids);
      if (!special) continue;
      const std::string text = tokenizer.Decode(ids);
      ASSERT_EQ(test::Fnv(text.data(), text.size()), decoded[i])
          << name << " text " << i << ": " << JsonQuote(texts[i]) << " decodes to " << text;
    }
  }
}

void CompareCases(const std::string& name, const std::string& section) {
  const Tokenizer tokenizer(section);
  const Json cases = ParseJson(Read("cases.json"), "cases.json");
  const std::vector<Json> texts = cases.Find("texts").items();
  const std::vector<Json> rows = cases.Find("ids").Find(name).items();
  ASSERT_EQ(rows.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    std::vector<int32_t> want;
    for (const Json& id : rows[i].items()) want.push_back(static_cast<int32_t>(id.AsInt()));
    EXPECT_EQ(tokenizer.Encode(texts[i].AsString()), want) << name << ": " << texts[i].source();
  }
}

// C13 among them: case-blind contractions, combining marks, scripts.
class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, EncodesAndDecodesLikeTheOracle) {
  HfTokenizerFiles files;
  files.tokenizer = {GetParam() + ".json", Read(GetParam() + ".json")};
  const LoweredTokenizer lowered = LowerHfTokenizer(files, 0);
  Compare(GetParam(), lowered.section);
  CompareCases(GetParam(), lowered.section);
}
INSTANTIATE_TEST_SUITE_P(Variants, Golden, testing::ValuesIn(kVariants));

// C14: clean_up_tokenization_spaces has no effect.
TEST(GoldenDecode, NothingIsCleanedUp) {
  const LoweredTokenizer lowered = LowerHfTokenizer(
      {{"gpt2.json", Read("gpt2.json")}, {"tokenizer_config.json", R"({"clean_up_tokenization_spaces": true})"}}, 0);
  const Tokenizer tokenizer(lowered.section);
  for (const char* text : {"x != y", "the word 'social'", "hello !"})
    EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text);
}

// C01, C05, C07, C11, C16 and more with the vocabulary of a real model.
class SmolLm2 : public testing::Test {
 protected:
  void SetUp() override {
    const char* cache = std::getenv("LLMC_CACHE");
    const char* home = std::getenv("HOME");
    const std::string path =
        (cache != nullptr ? std::string(cache) : std::string(home != nullptr ? home : "") + "/.cache/llmc") +
        "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!IsRegularFile(path)) GTEST_SKIP() << path << " is absent; tools/models smollm2 fetches it";
    const MappedFile file(path);
    lowered_ = LowerGgufTokenizer(*ReadGgufTokenizer(ParseGguf(file.bytes(), path), path), path, 49152);
  }
  LoweredTokenizer lowered_;
};

TEST_F(SmolLm2, EncodesAndDecodesLikeTheOracle) {
  Compare("smollm2", lowered_.section);
  CompareCases("smollm2", lowered_.section);
}

TEST_F(SmolLm2, Cases) {
  const Tokenizer tokenizer(lowered_.section);
  auto repeated = [&](std::string_view text) {
    std::string all;
    for (int i = 0; i < 4096; ++i) all += text;
    return tokenizer.Encode(all).size();
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(tokenizer.Encode("What is 3333+777?"), Ids({1780, 314, 216, 35, 35, 35, 35, 27, 39, 39, 39, 47}));
  EXPECT_EQ(tokenizer.Encode("\r\n"), Ids({2738}));
  EXPECT_EQ(tokenizer.Encode("a\r\nb"), Ids({81, 201, 198, 82}));
  EXPECT_EQ(tokenizer.Encode("<|im_end|>"), Ids({2}));
  EXPECT_EQ(tokenizer.Encode("<|im_end|>", {.parse_special = false}), Ids({44, 108, 306, 79, 486, 108, 46}));
  EXPECT_EQ(tokenizer.Encode(""), Ids());
  EXPECT_EQ(repeated("-"), 64U);
  EXPECT_EQ(repeated(" "), 64U);
  EXPECT_EQ(repeated("\n"), 1024U);
  EXPECT_EQ(repeated("A"), 512U);
  EXPECT_EQ(repeated("0"), 4096U);
  EXPECT_EQ(repeated("あ"), 8192U);
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(lowered_.bos_id, 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(lowered_.stop_ids, Ids({0, 2}));
  for (const char* text : {"x != y", "the word 'social'", "hello !", "  \t\r\n \r ", "a\0b"})
    EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text);
}

}  // namespace
}  // namespace llmc
